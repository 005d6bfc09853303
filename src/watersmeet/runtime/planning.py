"""The plan that a run starts with: the one that its checkpoint was made with, or a choice made now."""

from __future__ import annotations

from watersmeet.errors import JobError
from watersmeet.optimize.choose import ChosenPlan, Statistics, choose_plan
from watersmeet.optimize.cost import Limits
from watersmeet.optimize.strategies import STRATEGIES
from watersmeet.plan.query import Query
from watersmeet.plan.tree import parse_tree
from watersmeet.runtime.checkpoint import Layout
from watersmeet.state.table import FileTable


def plan_run(
    query: Query,
    setting: str,
    statistics: Statistics | None = None,
    memory_bytes: int | None = None,
    layout: Layout | None = None,
) -> ChosenPlan:
    """The plan for a run of `query`. A plan that the engine may choose is chosen once for each checkpoint."""
    recorded = _recorded_plan(query, layout) if setting in dict(STRATEGIES) and layout is not None else None
    if recorded is not None:
        return recorded
    limits = Limits() if memory_bytes is None else Limits(memory=memory_bytes)
    return choose_plan(query, setting, statistics, limits)


def _recorded_plan(query: Query, layout: Layout) -> ChosenPlan | None:
    table = FileTable.open(layout.state)
    if table is None:
        return None
    try:
        tree = parse_tree(table.manifest.plan, query)
    except JobError:
        return None  # a checkpoint of another query, which is refused when it is opened
    return ChosenPlan(tree, {}, "the checkpoint was made with this plan")
