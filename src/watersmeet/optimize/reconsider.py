"""Looks at a plan that stands again, by what was measured since: what it costs now, and what the best one would."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from watersmeet.model.statistics import Measured
from watersmeet.optimize.choose import STANDARD_MODEL, best_of, consider, price_with_moves
from watersmeet.optimize.cost import NO_LIMITS, Cost, Limits, PlannedTree, cost
from watersmeet.optimize.estimates import CostModel
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec, joins_of


@dataclass(frozen=True)
class Planning:
    """What is known beside what is measured: statistics that were given, limits, and what the machine is like."""

    statistics: Statistics = field(default_factory=Statistics)
    limits: Limits = NO_LIMITS
    model: CostModel = STANDARD_MODEL


@dataclass(frozen=True)
class Comparison:
    """`same`: the best plan has the shape of the one that stands, and perhaps other probe orders."""

    standing: PlannedTree
    best: PlannedTree

    @property
    def same(self) -> bool:
        return self.standing.tree == self.best.tree

    @property
    def saved(self) -> float:
        """CPU per unit of time that the best plan saves."""
        return self.standing.cost.cpu - self.best.cost.cpu


def reconsider(query: Query, spec: PlanSpec, measured: Measured, planning: Planning) -> Comparison:
    """The plan that stands, with its own probe orders, beside the best that there is."""
    statistics = replace(planning.statistics, measured=measured)
    graph = graph_of(query, statistics)
    orders = tuple((join, spec.join(join).orders) for join in joins_of(spec.tree))
    bare = PlannedTree("this plan", spec.tree, orders, Cost(0.0, 0.0), True, "it stands")
    bare = replace(bare, cost=cost(bare, graph, planning.model))
    standing = price_with_moves(query, graph, planning.model, planning.limits, bare)
    found = consider(query, statistics, planning.limits, planning.model)
    return Comparison(standing, best_of(query, found, planning.limits))
