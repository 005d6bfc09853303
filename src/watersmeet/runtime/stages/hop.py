"""The task of a hop: partial results of all origins of a routed join meet the states that they probe next."""

from __future__ import annotations

from watersmeet.kernel.join_pieces import join_pieces
from watersmeet.plan.hop import HopStage
from watersmeet.runtime.stages.task import Answer, Arrived, Outcome, StageTask


def run_hop(task: StageTask, arrived: Arrived) -> Outcome:
    stage = task.context.stage
    assert isinstance(stage, HopStage)
    fresh = {insert.state.name: arrived.at(insert.port, insert.state) for insert in stage.inserts}
    if stage.hop > 0:
        probed = {probe.state.name for probe in stage.probes}
        fresh = {
            name: [piece for entry in notices for piece in task.state.segments.read(entry)]
            for name, notices in arrived.notices.items()
            if name in probed
        }
    answers = []
    tallies = []
    rows_in = 0
    runs = task.context.runs(stage.node.name)
    for probe in stage.probes if runs else ():
        partial = arrived.at(probe.port, probe.node.inputs[0].state)
        rows = sum(run.count for run in partial)
        rows_in += rows
        kept = task.state.kept(probe.state)
        seen = fresh.get(probe.state.name, ()) if probe.sees_new else ()
        bound = probe.node.inputs[0].state
        if stage.hop == 0 and len(bound.aliases) == 1:
            task.rows[bound.aliases[0]] = rows
        tally = task.tally()
        joined = join_pieces(probe.node, [partial, ()], [(), kept], tally, [(), seen], task.spool.settle)
        answers.append(Answer(joined, probe.exchanges))
        tallies.append((tally, [bound, probe.state]))
    rows = task.pass_on(answers)
    for tally, sides in tallies:
        task.observe(tally, sides)
    task.count(stage.node.label, rows_in if stage.hop == 0 else 0, rows if stage.is_last else 0)
    for insert in stage.inserts:
        new = fresh[insert.state.name]
        task.state.keep(insert.state, new)
        if insert.read_again_in and runs:
            task.notify(insert.state, insert.read_again_in, new)
    return task.outcome()
