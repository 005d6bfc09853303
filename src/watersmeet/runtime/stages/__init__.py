"""The tasks of a batch: one stage of a plan, for one slot. `run_stage` is the one dispatch over kinds of stages.

Each kind has a file of its name here, as it has in `plan/`, `plan/layout/` and `draw/`. To add one: its stage in
`plan/`, its layout, its task here (registered below), and what it looks like in `draw/`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from watersmeet import faults
from watersmeet.errors import InternalError
from watersmeet.model.slot_figures import SlotFigures
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.group_by import GroupByStage
from watersmeet.plan.hop import HopStage
from watersmeet.runtime.context import StageContext
from watersmeet.runtime.spool import Spool
from watersmeet.runtime.stages.fragment import run_fragment
from watersmeet.runtime.stages.group_by import run_group_by
from watersmeet.runtime.stages.hop import run_hop
from watersmeet.runtime.stages.task import Arrived, Outcome, ResultWriter, StageTask
from watersmeet.state.segment_files import Segments

__all__ = ["Arrived", "Outcome", "ResultWriter", "run_stage"]

KINDS: dict[type, Callable[[StageTask, Arrived], Outcome]] = {
    FragmentStage: run_fragment,
    HopStage: run_hop,
    GroupByStage: run_group_by,
}


def run_stage(
    context: StageContext, slot: int, arrived: Arrived, segments: Segments, results: ResultWriter, spool: Spool
) -> Outcome:
    """Run the stage of `context` for `slot` on what has `arrived`, which it takes as its own."""
    faults.reach("in-task")
    kind = type(context.stage)
    if kind not in KINDS:
        raise InternalError(f"no way to run a {kind.__name__}")
    rows = sum(part.num_rows for parts in arrived.rows.values() for part in parts)
    started, cpu = time.perf_counter(), time.thread_time()
    outcome = KINDS[kind](StageTask(context, slot, segments, results, spool), arrived)
    figures = SlotFigures(
        time.perf_counter() - started, time.thread_time() - cpu, float(rows), float(outcome.report.rows_out)
    )
    return replace(outcome, report=replace(outcome.report, slot=slot, figures=figures))
