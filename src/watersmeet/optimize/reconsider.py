"""Looks at a plan that stands again, by what was measured since: what it costs now, and what others would.

`search_fully` is what `plan = "auto"` does. `search_quickly` is for when that takes too long: the plans that need no
search, and what a walk from the plan that stands to better ones nearby comes to for so much effort.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from watersmeet.errors import JobError
from watersmeet.model.statistics import Measured
from watersmeet.optimize.choose import (
    STANDARD_MODEL,
    best_of,
    can_run,
    consider,
    placed_plans,
    price_as_written,
    price_whole,
    weighed_plans,
    written_plans,
)
from watersmeet.optimize.cost import NO_LIMITS, Cost, Limits, PlannedTree, finish_plan, shape_cost
from watersmeet.optimize.estimates import CostModel, Estimates
from watersmeet.optimize.local_search import improve
from watersmeet.optimize.place_filters import Prices, filter_prices
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.optimize.shape import from_tree
from watersmeet.plan.join_graph import JoinGraph
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec
from watersmeet.plan.tree import COMBINED, Tree, choose_tree, joins_of, still_weighed

EFFORT_SECONDS = 8e-6  # that a unit of `Estimates.effort` takes, some; see `strategies.py`
GUESS_SECONDS = 0.4e-3  # for the square of the number of inputs: what a full search takes, before one was timed
FINISHED = 5  # plans of a quick search that are priced in full


def no_clock() -> float:
    """For who does not time searches."""
    return 0.0


@dataclass(frozen=True)
class Planning:
    """What is known beside what is measured: statistics that were given, limits, and what the machine is like."""

    statistics: Statistics = field(default_factory=Statistics)
    limits: Limits = NO_LIMITS
    model: CostModel = STANDARD_MODEL
    clock: Callable[[], float] = no_clock  # that searches are timed by
    # Measures this machine, where `model` is that of another one; it takes a second or two.
    measure: Callable[[], CostModel] | None = None

    def by_this_machine(self) -> Planning | None:
        """With what this machine is like, where that was not known before."""
        return None if self.measure is None else replace(self, model=self.measure(), measure=None)


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


@dataclass(frozen=True)
class Reconsidering:
    """One query with one plan and what was measured of it."""

    query: Query
    spec: PlanSpec
    measured: Measured
    planning: Planning

    @property
    def statistics(self) -> Statistics:
        return replace(self.planning.statistics, measured=self.measured)

    @property
    def prices(self) -> Prices:
        """What is known of filters."""
        return filter_prices(self.query, self.measured)

    def graph(self) -> JoinGraph:
        return graph_of(self.query, self.statistics)


def figures_of(graph: JoinGraph, filters: Prices = MappingProxyType({})) -> dict[str, float]:
    """Rates by input, selectivities by pair of inputs, the shares that filters pass, by input and number, and those
    that are left of inputs if rows that agree are combined.

    They are the same figures whichever plan they were measured by.

    >>> figures_of(JoinGraph({"A": 10, "B": 20}, {"A B": 0.1}, windows=2))
    {'A': 10.0, 'B': 20.0, 'A B': 0.1}
    """
    passes = {f"{alias}.{place + 1}": price.share for (alias, place), price in filters.items()}
    alike = {f"{alias}{COMBINED}": share for alias, share in graph.alike.items()}
    shares = {" ".join(pair): share for pair, share in graph.selectivities.items()}
    return {**graph.rates, **shares, **passes, **alike}


def price_standing(asked: Reconsidering, graph: JoinGraph) -> PlannedTree:
    """The plan that stands, with its own probe orders."""
    planning, spec = asked.planning, asked.spec
    orders = tuple((join, spec.join(join).orders) for join in joins_of(spec.tree))
    bare = PlannedTree("this plan", spec.tree, orders, Cost(0.0, 0.0), True, "it stands")
    return price_whole(asked.query, graph, planning.model, planning.limits, bare, asked.prices)


def price_known(asked: Reconsidering, graph: JoinGraph, plan: str) -> PlannedTree | None:
    """A plan that somebody knows, with the best probe orders; None if it is none of this query."""
    try:
        tree = still_weighed(choose_tree(asked.query, plan), asked.spec.tree)
    except JobError:
        return None
    return _priced(asked, graph, "known", tree) if can_run(asked.query, tree) else None


def guess_seconds(query: Query) -> float:
    """What a full search is expected to take before one was timed."""
    return GUESS_SECONDS * len(query.aliases) ** 2


def search_fully(asked: Reconsidering) -> PlannedTree:
    """The best of the plans that are worth a look."""
    planning = asked.planning
    found = consider(asked.query, asked.statistics, planning.limits, planning.model, asked.spec.tree)
    return best_of(asked.query, found, planning.limits)


def search_quickly(asked: Reconsidering, graph: JoinGraph, standing: PlannedTree, effort: int) -> PlannedTree:
    """The best of the plan that stands, those that need no search, and what is met nearby for so much effort."""
    planning, limits = asked.planning, asked.planning.limits
    former = asked.spec.tree
    written = ((name, still_weighed(tree, former)) for name, tree in written_plans(asked.query))
    plans = [standing, *(_priced(asked, graph, name, tree) for name, tree in written)]
    estimates = Estimates(graph, planning.model)
    shape = from_tree(estimates, standing.tree)
    met = []
    for step in improve(estimates, limits, shape, shape_cost(estimates, shape)):
        met.append(step)
        if estimates.effort >= effort:
            break
    tried = 0
    for found, _ in sorted(met, key=lambda step: limits.merit(step[1])):
        plan = finish_plan(estimates, "nearby", found, limits, "near the plan that stood")
        if can_run(asked.query, plan.tree):
            plan = replace(plan, tree=still_weighed(plan.tree, former))
            plans.append(price_whole(asked.query, graph, planning.model, limits, plan, asked.prices))
            tried += 1
        if tried == FINISHED:
            break
    plans += placed_plans(asked.query, graph, planning.model, limits, plans, asked.prices)
    plans += weighed_plans(asked.query, graph, planning.model, limits, plans, asked.prices)
    return best_of(asked.query, plans, limits)


def _priced(asked: Reconsidering, graph: JoinGraph, name: str, tree: Tree) -> PlannedTree:
    planning = asked.planning
    bare = price_as_written(graph, name, tree, planning.model)
    return price_whole(asked.query, graph, planning.model, planning.limits, bare, asked.prices)
