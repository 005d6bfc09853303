"""Makes the states of a plan that is to take over, from those of the plan that answers.

The new plan runs its own stages on rows that the other keeps, as if they came in a batch: they are joined bottom-up by
the joins that batches use, with their windows, with each other and with what was taken in before, and what is made is
written down as segments. Nothing is emitted: the joins whose results nobody keeps, the last one of all, do not run.
Rows go through the tasks in pieces, as those of a batch do, so that what this takes in memory does not grow with the
state.

Which rows are taken in, and in how many steps, makes no difference: a step joins what is new with itself and with all
that came before it, so that each combination is made once, in the step that takes in the last of its rows.

Reads segments and writes new ones; the commit that makes them part of the state is the driver's.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet.adapt.policies.migrate.road import FULL
from watersmeet.kernel.copying import home_rows
from watersmeet.kernel.evaluate import passes, satisfied
from watersmeet.kernel.pieces import merged_pieces
from watersmeet.kernel.prepare import keyed
from watersmeet.kernel.rows import take
from watersmeet.kernel.to_slots import to_slots
from watersmeet.kernel.weigh import weigh
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import StateName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, Groups
from watersmeet.model.segments import Segment
from watersmeet.plan.matching import FedPort, Matching
from watersmeet.plan.physical import PhysicalPlan, Stage, State
from watersmeet.runtime.context import Seeds, StageContext
from watersmeet.runtime.stages.slot_state import slices_of
from watersmeet.runtime.watermarks import watermarks_us
from watersmeet.state.expiry import horizon_us
from watersmeet.state.manifest import Manifest, Warming
from watersmeet.state.output_names import Stamp
from watersmeet.state.segment_files import Segments


@dataclass(frozen=True)
class SeedPiece:
    """A segment whose rows are sent to ports of the new plan."""

    segment: Segment
    ports: tuple[FedPort, ...]


@dataclass(frozen=True)
class Seeding:
    """What a track that warms up takes in next of what `manifest` has: rows up to the delivery `upto`.

    With `cursor`, those of a round that ends with these, in groups up to there alone. What it takes from is one shape
    of the plan that answers, which may be of some groups alone.
    """

    plan: PhysicalPlan
    manifest: Manifest
    matching: Matching
    warming: Warming
    upto: int
    cursor: int | None = None
    within: Groups | None = None

    @property
    def placement(self) -> Placement:
        return self.manifest.placement

    @cached_property
    def pieces(self) -> tuple[SeedPiece, ...]:
        """What is read, segment by segment, and sent to ports."""
        sources = {port.source.name: port.source for port in self.matching.ports}
        return tuple(
            SeedPiece(segment, tuple(port for port in self.matching.ports if port.source.name == name))
            for name, source in sources.items()
            for segment in self._fresh(source)
        )

    @property
    def rows(self) -> int:
        """That are taken in, of inputs and of states that both plans have."""
        given = [segment for state in self._given.values() for segment in self._fresh(state)]
        return sum(segment.live_rows for segment in (*given, *(piece.segment for piece in self.pieces)))

    @cached_property
    def _given(self) -> Mapping[StateName, State]:
        """The states of both plans that a join which runs reads."""
        return {name: self.plan.states[name] for name in self.matching.kept}

    def _fresh(self, state: State) -> list[Segment]:
        """What of a state of the answering plan is new to the track."""
        seen, segments = self.warming, self._held(state)
        begun, found = seen.cursor if seen.in_round else 0, list[Segment]()
        if self.cursor is not None:
            of_round = self._groups(state, begun, self.cursor)
            found += [segment.only(of_round) for segment in segments if seen.done < segment.delivery <= self.upto]
        else:
            rest = self._groups(state, begun, FULL)
            found += [segment.only(rest) for segment in segments if seen.done < segment.delivery <= seen.start]
            after = max(seen.start, seen.done)
            found += [segment for segment in segments if after < segment.delivery <= self.upto]
        return [segment for segment in found if segment.groups and segment.live_rows]

    def _seen(self, state: State) -> list[Segment]:
        """What of a state of the answering plan the track has taken in."""
        seen, segments = self.warming, self._held(state)
        found = [segment for segment in segments if seen.since < segment.delivery <= seen.done]
        if seen.in_round:
            groups = self._groups(state, 0, seen.cursor)
            found += [segment.only(groups) for segment in segments if seen.done < segment.delivery <= seen.start]
        return [segment for segment in found if segment.groups and segment.live_rows]

    def _groups(self, state: State, low: int, high: int) -> tuple[GroupRange, ...]:
        """The groups that begin in these of `FULL` stretches of the hash."""
        first, last = (groups_before(self.placement.of(state.partitioning).bounds, at) for at in (low, high))
        return ((first, last),) if first < last else ()

    def _kept(self, state: State) -> tuple[Segment, ...]:
        """What a state of the new plan has, before what is taken in now."""
        if state.name in self._given:
            return tuple(self._seen(state))
        return tuple(self._held(state)) if state.name in self.plan.states else ()

    def _held(self, state: State) -> list[Segment]:
        """All that there is of a state, in the groups that this is about."""
        held = self.manifest.segments.of_state(state.name)
        if self.within is None:
            return list(held)
        return [part for segment in held if (part := segment.only(self.within)).groups and part.live_rows]

    def _met(self, stage: Stage, state: State) -> tuple[Segment, ...]:
        """What of it the rows may meet that a stage takes in now.

        Where all that arrives is taken in by parts of one hash, rows of a part meet those of the same part alone.
        """
        kept, seen = self._kept(state), self.warming
        one_hash = len({other.partitioning for other in stage.states}) == 1 and not self.plan.reaches
        by_parts = one_hash and all(arriving.name in self._given for arriving in stage.ports.values())
        if self.cursor is None or not by_parts or state.name not in self._given:
            return kept
        part = self._groups(state, seen.cursor if seen.in_round else 0, self.cursor)
        return tuple(found for found in (segment.only(part) for segment in kept) if found.groups and found.live_rows)

    def for_stage(self, stage: Stage) -> StageContext:
        marks = watermarks_us(self.plan, self.manifest)
        manifest = self.manifest
        return StageContext(
            stage=stage,
            stamp=Stamp(manifest.last_batch, manifest.next_delivery - 1, manifest.id, manifest.epoch),
            round=0,
            placement=self.placement,
            port_stage=self.plan.port_stage,
            segments={state.name: self._met(stage, state) for state in stage.reads},
            # Nothing that is owed holds these back: the new plan emits nothing that follows from it.
            horizons_us={state.name: horizon_us(self.plan, state, marks, {}) for state in stage.states},
            closed={},
            seeds=Seeds(
                {state.name: tuple(self._fresh(state)) for state in stage.states if state.name in self._given},
                self.matching.joins,
            ),
            within=self.within,
        )


def groups_before(bounds: Bounds, cursor: int) -> int:
    """How many groups begin before a stretch of the hash, of `FULL`.

    >>> groups_before(Bounds(4), 0), groups_before(Bounds(4), 1), groups_before(Bounds(4), FULL)
    (0, 1, 4)
    """
    return bisect.bisect_left(range(len(bounds)), cursor << 48, key=bounds.hash_start)


def seed_rows(piece: SeedPiece, placement: Placement, segments: Segments) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """The rows of a piece for each of its ports, each once however many copies there are: slot, port and rows."""
    source = piece.ports[0].source
    runs = slices_of(segments.read(piece.segment), piece.segment, source, placement.of(source.partitioning).bounds)
    for rows in (home_rows(rows, source) for rows in merged_pieces(runs, source.schema)):
        for port in piece.ports:
            state = port.state
            wanted = weighed(stuffed(filtered(rows, port), port), port)
            ready = keyed(wanted, state.key, state.fields, copied=state.copied)
            routing = placement.of(state.partitioning)
            yield from ((slot, port.port, part) for slot, part in to_slots(ready, routing, port.reach))


def weighed(rows: pa.RecordBatch, port: FedPort) -> pa.RecordBatch:
    """The rows as weighed ones, where those of a port are and these are not yet."""
    weighing = port.state.weighing
    if weighing is None or port.source.weighing is not None:
        return rows
    return weigh(rows, weighing, port.state.fields)


def filtered(rows: pa.RecordBatch, port: FedPort) -> pa.RecordBatch:
    """The rows that pass the filters of a port that they have not been through."""
    for expr, passed in port.filters:
        known = passed in rows.schema.names  # the filter stood above a join, and some may have passed it before that
        mask = passes(expr, passed, rows) if known else satisfied(expr, rows)
        if not mask.all():
            rows = take(rows, np.flatnonzero(mask))
    return rows


def stuffed(rows: pa.RecordBatch, port: FedPort) -> pa.RecordBatch:
    """The rows with all columns of a port: which filters they have passed, and NULL for what these alone needed."""
    for name, passed in port.passed.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(passed), rows.num_rows))
    for name, kind in port.stuffed:
        rows = rows.append_column(name, pa.nulls(rows.num_rows, kind))
    return rows
