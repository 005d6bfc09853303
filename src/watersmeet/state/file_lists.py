"""The files that local sources have read, so that none is read twice: names in the manifest, older ones in lists.

A manifest would grow with every file, and each snapshot with it. So names move on to list files beside the segments,
`LISTED` at a time; lists of like length become one, so that there are few of them. In memory all names are in sets.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Container, Iterator

from watersmeet.errors import ResourceError
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest, StreamProgress
from watersmeet.state.updates import ListFiles

LISTED = 256  # names in the manifest, more than which move on to a list
FANOUT = 4  # lists of like length that become one


class FilesRead:
    """What each stream has read, for one run. `folder` None: nothing is written down."""

    def __init__(self, folder: Folder | None, manifest: Manifest) -> None:
        self._folder = folder
        self._names = {stream: set(self._load(progress)) for stream, progress in manifest.streams.items()}

    def of(self, stream: str) -> Container[str]:
        return self._names.get(stream, set())

    def add(self, stream: str, names: tuple[str, ...]) -> None:
        self._names.setdefault(stream, set()).update(names)

    def roll(self, manifest: Manifest) -> Iterator[ListFiles]:
        """Write lists for streams with many names in the manifest; the updates to commit for it."""
        for stream, progress in manifest.streams.items():
            if len(progress.files) > LISTED:
                joined = _alike(progress, len(progress.files))
                names = [*(name for entry in joined for name in self._read(entry)), *progress.files]
                list_name = f"{uuid.uuid4().hex}.json"
                if self._folder is not None:
                    content = json.dumps(names).encode()
                    self._folder.put_if_absent(list_name, content)
                yield ListFiles(stream, list_name, len(names), tuple(joined))

    def _load(self, progress: StreamProgress) -> Iterator[str]:
        yield from progress.files
        for name, _ in progress.file_lists:
            yield from self._read(name)

    def _read(self, name: str) -> list[str]:
        if self._folder is None:
            return []
        try:
            names: list[str] = json.loads(self._folder.read(name))
        except (FileNotFoundError, ValueError) as error:
            raise ResourceError(
                f'the list "{name}" of files that were read is missing or damaged',
                detail=f"{self._folder.path(name)}: {error}.",
                hint="Restore the file from a backup, or start again with a new checkpoint.",
            ) from None
        return names


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
