"""The one door for every change: a log of versions, each added whole or not at all.

Under a checkpoint lie

    state/versions/00000000000000000007.json    the updates that lead from version 6 to version 7
    state/snapshots/00000000000000000000.json   a whole manifest: version 0, and later ones now and then
    state/segments/..                           what the manifests point to
    state/results/..                            result files that wait for delivery

`commit(requirements, updates)` adds the next version with put-if-absent, so two writers cannot both win; the loser gets
`TakenOverError` (`state/epochs.py`). Opening reads the newest snapshot and the versions after it. Every file carries a
format number; a newer one than ours is refused, and an older one is brought up to date when its run is started
(`state/format_2.py`). A run without a checkpoint uses the same table with nothing written down.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from watersmeet import faults
from watersmeet.errors import CheckpointError, InternalError, ResourceError, StateConflictError
from watersmeet.model.ids import SegmentId
from watersmeet.state.epochs import NOBODY, Holder, TakenOverError
from watersmeet.state.files import Folder, is_temporary
from watersmeet.state.manifest import FORMAT, Manifest
from watersmeet.state.segment_files import newer_format
from watersmeet.state.updates import Claim, Draft, Update, apply, apply_all, update_from_json, update_to_json

SNAPSHOT_EVERY = 20
# Versions that stay readable behind the newest one: for inspection, and for a reader that is a little behind.
VERSIONS_KEPT = 5
CLAIMS_TRIED = 100  # each is one file; a run that is alive commits as often in a minute or so


@dataclass(frozen=True)
class AtVersion:
    """The table is still at this version."""

    version: int

    def check(self, manifest: Manifest) -> None:
        if manifest.version != self.version:
            raise StateConflictError(
                f"state is at version {manifest.version}, not {self.version}",
                detail="Another commit came first.",
            )


@dataclass(frozen=True)
class AfterBatch:
    """The last batch is still this one."""

    batch: int

    def check(self, manifest: Manifest) -> None:
        if manifest.last_batch != self.batch:
            raise StateConflictError(f"the last batch is {manifest.last_batch}, not {self.batch}")


Requirement = AtVersion | AfterBatch


Consequences = Callable[[Manifest], Sequence[Update]]  # what follows from a manifest, in the same version


def none(manifest: Manifest) -> Sequence[Update]:
    return ()


class Table:
    """The manifests of one run, in memory. `FileTable` also writes them down."""

    versions_kept: ClassVar[int] = 1

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.recent: deque[Manifest] = deque([manifest], maxlen=self.versions_kept)
        self._entries = Counter(segment.file for segment in manifest.segments.values())  # of each file
        self._dropped: deque[tuple[int, SegmentId]] = deque()  # files without an entry, and the version that did it

    def commit(
        self, requirements: Sequence[Requirement], updates: Sequence[Update], consequences: Consequences = none
    ) -> Manifest:
        """The next version, made by `updates` and their `consequences`, if all `requirements` hold."""
        for requirement in requirements:
            requirement.check(self.manifest)
        draft = Draft(self.manifest)
        for update in updates:
            apply(update, draft)
        following = draft.finish()
        if more := consequences(following):
            for update in more:
                apply(update, draft)
            following = draft.finish()
        self._store(following, [*updates, *more])
        self.manifest = following
        self.recent.append(following)
        for file, change in draft.segments.files.items():
            self._entries[file] += change
            if not self._entries[file]:
                del self._entries[file]
                self._dropped.append((following.version, file))
        return following

    def pop_dropped(self) -> list[SegmentId]:
        """The files that no version kept refers to any more, each told once."""
        oldest = self.manifest.version - self.versions_kept + 1
        found = []
        while self._dropped and self._dropped[0][0] <= oldest:
            found.append(self._dropped.popleft()[1])
        return found

    def leftovers(self) -> list[tuple[Folder, list[str]]]:
        """Files of commits that were cut short."""
        return []

    def check_held(self) -> None:
        """Raise `TakenOverError` if a later run has taken the checkpoint."""

    def _store(self, manifest: Manifest, updates: Sequence[Update]) -> None:
        """Nothing to write down."""


class FileTable(Table):
    """A table whose versions are files."""

    versions_kept = VERSIONS_KEPT

    def __init__(self, root: Folder, manifest: Manifest) -> None:
        super().__init__(manifest)
        self._root = root
        self.versions, self.snapshots = table_folders(root)
        self._last_snapshot = max(table_numbers(self.snapshots), default=manifest.version)
        self._snapshot_bytes = 0
        self._log_bytes = 0  # of the versions since the last snapshot, as far as this process wrote them

    @classmethod
    def create(cls, root: Folder, manifest: Manifest) -> FileTable:
        for folder in table_folders(root):
            folder.make()
        root.check_creates()
        table = cls(root, manifest)
        table.snapshots.put_if_absent(version_name(manifest.version), encode(manifest.to_json()))
        if table_numbers(table.versions):
            # It was made by another run, before there were epochs, and has dropped its version 0 since.
            raise StateConflictError("there is a checkpoint already", detail=f"In {root.path()}.")
        return table

    @classmethod
    def open(cls, root: Folder) -> FileTable | None:
        """The table at `root` at its newest version; None if there is none."""
        recent = deque(read_versions(root), maxlen=cls.versions_kept)
        return cls._at(root, recent) if recent else None

    @classmethod
    def _at(cls, root: Folder, recent: deque[Manifest]) -> FileTable:
        table = cls(root, recent[-1])
        table.recent = recent
        return table

    def claim(self, holder: Holder, updates: Sequence[Update]) -> FileTable:
        """Take the checkpoint for `holder`, whose epoch is given to it, with `updates`; the table to go on with.

        A run that is alive may commit meanwhile: then we come after it. Raises `StateConflictError` where the table has
        gone on too far for that.
        """
        table = self
        for _ in range(CLAIMS_TRIED):
            epoch = table.manifest.epoch + 1
            try:
                table.commit([], [Claim(replace(holder, epoch=epoch)), *updates])
            except TakenOverError:
                table = table._followed()
                continue
            # Where versions had gone on so far that the next one has been deleted again, its name was free. A table
            # always has its newest version, so that now is soon enough to look.
            if max(table_numbers(table.versions)) == table.manifest.version:
                return table
            break
        raise StateConflictError("other runs commit to the checkpoint all the time", hint="Try again.")

    def _followed(self) -> FileTable:
        """The same table at its newest version."""
        recent = deque(self.recent, maxlen=self.versions_kept)
        while (data := self._read(recent[-1].version + 1)) is not None:
            with corruption(self.versions, version_name(recent[-1].version + 1)):
                recent.append(apply_all([update_from_json(entry) for entry in data["updates"]], recent[-1]))
        return FileTable._at(self._root, recent)

    def leftovers(self) -> list[tuple[Folder, list[str]]]:
        folders = (self.versions, self.snapshots)
        return [(folder, [name for name in folder.names() if is_temporary(name)]) for folder in folders]

    def check_held(self) -> None:
        following = self._read(self.manifest.version + 1)
        if following is not None and following.get("run") != self.manifest.holder.run:
            raise self._taken_over(following)

    def _read(self, version: int) -> dict[str, Any] | None:
        try:
            return decode(self.versions, version_name(version), FORMAT)
        except FileNotFoundError:
            return None

    def _taken_over(self, following: Mapping[str, Any]) -> TakenOverError:
        claims = [entry["holder"] for entry in following.get("updates", ()) if entry["update"] == Claim.__name__]
        return TakenOverError(self._root.path(), Holder.from_json(claims[0]) if claims else NOBODY)

    def _store(self, manifest: Manifest, updates: Sequence[Update]) -> None:
        content = encode(
            {
                "format": FORMAT,
                "version": manifest.version,
                "batch": manifest.last_batch,
                "run": manifest.holder.run,  # so that no two runs write the same, and each knows what it has written
                "updates": [update_to_json(update) for update in updates],
            }
        )
        faults.reach("before-commit")
        try:
            self.versions.put_if_absent(version_name(manifest.version), content, midway="in-commit")
        except StateConflictError:
            # Who takes a checkpoint does so with the version after the last, and that one is never deleted. So a run
            # that was taken over finds it here, however much later it comes.
            raise self._taken_over(self._read(manifest.version) or {}) from None
        faults.reach("after-commit")
        self._log_bytes += len(content)

    def snapshot_if_due(self) -> None:
        """Write a snapshot when the versions since the last one weigh as much as it does, and are enough for one.

        So what snapshots cost stays in proportion to what was changed, and opening reads at most twice the manifest.
        Several versions may pass between two calls, so that none of them is a certain multiple.
        """
        version = self.manifest.version
        if version - self._last_snapshot < SNAPSHOT_EVERY or self._log_bytes < self._snapshot_bytes:
            return
        faults.reach("before-snapshot")
        content = encode(self.manifest.to_json())
        self.snapshots.put_if_absent(version_name(version), content)
        self._last_snapshot = version
        self._snapshot_bytes, self._log_bytes = len(content), 0
        faults.reach("after-snapshot")
        floor = max([n for n in table_numbers(self.snapshots) if n <= version - VERSIONS_KEPT], default=0)
        # Claims stay for ever, and so does version 0, with which a checkpoint is made: a run that wants the same name,
        # and comes when all is long past, must find it taken.
        drop_before(floor, self.versions, self.manifest.claims)
        drop_before(floor, self.snapshots, (0,))


def drop_before(floor: int, folder: Folder, kept: Container[int] = ()) -> None:
    """Delete versions or snapshots with numbers below `floor`, but those that are to be kept."""
    numbers = [number for number in table_numbers(folder) if number < floor and number not in kept]
    folder.delete_all([version_name(number) for number in numbers])


def table_folders(root: Folder) -> tuple[Folder, Folder]:
    return root.sub("versions"), root.sub("snapshots")


def version_name(version: int) -> str:
    return f"{version:020d}.json"


def table_numbers(folder: Folder) -> list[int]:
    return [int(name[:20]) for name in folder.names() if name.endswith(".json") and name[:20].isdigit()]


def encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def decode(folder: Folder, name: str, known_format: int) -> dict[str, Any]:
    """The content of a file of the table, which must be of this format."""
    with corruption(folder, name):
        content: dict[str, Any] = json.loads(folder.read(name))
        found = content["format"]
    if not isinstance(found, int) or found > known_format:
        raise newer_format("the checkpoint", found, known_format)
    if found < known_format:
        raise OlderFormatError(found, known_format)
    return content


class OlderFormatError(CheckpointError):
    """The checkpoint is of an earlier format, which only a run of its own query can bring up to date."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            "the checkpoint was written by an earlier version of watersmeet",
            detail=f"It has format {found}; this version writes format {known}.",
            hint="Run its job with this version: it goes on where it stopped, and brings the checkpoint up to date.",
        )
        self.found = found


