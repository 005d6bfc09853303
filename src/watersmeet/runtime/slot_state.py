"""What a slot keeps: reads the slot's slices of segments, writes new rows down, merges segments as compaction asks.

One `SlotState` serves one task. It collects what the task wrote for the task's report, and holds nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.look_ahead import HashFilter
from watersmeet.kernel.rows import hashes, merge_sorted, take
from watersmeet.kernel.window import expiry
from watersmeet.model.routing import GroupRange, Slice, count_groups, groups_of, intersect_ranges, union_ranges
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import State
from watersmeet.runtime.batch import BatchContext, GroupMerge
from watersmeet.state.compaction import Candidate, choose_merges
from watersmeet.state.segment_files import Segments
from watersmeet.state.updates import UNITED


class SlotState:
    def __init__(self, context: BatchContext, slot: int, segments: Segments) -> None:
        self.context = context
        self.segments = segments
        self.owned = Slice(context.routing.owned_by(slot), context.routing.groups)
        self.added: list[Segment] = []
        self.released: list[tuple[str, tuple[GroupRange, ...]]] = []
        self._files: dict[str, Indexed] = {}
        self._slices: dict[str, list[tuple[Segment, list[Indexed]]]] = {}

    def kept(self, state: State) -> list[Indexed]:
        """The slot's slices of the segments of `state`, as they were before this batch."""
        return [piece for _, pieces in self._load(state) for piece in pieces]

    def rows_held(self, state: State) -> int:
        """The rows of `state` in all slots, as it was before this batch."""
        return sum(segment.live_rows for segment in self.context.segments.get(state.name, ()))

    def rows_everywhere(self, state: State) -> float:
        """How many times the rows of `state` in this slot go into those of all slots."""
        held = self.context.segments.get(state.name, ())
        everywhere = self.rows_held(state)
        here = sum(segment.rows_in(self.owned.groups) for segment in held)
        if here:
            return everywhere / here
        return self.owned.total / max(1, count_groups(self.owned.groups))

    def hashes_everywhere(self, state: State) -> HashFilter:
        """Which hashes `state` may hold, in all slots, as it was before this batch."""
        held = [segment for segment in self.context.segments[state.name] if segment.groups]
        return HashFilter.of([hashes(self._read(segment).rows) for segment in held])

    def _load(self, state: State) -> list[tuple[Segment, list[Indexed]]]:
        if state.name not in self._slices:
            loaded = []
            for segment in self.context.segments[state.name]:
                mine = segment.only(self.owned.groups)
                if mine.groups:
                    whole = self._read(segment)
                    ranges = map(self.context.routing.hash_range, mine.groups)
                    loaded.append((mine, [whole.within(low, high) for low, high in ranges]))
            self._slices[state.name] = loaded
        return self._slices[state.name]

    def keep(self, state: State, rows: pa.RecordBatch) -> None:
        """Add this batch's rows to `state`."""
        until = self.context.horizon(state)
        rows = self._unexpired(rows, state, until)
        loaded = {segment.id: (segment, pieces) for segment, pieces in self._load(state)}
        candidates = [Candidate(s.id, s.live_rows, s.live_bytes, s.max_expiry) for s, _ in loaded.values()]
        if rows.num_rows:
            newest = int(np.max(expiry(rows, state)))
            candidates.append(Candidate("", rows.num_rows, rows.nbytes, newest))
        waiting = rows.num_rows > 0
        for names in choose_merges(candidates, state, until):
            pieces = [piece.part for name in names if name for piece in loaded[name][1]]
            if "" in names:
                pieces.append(rows)
                waiting = False
            merged = self._unexpired(merge_sorted(pieces, state.schema), state, until)
            self._write(merged, state)
            self.released += [(name, loaded[name][0].groups) for name in names if name]
        if waiting:
            self._write(rows, state)

    def _write(self, rows: pa.RecordBatch, state: State) -> None:
        if rows.num_rows:
            self.added.append(self.segments.write(rows, state, self.owned, self.context.batch))

    def _unexpired(self, rows: pa.RecordBatch, state: State, until: int | None) -> pa.RecordBatch:
        """The rows that a future row may still need. The others go, or go cold where they are owed results."""
        if until is None or not state.windows or not rows.num_rows:
            return rows
        alive = expiry(rows, state) > until
        if alive.all():
            return rows
        self._cool(take(rows, np.flatnonzero(~alive)), state)
        return take(rows, np.flatnonzero(alive))

    def _cool(self, rows: pa.RecordBatch, state: State) -> None:
        """Write expired rows of groups with a closed generation down as cold parts of their live generations."""
        operator = self.context.plan.operator_of.get(state.name)
        closed = self.context.closed.get(operator, {}) if operator is not None else {}
        if not closed:
            return
        total = self.owned.total
        numbers = np.zeros(total, dtype=np.int64)  # 0: the group has no closed generation
        numbers[list(closed)] = list(closed.values())
        number_of_row = numbers[groups_of(hashes(rows), total)]
        for number in np.unique(number_of_row[number_of_row > 0]).tolist():
            part = take(rows, np.flatnonzero(number_of_row == number))
            groups = union_ranges((group, group + 1) for group, count in closed.items() if count == number)
            mine = Slice(intersect_ranges(groups, self.owned.groups), total)
            segment = self.segments.write(part, state, mine, self.context.batch)
            self.added.append(replace(segment, tier="cold", generation=number))

    def closed_generations(self, merges: Sequence[GroupMerge], states: Sequence[State]) -> list[list[pa.RecordBatch]]:
        """The rows of the closed generations of groups, for each input of the operator: first the oldest generation of
        every group, then the second oldest of every group, and so on. Groups have no key in common.
        """
        ranks: list[dict[str, list[pa.RecordBatch]]] = []
        for merge in merges:
            low, high = self.context.routing.hash_range((merge.group, merge.group + 1))
            numbers = sorted({segment.generation for segment in merge.segments})
            ranks += [{} for _ in range(len(numbers) - len(ranks))]
            for segment in merge.segments:
                rows = self._read(segment).within(low, high).part
                ranks[numbers.index(segment.generation)].setdefault(segment.state, []).append(rows)
        return [[merge_sorted(rank.get(state.name, ()), state.schema) for state in states] for rank in ranks]

    def unite(
        self, merges: Sequence[GroupMerge], states: Sequence[State], generations: Sequence[Sequence[pa.RecordBatch]]
    ) -> None:
        """Write the closed generations of merged groups down as one, the rows of all these groups together."""
        gone: dict[str, list[GroupRange]] = {}
        for merge in merges:
            for segment in merge.segments:
                gone.setdefault(segment.id, []).extend(segment.groups)
        self.released += [(name, union_ranges(groups)) for name, groups in gone.items()]
        groups = Slice(union_ranges((merge.group, merge.group + 1) for merge in merges), self.owned.total)
        for place, state in enumerate(states):
            rows = merge_sorted([generation[place] for generation in generations], state.schema)
            if rows.num_rows:
                segment = self.segments.write(rows, state, groups, self.context.batch)
                self.added.append(replace(segment, tier="cold", generation=UNITED))

    def _read(self, segment: Segment) -> Indexed:
        """The file of a segment, opened once for a task."""
        if segment.file not in self._files:
            self._files[segment.file] = self.segments.read(segment)
        return self._files[segment.file]
