"""Merges in the tasks of a batch: emits what closed generations of groups owe each other, and unites them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import pyarrow as pa

from watersmeet import faults
from watersmeet.kernel import pieces
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.pieces import HashRange, Runs, merged, piece_ranges
from watersmeet.kernel.step import merge_step
from watersmeet.plan.physical import Node, State
from watersmeet.runtime.stages.task import StageTask


def merge_groups(task: StageTask, node: Node) -> Iterator[pa.RecordBatch]:
    """What the node's groups owe that are to be merged now, their generations united one after the other."""
    states = [entry.state for entry in node.inputs]
    wanted = [merge for merge in task.context.merges if merge.operator == node.name]
    for merge in (mine for merge in wanted if (mine := task.state.mine(merge, states[0])) is not None):
        faults.reach("in-merge")
        generations = task.state.closed_generations(merge, states)
        every = [run for generation in generations for runs in generation for run in runs]
        for within in piece_ranges(every, pieces.JOINED_BYTES):
            for chunk in _owed(node, states, generations, within):
                task.rows_merged += chunk.num_rows
                yield _without_lineage(chunk, task.context.lineage.keys())
        task.state.unite(merge, states)


def _owed(
    node: Node, states: Sequence[State], generations: Sequence[Sequence[Runs]], within: HashRange
) -> Iterator[pa.RecordBatch]:
    """What the generations owe each other in a stretch of the hash."""
    united: list[list[Indexed]] = [[] for _ in states]
    for place, generation in enumerate(generations):
        rows = [merged(runs, state.schema, within) for runs, state in zip(generation, states, strict=True)]
        if place:
            yield from merge_step(node, rows, united)
        for segments, batch in zip(united, rows, strict=True):
            if batch.num_rows:
                segments.append(Indexed.of(batch))


def _without_lineage(chunk: pa.RecordBatch, fields: Container[str]) -> pa.RecordBatch:
    """The rows as nobody's: what a merge emits was not earned by what is in memory."""
    arrays = list(chunk.columns)
    for place, name in enumerate(chunk.schema.names):
        if name in fields:
            arrays[place] = pa.nulls(chunk.num_rows, pa.uint16())
    return pa.RecordBatch.from_arrays(arrays, schema=chunk.schema)
