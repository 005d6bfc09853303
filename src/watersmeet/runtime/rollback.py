"""Goes back to an earlier version of a checkpoint, between two runs: one more version, with the contents of that one.

Versions are never rewritten. The version that goes back also takes the checkpoint, as a run does with its first commit,
so that a run which is asleep somewhere can commit nothing any more. Three things follow from it outside of the state:

- Results that were delivered since leave the output: they are moved aside or removed, or stay there if that is asked
  for, and then come a second time. First they are deleted from where results wait, so that nobody delivers them later.
- Spark's own notes go back to the last batch that stands (`state/spark_notes.py`).
- What the local runtime has read is in the state itself.

The version lists what is to be done (`Withdrawal`). It is done at once, and done again by the next run before it does
anything else, which notes down that it is done: so whatever dies, and wherever, there is the old state or the new one.

Versions that a rollback went back behind cannot be gone to again: their results have been withdrawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from watersmeet.errors import CheckpointError, ResourceError, StateConflictError, WatersmeetError
from watersmeet.runtime.checkpoint import this_run
from watersmeet.runtime.clock import utc_us
from watersmeet.runtime.read_again import StreamAgain, moved_together, read_again
from watersmeet.runtime.withdrawing import target_of
from watersmeet.state.files import Folder
from watersmeet.state.folders import ROLLED_BACK, CheckpointFolders, aside_for
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import Delivery, Manifest
from watersmeet.state.spark_notes import OFFSETS, list_notes, numbers_in
from watersmeet.state.syncing import sync_files
from watersmeet.state.table import FileTable, read_versions
from watersmeet.state.updates import GoBack
from watersmeet.state.version_files import VersionFiles


@dataclass(frozen=True)
class Rollback:
    """What it would be to go back: known before anybody is asked."""

    to: Manifest
    head: Manifest
    undone: tuple[Delivery, ...]  # results that were committed since, the oldest first
    places: tuple[str, ...]  # where they have waited
    again: Mapping[str, StreamAgain]
    outputs: tuple[Folder, ...]  # that results and late rows are delivered to, as far as that is known
    delivered: Mapping[Folder, tuple[str, ...]]  # files of theirs that lie there now
    aside: Mapping[Folder, Folder]  # where those would be moved to
    to_function: bool  # results were handed to a function of foreachBatch
    on_spark: bool

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(name for entry in self.undone for name in entry.files)


def look_ahead(folders: CheckpointFolders, version: int) -> Rollback:
    """What a rollback would undo. Raises `CheckpointError` if it cannot be done; changes nothing."""
    target, head, undone, places = _read(folders, version)
    _check_there(folders, target)
    notes = list_notes(folders.spark)
    if notes:
        _check_notes(notes, target.last_batch)
    names = {name for entry in undone for name in entry.files}
    places = tuple(_found_again(place, folders.home, names) for place in places)
    waiting = [folders.home.elsewhere(place) for place in places]
    outputs = tuple(folder for folder in map(target_of, waiting) if folder is not None)
    delivered, aside = {}, {}
    for folder in outputs:
        with suppress(WatersmeetError, OSError):  # which may be out of reach from here
            if found := tuple(sorted(names.intersection(folder.names()))):
                delivered[folder] = found
                aside[folder] = aside_for(folder, ROLLED_BACK, str(head.version + 1), names)
    return Rollback(
        target,
        head,
        undone,
        places,
        read_again(folders, target, head),
        outputs,
        delivered,
        aside,
        folders.results.path() in places,
        bool(notes),
    )


def roll_back(folders: CheckpointFolders, plan: Rollback, how: str) -> Manifest:
    """Commit it, if the checkpoint is still as it was when `plan` was made. The lock must be held."""
    table = FileTable.open(folders.state, utc_us)
    assert table is not None, "it has been read before"

    def check(table: FileTable) -> None:
        if table.manifest.version != plan.head.version:
            raise StateConflictError(
                "the checkpoint has changed meanwhile",
                detail=f"It is at version {table.manifest.version}, and was at {plan.head.version}: a run is at work.",
                hint="Stop that run, and look again.",
            )

    sync_files(VersionFiles.of(plan.to).in_state(folders))
    holder = replace(this_run(), waiting=plan.head.holder.waiting)
    table = table.claim(holder, lambda manifest: [GoBack(plan.to, how, plan.files, plan.places)], check)
    return table.manifest


def _read(folders: CheckpointFolders, version: int) -> tuple[Manifest, Manifest, tuple[Delivery, ...], tuple[str, ...]]:
    """The version to go back to, the newest, what was committed to be delivered between the two, and from where."""
    target: Manifest | None = None
    head: Manifest | None = None
    by_version: list[tuple[int, Delivery]] = []
    places: dict[str, None] = {}  # a job's results may go elsewhere by now than they went then
    known: set[tuple[int, tuple[str, ...], tuple[str, ...]]] = set()  # one that was gathered has other files since
    for manifest in read_versions(folders.state):
        if target is not None and head is not None:
            _refuse_gathered(target, head, manifest)
        head = manifest
        if manifest.version == version:
            target = manifest
        if target is not None:
            places |= dict.fromkeys(manifest.holder.waiting)
        for entry in manifest.undelivered:
            files = (entry.id, entry.results, entry.late_files)
            if target is not None and entry.id >= target.next_delivery and files not in known:
                known.add(files)
                by_version.append((manifest.version, entry))
    if head is None:
        raise CheckpointError(f'folder "{folders.home.path()}" holds no state')
    if target is None or not head.can_go_back_to(version):
        raise _refused(head, version)
    gone = [number for first, last in head.undone for number in range(first, last + 1)]
    return target, head, tuple(entry for number, entry in by_version if number not in set(gone)), tuple(places)


def _found_again(place: str, home: Folder, names: set[str]) -> str:
    """Where results wait by now that waited at `place`: if the job was moved as a whole, its output has moved along."""
    target = target_of(home.elsewhere(place))
    if not (home.local and target is not None and target.local) or target.is_there:
        return place
    for folder in map(Folder, moved_together(target.path(), home.path())):
        if folder.is_there and not names.isdisjoint(folder.names()):
            return folder.path(place.rpartition("/")[2])
    return place


def _refuse_gathered(target: Manifest, before: Manifest, after: Manifest) -> None:
    """Raise if results that waited in `target` were put into one file with later ones (`runtime/gathering.py`)."""
    former, latter = ({entry.id: entry for entry in manifest.undelivered} for manifest in (before, after))
    gathered = any(latter.get(name, entry) != entry for name, entry in former.items())
    if gathered and any(e.id in former and latter.get(e.id) != former[e.id] for e in target.undelivered):
        raise CheckpointError(
            f"version {target.version} cannot be gone back to",
            detail=f"With version {after.version} results that waited then were gathered with later ones, as "
            "deliver_every has it, and cannot be told apart any more.",
            hint="Go back to a version at which no results waited: watersmeet state show CK --version N says which do.",
        )


def _refused(head: Manifest, version: int) -> CheckpointError:
    kept = [number for number in range(head.kept_from, head.version) if head.can_go_back_to(number)]
    which = f"Those that it can be are {_ranges(kept)}." if kept else "There is none that it can be."
    if version == head.version:
        return CheckpointError(f"the checkpoint is at version {version}", detail=which)
    if any(first <= version <= last for first, last in head.undone):
        why = f"A rollback went back behind version {version}, and withdrew its results."
        return CheckpointError(f"version {version} has been undone", detail=f"{why} {which}")
    return CheckpointError(
        f"version {version} cannot be gone back to",
        detail=which,
        hint="keep_versions and keep_for in [run] say how many are kept, and for how long.",
    )


def _ranges(numbers: Sequence[int]) -> str:
    """
    >>> _ranges([3, 4, 5, 9])
    '3 to 5, 9'
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in found)


