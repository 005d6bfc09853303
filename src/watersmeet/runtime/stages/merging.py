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
    context = task.context
    owners = context.placement.of(node.partitioning).owners
    merges = [m for m in context.merges if m.operator == node.name and owners[m.group] == task.slot]
    if not merges:
        return
    faults.reach("in-merge")
    states = [entry.state for entry in node.inputs]
    generations = task.state.closed_generations(merges, states)
    united: list[list[Indexed]] = [[] for _ in states]
    for place, generation in enumerate(generations):
        if place:
            for chunk in merge_step(node, generation, united):
                task.rows_merged += chunk.num_rows
                yield _without_lineage(chunk, context.lineage.keys())
        for pieces, rows in zip(united, generation, strict=True):
            pieces.append(Indexed.of(rows))
    task.state.unite(merges, states, generations)


def _without_lineage(chunk: pa.RecordBatch, fields: Container[str]) -> pa.RecordBatch:
    """The rows as nobody's: what a merge emits was not earned by what is in memory."""
    arrays = list(chunk.columns)
    for place, name in enumerate(chunk.schema.names):
        if name in fields:
            arrays[place] = pa.nulls(chunk.num_rows, pa.uint16())
    return pa.RecordBatch.from_arrays(arrays, schema=chunk.schema)
