"""The task of a hop: partial results of all origins of a routed join meet the states that they probe next."""

from __future__ import annotations

from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.rows import concat, merge_sorted
from watersmeet.kernel.step import join_step
from watersmeet.kernel.tally import Tally
from watersmeet.plan.hop import HopStage
from watersmeet.runtime.stages.task import Answer, Arrived, Outcome, StageTask


def run_hop(task: StageTask, arrived: Arrived) -> Outcome:
    stage = task.context.stage
    assert isinstance(stage, HopStage)
    fresh = {insert.state.name: arrived.at(insert.port, insert.state) for insert in stage.inserts}
    if stage.hop > 0:
        schemas = {probe.state.name: probe.state.schema for probe in stage.probes}
        fresh = {
            name: merge_sorted([task.state.segments.read(entry).rows for entry in notices], schemas[name])
            for name, notices in arrived.notices.items()
            if name in schemas
        }
    answers = []
    tallies = []
    rows_in = 0
    for probe in stage.probes:
        partial = arrived.at(probe.port, probe.node.inputs[0].state)
        rows_in += partial.num_rows
        kept = task.state.kept(probe.state)
        if probe.sees_new and probe.state.name in fresh:
            kept = [*kept, Indexed.of(fresh[probe.state.name])]
        bound = probe.node.inputs[0].state
        if stage.hop == 0 and len(bound.aliases) == 1:
            task.rows[bound.aliases[0]] = partial.num_rows
        tally = Tally()
        nothing = concat([], probe.state.schema)
        answers.append(Answer(join_step(probe.node, [partial, nothing], [[], kept], tally=tally), probe.exchanges))
        tallies.append((tally, [bound, probe.state]))
    rows = task.pass_on(answers)
    for tally, sides in tallies:
        task.observe(tally, sides)
    task.count(stage.node.label, rows_in if stage.hop == 0 else 0, rows if stage.is_last else 0)
    for insert in stage.inserts:
        new = fresh[insert.state.name]
        task.state.keep(insert.state, new)
        if insert.read_again_in and new.num_rows:
            task.notify(insert.state, insert.read_again_in, new)
    return task.outcome()
