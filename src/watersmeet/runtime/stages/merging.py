"""Merges in the tasks of a batch: emits what closed generations of groups owe each other, and unites them."""

from __future__ import annotations

from collections.abc import Container, Iterator

import pyarrow as pa

from watersmeet import faults
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.step import merge_step
from watersmeet.plan.physical import Node
from watersmeet.runtime.stages.task import StageTask


def merge_groups(task: StageTask, node: Node) -> Iterator[pa.RecordBatch]:
    """What the node's groups owe that are to be merged now, their generations united one after the other."""
    states = [entry.state for entry in node.inputs]
    wanted = [merge for merge in task.context.merges if merge.operator == node.name]
    for merge in (mine for merge in wanted if (mine := task.state.mine(merge, states[0])) is not None):
        faults.reach("in-merge")
        generations = task.state.closed_generations(merge, states)
        united: list[list[Indexed]] = [[] for _ in states]
        for place, generation in enumerate(generations):
            if place:
                for chunk in merge_step(node, generation, united):
                    task.rows_merged += chunk.num_rows
                    yield _without_lineage(chunk, task.context.lineage.keys())
            for pieces, rows in zip(united, generation, strict=True):
                if rows.num_rows:
                    pieces.append(Indexed.of(rows))
        task.state.unite(merge, states, generations)


def _without_lineage(chunk: pa.RecordBatch, fields: Container[str]) -> pa.RecordBatch:
    """The rows as nobody's: what a merge emits was not earned by what is in memory."""
    arrays = list(chunk.columns)
    for place, name in enumerate(chunk.schema.names):
        if name in fields:
            arrays[place] = pa.nulls(chunk.num_rows, pa.uint16())
    return pa.RecordBatch.from_arrays(arrays, schema=chunk.schema)
