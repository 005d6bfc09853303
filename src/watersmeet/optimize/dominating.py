"""The plans worth choosing between: those that no other plan beats in both CPU and memory.

[Zhu06, ch. 6.3]. The dissertation asks for the dominating plans among the qualified ones. Here all are returned, each
with whether it qualifies: a plan that qualifies is never dominated by one that does not, so its set is those of ours
that qualify, and a reader also sees what a larger limit would buy. Of plans with equal costs one is kept.

Exact up to `exhaustive.MOST_STREAMS` streams. Beyond that, the plans that mjoin-init and bjtree-init pass on their way
to the end, as far as none of those dominates another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from watersmeet.optimize.cost import NO_LIMITS, Limits, PlannedTree, finish_plan
from watersmeet.optimize.estimates import DEFAULT_MODEL, CostModel, Estimates
from watersmeet.optimize.exhaustive import MOST_STREAMS, find_frontier, plan_of_point
from watersmeet.optimize.min_state import min_state
from watersmeet.optimize.state_removal import remove_states
from watersmeet.optimize.state_selection import select_states
from watersmeet.optimize.strategies import EFFORT
from watersmeet.plan.join_graph import JoinGraph


def dominating(
    graph: JoinGraph,
    limits: Limits = NO_LIMITS,
    model: CostModel = DEFAULT_MODEL,
) -> tuple[PlannedTree, ...]:
    """The plans that no other dominates, by rising CPU and so by falling memory; the last one has the least memory.

    >>> graph = JoinGraph({"A": 10, "B": 10, "C": 10}, {"A B": 0.01, "B C": 0.5}, windows=1)
    >>> [(str(plan.tree), str(plan.cost)) for plan in dominating(graph)]
    [('((A B) C)', 'CPU 81, memory 31'), ('(A B C)', 'CPU 127, memory 30')]
    """
    estimates = Estimates(graph, model)
    if len(graph.streams) <= MOST_STREAMS:
        found = _from_frontier(estimates, limits)
    else:
        found = _from_searches(estimates, limits)
    return tuple(keep_undominated(found))


def keep_undominated(plans: Iterable[PlannedTree]) -> list[PlannedTree]:
    """The plans that no other one dominates, by rising CPU; one of those with equal costs."""
    kept: list[PlannedTree] = []
    for plan in sorted(plans, key=lambda plan: (plan.cost.cpu, plan.cost.memory)):
        if not kept or plan.cost.memory < kept[-1].cost.memory:
            kept.append(plan)
    return kept


REASON = "no other plan has both less CPU and less memory"


def _from_frontier(estimates: Estimates, limits: Limits) -> Iterator[PlannedTree]:
    frontier = find_frontier(estimates, NO_LIMITS)
    for point in range(frontier.count):
        yield plan_of_point(estimates, frontier, point, limits, "dominating", REASON)


def _from_searches(estimates: Estimates, limits: Limits) -> Iterator[PlannedTree]:
    for shape, _ in select_states(estimates, math.inf, EFFORT):
        yield finish_plan(estimates, "dominating", shape, limits, REASON)
    for shape, _ in remove_states(estimates, min_state(estimates)):
        yield finish_plan(estimates, "dominating", shape, limits, REASON)
