"""The gate in front of the join, of a query with windows of rows: rows wait until what is counted of them is final.

Whether a row is among the last n of its stream at time T is known once no row of that stream can come any more that is
no later than T: when its watermark is past T. So rows of *all* streams wait until they are before M, the smallest
watermark of the streams that have `[ROWS]`. Then they enter, each with its counts and ends (`plan/count_windows.py`),
which never change, and the join takes them as it takes all rows.

A batch lets in what is before the M of the version that it starts from:

1. of what it reads, rows of streams that are not counted; the others, and all of a counted stream, are written to a
   file for each stream and task, sorted by time: such files are *waiting* segments of the manifest;
2. of what waits, the rows between the last M and this one. Every time is between two such in one batch alone, so each
   row enters once, whatever dies: `GateProgress` is committed with what came of the rows.

All rows of a counted stream before M were read in earlier batches, so that their order is known when the batch begins:
the driver puts the times in the files in order (`Gate`), and tells tasks the ranks of the rows that enter. Rows of
equal time are in the order of their batches, in one batch in that of files (of Spark's partitions), and in one file as
they were read. A file goes when all of its rows have entered, and one of a counted stream when, besides, no row can
come that needs counts from there: the other streams' watermarks have passed it too, and what joins owe.

To the join what waits is still to come: no watermark counts there for more than M (`context.watermarks_us`). At the end
of the input everything enters. Rows of a counted stream that come after that and are before it are late.

Known limits: the driver reads the times of a counted stream, 8 bytes a row, and tasks are sent those from the slowest
watermark on. A counted stream that is silent holds everything back, as it must.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from watersmeet.kernel.counting import CountedRows, OrderedFiles, by_time, ends_of, times_of, with_columns
from watersmeet.kernel.prepare import SplitRows
from watersmeet.kernel.rows import Int64Array, hashes, take
from watersmeet.kernel.window import LONG_AGO, NEVER
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import Generation, OperatorName, Partitioning, SegmentId, StateName
from watersmeet.model.keys import ByHash
from watersmeet.model.routing import Slice
from watersmeet.model.segments import WAITING, Segment
from watersmeet.plan.count_windows import CountColumns, count_columns, counted_streams
from watersmeet.plan.physical import HASH_FIELD, Node, PhysicalPlan, State
from watersmeet.state.expiry import Watermarks
from watersmeet.state.manifest import Counted, GateProgress, Manifest
from watersmeet.state.output_names import Stamp
from watersmeet.state.segment_files import Segments
from watersmeet.state.updates import PassGate, ReleaseGroups, ResolveEnds, Update

_ALL = ((0, 1),)  # waiting segments are one group
_PREFIX = "."  # what columns of a stream begin with in such a file: a name with a dot is none of ours


@dataclass(frozen=True, eq=False)
class WaitingPiece:
    """Rows of a waiting segment that enter now: those at these places, with their ranks if their stream is counted."""

    stream: str
    segment: Segment
    start: int
    end: int
    ranks: Int64Array | None = None


@dataclass(frozen=True, eq=False)
class GateForTasks:
    """What tasks are told: which rows enter, and what they get. With `below_us` None none does."""

    below_us: int | None
    columns: Mapping[str, CountColumns]
    counted: Mapping[str, CountedRows]

    def admit(self, split: SplitRows, stream: str) -> tuple[SplitRows, SplitRows]:
        """Of rows that were read, those that enter now, and those that wait."""
        # `NEVER` is no time, here as in windows.
        split = replace(split, times=np.minimum(split.times, NEVER - 1))
        if stream in self.counted or self.below_us is None:
            return self._with_counts(_taken(split, np.empty(0, np.int64)), stream), split
        inside = split.times < self.below_us
        enter, wait = np.flatnonzero(inside), np.flatnonzero(~inside)
        return self._with_counts(_taken(split, enter), stream), _taken(split, wait)

    def let_in(self, piece: WaitingPiece, segments: Segments) -> SplitRows:
        """The rows of a piece, as they were read."""
        (content,) = segments.read(piece.segment)
        rows = content.rows.slice(piece.start, piece.end - piece.start)
        times = times_of(hashes(rows))
        rows = rows.drop_columns([HASH_FIELD])
        rows = rows.rename_columns([name.removeprefix(_PREFIX) for name in rows.schema.names])
        return self._with_counts(SplitRows(rows, times, None, None), piece.stream, piece.ranks)

    def _with_counts(self, split: SplitRows, stream: str, ranks: Int64Array | None = None) -> SplitRows:
        columns, nothing = self.columns[stream], np.empty(0, np.int64)
        found = [(name, self.counted[other].counts(split.times)) for name, other in columns.counts]
        for name, rows in columns.ends:
            own = self.counted[stream].counts(split.times)
            found.append((name, ends_of(nothing if ranks is None else ranks, own, rows)))
        return replace(split, rows=with_columns(split.rows, found))


def _taken(split: SplitRows, rows: Int64Array) -> SplitRows:
    if len(rows) == len(split.times):
        return split
    return replace(split, rows=take(split.rows, rows), times=split.times[rows])


def hold(split: SplitRows, stream: str, segments: Segments, stamp: Stamp, place: int) -> Segment | None:
    """Write rows that wait down; None if there are none. `place` is theirs among those of their batch and stream."""
    if not len(split.times):
        return None
    rows = split.rows.rename_columns([f"{_PREFIX}{name}" for name in split.rows.schema.names])
    rows = by_time(rows, split.times)
    state = _waiting_state(stream, rows.schema)
    written = segments.write([rows], state, Slice(_ALL, Bounds(1)), stamp.batch)
    assert written is not None
    segments.sync_soon(written)
    return replace(
        written,
        tier=WAITING,
        generation=Generation(place),
        delivery=stamp.delivery or 0,
        min_time_us=int(split.times.min()),
        min_expiry_us=int(split.times.min()),
        max_expiry_us=int(split.times.max()),
        group_rows=(),
        group_keys=(),
    )


def _waiting_state(stream: str, schema: pa.Schema) -> State:
    fields = tuple((entry.name, entry.type) for entry in schema if entry.name != HASH_FIELD)
    return State(StateName(stream), (), ByHash(()), fields, (), (), Partitioning(""))


@dataclass(frozen=True, eq=False)
class GateStep:
    """What the gate does in a batch or round, as it follows from a version."""

    tasks: GateForTasks
    pieces: tuple[WaitingPiece, ...]  # rows that have waited and enter now
    progress: GateProgress  # afterwards
    known: Mapping[str, CountedRows]  # the rows of counted streams that have entered, this time too
    passed: Mapping[str, int]  # the counts of these streams that no row which enters is below
    released: tuple[SegmentId, ...]

    def updates(self) -> Iterator[Update]:
        yield from (ReleaseGroups(name, _ALL) for name in self.released)
        yield PassGate(self.progress)

    def resolve(self, manifest: Manifest) -> Iterator[Update]:
        """For segments of a version, the times at which their rows leave windows of rows, where they are known now."""
        for segment in manifest.segments.unresolved:
            found = self.resolved(segment)
            if found is not segment:
                yield ResolveEnds(segment.id, found.max_expiry_us, found.rank_ends)

    def resolved(self, segment: Segment) -> Segment:
        """The same for a segment that is not part of a version yet."""
        times = [((stream, end), self.known[stream].time_of(end)) for stream, end in segment.rank_ends]
        if all(time is None for _, time in times):
            return segment
        found = min(time for _, time in times if time is not None)
        return replace(segment.gone_by(found), rank_ends=tuple(each for each, time in times if time is None))


@dataclass
class Gate:
    """The order of the rows of counted streams, read from the files that wait and kept from batch to batch."""

    segments: Segments
    _times: dict[SegmentId, Int64Array] = field(default_factory=dict)

    def step(
        self,
        plan: PhysicalPlan,
        manifest: Manifest,
        watermarks: Watermarks,
        held: Mapping[OperatorName, int],
        ended: bool = False,
    ) -> GateStep | None:
        """What is to be done next; None for a query without windows of rows. `ended`: no more rows will come."""
        counted = counted_streams(plan.query)
        if not counted:
            return None
        before = manifest.gate or GateProgress()
        below = _below(counted, manifest, watermarks, before.admitted_us, ended)
        lows = {name: _low(name, plan, before, watermarks, held) for name in counted}
        owing = [held[node.name] for node in _counting(plan) if node.name in held]
        known: dict[str, CountedRows] = {}
        pieces: list[WaitingPiece] = []
        released: list[SegmentId] = []
        progress: dict[str, Counted] = {}
        ranks: dict[str, int] = {}
        for stream in plan.streams:
            waiting = sorted(
                manifest.segments.waiting(StateName(stream)).entries.values(), key=lambda s: (s.delivery, s.generation)
            )
            order: OrderedFiles | None = None
            passed = before.admitted_us if below is None else below
            if stream in counted:
                count = before.counted.get(stream, Counted())
                since = LONG_AGO if count.before_us is None else count.before_us
                order = OrderedFiles(tuple(map(self._times_in, waiting)), since, count.rows)
                known[stream] = order.rows.until(LONG_AGO if below is None else below)
                low, ranks[stream] = lows[stream], count.rows
                if low is not None and low > since:
                    ranks[stream] = order.rows.before_time(low)
                    # Merges ask which rows of a generation another one still needs, back to where that begins.
                    if (kept := min(low, *owing, low)) > since:
                        count = Counted(kept, order.rows.before_time(kept))
                progress[stream], passed = count, count.before_us
            if below is not None:
                pieces += self._pieces(stream, waiting, order, before.admitted_us, below)
            released += [s.id for s in waiting if passed is not None and s.max_expiry_us < passed]
        self._forget(manifest)
        oldest = _least([before.admitted_us, *watermarks.values()])  # that can enter
        tasks = GateForTasks(
            below,
            count_columns(plan.query),
            {name: rows if oldest is None else rows.since(oldest) for name, rows in known.items()},
        )
        return GateStep(tasks, tuple(pieces), GateProgress(below, progress), known, ranks, tuple(released))

    def is_due(self, plan: PhysicalPlan, manifest: Manifest, watermarks: Watermarks, ended: bool = False) -> bool:
        """Whether anything that waits would enter; told by what the manifest says of files."""
        counted, since = counted_streams(plan.query), None if manifest.gate is None else manifest.gate.admitted_us
        below = _below(counted, manifest, watermarks, since, ended) if counted else None
        if below is None or below == since:
            return False
        waiting = (segment for segment in manifest.segments.all_waiting if segment.min_time_us < below)
        return any(since is None or segment.max_expiry_us >= since for segment in waiting)

    def _pieces(
        self, stream: str, waiting: Sequence[Segment], order: OrderedFiles | None, since: int | None, below: int
    ) -> Iterator[WaitingPiece]:
        """The rows of what waits that are from one time on and before the other."""
        for place, segment in enumerate(waiting):
            if segment.min_time_us < below and (since is None or segment.max_expiry_us >= since):
                times = self._times_in(segment)
                start = 0 if since is None else int(np.searchsorted(times, since))
                end = int(np.searchsorted(times, below))
                if start < end:
                    ranks = None if order is None else order.ranks_in(place)[start:end]
                    yield WaitingPiece(stream, segment, start, end, ranks)

    def _times_in(self, segment: Segment) -> Int64Array:
        if segment.id not in self._times:
            (content,) = self.segments.read(segment)
            self._times[segment.id] = times_of(hashes(content.rows))
        return self._times[segment.id]

    def _forget(self, manifest: Manifest) -> None:
        there = {segment.id for segment in manifest.segments.all_waiting}
        self._times = {name: times for name, times in self._times.items() if name in there}


def _below(
    counted: Sequence[str], manifest: Manifest, watermarks: Watermarks, admitted: int | None, ended: bool
) -> int | None:
    """The time before which rows enter; None: none does yet."""
    times = [admitted, _least([watermarks[stream] for stream in counted])]
    if ended:
        read = (progress.newest_read_us for progress in manifest.streams.values())
        times += [min(newest + 1, NEVER) for newest in read if newest is not None]
    return max((time for time in times if time is not None), default=None)


def _low(
    stream: str, plan: PhysicalPlan, before: GateProgress, watermarks: Watermarks, held: Mapping[OperatorName, int]
) -> int | None:
    """The time before which nothing enters any more that meets rows of a counted stream; None: not known yet.

    As of before the batch, so that what enters with it is no older either: a join that comes to owe some of it holds
    back nothing before this.
    """
    marks = [before.admitted_us, *(watermarks[other] for other in plan.streams if other != stream)]
    meets = {operator for state in plan.states.values() if state.ranks for operator in plan.feeders[state.name]}
    marks += [held[operator] for operator in meets if operator in held]
    return _least(marks)


def _counting(plan: PhysicalPlan) -> Iterator[Node]:
    """The joins that keep rows by windows of rows."""
    return (node for node in plan.operators.values() if any(entry.state.ranks for entry in node.inputs))


def _least(marks: Sequence[int | None]) -> int | None:
    """The smallest of them; None where one is not known."""
    known = [mark for mark in marks if mark is not None]
    return min(known) if len(known) == len(marks) else None
