"""One task: one stage of a plan, for one slot, for one batch.

Takes the rows that were sent to the slot, joins them with each other and with the slot's segments, hands the results
on (to the next stage, or to a result file), and writes the new rows down as segments, merging segments where
compaction asks for it. Holds nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet import faults
from watersmeet.kernel.evaluate import evaluate
from watersmeet.kernel.prepare import cut, keyed
from watersmeet.kernel.rows import concat, hash_slice, merge_sorted, sort_by_hash, take
from watersmeet.kernel.step import join_step
from watersmeet.kernel.window import expiry
from watersmeet.model.routing import GroupRange
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import HASH_FIELD, NodeInput, Stage, State
from watersmeet.plan.query import Query
from watersmeet.runtime.batch import BatchContext, TaskReport
from watersmeet.state.compaction import Candidate, choose_merges
from watersmeet.state.segment_files import Segments


class ResultWriter(Protocol):
    """Where a task puts its part of the answer."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, batch: int, slot: int
    ) -> tuple[list[str], int]:
        """Write the rows down; the names of the files made, and the number of rows."""


@dataclass(frozen=True)
class Sent:
    """Rows on their way to a port of a later stage."""

    slot: int
    port: int
    rows: pa.RecordBatch


def run_stage(
    context: BatchContext,
    stage: Stage,
    slot: int,
    arrived: Mapping[int, Sequence[pa.RecordBatch]],
    segments: Segments,
    results: ResultWriter,
) -> tuple[list[Sent], TaskReport]:
    """Run `stage` for `slot` on the rows that `arrived` at its ports."""
    faults.reach("in-task")
    task = _Task(context, slot, segments)
    outputs: dict[str, pa.RecordBatch] = {}
    for node in stage.nodes[:-1]:
        new = task.new_rows(node.inputs, arrived, outputs)
        schema = pa.schema([(HASH_FIELD, pa.uint64()), *node.out_fields])
        chunks = [chunk for chunk in join_step(node, new, task.kept_rows(node.inputs)) if chunk.num_rows]
        outputs[node.id] = sort_by_hash(concat(chunks, schema))
        task.count(node.id, new, outputs[node.id].num_rows)
        task.keep(node.inputs, new)
    root = stage.nodes[-1]
    new = task.new_rows(root.inputs, arrived, outputs)
    answer = join_step(root, new, task.kept_rows(root.inputs))
    sent: list[Sent] = []
    names: list[str] = []
    if stage.exchange is None:
        select = _selected(context.plan.query, answer)
        names, rows = results.write(select, context.plan.query.output_schema, context.batch, slot)
    else:
        rows = 0
        for chunk in answer:
            rows += chunk.num_rows
            onward = keyed(chunk, stage.exchange.key_fields, stage.exchange.fields)
            sent += [Sent(to, stage.exchange.port, piece) for to, piece in cut(onward, context.routing)]
    task.count(root.id, new, rows)
    task.keep(root.inputs, new)
    report = TaskReport(
        added=tuple(task.added),
        released=tuple(task.released),
        results=tuple(names),
        rows_out=rows if stage.exchange is None else 0,
        nodes=task.counts,
    )
    return sent, report


def _selected(query: Query, chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = query.output_schema
    for chunk in chunks:
        if chunk.num_rows:
            arrays = [evaluate(column.expr, chunk) for column in query.select]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Task:
    """The state side of a task: reads the slot's slices of segments, writes and merges segments."""

    def __init__(self, context: BatchContext, slot: int, segments: Segments) -> None:
        self.context = context
        self.segments = segments
        self.owned = context.routing.owned_by(slot)
        self.added: list[Segment] = []
        self.released: list[tuple[str, tuple[GroupRange, ...]]] = []
        self.counts: dict[str, dict[str, int]] = {}
        self._slices: dict[str, list[tuple[Segment, list[pa.RecordBatch]]]] = {}

    def new_rows(
        self,
        inputs: Sequence[NodeInput],
        arrived: Mapping[int, Sequence[pa.RecordBatch]],
        outputs: Mapping[str, pa.RecordBatch],
    ) -> list[pa.RecordBatch]:
        """This batch's rows of each input, sorted by hash."""
        return [
            outputs[entry.source]
            if entry.port is None
            else merge_sorted(arrived.get(entry.port, ()), entry.state.schema)
            for entry in inputs
        ]

    def kept_rows(self, inputs: Sequence[NodeInput]) -> list[list[pa.RecordBatch]]:
        """The slot's slices of the segments of each input."""
        return [[piece for _, pieces in self._load(entry.state) for piece in pieces] for entry in inputs]

    def _load(self, state: State) -> list[tuple[Segment, list[pa.RecordBatch]]]:
        if state.name not in self._slices:
            loaded = []
            for segment in self.context.segments[state.name]:
                mine = segment.only(self.owned)
                if mine.groups:
                    whole = self.segments.read(segment)
                    ranges = map(self.context.routing.hash_range, mine.groups)
                    loaded.append((mine, [hash_slice(whole, low, high) for low, high in ranges]))
            self._slices[state.name] = loaded
        return self._slices[state.name]

    def count(self, node: str, new: Sequence[pa.RecordBatch], rows_out: int) -> None:
        self.counts[node] = {"rows_in": sum(batch.num_rows for batch in new), "rows_out": rows_out}

    def keep(self, inputs: Sequence[NodeInput], new: Sequence[pa.RecordBatch]) -> None:
        """Write this batch's rows down as segments, and merge segments as compaction asks."""
        for entry, rows in zip(inputs, new, strict=True):
            self._keep(entry.state, rows)

    def _keep(self, state: State, rows: pa.RecordBatch) -> None:
        until = self.context.horizon(state)
        rows = _unexpired(rows, state, until)
        loaded = {segment.id: (segment, pieces) for segment, pieces in self._load(state)}
        candidates = [Candidate(s.id, s.live_rows, s.live_bytes, s.max_expiry) for s, _ in loaded.values()]
        if rows.num_rows:
            newest = int(np.max(expiry(rows, state)))
            candidates.append(Candidate("", rows.num_rows, rows.nbytes, newest))
        waiting = rows.num_rows > 0
        for names in choose_merges(candidates, state, until):
            pieces = [piece for name in names if name for piece in loaded[name][1]]
            if "" in names:
                pieces.append(rows)
                waiting = False
            merged = _unexpired(merge_sorted(pieces, state.schema), state, until)
            self._write(merged, state)
            self.released += [(name, loaded[name][0].groups) for name in names if name]
        if waiting:
            self._write(rows, state)

    def _write(self, rows: pa.RecordBatch, state: State) -> None:
        if rows.num_rows:
            self.added.append(self.segments.write(rows, state, self.owned, self.context.batch))


def _unexpired(rows: pa.RecordBatch, state: State, until: int | None) -> pa.RecordBatch:
    """The rows that a future row may still need."""
    if until is None or not state.windows or not rows.num_rows:
        return rows
    alive = expiry(rows, state) > until
    return rows if alive.all() else take(rows, np.flatnonzero(alive))
