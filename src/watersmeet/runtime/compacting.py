"""Compacts a checkpoint between two runs: few files for what many hold, in one commit, and the answers stay the same.

Active segments of a state become one for each stretch of time in which their rows expire, cold parts one for each
generation, slot by slot, by the code that runs use; never across generations. No result is emitted, and no batch is
counted. What the versions before it need stays for as long as they are kept.

The query is bound from what the checkpoint says of it, which its own digest has to confirm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from watersmeet.adapt.decisions import UniteParts, Work
from watersmeet.errors import CheckpointError, QueryError
from watersmeet.lang.binder import bind
from watersmeet.model.ids import SegmentId
from watersmeet.model.segments import Segment
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.plan.query import Query
from watersmeet.runtime.checkpoint import Checkpoint, this_run
from watersmeet.runtime.clock import utc_us
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.stages.slot_state import SlotState
from watersmeet.state.compaction import Candidate, choose_all
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.identity import identify
from watersmeet.state.ledger import Ledgers
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import Manifest, QueryIdentity
from watersmeet.state.segment_files import FileSegments, file_name
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
        plan = lay_out_spec(query_of(table.manifest.query), table.manifest.answering.spec)
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
            for parts in choose_all(entries, replace(state, windows=()), None):
                if _several_in_a_slot(manifest, state, [bucket.entries[SegmentId(part)] for part in parts]):
                    yield UniteParts(name, generation, tuple(map(SegmentId, parts)))


def _several_in_a_slot(manifest: Manifest, state: State, parts: Sequence[Segment]) -> bool:
    """Whether any slot would write fewer files than it reads."""
    routing = manifest.placement.of(state.partitioning)
    owned = [routing.owned_by(slot) for slot in range(manifest.placement.slots)]
    return any(sum(bool(part.only(groups).groups) for part in parts) > 1 for groups in owned)


# --- the query of a checkpoint ---------------------------------------------------------------------------------------


def query_of(identity: QueryIdentity) -> Query:
    """The query that a checkpoint belongs to, bound anew."""
    try:
        query = bind(identity.text, {name: _stream(name, text) for name, text in identity.streams.items()})
    except (QueryError, ValueError, LookupError) as error:
        raise _unbound(str(error)) from None
    if identify(query).digest != identity.digest:
        raise _unbound("what it says of its streams is not all that there is to them")
    return query


def _unbound(why: str) -> CheckpointError:
    return CheckpointError(
        "the query of the checkpoint cannot be bound from what the checkpoint says of it",
        detail=f"{why}. A query with functions of yours cannot be compacted from outside.",
        hint="A run compacts its state by itself, as it goes.",
    )


def _stream(name: str, text: str) -> Stream:
    """A stream as `state/identity.py` wrote it down."""
    columns, time, lateness = text.rsplit("; ", 2)
    fields = [entry.rpartition(" ") for entry in re.split(r", (?![^\[(]*[\])])", columns)]
    schema = pa.schema([pa.field(column, _type(kind)) for column, _, kind in _joined(fields)])
    return Stream(name, schema, time.removeprefix("time "), timedelta(microseconds=int(lateness.split()[1])))


def _joined(fields: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """Types with a space in them, as `timestamp[us, tz=UTC]`, belong together."""
    for column, space, kind in fields:
        if "[" in column.rpartition(" ")[2] or "(" in column.rpartition(" ")[2]:
            begin, _, rest = column.rpartition(" ")
            yield begin, space, f"{rest} {kind}"
        else:
            yield column, space, kind


def _type(text: str) -> pa.DataType:
    """
    >>> _type("decimal128(10, 2)"), _type("timestamp[us, tz=UTC]"), _type("string")
    (Decimal128Type(decimal128(10, 2)), TimestampType(timestamp[us, tz=UTC]), DataType(string))
    """
    if found := re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", text):
        return pa.timestamp(found[1], found[2])
    return pa.type_for_alias(text)
