"""What a slot keeps: reads the slot's slices of segments, writes new rows down, merges segments as compaction asks.

One `SlotState` serves one task. It collects what the task wrote for the task's report, and holds nothing afterwards.

Of a group that is spread (`model/spread.py`) a slot reads its share of the rows that are dealt, and all others. New
rows that were dealt are written by whoever has them, and copies by the owner alone, who alone merges and compacts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from watersmeet.kernel.aggregate import combine
from watersmeet.kernel.indexed import Indexed, Stretches
from watersmeet.kernel.look_ahead import HashFilter
from watersmeet.kernel.pieces import Runs, is_piece, merged_pieces
from watersmeet.kernel.rows import hashes, int_column, take
from watersmeet.kernel.weigh import combine_alike
from watersmeet.kernel.window import LONG_AGO, NEVER, expiry, needed
from watersmeet.model.bounds import HASH_END, Bounds
from watersmeet.model.ids import LIVE, Generation, SegmentId, StateName
from watersmeet.model.routing import (
    GroupRange,
    Routing,
    Slice,
    count_groups,
    has_group,
    intersect_ranges,
    subtract_ranges,
    union_ranges,
)
from watersmeet.model.segments import Segment
from watersmeet.model.slices import BY_TIME
from watersmeet.model.spread import Share
from watersmeet.plan.physical import State
from watersmeet.runtime.context import GroupsToMerge, StageContext
from watersmeet.state.compaction import Candidate, choose_all, choose_merges
from watersmeet.state.segment_files import Pieces, Segments

ChooseMerges = Callable[[Sequence[Candidate], State, int | None], list[tuple[str, ...]]]


class SlotState:
    """`settle` is called when a piece of what a task is given has been written down."""

    def __init__(
        self, context: StageContext, slot: int, segments: Segments, settle: Callable[[], None] = lambda: None
    ) -> None:
        self.context = context
        self.slot = slot
        self.segments = segments
        self._settle = settle
        self.added: list[Segment] = []
        self.released: list[tuple[SegmentId, tuple[GroupRange, ...]]] = []
        self.scratch: list[SegmentId] = []
        self._files: dict[SegmentId, Pieces] = {}
        self._slices: dict[str, list[tuple[Segment, list[Indexed]]]] = {}
        self._cooled: list[pa.RecordBatch] = []

    def _owned(self, state: State) -> Slice:
        """The groups of the state's partitioning that are this slot's, of those that the task is for."""
        routing, within = self._routing(state), self.context.within
        owned = routing.owned_by(self.slot)
        return Slice(owned if within is None else intersect_ranges(owned, within), routing.bounds)

    def _routing(self, state: State) -> Routing:
        return self.context.placement.of(state.partitioning)

    @property
    def _shares(self) -> tuple[Share, ...]:
        """The groups of the stage that are spread, whoever works on them."""
        return self.context.shares.get(self.context.stage.index, ())

    def _written(self, state: State) -> Slice:
        """The groups that this slot writes new rows of: its own, and those of which rows are dealt to it."""
        owned = self._owned(state)
        dealt = [share for share in self._shares if self.slot in share.slots and share.deals(state.aliases)]
        if not dealt:
            return owned
        return replace(owned, groups=union_ranges((*owned.groups, *map(_group_of, dealt))))

    def foreign(self, aliases: Collection[str]) -> list[Share]:
        """The spread groups of which this slot has rows over these inputs that are copies of what their owner has."""
        return [share for share in self._shares if self.slot in share.slots[1:] and not share.deals(aliases)]

    def own(self, aliases: Collection[str], runs: Runs) -> Runs:
        """Of rows over these inputs, those that are this slot's to keep and to count: not what is copied to it."""
        low = 0
        stretches = []
        for share in self.foreign(aliases):
            stretches.append((low, share.low))
            low = share.high
        if not low:
            return runs
        stretches.append((low, HASH_END))
        clipped = (run.clipped(*stretch) for run in runs for stretch in stretches if stretch[0] < stretch[1])
        return [run for run in clipped if run.count]

    def _probed(self, state: State) -> list[tuple[tuple[GroupRange, ...], tuple[int, int] | None]]:
        """The groups that new rows meet rows of here, and which share of these where they are dealt."""
        owned, shares = self._owned(state).groups, self._shares
        whole = subtract_ranges(owned, map(_group_of, shares)) if shares else owned
        found: list[tuple[tuple[GroupRange, ...], tuple[int, int] | None]] = [(whole, None)]
        for share in shares:
            if self.slot in share.slots:
                dealt = (share.slots.index(self.slot), len(share.slots)) if share.deals(state.aliases) else None
                found.append(((_group_of(share),), dealt))
        return found

    def kept(self, state: State) -> list[Indexed]:
        """The rows of `state` that new ones meet in this slot, as they were before this batch."""
        if not self._shares:
            return [piece for _, pieces in self._load(state) for piece in pieces]
        found = []
        for groups, dealt in self._probed(state):
            parts = (segment.only(groups) for segment in self.context.segments[state.name])
            pieces = [piece for part in parts if part.groups for piece in self._slice_of(part, state)]
            found += pieces if dealt is None else [replace(piece, dealt=dealt) for piece in pieces]
        return found

    def spilled(self, state: State) -> list[Indexed]:
        """The rows of a group-by's `state` in this slot that are cold."""
        owned = self._owned(state)
        mine = (segment.only(owned.groups) for segment in self.context.spilled)
        return [piece for part in mine if part.groups for piece in self._slice_of(part, state)]

    def rows_in_all_slots(self, state: State) -> int:
        """The rows of `state` in all slots, as it was before this batch."""
        return sum(segment.live_rows for segment in self.context.segments.get(state.name, ()))

    def share_of_all_slots(self, state: State) -> float:
        """How many times the rows of `state` in this slot go into those of all slots that a row does not visit.

        Rows in slices of time are visited in every slot that has any, one copy of each. Of rows that are copied to
        segments each counts once.
        """
        if state.partitioning == BY_TIME:
            return 1.0
        owned = self._owned(state)
        everywhere = self.rows_in_all_slots(state)
        held = self.context.segments.get(state.name, ())
        here = sum(
            segment.rows_in(groups) // (1 if dealt is None else dealt[1])
            for groups, dealt in self._probed(state)
            for segment in held
        )
        if here:
            return everywhere / here / state.copies
        return len(owned.bounds) / max(1, count_groups(owned.groups))

    def hashes_in_all_slots(self, state: State) -> HashFilter:
        """Which hashes `state` may hold, in all slots, as it was before this batch."""
        held = [segment for segment in self.context.segments[state.name] if segment.groups]
        return HashFilter.of([hashes(piece.rows) for segment in held for piece in self._read(segment)])

    def _load(self, state: State) -> list[tuple[Segment, list[Indexed]]]:
        if state.name not in self._slices:
            owned = self._owned(state)
            loaded = []
            for segment in self.context.segments[state.name]:
                mine = segment.only(owned.groups)
                if mine.groups:
                    loaded.append((mine, self._slice_of(mine, state)))
            self._slices[state.name] = loaded
        return self._slices[state.name]

    def _slice_of(self, segment: Segment, state: State) -> list[Indexed]:
        """The rows of the groups that `segment` stands for, as the pieces that they were written in."""
        return slices_of(self._read(segment), segment, state, self._routing(state).bounds)

    def given(self, state: State) -> list[Indexed]:
        """The slot's slices of a state that its plan takes from another."""
        assert self.context.seeds is not None
        owned = self._owned(state)
        mine = (segment.only(owned.groups) for segment in self.context.seeds.given[state.name])
        return [piece for part in mine if part.groups for piece in self._slice_of(part, state)]

    def compact(self, state: State) -> None:
        """Write the segments of `state` down as few, with no new rows."""
        self.keep(state, (), choose_all)

    def keep(self, state: State, new: Runs, choose: ChooseMerges = choose_merges) -> None:
        """Add this batch's rows, which are this slot's own, to `state`, unless these are kept already."""
        if self.context.is_given(state):
            return
        until = self.context.horizons_us[state.name]
        new = [run for run in new if run.count]
        loaded = {segment.id: (segment, pieces) for segment, pieces in self._load(state)}
        now = self._now
        sides: dict[int, list[Candidate]] = {}
        for entry, _ in loaded.values():
            found = Candidate(entry.id, entry.live_rows, entry.live_bytes, entry.max_expiry_us)
            sides.setdefault(self.context.side(entry.delivery), []).append(found)
        if (entering := _entering(new, state, until, self.context.passed_ranks)).rows:
            sides.setdefault(self.context.side(now), []).append(entering)
        waiting = bool(new)
        for names in (names for candidates in sides.values() for names in choose(candidates, state, until)):
            held = [loaded[SegmentId(name)] for name in names if name]
            runs = [piece for _, pieces in held for piece in pieces]
            newest = max((entry.delivery for entry, _ in held), default=now)
            if entering.name in names:
                runs += new
                newest, waiting = now, False
            self._write(runs, state, until, newest)
            self.released += [(entry.id, entry.groups) for entry, _ in held]
        if waiting:
            self._write(new, state, until, now)

    @property
    def _now(self) -> int:
        """The number of the delivery that rows which come now are of."""
        return self.context.stamp.delivery or 0

    def _write(self, runs: Runs, state: State, until: int | None, newest: int) -> None:
        """Write the rows of `runs` that do not expire as one segment."""
        pieces = (self._unexpired(piece, state, until, newest) for piece in self._pieces(runs, state))
        segment = self.segments.write(pieces, state, self._written(state), self.context.stamp.batch)
        if segment is not None:
            self._add(replace(segment, delivery=newest))
        self._write_cooled(state, newest)

    def _pieces(self, runs: Runs, state: State) -> Iterator[pa.RecordBatch]:
        for piece in _merged_pieces(runs, state):
            yield piece
            self._settle()

    def _add(self, segment: Segment) -> None:
        self.added.append(segment)
        self.segments.sync_soon(segment)

    def _unexpired(self, rows: pa.RecordBatch, state: State, until: int | None, newest: int) -> pa.RecordBatch:
        """The rows that a future row may still need. The others go, or go cold where they are owed results."""
        alive = needed(rows, state, until, self.context.passed_ranks)
        if alive is None:
            return rows
        self._cool(take(rows, np.flatnonzero(~alive)), state, newest)
        return take(rows, np.flatnonzero(alive))

    def _cool(self, rows: pa.RecordBatch, state: State, newest: int) -> None:
        """Write expired rows of groups with a closed generation down as cold parts of their live generations."""
        mine = self._to_cool(state)
        if not mine.groups:
            return
        wanted = np.zeros(len(mine.bounds), dtype=bool)
        for low, high in mine.groups:
            wanted[low:high] = True
        owed = wanted[mine.bounds.groups_of(hashes(rows))]
        if owed.any():
            self._cooled.append(take(rows, np.flatnonzero(owed)))
        if is_piece(self._cooled):
            self._write_cooled(state, newest)

    def _write_cooled(self, state: State, newest: int) -> None:
        """Write what `_cool` has found so far."""
        runs, self._cooled = [Indexed.run(rows) for rows in self._cooled], []
        if runs:
            mine = self._to_cool(state)
            self._write_cold(merged_pieces(runs, state.schema), state, mine.groups, LIVE, newest)

    def _to_cool(self, state: State) -> Slice:
        """The groups whose rows this slot writes that have a closed generation."""
        mine = self._written(state)
        return replace(mine, groups=intersect_ranges(self.context.closed.get(state.name, ()), mine.groups))

    def _write_cold(
        self,
        rows: Iterable[pa.RecordBatch],
        state: State,
        groups: tuple[GroupRange, ...],
        generation: Generation,
        newest: int,
    ) -> None:
        """Write pieces as one segment of a cold generation."""
        segment = self.segments.write(rows, state, Slice(groups, self._routing(state).bounds), self.context.stamp.batch)
        if segment is not None:
            self._add(replace(segment, tier="cold", generation=generation, delivery=newest))

    def write_scratch(self, runs: Runs, state: State) -> Segment | None:
        """Write rows, if there are any, down for this batch alone: no version will list them."""
        segment = self.segments.write(self._pieces(runs, state), state, self._owned(state), self.context.stamp.batch)
        if segment is not None:
            self.scratch.append(segment.id)
        return segment

    def mine(self, merge: GroupsToMerge, state: State) -> GroupsToMerge | None:
        """What of a merge is this slot's to do."""
        owned = self._owned(state).groups
        kept = [place for place, group in enumerate(merge.groups) if has_group(owned, group)]
        if not kept:
            return None
        groups = tuple(merge.groups[place] for place in kept)
        parts = [segment.only(_as_ranges(groups)) for segment in merge.segments]
        since = tuple(merge.others_since_us[place] for place in kept)
        return replace(
            merge, groups=groups, segments=tuple(part for part in parts if part.groups), others_since_us=since
        )

    def closed_generations(self, merge: GroupsToMerge, states: Sequence[State]) -> list[list[Runs]]:
        """The rows of the closed generations to merge, the oldest first, for each input of the operator."""
        by_name = {state.name: state for state in states}
        found: dict[Generation, dict[StateName, list[Indexed]]] = {}
        for segment in merge.segments:
            runs = self._slice_of(segment, by_name[segment.state])
            found.setdefault(segment.generation, {}).setdefault(segment.state, []).extend(runs)
        return [[found[number].get(state.name, ()) for state in states] for number in sorted(found)]

    def unite(self, merge: GroupsToMerge, states: Sequence[State]) -> None:
        """Write the closed generations of merged groups down as one, the rows of all these groups together."""
        self.released += [(segment.id, segment.groups) for segment in merge.segments]
        groups = _as_ranges(merge.groups)
        for state in states:
            for runs, newest in self._by_side([part for part in merge.segments if part.state == state.name], state):
                rows = (self._still_owed(piece, state, merge) for piece in _merged_pieces(runs, state))
                self._write_cold(rows, state, groups, merge.into, newest)

    def _by_side(self, parts: Iterable[Segment], state: State) -> Iterator[tuple[list[Indexed], int]]:
        """The rows of segments that may be in one file, and the delivery of the newest of them."""
        sides: dict[int, list[Segment]] = {}
        for part in sorted(parts, key=lambda part: part.generation):
            sides.setdefault(self.context.side(part.delivery), []).append(part)
        for held in sides.values():
            runs = [run for part in held for run in self._slice_of(part, state)]
            yield runs, max(part.delivery for part in held)

    def _still_owed(self, rows: pa.RecordBatch, state: State, merge: GroupsToMerge) -> pa.RecordBatch:
        """The rows of merged groups that a future row, or one of another generation, may still join with."""
        until = self.context.horizons_us[state.name]
        if until is None or not state.expires or not rows.num_rows:
            return rows
        bounds = self._routing(state).bounds
        since = np.full(len(bounds), NEVER, dtype=np.int64)
        since[list(merge.groups)] = merge.others_since_us
        limit = np.minimum(until, since[bounds.groups_of(hashes(rows))])
        alive = expiry(rows, state) > limit
        for name, stream in state.ranks:
            if stream in self.context.counted:
                alive &= ~self.context.counted[stream].ended(int_column(rows, name), limit)
        return rows if alive.all() else take(rows, np.flatnonzero(alive))

    def unite_parts(self) -> None:
        """Write parts of cold generations down as one, as far as they are this slot's."""
        states = {state.name: state for state in self.context.stage.states}
        for parts in self.context.parts:
            state = states[parts.state]
            owned = self._owned(state)
            mine = [part for part in (segment.only(owned.groups) for segment in parts.segments) if part.groups]
            self.released += [(part.id, part.groups) for part in mine]
            groups = union_ranges(group for part in mine for group in part.groups)
            for runs, newest in self._by_side(mine, state):
                generation = parts.segments[0].generation
                self._write_cold(self._still_counted(runs, state), state, groups, generation, newest)

    def _still_counted(self, runs: Runs, state: State) -> Iterator[pa.RecordBatch]:
        """The rows of all runs in order, in pieces; of a group-by, those that count at boundaries to come."""
        until = self.context.horizons_us[state.name] if state.partials is not None else None
        for piece in _merged_pieces(runs, state):
            alive = needed(piece, state, until, {})
            yield piece if alive is None else take(piece, np.flatnonzero(alive))

    def _read(self, segment: Segment) -> Pieces:
        """The file of a segment, opened once for a task."""
        if segment.file not in self._files:
            self._files[segment.file] = self.segments.read(segment)
        return self._files[segment.file]


