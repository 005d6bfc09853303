"""Makes the states of a plan that is to take over, from those of the plan that answers.

The new plan runs its own stages, with the rows that are kept as if they had come in one batch: what states hold is
joined bottom-up by the joins that batches use, with their windows, and written down as segments. Nothing is emitted:
the joins whose results nobody keeps, the last one of all, do not run. Rows go through the tasks in pieces, as those of
a batch do, so that what this takes in memory does not grow with the state.

Reads segments and writes new ones; the commit that makes them part of the state is the driver's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from watersmeet.kernel.pieces import merged_pieces
from watersmeet.kernel.prepare import cut, keyed
from watersmeet.model.ids import StateName
from watersmeet.model.placement import Placement
from watersmeet.model.segments import Segment
from watersmeet.plan.matching import FedPort, Matching
from watersmeet.plan.physical import PhysicalPlan, Stage
from watersmeet.runtime.context import Seeds, StageContext, watermarks_us
from watersmeet.runtime.stages.slot_state import slices_of
from watersmeet.state.expiry import horizon_us
from watersmeet.state.manifest import Manifest
from watersmeet.state.output_names import Stamp
from watersmeet.state.segment_files import Segments


@dataclass(frozen=True)
class SeedPiece:
    """A segment whose rows are sent to ports of the new plan."""

    segment: Segment
    ports: tuple[FedPort, ...]


@dataclass(frozen=True)
class Seeding:
    """The states of `plan` that are to be made, from what `manifest` has."""

    plan: PhysicalPlan
    manifest: Manifest
    matching: Matching

    @property
    def placement(self) -> Placement:
        return self.manifest.placement

    @cached_property
    def pieces(self) -> tuple[SeedPiece, ...]:
        """What is read, segment by segment."""
        sources = {port.source.name: port.source for port in self.matching.ports}
        return tuple(
            SeedPiece(segment, tuple(port for port in self.matching.ports if port.source.name == name))
            for name in sources
            for segment in self.manifest.segments.of_state(name)
        )

    @cached_property
    def _given(self) -> Mapping[StateName, tuple[Segment, ...]]:
        return {name: tuple(self.manifest.segments.of_state(name)) for name in self.matching.kept}

    def for_stage(self, stage: Stage) -> StageContext:
        marks = watermarks_us(self.plan, self.manifest)
        manifest = self.manifest
        return StageContext(
            stage=stage,
            stamp=Stamp(manifest.last_batch, manifest.next_delivery, manifest.id, manifest.epoch),
            round=0,
            placement=self.placement,
            port_stage=self.plan.port_stage,
            segments={state.name: () for state in stage.reads},
            horizons_us={state.name: horizon_us(self.plan, state, marks, {}) for state in stage.states},
            closed={},
            seeds=Seeds(
                {state.name: self._given[state.name] for state in stage.states if state.name in self._given},
                self.matching.joins,
            ),
        )


def seed_rows(piece: SeedPiece, placement: Placement, segments: Segments) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """The rows of a piece for each of its ports: slot, port and rows."""
    source = piece.ports[0].source
    runs = slices_of(segments.read(piece.segment), piece.segment, source, placement.of(source.partitioning).bounds)
    for rows in merged_pieces(runs, source.schema):
        for port in piece.ports:
            state = port.leaf.state
            for slot, part in cut(keyed(rows, state.key_fields, state.fields), placement.of(state.partitioning)):
                yield slot, port.leaf.port, part
