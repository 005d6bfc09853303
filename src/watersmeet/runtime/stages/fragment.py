"""The task of a fragment: its joins, which share a key, from the lowest to its root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet.kernel.copying import count_home
from watersmeet.kernel.join_pieces import join_pieces
from watersmeet.kernel.pieces import Runs
from watersmeet.kernel.tally import Tally
from watersmeet.model.ids import OperatorName
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.physical import FromInput, FromOperator, Node, NodeInput
from watersmeet.runtime.stages.merging import merge_groups
from watersmeet.runtime.stages.task import Answer, Arrived, Outcome, StageTask


def run_fragment(task: StageTask, arrived: Arrived) -> Outcome:
    stage = task.context.stage
    assert isinstance(stage, FragmentStage)
    outputs: dict[OperatorName, Runs] = {}
    for node in stage.nodes:
        new = [_arrived(task, node, entry, outputs, arrived) for entry in node.inputs]
        tally = task.tally()
        if not stage.keys:  # rows of a segment have nothing else in common
            tally = replace(tally, spend=task.spend)
        answers = _answers(task, stage, node, new, tally)
        if not task.context.runs(node.name):
            rows = 0
        elif node is stage.root:
            rows = task.pass_on(answers, node)
        else:
            outputs[node.name] = task.hold(chunk for answer in answers for chunk in answer.chunks)
            rows = sum(run.count for run in task.state.own(node.aliases, outputs[node.name]))
        came = [sum(run.count for run in runs) for runs in new]
        new = [task.state.own(entry.state.aliases, runs) for entry, runs in zip(node.inputs, new, strict=True)]
        sizes = [count_home(runs, entry.state) for entry, runs in zip(node.inputs, new, strict=True)]
        task.count(node.label, sum(sizes), rows)
        task.observe(tally, [entry.state for entry in node.inputs], _shares_of_own(sizes, came))
        for entry, size in zip(node.inputs, sizes, strict=True):
            runs = new.pop(0)
            if any(run.count for run in runs) or not task.context.round:
                task.state.keep(entry.state, runs)
            if isinstance(entry.source, FromInput):
                task.count_input(entry.source.alias, entry.state, runs, size)
    task.state.unite_parts()
    return task.outcome()


def _shares_of_own(sizes: Sequence[int], came: Sequence[int]) -> list[float]:
    """Of the rows of each input, those that are not copies of what another slot or segment counts."""
    return [size / rows if rows else 1.0 for size, rows in zip(sizes, came, strict=True)]


def _arrived(
    task: StageTask, node: Node, entry: NodeInput, outputs: dict[OperatorName, Runs], arrived: Arrived
) -> Runs:
    if task.context.is_given(entry.state):
        return task.state.given(entry.state) if task.context.runs(node.name) else ()
    if entry.port is not None:
        return arrived.take(entry.port, entry.state)
    assert isinstance(entry.source, FromOperator)
    return outputs.pop(entry.source.name)


def _answers(task: StageTask, stage: FragmentStage, node: Node, new: Sequence[Runs], tally: Tally) -> list[Answer]:
    """What new rows make with each other and with what is kept, and what merges emit, which earns memory nothing."""
    exchanges = stage.exchanges if node is stage.root else ()
    # A round of merges brings rows only to what stands above them.
    kept = [task.state.kept(entry.state) for entry in node.inputs] if any(new) else []
    probed = join_pieces(node, new, kept, tally, after_piece=task.spool.settle) if kept else iter(())
    return [
        Answer(task.watch(node, new, probed), exchanges),
        Answer(merge_groups(task, node), exchanges, watched=False),
    ]