def _merged_pieces(runs: Runs, state: State) -> Iterator[pa.RecordBatch]:
    """The rows of all runs in order, in pieces, with one for those that are to be combined.

    Runs are of one generation, and of one side of where a track began: whoever meets one row of them meets all.
    """
    for piece in merged_pieces(runs, state.schema):
        if state.partials is not None:
            yield combine(piece, state.partials)
        else:
            yield piece if state.weighing is None else combine_alike(piece, state.weighing)


def slices_of(pieces: Pieces, segment: Segment, state: State, bounds: Bounds) -> list[Indexed]:
    """Of the pieces of a file, the rows of the groups that an entry stands for."""
    stretches = _stretches(segment.groups, bounds)
    if len(pieces) > 1:  # another slot may have all of the groups that a piece has rows of
        pieces = tuple(piece for piece in pieces if piece.reaches(stretches.low, stretches.high))
    return [fitted(piece, state).among(stretches) for piece in pieces]


def _entering(new: Runs, state: State, until: int | None, passed: Mapping[str, int]) -> Candidate:
    """The rows of this batch as one of those that compaction chooses among, less those that have expired."""
    rows = size = 0
    newest = LONG_AGO
    for run in new:
        ends = expiry(run.part, state)
        mask = needed(run.part, state, until, passed)
        alive = len(ends) if mask is None else int(np.count_nonzero(mask))
        rows += alive
        size += int(run.nbytes * alive / len(ends))
        newest = max(newest, int(np.max(ends)))
    return Candidate("", rows, size, newest)


def fitted(segment: Indexed, state: State) -> Indexed:
    """The rows of a file with the columns of `state`: what rows carry for bookkeeping may differ from plan to plan."""
    names = segment.rows.schema.names
    if names == state.schema.names:
        return segment
    arrays = [
        segment.rows.column(field.name) if field.name in names else pa.nulls(segment.rows.num_rows, field.type)
        for field in state.schema
    ]
    return replace(segment, rows=pa.RecordBatch.from_arrays(arrays, schema=state.schema))


@lru_cache(maxsize=1_000)
def _stretches(groups: tuple[GroupRange, ...], bounds: Bounds) -> Stretches:
    """The stretches of the hash that groups are. Many segments have the same ones, batch after batch."""
    return Stretches.of([(bounds.hash_start(low), bounds.hash_start(high)) for low, high in groups])


def _group_of(share: Share) -> GroupRange:
    return share.group, share.group + 1


def _as_ranges(groups: Iterable[int]) -> tuple[GroupRange, ...]:
    return union_ranges((group, group + 1) for group in groups)