def _check_there(folders: CheckpointFolders, target: Manifest) -> None:
    for folder, names in VersionFiles.of(target).in_state(folders).items():
        if missing := sorted(names - set(folder.names() if names else ())):
            raise ResourceError(
                f"version {target.version} refers to a file that is missing",
                detail=f"{folder.path(missing[0])}, and {len(missing) - 1} more."
                if len(missing) > 1
                else f"{folder.path(missing[0])}.",
                hint="Look at the checkpoint with watersmeet state verify, or go back to another version.",
            )


def _check_notes(notes: Sequence[str], batch: int) -> None:
    """Spark goes on from the notes of the last batch that stands, and of the one before."""
    offsets = numbers_in(notes, OFFSETS)
    missing = [number for number in (batch - 1, batch) if number >= 0 and number not in offsets]
    if missing:
        raise CheckpointError(
            f"Spark has no note of batch {missing[0]} any more",
            detail=f"To go on after batch {batch} it needs those of batches {max(0, batch - 1)} and {batch}; it has "
            f"batches {_ranges(offsets) or 'none'}.",
            hint="Go back to a later version. Spark keeps notes of as many batches as "
            "spark.sql.streaming.minBatchesToRetain says, 100 by default.",
        )


def held_lock(folders: CheckpointFolders) -> CheckpointLock:
    """The lock of a checkpoint that no run has now; to be released."""
    lock = CheckpointLock(folders.home)
    lock.acquire()
    return lock
