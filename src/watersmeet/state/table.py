"""The one door for every change: a log of versions, each added whole or not at all.

Under a checkpoint lie

    state/versions/00000000000000000007.json    the updates that lead from version 6 to version 7
    state/snapshots/00000000000000000000.json   a whole manifest: version 0, and later ones now and then
    state/head                                  which version was committed last, as a witness (`state/head.py`)
    state/segments/..                           what the manifests point to
    state/results/..                            result files that wait for delivery

`commit(requirements, updates)` adds the next version with put-if-absent, so two writers cannot both win; the loser gets
`TakenOverError` (`state/epochs.py`). Opening reads the newest snapshot and the versions after it. Every file carries a
format number; a newer one than ours is refused, and an older one is brought up to date when its run is started
(`runtime/upgrading.py`). A run without a checkpoint uses the same table with nothing written down.

Files carry checksums (`state/sealed.py`), and each version the digest of the one that it follows: what is damaged, or
not the file that was committed, or missing, is refused. Below the oldest snapshot that is read lie the versions with
which runs took the checkpoint, alone, and snapshot 0: they keep their names taken, and are not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from watersmeet import faults
from watersmeet.errors import CheckpointError, InternalError, ResourceError, StateConflictError
from watersmeet.model.ids import SegmentId
from watersmeet.model.plain_json import read
from watersmeet.state.applying import apply, draft_of
from watersmeet.state.epochs import NOBODY, Holder, TakenOverError
from watersmeet.state.files import Folder, is_temporary
from watersmeet.state.head import HEAD, Head, read_head, write_head
from watersmeet.state.manifest import FORMAT, Manifest
from watersmeet.state.retention import Committed, FilesKept
from watersmeet.state.sealed import digest_of, seal, unseal
from watersmeet.state.segment_files import newer_format
from watersmeet.state.syncing import SyncFiles, sync_files
from watersmeet.state.updates import Claim, Update, update_from_json, update_to_json

SNAPSHOT_EVERY = 20
# Where many versions are kept, snapshots among them are left out that lie closer together than this share of all: there
# are twice as many at most, each as large as the manifest, and old versions go in so many steps.
SNAPSHOT_SHARE = 8
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


CommitClock = Callable[[], int | None]  # the time of a commit in microseconds since 1970, if anybody is to know it


def no_clock() -> None:
    return None


class Table:
    """The manifests of one run, in memory, where the newest alone is kept. `FileTable` also writes them down."""

    def __init__(self, manifest: Manifest, clock: CommitClock = no_clock) -> None:
        self.manifest = manifest
        self._clock = clock
        self._segments = FilesKept(segment.file for segment in manifest.segments.values())
        self._lists = FilesKept(_lists(manifest))
        self._unsynced: dict[Folder, set[str]] = {}

    def commit(
        self, requirements: Sequence[Requirement], updates: Sequence[Update], consequences: Consequences = none
    ) -> Manifest:
        """The next version, made by `updates` and their `consequences`, if all `requirements` hold."""
        for requirement in requirements:
            requirement.check(self.manifest)
        draft = draft_of(updates, self.manifest)
        following = draft.finish()
        if more := consequences(following):
            for update in more:
                apply(update, draft)
            following = draft.finish()
        following = self._stamped(following, self._clock())
        self._store(following, [*updates, *more])
        self._unsynced = {}
        self._follow(following, draft.segments.files)
        return following

    def _stamped(self, following: Manifest, now_us: int | None) -> Manifest:
        """The next version with the time of its commit, and the oldest one that is kept then."""
        return replace(following, committed_us=now_us, kept_from=following.version)

    def _follow(self, following: Manifest, files: Mapping[SegmentId, int]) -> None:
        """Be at the next version, which has so many entries more, or fewer, of each file of segments."""
        lists = Counter(_lists(following))
        lists.subtract(_lists(self.manifest))
        self._segments.change(following.version, files.items())
        self._lists.change(following.version, [entry for entry in lists.items() if entry[1]])
        self.manifest = following

    def sync_first(self, files: Mapping[Folder, Iterable[str]]) -> None:
        """Have these files of each folder on disk before the next version is; see `sync_files`."""
        for folder, names in files.items():
            self._unsynced.setdefault(folder, set()).update(names)

    def sync_no_more(self, names: Iterable[str]) -> None:
        """These files are gone: an attempt failed that wrote them, and the next version will not refer to them."""
        for waiting in self._unsynced.values():
            waiting.difference_update(names)

    def pop_dropped(self) -> list[SegmentId]:
        """The files of segments that no version kept refers to any more, each told once."""
        return [SegmentId(name) for name in self._segments.pop(self.manifest.kept_from)]

    def segments_kept(self) -> list[SegmentId]:
        """The files of segments that a version kept refers to."""
        return [SegmentId(name) for name in self._segments.needed(self.manifest.kept_from)]

    def lists_kept(self) -> list[str]:
        """The lists of files that a version kept refers to."""
        return list(self._lists.needed(self.manifest.kept_from))

    def leftovers(self) -> list[tuple[Folder, list[str]]]:
        """Files of commits that were cut short."""
        return []

    def check_held(self) -> None:
        """Raise `TakenOverError` if a later run has taken the checkpoint."""

    def _store(self, manifest: Manifest, updates: Sequence[Update]) -> None:
        """Nothing to write down."""


class FileTable(Table):
    """A table whose versions are files."""

    def __init__(self, root: Folder, manifest: Manifest, clock: CommitClock = no_clock) -> None:
        super().__init__(manifest, clock)
        self.root = root
        self._committed = Committed()
        self._committed.add(manifest.version, manifest.committed_us, manifest.kept_from)
        self.versions, self.snapshots = table_folders(root)
        self._last_snapshot = max(table_numbers(self.snapshots), default=manifest.version)
        self._snapshot_bytes = 0
        self._floor = -1  # the snapshot before which no version is left, if that is known
        self._digest = ""  # of the newest version
        self.sync_files: SyncFiles = sync_files
        self._log_bytes = 0  # of the versions since the last snapshot, as far as this process wrote them

    @classmethod
    def create(cls, root: Folder, manifest: Manifest, clock: CommitClock = no_clock) -> FileTable:
        for folder in table_folders(root):
            folder.make()
        root.check_creates()
        manifest = replace(manifest, committed_us=clock())
        table = cls(root, manifest, clock)
        content = seal(manifest.to_json())
        table.snapshots.put_if_absent(version_name(manifest.version), content)
        table._set_head(manifest.version, content)
        return table

    @classmethod
    def open(cls, root: Folder, clock: CommitClock = no_clock) -> FileTable | None:
        """The table at `root` at its newest version; None if there is none."""
        table: FileTable | None = None
        for step in _read_log(root):
            if table is None:
                table = cls(root, step.manifest, clock)
            else:
                table._follow(step.manifest, step.files)
            table._digest = step.digest
        return table

    def _stamped(self, following: Manifest, now_us: int | None) -> Manifest:
        oldest = self._committed.oldest_after(following.version, now_us, following.retention)
        return replace(following, committed_us=now_us, kept_from=max(following.kept_from, oldest))

    def _follow(self, following: Manifest, files: Mapping[SegmentId, int]) -> None:
        super()._follow(following, files)
        self._committed.add(following.version, following.committed_us, following.kept_from)

    @property
    def digest(self) -> str:
        """Of the newest version."""
        return self._digest

    def claim(
        self,
        holder: Holder,
        consequences: Consequences = none,
        before: Callable[[FileTable], None] = lambda table: None,
    ) -> FileTable:
        """Take the checkpoint for `holder`, whose epoch is given to it; the table itself.

        A run that is alive may commit meanwhile: then we come after it. So what else the claim changes are
        `consequences` of the version that it comes after, and `before` is called with each such version. Raises
        `StateConflictError` where the table has gone on too far for that.
        """
        for _ in range(CLAIMS_TRIED):
            before(self)
            epoch = self.manifest.epoch + 1
            try:
                self.commit([], [Claim(replace(holder, epoch=epoch))], consequences)
            except TakenOverError:
                self._catch_up()
                continue
            # Where versions had gone on so far that the next one has been deleted again, its name was free. A table
            # always has its newest version, so that now is soon enough to look.
            if max(table_numbers(self.versions)) == self.manifest.version:
                return self
            break
        raise StateConflictError("other runs commit to the checkpoint all the time", hint="Try again.")

    def _catch_up(self) -> None:
        """Be at the newest version."""
        with suppress(FileNotFoundError):
            while True:
                step = _read_next(self.versions, self.manifest, self._digest)
                self._follow(step.manifest, step.files)
                self._digest = step.digest

    def leftovers(self) -> list[tuple[Folder, list[str]]]:
        folders = (self.root, self.versions, self.snapshots) if self.root.local else ()
        return [(folder, [name for name in folder.names() if is_temporary(name)]) for folder in folders]

    def check_held(self) -> None:
        following = self._read(self.manifest.version + 1)
        if following is not None and following.get("run") != self.manifest.holder.run:
            raise self._taken_over(following)
        # Old versions are deleted from the oldest on: if the one that followed ours is gone, so is ours. Version 0 is a
        # snapshot, which stays; whoever goes on from a checkpoint has a version of its own, the claim.
        own = self.manifest.version
        if following is None and own and not self.versions.exists(version_name(own)):
            raise self._taken_over({})

    def _read(self, version: int) -> dict[str, Any] | None:
        try:
            return decode(self.versions, version_name(version))[0]
        except FileNotFoundError:
            return None

    def _taken_over(self, following: Mapping[str, Any]) -> TakenOverError:
        claims = [entry["holder"] for entry in following.get("updates", ()) if entry["update"] == Claim.__name__]
        return TakenOverError(self.root.path(), read(Holder, claims[0]) if claims else NOBODY)

    def _store(self, manifest: Manifest, updates: Sequence[Update]) -> None:
        content = seal(
            {
                "format": FORMAT,
                "version": manifest.version,
                "batch": manifest.last_batch,
                "after": self._digest,
                "run": manifest.holder.run,  # so that no two runs write the same, and each knows what it has written
                "committed_us": manifest.committed_us,
                "kept_from": manifest.kept_from,
                "updates": [update_to_json(update) for update in updates],
            }
        )
        faults.reach("before-commit")
        try:
            self.versions.put_if_absent(version_name(manifest.version), content, midway="in-commit", sync=self._sync)
        except StateConflictError:
            # Who takes a checkpoint does so with the version after the last, and that one is never deleted. So a run
            # that was taken over finds it here, however much later it comes.
            raise self._taken_over(self._read(manifest.version) or {}) from None
        faults.reach("after-commit")
        self._log_bytes += len(content)
        self._set_head(manifest.version, content)

    def _set_head(self, version: int, content: bytes) -> None:
        self._digest = digest_of(content)
        write_head(self.root, version, self._digest)

    def _sync(self, path: str) -> None:
        self.sync_files(self._unsynced, also=[path])

    def snapshot_if_due(self) -> None:
        """Write a snapshot when the versions since the last one weigh as much as it does, and are enough for one.

        So what snapshots cost stays in proportion to what was changed, and opening reads at most twice the manifest.
        Several versions may pass between two calls, so that none of them is a certain multiple.
        """
        version = self.manifest.version
        if version - self._last_snapshot < SNAPSHOT_EVERY or self._log_bytes < self._snapshot_bytes:
            return
        self.take_snapshot()

    def take_snapshot(self) -> None:
        """Write a snapshot, unless there is one of this version, and drop files before the oldest version kept."""
        version = self.manifest.version
        if version != self._last_snapshot:
            faults.reach("before-snapshot")
            content = seal({**self.manifest.to_json(), "digest": self._digest})
            self.snapshots.put_if_absent(version_name(version), content)
            self._last_snapshot = version
            self._snapshot_bytes, self._log_bytes = len(content), 0
            faults.reach("after-snapshot")
        taken = sorted(table_numbers(self.snapshots))
        floor = max([number for number in taken if number <= self.manifest.kept_from], default=0)
        if floor != self._floor:
            # Claims stay, and so does version 0, with which a checkpoint is made: a run that wants the same name, and
            # comes when all is long past, must find it taken.
            drop_before(floor, self.versions, set(self.manifest.claims))
            drop_before(floor, self.snapshots, (0,))
            self._floor = floor
        self.snapshots.delete_all([version_name(number) for number in _too_close(floor, taken)])


def _too_close(floor: int, taken: Sequence[int]) -> list[int]:
    """Snapshots to leave out, of those that begin with `floor`: what is between their neighbours is a small share.

    >>> _too_close(20, [0, 20, 40, 60, 80, 100]), _too_close(0, range(0, 3300, 100))[:6]
    ([], [100, 200, 300, 500, 600, 700])
    """
    numbers = [number for number in taken if number >= floor]
    found: list[int] = []
    last = floor
    for number, following in pairwise(numbers[1:]):
        if (following - last) * SNAPSHOT_SHARE <= numbers[-1] - floor:
            found.append(number)
        else:
            last = number
    return found


def _lists(manifest: Manifest) -> list[str]:
    return [name for progress in manifest.streams.values() for name, _ in progress.file_lists]


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


def decode(folder: Folder, name: str, format: int = FORMAT) -> tuple[dict[str, Any], str]:
    """The content of a file of the table, which must be of this format, and its digest."""
    with corruption(folder, name):
        content, digest = unseal(folder.read(name))
        found = content["format"]
    if not isinstance(found, int) or found > format:
        raise newer_format("the checkpoint", found, format)
    if found < format:
        raise OlderFormatError(found, format)
    return content, digest


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
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, InternalError) as error:
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
    return (step.manifest for step in _read_log(root))


@dataclass(frozen=True)
class _Step:
    """A version that was read, its digest, and the files that it has more or fewer entries of."""

    manifest: Manifest
    digest: str
    files: Mapping[SegmentId, int] = field(default_factory=dict)


def _read_log(root: Folder) -> Iterator[_Step]:
    """The versions. Raises unless all are there, and in their places."""
    versions, snapshots = table_folders(root)
    head = read_head(root)  # before the folders are listed: a live run may be committing
    # Versions first: a live run deletes old ones when there is a later snapshot to begin from, which we must then see.
    numbers, taken = sorted(table_numbers(versions)), table_numbers(snapshots)
    newest = max([*taken, *numbers], default=-1)
    if head is not None and head.version > newest:
        raise _missing(
            f"version {head.version} of the state is missing",
            f"{root.path(HEAD)} says that it was committed; in {versions.path()} "
            + (f"the newest is {newest}." if newest >= 0 else "there is none."),
        )
    if not taken and numbers:
        raise _missing(
            "the snapshot of the state is missing", f"There are versions, but no file in {snapshots.path()}."
        )
    if not taken:
        return
    try:
        # Old files go one by one, so a snapshot may have outlived the versions that followed it.
        whole = [n for n in taken if len([v for v in numbers if v > n]) == max([n, *numbers]) - n]
        first, content, own_digest = _oldest_of_our_format(snapshots, whole or [max(taken)])
        with corruption(snapshots, first):
            manifest = Manifest.from_json(content)
            _check_number(manifest.version, first)
            # One that nothing came before stands for itself.
        step = _Step(manifest, content.get("digest", own_digest))
        yield _as_committed(step, head, snapshots)
        for number in [n for n in numbers if n > manifest.version]:
            if number != step.manifest.version + 1:
                raise _missing(
                    f"version {step.manifest.version + 1} of the state is missing",
                    f"There is a later version {number} in {versions.path()}.",
                )
            step = _read_next(versions, step.manifest, step.digest)
            yield _as_committed(step, head, versions)
    except FileNotFoundError as error:
        # A live run drops old versions between our listing and our reading.
        raise StateConflictError(
            "the checkpoint changed while it was read", detail=f"{error.filename} has gone.", hint="Try again."
        ) from None


def _read_next(versions: Folder, manifest: Manifest, digest: str) -> _Step:
    """The version after `manifest`; `FileNotFoundError` if there is none."""
    name = version_name(manifest.version + 1)
    data, own_digest = decode(versions, name)
    with corruption(versions, name):
        _check_number(data["version"], name)
        if data["after"] != digest:
            raise ValueError("it does not follow the version before it, one of the two is another file")
        following, files = follow(manifest, data)
        return _Step(following, own_digest, files)


def follow(manifest: Manifest, content: Mapping[str, Any]) -> tuple[Manifest, Mapping[SegmentId, int]]:
    """The version after `manifest`, with this content, and how many entries more, or fewer, it has of each file."""
    draft = draft_of([update_from_json(entry) for entry in content["updates"]], manifest)
    following = replace(draft.finish(), committed_us=content["committed_us"], kept_from=content["kept_from"])
    return following, draft.segments.files


def _missing(primary: str, detail: str) -> ResourceError:
    return ResourceError(
        primary, detail=detail, hint="Restore the file from a backup, or start again with a new checkpoint."
    )


def _check_number(found: int, name: str) -> None:
    if version_name(found) != name:
        raise ValueError(f"it holds version {found}")


def _as_committed(step: _Step, head: Head | None, folder: Folder) -> _Step:
    """The version, unless the head says that another file was committed as this one."""
    version = step.manifest.version
    if head is not None and head.version == version and head.digest != step.digest:
        with corruption(folder, version_name(version)):
            raise ValueError("it is not the file that was committed as this version")
    return step


def _oldest_of_our_format(snapshots: Folder, numbers: Sequence[int]) -> tuple[str, dict[str, Any], str]:
    """The first snapshot to read: an upgrade leaves those of the former format behind for a moment."""
    *earlier, last = sorted(numbers)
    for number in earlier:
        with suppress(OlderFormatError):
            return version_name(number), *decode(snapshots, version_name(number))
    return version_name(last), *decode(snapshots, version_name(last))
