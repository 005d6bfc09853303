"""The files that local sources have read, so that none is read twice: names in the manifest, older ones in lists.

A manifest would grow with every file, and each snapshot with it. So names move on to list files beside the segments,
`LISTED` at a time; lists of like length become one, so that there are few of them. In memory all names are in sets.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from watersmeet.errors import ResourceError
from watersmeet.state.epochs import name_of_epoch
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest, StreamProgress
from watersmeet.state.sealed import seal, unseal
from watersmeet.state.updates import ListFiles

LISTED = 256  # names in the manifest, more than which move on to a list
LIST_FORMAT = 4
FANOUT = 4  # lists of like length that become one


class FilesRead:
    """What each stream has read, for one run. `folder` None: nothing is written down."""

    def __init__(self, folder: Folder | None, manifest: Manifest) -> None:
        self._folder = folder
        self._names: dict[str, set[str]] = {}
        for stream, progress in manifest.streams.items():
            self.add(stream, self.entries(progress))

    def of(self, stream: str) -> Container[str]:
        return self.names(stream)

    def names(self, stream: str) -> frozenset[str] | set[str]:
        return self._names.get(stream, frozenset())

    def add(self, stream: str, files: Iterable[tuple[str, int]]) -> None:
        self._names.setdefault(stream, set()).update(name for name, _ in files)

    def roll(self, manifest: Manifest) -> Iterator[ListFiles]:
        """Write lists for streams with many names in the manifest; the updates to commit for it.

        Names of files that are too old to be looked at again are left out.
        """
        for stream, progress in manifest.streams.items():
            if len(progress.files) > LISTED:
                joined = _alike(progress, len(progress.files))
                lists = [entry for entry in progress.file_lists if entry[0] in joined]
                files = [*(file for name, count in lists for file in self._read(name, count)), *progress.files]
                kept = [(name, time) for name, time in files if time >= progress.ignored_before_us]
                self._names[stream] -= {name for name, time in files if time < progress.ignored_before_us}
                list_name = name_of_epoch("files", manifest.epoch, ".json")
                if self._folder is not None:
                    content = {"format": LIST_FORMAT, "name": list_name, "files": kept}
                    self._folder.put_if_absent(list_name, seal(content))
                yield ListFiles(stream, list_name, len(kept), len(progress.files), tuple(joined))

    def entries(self, progress: StreamProgress) -> Iterator[tuple[str, int]]:
        """All files that a stream has read, with the times that they were modified."""
        yield from progress.files
        for name, count in progress.file_lists:
            yield from self._read(name, count)

    def _read(self, name: str, count: int) -> list[tuple[str, int]]:
        if self._folder is None:
            return []
        try:
            return listed_files(self._folder.read(name), name, count)
        except (FileNotFoundError, ValueError, TypeError, KeyError) as error:
            raise ResourceError(
                f'the list "{name}" of files that were read is missing or damaged',
                detail=f"{self._folder.path(name)}: {error}.",
                hint="Restore the file from a backup, or start again with a new checkpoint.",
            ) from None


def listed_files(data: bytes, name: str, count: int) -> list[tuple[str, int]]:
    """What the list of this name holds. `ValueError`, `TypeError` or `KeyError`: it is not as it was written."""
    content, _ = unseal(data)
    files = content["files"]
    if len(files) != count:
        raise ValueError(f"it names {len(files)} files, and the manifest says {count}")
    if content["name"] != name:
        raise ValueError(f"it is the list {content['name']}")
    return [(file, time) for file, time in files]


def _alike(progress: StreamProgress, length: int) -> list[str]:
    """The lists to join with a new one of this length: from the shortest up, as long as enough are of like length."""
    joined: list[str] = []
    total = length
    lists = sorted(progress.file_lists, key=lambda entry: entry[1])
    while True:
        alike = [name for name, count in lists if name not in joined and count < total * FANOUT]
        if len(alike) < FANOUT - 1:
            return joined
        joined += alike
        total = length + sum(count for name, count in lists if name in joined)
