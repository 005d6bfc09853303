"""The task of a hop: partial results of all origins of a routed join meet the states that they probe next.

What visits slices of time comes to several slots, and what is kept comes to one: rows of inputs are counted where they
are kept, so that rates are those of the streams however long a ring is.

All rows of a batch are on their way at the same time. [Wang09, 4.4] has this as PSP-I: each node keeps a pair of marks,
StateStart and StateEnd, for every row on its way, so that rows which are let go for a later one are still there for an
earlier one. Here the pair is the number of a batch. Where the state starts: a probe sees the rows of earlier batches,
which are immutable segments of one version, and of its own batch those of inputs that come before its own
(`sees_new`). Where it ends: rows go by the watermarks of that version, which are the same for all rows of the batch,
and a pair is joined only if its windows allow it. So it is exact: no row of the batch changes what another one sees, a
row that is let go expired before all that is on its way came, and each pair meets in the later one's batch or, within a
batch, from one side alone. The paper limits how many rows are on their way, since marks cost; here `max_batch_rows`
does, which cuts what has come into several batches where latency asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from watersmeet.kernel.copying import in_turns
from watersmeet.kernel.join_pieces import join_pieces
from watersmeet.kernel.pieces import Runs
from watersmeet.kernel.scan import scan_pieces
from watersmeet.kernel.tally import Tally
from watersmeet.model.ids import StateName
from watersmeet.model.slices import BY_TIME
from watersmeet.plan.hop import HopStage, Probe
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
        kept = task.state.kept(probe.state)
        seen = fresh.get(probe.state.name, ()) if probe.sees_new else ()
        bound = probe.node.inputs[0].state
        came = _kept_of(probe, stage, fresh) if stage.hop == 0 and probe.scans else rows
        rows_in += came
        if stage.hop == 0 and len(bound.aliases) == 1:
            task.count_input(bound.aliases[0], bound, partial, came)
        tally = task.tally()
        if probe.scans:
            joined = _scanned(task, probe, partial, [*kept, *seen], tally)
        else:
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


def _kept_of(probe: Probe, stage: HopStage, fresh: Mapping[StateName, Runs]) -> int:
    """The rows of an origin that this slot keeps in slices of time; of rows that have copies, its share."""
    aliases = probe.node.inputs[0].state.aliases
    return sum(
        round(run.count / insert.state.copies)
        for insert in stage.inserts
        if insert.state.aliases == aliases and insert.state.partitioning == BY_TIME
        for run in fresh[insert.state.name]
    )


def _scanned(task: StageTask, probe: Probe, partial: Runs, met: Runs, tally: Tally) -> Iterator[pa.RecordBatch]:
    """What partial results make with rows in slices; where these have copies, with the one of each that serves."""
    bound, state = (entry.state for entry in probe.node.inputs)
    pairs: Iterable[tuple[Runs, Runs]] = [(partial, met)]
    if state.copies > 1:
        pairs = in_turns(partial, met, bound, state, task.context.placement.of(state.partitioning))
    for some, served in pairs:
        yield from scan_pieces(probe.node, some, served, tally, task.spend, task.spool.settle)