@contextmanager
def corruption(folder: Folder, name: str) -> Iterator[None]:
    """What cannot be made sense of in the file is its own fault."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, InternalError) as error:
        match error:
            case KeyError():
                why = f"no {error}"
            case InternalError():  # an update that does not fit what came before: nobody committed it so
                why = error.primary
            case _:
                why = str(error)
        raise ResourceError(
            f'manifest file "{name}" is corrupt',
            detail=f"{folder.path(name)}: {why}.",
            hint="Restore the file from a backup, or start again with a new checkpoint.",
        ) from None


def read_versions(root: Folder) -> Iterator[Manifest]:
    """Every version that can still be read at `root`, oldest first; none if there is no table."""
    versions, snapshots = table_folders(root)
    taken = table_numbers(snapshots)
    if not taken:
        return
    try:
        numbers = sorted(table_numbers(versions))
        # Old files go one by one, so a snapshot may have outlived the versions that followed it.
        whole = [n for n in taken if len([v for v in numbers if v > n]) == max([n, *numbers]) - n]
        first, content = _oldest_of_our_format(snapshots, whole or [max(taken)])
        with corruption(snapshots, first):
            manifest = Manifest.from_json(content)
        yield manifest
        for number in [n for n in numbers if n > manifest.version]:
            if number != manifest.version + 1:
                raise ResourceError(
                    f"version {manifest.version + 1} of the state is missing",
                    detail=f"There is a later version {number} in {versions.path()}.",
                    hint="Restore the file from a backup, or start again with a new checkpoint.",
                )
            data = decode(versions, version_name(number), FORMAT)
            with corruption(versions, version_name(number)):
                manifest = apply_all([update_from_json(entry) for entry in data["updates"]], manifest)
            yield manifest
    except FileNotFoundError as error:
        # A live run drops old versions between our listing and our reading.
        raise StateConflictError(
            "the checkpoint changed while it was read", detail=f"{error.filename} has gone.", hint="Try again."
        ) from None


def _oldest_of_our_format(snapshots: Folder, numbers: Sequence[int]) -> tuple[str, dict[str, Any]]:
    """The first snapshot to read: an upgrade leaves those of the former format behind for a moment."""
    *earlier, last = sorted(numbers)
    for number in earlier:
        with suppress(OlderFormatError):
            return version_name(number), decode(snapshots, version_name(number), FORMAT)
    return version_name(last), decode(snapshots, version_name(last), FORMAT)
