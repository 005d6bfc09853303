"""One run's hold on a checkpoint: the lock, the table and the segments; the one door for every commit.

Layout under the checkpoint folder: `lock`, `state/` (ours, see `state/table.py`) and `spark/` (Spark's own). Whoever
has a `Checkpoint` owns what lies there until it is closed; after that nothing can be committed through it any more.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from watersmeet.adapt.decisions.rescale import ResizeRing, of_other_slots
from watersmeet.adapt.policies.ring.smoothing import named_moves
from watersmeet.errors import ResourceError, StateConflictError, WatersmeetError
from watersmeet.model.file_sums import sum_of
from watersmeet.model.ids import SegmentId
from watersmeet.model.origin import BySettings
from watersmeet.model.placement import Placement
from watersmeet.model.slices import BY_TIME
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec
from watersmeet.runtime.clock import utc_text
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.withdrawing import finish_rollbacks
from watersmeet.state.epochs import FIRST_EPOCH, Holder, TakenOverError
from watersmeet.state.file_lists import FilesRead
from watersmeet.state.files import Folder
from watersmeet.state.first_manifest import first_manifest
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.gc import collect_everything, collect_files
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import Manifest
from watersmeet.state.retention import Retention
from watersmeet.state.segment_files import FileSegments, MemorySegments, Segments
from watersmeet.state.syncing import sync_files
from watersmeet.state.table import Consequences, FileTable, Requirement, Table, none
from watersmeet.state.updates import (
    Learn,
    MarkWithdrawn,
    RecordDecision,
    SetPlacement,
    SetRetention,
    Update,
)
from watersmeet.state.version_files import VersionFiles

# Commits between two looks through all files for what nobody refers to: orphans of tasks that failed or ran twice.
LOOK_THROUGH_EVERY = 500
# After so long without a commit a run looks whether its checkpoint is still its own, before it delivers or while it
# waits for rows. A process that was stopped and goes on sees that time has passed.
CHECK_HELD_SECONDS = 5.0
# After so long it looks before it commits, too: the claim that would refuse the commit may have been deleted by then.
ASLEEP_SECONDS = 60.0


class Checkpoint:
    """One run's hold on its state. Close it to let another run have it."""

    def __init__(
        self,
        table: Table,
        segments: Segments,
        waiting: tuple[Folder, ...] = (),
        lock: CheckpointLock | None = None,
        file_lists: Folder | None = None,
        staying: tuple[Folder, ...] = (),
    ) -> None:
        self.table = table
        self.segments = segments
        self.files = FilesRead(file_lists, table.manifest)
        self._waiting = waiting
        self._staying = staying  # of these, those whose files are not moved away by their delivery
        self._file_lists = file_lists
        self._lock = lock
        self._closed = False
        self._turn = threading.Lock()  # a commit and the end do not overlap
        self._looked_through = table.manifest.version
        self._known_held = time.monotonic()
        self._scratch: list[SegmentId] = []
        self._delivered: list[str] = []
        self.sync_seconds = 0.0  # that commits have waited for the disk
        if isinstance(table, FileTable):
            table.sync_files = self._sync_files

    @property
    def manifest(self) -> Manifest:
        return self.table.manifest

    def commit(
        self, requirements: Sequence[Requirement], updates: Sequence[Update], consequences: Consequences = none
    ) -> Manifest:
        """The next version; refused once the checkpoint has been let go."""
        with self._turn:
            if self._closed:
                raise StateConflictError(
                    "the run has ended",
                    detail="It has let go of its checkpoint, and can change nothing there any more.",
                )
            if time.monotonic() - self._known_held >= ASLEEP_SECONDS:
                self.table.check_held()
            manifest = self.table.commit(requirements, updates, consequences)
            self._known_held = time.monotonic()
            return manifest

    def check_held(self) -> None:
        """Raise `TakenOverError` if a later run has taken the checkpoint. A commit tells too, so it looks seldom."""
        with self._turn:
            if not self._closed and time.monotonic() - self._known_held >= CHECK_HELD_SECONDS:
                self.table.check_held()
                self._known_held = time.monotonic()

    def reason(self, error: BaseException) -> BaseException:
        """What to say of an error that ends the run: where the checkpoint was taken over, that. All else, files that
        are missing or Spark's own error, comes of it."""
        with suppress(WatersmeetError), self._turn:
            if not self._closed and not isinstance(error, TakenOverError):
                try:
                    self.table.check_held()
                except TakenOverError as taken:
                    return taken
        return error

    def sync_first(self, files: Mapping[Folder, Iterable[str]]) -> None:
        """Have these files of each folder on disk before the next version is, all at once."""
        self.table.sync_first(files)

    def _sync_files(self, files: Mapping[Folder, Iterable[str]], also: Iterable[str] = ()) -> None:
        started = time.monotonic()
        sync_files(files, also)
        self.sync_seconds += time.monotonic() - started

    def drop_later(self, scratch: Iterable[SegmentId] = (), delivered: Iterable[str] = ()) -> None:
        """Segments that were for one batch alone, and result files that were delivered, go with the next tidying up.

        Files that wait in the checkpoint itself stay there when they are delivered; others have been moved away.
        """
        self._scratch += scratch
        self._delivered += delivered

    def tidy(self, everything: bool = False) -> None:
        """Snapshot when it is time to, and delete what nothing refers to. Between batches only."""
        if isinstance(self.table, FileTable):
            self.table.snapshot_if_due()
        version = self.manifest.version
        collect_files(self.table, self.segments, self._scratch, self._staying, self._delivered)
        self._scratch, self._delivered = [], []
        if everything or version - self._looked_through >= LOOK_THROUGH_EVERY:
            self._looked_through = version
            collect_everything(self.table, self.segments, self._waiting, self._file_lists)

    def drop_attempt(self) -> None:
        """Delete what an attempt left behind that failed, and of which nothing is committed. Between batches only.

        What was made in vain must not take the room that the run needs to go on.
        """
        collect_everything(self.table, self.segments, self._waiting, self._file_lists)

    def close(self) -> None:
        with self._turn:
            self._closed = True
            self.segments.close()
            if self._lock is not None:
                self._lock.release()


