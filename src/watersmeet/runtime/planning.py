"""The plan that a run starts with: the one that its checkpoint was made with, or a choice made now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from watersmeet.errors import JobError
from watersmeet.optimize.choose import ChosenPlan, choose_plan, show_considered
from watersmeet.optimize.cost import NO_LIMITS, Limits
from watersmeet.optimize.estimates import CostModel
from watersmeet.optimize.query_graph import Statistics, model_for
from watersmeet.optimize.strategies import STRATEGIES
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.tree import parse_tree
from watersmeet.runtime.calibration import machine_costs
from watersmeet.runtime.checkpoint import Layout
from watersmeet.state.table import FileTable


def plan_run(
    query: Query,
    setting: str,
    statistics: Statistics | None = None,
    limits: Limits = NO_LIMITS,
    layout: Layout | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> ChosenPlan:
    """The plan for a run of `query`. A plan that the engine may choose is chosen once for each checkpoint.

    `report` is told when something takes a moment.
    """
    if setting not in dict(STRATEGIES):
        return choose_plan(query, setting, statistics, limits)
    statistics = statistics or Statistics()
    recorded = _recorded_plan(query, statistics, limits, layout, report) if layout is not None else None
    return recorded or choose_plan(query, setting, statistics, limits, _model(query, report))


def lay_out_run(query: Query, chosen: ChosenPlan, watched: bool, layout: Layout | None = None) -> PhysicalPlan:
    """The physical plan of a run; `watched` if policies will want to know which groups results come from.

    What rows carry is settled when a checkpoint is made: its states are named by it.
    """
    table = None if layout is None else FileTable.open(layout.state)
    traced = watched if table is None else table.manifest.traced
    return lay_out(query, chosen.tree, chosen.orders, traced)


def _model(query: Query, report: Callable[[str], None]) -> CostModel:
    # Two inputs leave nothing to choose; their one plan can be priced with what is known already.
    return model_for(query, machine_costs(report, measure=len(query.aliases) > 2))


def _recorded_plan(
    query: Query, statistics: Statistics, limits: Limits, layout: Layout, report: Callable[[str], None]
) -> ChosenPlan | None:
    table = FileTable.open(layout.state)
    if table is None:
        return None
    try:
        tree = parse_tree(table.manifest.plan, query)
    except JobError:
        return None  # a checkpoint of another query, which is refused when it is opened
    known = replace(statistics, measured=table.manifest.measured)
    considered = show_considered(query, tree, known, limits, _model(query, report))
    return ChosenPlan(tree, {}, "the checkpoint was made with this plan", considered, known)
