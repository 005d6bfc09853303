"""One task at a time: a slot's part of a batch, with its segments in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from small_plans import GROUPS, SECOND, chain_plan, state_of
from watersmeet.kernel.hashing import hash_keys
from watersmeet.kernel.rows import concat, hashes, sort_by_hash
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import LIVE, Generation, Partitioning, StateName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, Slice
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import HASH_FIELD, Stage, State
from watersmeet.runtime.context import GroupsToMerge, PartsToUnite, StageContext
from watersmeet.runtime.stages.slot_state import SlotState
from watersmeet.state.output_names import Stamp
from watersmeet.state.segment_files import MemorySegments

PLAN = chain_plan()
LOWER, UPPER = PLAN.stages
A, B = (PLAN.states[state_of(PLAN, name)] for name in "AB")
K0 = A.partitioning
EVEN = Bounds(GROUPS)

Pair = tuple[int, float]  # of a key and a second


def batch(state: State, rows: Iterable[Pair]) -> pa.RecordBatch:
    """Rows of the state of one stream, by key and second."""
    pairs = list(rows)
    keys = pa.array([key for key, _ in pairs], pa.int64())
    times = pa.array([int(second * SECOND) for _, second in pairs], pa.int64())
    columns: dict[str, Any] = {HASH_FIELD: pa.array(hash_keys([keys]))}
    for name, _ in state.fields:
        columns[name] = times if name.startswith("@") else keys
    found = pa.RecordBatch.from_arrays([columns[entry.name] for entry in state.schema], schema=state.schema)
    return sort_by_hash(found)


def pairs(state: State, rows: pa.RecordBatch) -> list[Pair]:
    """The keys and seconds of rows."""
    keys = rows.column(state.key.columns[0]).to_pylist()
    times = rows.column(state.time_fields[0]).to_pylist()
    return sorted((key, time / SECOND) for key, time in zip(keys, times, strict=True))


def hash_of(key: int) -> int:
    return int(hash_keys([pa.array([key], pa.int64())])[0])


def group_of(key: int, bounds: Bounds = EVEN) -> int:
    return int(bounds.groups_of(np.array([hash_of(key)], dtype=np.uint64))[0])


@dataclass
class Task:
    """What a slot has, and what it is told."""

    stage: Stage = LOWER
    slots: int = 1
    owners: tuple[int, ...] | None = None
    cuts: tuple[int, ...] = ()  # of the groups of A and B
    segments: MemorySegments = field(default_factory=MemorySegments)
    active: dict[StateName, list[Segment]] = field(default_factory=dict)
    horizon: float | None = None  # in seconds
    closed: dict[StateName, tuple[GroupRange, ...]] = field(default_factory=dict)
    merges: tuple[GroupsToMerge, ...] = ()
    parts: tuple[PartsToUnite, ...] = ()
    round: int = 0

    def write(
        self,
        state: State,
        rows: Sequence[Pair],
        generation: int | None = None,
        groups: tuple[GroupRange, ...] | None = None,
    ) -> Segment:
        """A segment of all groups that is there before the batch, active unless it has a generation."""
        bounds = self.placement.of(state.partitioning).bounds
        made = self.segments.write([batch(state, rows)], state, Slice(groups or ((0, len(bounds)),), bounds), 0)
        assert made is not None
        if generation is None:
            self.active.setdefault(state.name, []).append(made)
            return made
        return replace(made, tier="cold", generation=Generation(generation))

    @property
    def placement(self) -> Placement:
        owners = {} if self.owners is None else {K0: self.owners}
        return Placement(self.slots, GROUPS, owners, {K0: self.cuts} if self.cuts else {})

    @property
    def context(self) -> StageContext:
        until = None if self.horizon is None else int(self.horizon * SECOND)
        return StageContext(
            stage=self.stage,
            stamp=Stamp(3, 0, "9f86d081884c", 1),
            round=self.round,
            placement=self.placement,
            port_stage=PLAN.port_stage,
            segments={state.name: tuple(self.active.get(state.name, ())) for state in self.stage.reads},
            horizons_us=dict.fromkeys([state.name for state in self.stage.states], until),
            closed=self.closed,
            merges=self.merges,
            parts=self.parts,
            query=None if self.stage.exchanges else PLAN.query,
        )

    def state(self, slot: int = 0) -> SlotState:
        return SlotState(self.context, slot, self.segments)

    def read(self, segment: Segment, state: State) -> list[Pair]:
        """The rows that a segment still stands for."""
        rows = concat([piece.rows for piece in self.segments.read(segment)], state.schema)
        bounds = self.placement.of(state.partitioning).bounds
        held = np.isin(bounds.groups_of(hashes(rows)), list(segment.rows_by_group))
        return pairs(state, rows.filter(pa.array(held)))


__all__ = ["K0", "LIVE", "LOWER", "PLAN", "UPPER", "A", "B", "Partitioning", "Task", "batch", "group_of", "pairs"]
