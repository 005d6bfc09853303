"""Sets the watermark of a stream back, between two runs: for one that a wrong event time has moved too far.

It is one commit through the ordinary door: the lock is held, and the commit is a claim of the checkpoint, so that a run
which is alive without a lock stops. Nothing else changes: what was joined stays joined, what was dropped stays dropped.
A watermark is never set forward: rows that wait for a partner would go without a word.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from watersmeet.errors import CheckpointError, JobError, StateConflictError, did_you_mean
from watersmeet.model.quantities import parse_time, time_text
from watersmeet.runtime.checkpoint import prepare_to_take, this_run
from watersmeet.runtime.clock import utc_us
from watersmeet.runtime.outputs import Outputs
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import Manifest
from watersmeet.state.query_identity import StreamIdentity
from watersmeet.state.table import FileTable
from watersmeet.state.updates import RecordDecision, SetNewest, Update

_LOW, _HIGH = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class WatermarkSet:
    """What has changed, and with which version."""

    stream: str
    before_us: int
    after_us: int
    version: int


def set_watermark(folders: CheckpointFolders, stream: str, to: str, take_over: bool = False) -> WatermarkSet:
    """Set the watermark of `stream` to the time `to`, as users write it. The checkpoint must be there.

    Where no lock can say whether a run has the checkpoint, only if it is to be taken over.
    """
    lock = CheckpointLock(folders.home)
    lock.acquire()
    try:
        if not lock.held and not take_over:
            raise CheckpointError(
                "nothing says whether a run is using the checkpoint",
                detail=f"There are no locks in {folders.home.path()}.",
                hint="If none is, say so with --take-over. One that is would be stopped.",
            )
        table = FileTable.open(folders.state, utc_us)
        if table is None:
            raise StateConflictError("the checkpoint has gone", detail=f"There was one in {folders.state.path()}.")
        before, after = _marks(table.manifest, stream, to)
        claimed = table.claim(
            replace(this_run(), waiting=table.manifest.holder.waiting),  # what waits there is left where it is
            lambda manifest: _updates(manifest, stream, to),
            lambda found: prepare_to_take(folders, found, Outputs()),
        )
        return WatermarkSet(stream, before, after, claimed.manifest.version)
    finally:
        lock.release()


def _updates(manifest: Manifest, stream: str, to: str) -> list[Update]:
    before, after = _marks(manifest, stream, to)
    reason = f"asked for; it was {time_text(before)}"
    decision = {"decision": "SetWatermark", "stream": stream, "watermark_us": after, "reason": reason}
    newest = after + _declared(manifest, stream).lateness_us
    return [SetNewest(stream, newest), RecordDecision(decision)]


def _marks(manifest: Manifest, stream: str, to: str) -> tuple[int, int]:
    """The watermark as it is, and as it is to be; refused unless that is earlier."""
    known = _declared(manifest, stream)
    after = parse_time(to, "time", whole_numbers=known.counts)
    progress = manifest.streams.get(stream)
    before = None if progress is None else progress.watermark_us(known.lateness_us)
    if before is None:
        raise JobError(
            f'stream "{stream}" has no watermark yet', detail="It has one after the first batch with rows of it."
        )
    if after >= before:
        raise JobError(
            f'the watermark of stream "{stream}" can be set back only',
            detail=f"It is at {time_text(before)}, and {time_text(after)} is not before that.",
            hint="To set it forward would drop rows that may still join.",
        )
    if not _LOW <= after + known.lateness_us <= _HIGH:
        raise JobError(f'time "{to}" is out of range', detail="Event times are 64-bit numbers of microseconds.")
    return before, after


def _declared(manifest: Manifest, stream: str) -> StreamIdentity:
    streams = manifest.query.streams
    if stream not in streams:
        raise JobError(
            f'the query of the checkpoint has no stream "{stream}"',
            detail=f"Its streams are {', '.join(streams)}.",
            hint=did_you_mean(stream, list(streams)),
        )
    return streams[stream]
