"""How rows of a stream enter a plan, the same on both runtimes: what a chunk of them becomes, for which slot and port.

In this order: rows that are late or ahead are split off, the others wait at the gate where there is one, pass the
filters, get their computed columns, are hashed, sorted and cut by slot. The runtime carries what comes out to the tasks
of the slots.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from watersmeet.kernel.prepare import SplitRows, entering, of_port
from watersmeet.kernel.tally import FilterTally
from watersmeet.kernel.to_slots import to_slots
from watersmeet.model.expressions import describe
from watersmeet.model.ids import StateName
from watersmeet.runtime.context import SourceContext
from watersmeet.runtime.gate import WaitingPiece, hold
from watersmeet.runtime.late_rows import split_stream
from watersmeet.runtime.reports import StreamReport, TaskReport, with_waiting
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import Segments


class Routed(NamedTuple):
    """Rows on their way to a port, at the task of a slot."""

    slot: int
    port: int
    rows: pa.RecordBatch


def enter_stream(
    chunk: pa.RecordBatch, stream: str, context: SourceContext, late: Folder | None, segments: Segments, place: int
) -> tuple[StreamReport, list[Routed]]:
    """Return what was seen of a chunk of a stream, and its rows for each slot and port.

    Late rows go to the folder `late`, if there is one, and rows that wait into a segment, the one at this `place` among
    those of the batch and stream.
    """
    split, report = split_stream(chunk, stream, context, late)
    if context.gate is not None:
        split, rest = context.gate.admit(split, stream)
        report = with_waiting(report, hold(rest, stream, segments, context.stamp, place))
    tally = FilterTally(time.perf_counter)
    routed = list(_routed(split, stream, context, tally))
    return replace(report, filters=tally.counts), routed


def enter_waiting(piece: WaitingPiece, context: SourceContext, segments: Segments) -> tuple[TaskReport, list[Routed]]:
    """Return what filters did with rows that have waited at the gate, and these rows for each slot and port."""
    assert context.gate is not None
    tally = FilterTally(time.perf_counter)
    routed = list(_routed(context.gate.let_in(piece, segments), piece.stream, context, tally))
    return TaskReport(filters=tally.counts), routed


def _routed(split: SplitRows, stream: str, context: SourceContext, tally: FilterTally) -> Iterator[Routed]:
    """Yield rows that may join for each port of their stream. `tally` is told what filters did."""
    computed: dict[tuple[object, ...], pa.RecordBatch] = {}
    prepared: dict[tuple[str, StateName], pa.RecordBatch] = {}
    for leaf in context.leaves:
        if leaf.stream == stream:
            # Shapes that differ mostly keep the same of an input, and each gets the rows of its groups.
            alike = (leaf.alias, leaf.state.name)
            if alike not in prepared:
                # An input that is kept on several keys is filtered and computed once.
                made = (leaf.alias, *map(describe, leaf.filters), *(name for name, _ in leaf.computed))
                if made not in computed:
                    computed[made] = entering(split, leaf, tally)
                prepared[alike] = of_port(computed[made], leaf)
            routing = context.placement.of(leaf.state.partitioning)
            shares = context.shares.get(context.port_stage[leaf.port], ())
            aliases = leaf.state.aliases
            for slot, rows in to_slots(prepared[alike], routing, leaf.reach, shares, aliases, leaf.within):
                yield Routed(slot, leaf.port, rows)
