"""Compacts a checkpoint between two runs: few files for what many hold, in one commit, and the answers stay the same.

Active segments of a state become one for each stretch of time in which their rows expire, cold parts one for each
generation, slot by slot, by the code that runs use; never across generations. No result is emitted, and no batch is
counted. What the versions before it need stays for as long as they are kept.

The query is bound from what the checkpoint says of it, which its own digest has to confirm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from watersmeet.adapt.decisions.merge import UniteParts
from watersmeet.adapt.decisions.work import Work
from watersmeet.errors import CheckpointError
from watersmeet.model.ids import SegmentId
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.runtime.checkpoint import Checkpoint, this_run
from watersmeet.runtime.clock import utc_us
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.stages.slot_state import SlotState
from watersmeet.start.former_query import query_of
from watersmeet.state.compaction import Candidate, choose_all
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.ledger import Ledgers
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_files import FileSegments, file_name
from watersmeet.state.shapes import plan_of
from watersmeet.state.table import AtVersion, FileTable
from watersmeet.state.updates import AddSegment, ReleaseGroups, Update


@dataclass(frozen=True)
class Sizes:
    """What a state has: entries in the manifest, files, and their bytes."""

    entries: int
    files: int
    bytes: int

    @classmethod
    def of(cls, manifest: Manifest) -> Sizes:
        sizes = {segment.file: segment.bytes for segment in manifest.segments.values()}
        return cls(len(manifest.segments), len(sizes), sum(sizes.values()))


@dataclass(frozen=True)
class Compacted:
    before: Sizes
    after: Sizes
    version: int
    kept_from: int
    files_deleted: int  # that no version kept refers to
    files_kept: int  # that earlier versions alone refer to


def compact(folders: CheckpointFolders) -> Compacted:
    """Take the checkpoint as a run does, compact it, write a snapshot, and delete what no version kept needs."""
    lock = CheckpointLock(folders.home)
    lock.acquire()
    try:
        table = FileTable.open(folders.state, utc_us)
        if table is None:
            raise CheckpointError(f'folder "{folders.home.path()}" holds no state')
        plan = plan_of(query_of(table.manifest.query), table.manifest)
        files = len(folders.segments.names())
        table = table.claim(replace(this_run(), waiting=table.manifest.holder.waiting))
        segments = FileSegments(folders.segments, keep_open=True, epoch=table.manifest.epoch)
        checkpoint = Checkpoint(table, segments, (), lock, folders.file_lists)
        before = table.manifest
        updates = list(_united(plan, before, segments))
        if updates:
            written = [file_name(update.segment.file) for update in updates if isinstance(update, AddSegment)]
            checkpoint.sync_first({folders.segments: written})
            checkpoint.commit([AtVersion(before.version)], updates)
        after = checkpoint.manifest
        table.take_snapshot()
        checkpoint.tidy(everything=True)
        left = len(folders.segments.names())
        new = sum(isinstance(update, AddSegment) for update in updates)
        sizes = Sizes.of(after)
        return Compacted(
            Sizes.of(before), sizes, after.version, after.kept_from, files + new - left, left - sizes.files
        )
    finally:
        lock.release()


def _united(plan: PhysicalPlan, manifest: Manifest, segments: FileSegments) -> Iterator[Update]:
    """What tasks write and release, with nothing new to join."""
    if manifest.batch is None:
        return
    context = BatchContext(plan, manifest, Ledgers(plan), Work(unites=tuple(_parts(plan, manifest))), new_rows=False)
    released: list[Update] = []
    for stage in plan.stages:
        told = context.for_stage(stage)
        for slot in range(manifest.placement.slots):
            task = SlotState(told, slot, segments)
            task.unite_parts()
            for state in stage.states:
                task.compact(state)
            yield from map(AddSegment, task.added)
            released += [ReleaseGroups(name, groups) for name, groups in task.released]
    yield from released


def _parts(plan: PhysicalPlan, manifest: Manifest) -> Iterator[UniteParts]:
    for name in manifest.segments.cold_states:
        state = plan.states.get(name)
        for generation, bucket in manifest.segments.cold(name).items() if state is not None else ():
            entries = [
                Candidate(part.id, part.live_rows, part.live_bytes, part.max_expiry_us)
                for part in bucket.entries.values()
            ]
            assert state is not None
            for parts in choose_all(entries, replace(state, windows=(), stays_by_pairs=None), None):
                if _several_in_a_slot(manifest, state, [bucket.entries[SegmentId(part)] for part in parts]):
                    yield UniteParts(name, generation, tuple(map(SegmentId, parts)))


def _several_in_a_slot(manifest: Manifest, state: State, parts: Sequence[Segment]) -> bool:
    """Whether any slot would write fewer files than it reads."""
    routing = manifest.placement.of(state.partitioning)
    owned = [routing.owned_by(slot) for slot in range(manifest.placement.slots)]
    return any(sum(bool(part.only(groups).groups) for part in parts) > 1 for groups in owned)