def this_run(waiting: tuple[Folder, ...] = ()) -> Holder:
    """This process as the holder of a checkpoint, which gives it its epoch."""
    addresses = tuple(folder.path() for folder in waiting)
    return Holder(FIRST_EPOCH, uuid.uuid4().hex, socket.gethostname(), os.getpid(), utc_text(), addresses)


def in_memory(query: Query, spec: PlanSpec, placement: Placement, spill: Folder | None = None) -> Checkpoint:
    """A run that leaves nothing behind. Its state is in memory, or, with a memory budget, in the folder `spill`."""
    return hold_in_memory(first_manifest(query, spec, placement), spill)


def hold_in_memory(first: Manifest, spill: Folder | None) -> Checkpoint:
    """The same from its first version."""
    return Checkpoint(Table(first), MemorySegments() if spill is None else FileSegments(spill, keep_open=True))


def hold(folders: CheckpointFolders, table: FileTable, outputs: Outputs, lock: CheckpointLock) -> Checkpoint:
    """Go on with the table of a checkpoint that this run has taken. Only now may anything be moved or deleted."""
    waiting = outputs.waiting_folders
    for folder in (folders.segments, folders.file_lists, *waiting):
        folder.make()
    for folder, names in outputs.left_elsewhere(table.manifest, folders.home).items():
        folder.delete_all(names)  # this run has copies, which wait where it delivers from
        folder.remove_if_empty()
    outputs.take_restored(table.manifest, folders.results)
    if table.manifest.withdrawals:
        table.sync_first(finish_rollbacks(folders, table.manifest))
    segments = FileSegments(folders.segments, keep_open=True, epoch=table.manifest.epoch)
    staying = tuple(folder for folder in waiting if folder == folders.results)
    checkpoint = Checkpoint(table, segments, waiting, lock, folders.file_lists, staying)
    if table.manifest.withdrawals:
        checkpoint.commit([], [MarkWithdrawn()])
    checkpoint.tidy(everything=True)
    return checkpoint


