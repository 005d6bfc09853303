"""The task of a fragment: its joins, which share a key, from the lowest to its root."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from watersmeet.kernel.rows import concat, sort_by_hash
from watersmeet.kernel.step import join_step
from watersmeet.kernel.tally import Tally
from watersmeet.model.ids import OperatorName
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.physical import HASH_FIELD, FromInput, FromOperator, Node, NodeInput
from watersmeet.runtime.stages.merging import merge_groups
from watersmeet.runtime.stages.task import Answer, Arrived, Outcome, StageTask


def run_fragment(task: StageTask, arrived: Arrived) -> Outcome:
    stage = task.context.stage
    assert isinstance(stage, FragmentStage)
    outputs: dict[OperatorName, pa.RecordBatch] = {}
    for node in stage.nodes:
        new = [_arrived(entry, outputs, arrived) for entry in node.inputs]
        tally = Tally()
        answers = _answers(task, stage, node, new, tally)
        if node is stage.root:
            rows = task.pass_on(answers, node)
        else:
            schema = pa.schema([(HASH_FIELD, pa.uint64()), *node.out_fields])
            chunks = [chunk for answer in answers for chunk in answer.chunks if chunk.num_rows]
            outputs[node.name] = sort_by_hash(concat(chunks, schema))
            rows = outputs[node.name].num_rows
        task.count(node.label, sum(batch.num_rows for batch in new), rows)
        task.observe(tally, [entry.state for entry in node.inputs])
        for entry, batch in zip(node.inputs, new, strict=True):
            if batch.num_rows or not task.context.round:
                task.state.keep(entry.state, batch)
            if isinstance(entry.source, FromInput):
                task.rows[entry.source.alias] = batch.num_rows
    task.state.unite_parts()
    return task.outcome()


def _arrived(entry: NodeInput, outputs: dict[OperatorName, pa.RecordBatch], arrived: Arrived) -> pa.RecordBatch:
    if entry.port is not None:
        return arrived.at(entry.port, entry.state)
    assert isinstance(entry.source, FromOperator)
    return outputs[entry.source.name]


def _answers(
    task: StageTask, stage: FragmentStage, node: Node, new: Sequence[pa.RecordBatch], tally: Tally
) -> list[Answer]:
    """What new rows make with each other and with what is kept, and what merges emit, which earns memory nothing."""
    exchanges = stage.exchanges if node is stage.root else ()
    # A round of merges brings rows only to what stands above them.
    kept = [task.state.kept(entry.state) for entry in node.inputs] if any(b.num_rows for b in new) else []
    probed = join_step(node, new, kept, tally=tally) if kept else iter(())
    return [
        Answer(task.watch(node, new, probed), exchanges),
        Answer(merge_groups(task, node), exchanges, watched=False),
    ]