def prepare_to_take(folders: CheckpointFolders, table: FileTable, outputs: Outputs) -> None:
    """Have what earlier runs left whole and on disk before anything follows from it. The claim is the first that does.

    Deletes nothing, and takes files that go meanwhile as they come: the run before may be alive until it is claimed.
    """
    for folder in (folders.segments, folders.file_lists, *outputs.waiting_folders):
        folder.make()
    outputs.bring(table.manifest, outputs.left_elsewhere(table.manifest, folders.home))
    waiting = outputs.find_waiting(table.manifest.undelivered)
    _check_waiting(table.manifest, waiting)
    _sync_found(folders, table, {**dict.fromkeys(outputs.waiting_folders, ()), **waiting})


def _check_waiting(manifest: Manifest, waiting: Mapping[Folder, Sequence[str]]) -> None:
    """Raise unless the files that an earlier run left to be delivered are as it wrote them."""
    sums = {name: found for delivery in manifest.undelivered for name, found in delivery.sums.items()}
    for folder, names in waiting.items():
        for name in names:
            with suppress(FileNotFoundError, KeyError):  # it has been delivered meanwhile, or its sum is not known
                size, crc32 = sums[name]
                if (found := sum_of(folder.read(name))) != (size, crc32):
                    raise ResourceError(
                        f'the file "{name}" that waits for its delivery is corrupt',
                        detail=f"{folder.path(name)} has {found[0]} bytes with checksum {found[1]:08x}; "
                        f"the manifest says {size} bytes with checksum {crc32:08x}.",
                        hint="Restore the file from a backup, or start again with a new checkpoint.",
                    )


def _sync_found(folders: CheckpointFolders, table: FileTable, waiting: Mapping[Folder, Sequence[str]]) -> None:
    """Have what an earlier run left on disk. It may have been killed before it did so itself, or not have meant to.

    What is on disk already costs next to nothing to ask for. A file that is missing is told of when it is read.
    """
    sync_files({**VersionFiles.of(table.manifest).in_state(folders), **waiting}, may_be_gone=True)
    log = [folder for folder in (table.versions, table.snapshots) if folder.local]
    sync_files({folder: folder.names() for folder in log}, may_be_gone=True)


def placed_anew(manifest: Manifest, placement: Placement) -> list[Update]:
    """Another number of slots, or of those that a ring lies over, for a run that goes on; and what is known of slots.

    A ring of another length is told: its groups are moved as by a policy.
    """
    before = manifest.placement
    if placement == before:
        return []
    same = (placement.slots, placement.ring_slots) == (before.slots, before.ring_slots)
    learned = manifest.learned if same else of_other_slots(manifest.learned)
    return [
        SetPlacement(placement),
        *([] if learned == manifest.learned else [Learn(learned)]),
        *([] if placement.asked_ring == before.asked_ring else [RecordDecision(_ring_told(manifest, placement))]),
    ]


def _ring_told(manifest: Manifest, placement: Placement) -> dict[str, Any]:
    before = manifest.placement
    owners = before.of(BY_TIME).owners
    pairs = enumerate(zip(owners, placement.of(BY_TIME).owners, strict=True))
    moves = {group: slot for group, (owner, slot) in pairs if owner != slot}
    reason = "the settings say so" if placement.asked_ring else "the settings leave it to the cost model"
    batch = manifest.last_batch + 1
    told = ResizeRing(before.ring_slots, placement.ring_slots, named_moves(moves), batch, reason, origin=BySettings())
    return told.to_json()


def retention_changed(manifest: Manifest, retention: Retention) -> list[Update]:
    return [] if manifest.retention == retention else [SetRetention(retention)]
