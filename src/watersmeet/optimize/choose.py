"""From a query and what is known of its streams to the plan that it starts with, and the sentence why.

`choose_plan` is what `plan = ".."` in a job means:
- `left-deep`, `mjoin` or a tree: that one, as asked, with the best probe orders if statistics are known;
- `auto`: of the plans worth choosing between (`dominating.py`), those that the polynomial strategies find, the mjoin,
  the left-deep tree and that tree with one join for each key, the one with the least CPU within the limits, with what
  it costs to move rows (`moves.py`);
- another strategy by name: what that one finds, whatever else there is.

Filters stand at their inputs, unless a tree says otherwise, or one of these plans is cheaper with a filter above a join
(`place_filters.py`), by what was measured of it. And rows enter the joins as they are, unless a tree says otherwise, or
one is cheaper where rows of an input that agree are combined first (`weigh_inputs.py`).

The optimiser may propose a cartesian product, which does not run: such plans are passed over. Inputs that no equality
connects are joined by a ring; what two of them make is kept only where statistics say that it is little.

Plans that cost the same within `ALIKE` are alike to us, estimates being what they are. Of those the one that stands
first is taken: joins in the order of the text, one for each key, before the routed mjoin, which cannot be spilled, and
before what was searched for. Where no plan fits the limits, only plans that can be spilled are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from watersmeet.errors import JobError
from watersmeet.optimize.cost import NO_LIMITS, Cost, Limits, PlannedTree, finish_plan, price_text
from watersmeet.optimize.dominating import dominating
from watersmeet.optimize.estimates import CostConstants, CostModel, Estimates, HashProbes, Orders
from watersmeet.optimize.place_filters import Prices, filter_prices, place_filters, price_plan
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.optimize.shape import from_tree
from watersmeet.optimize.strategies import EXHAUSTIVE_UP_TO, STRATEGIES, bjtree_init, find_strategy, mjoin_init
from watersmeet.optimize.weigh_inputs import price_weighing, weigh_inputs, weighed_graph
from watersmeet.plan.join_graph import JoinGraph
from watersmeet.plan.query import Query
from watersmeet.plan.tree import (
    Join,
    Tree,
    bare,
    can_spill,
    check_tree,
    choose_tree,
    join_by_key,
    joins_of,
    left_deep,
    marks_of,
    mjoin,
    ring_of_parts,
    still_weighed,
    with_marks,
)

# Seconds of CPU, as `runtime/calibration.py` measured them on the build machine; for where nobody measures.
STANDARD = CostConstants(
    insert=180e-9,
    delete=0.0,
    join=25e-9,
    probe=85e-9,
    compare=27e-9,
    operation=2e-9,
    send=35e-9,
    batch=3e-3,
    gather=140e-9,
)
STANDARD_MODEL: CostModel = HashProbes(STANDARD)

ALIKE = 1.05
SHOWN = 8  # plans that a reader is shown beside the chosen one


@dataclass(frozen=True)
class Alternative:
    """A plan that was considered, with its estimated cost and whether it keeps the limits."""

    name: str
    plan: str
    cost: Cost
    qualifies: bool


@dataclass(frozen=True)
class ChosenPlan:
    tree: Tree
    orders: Mapping[Join, Orders]
    reason: str
    alternatives: tuple[Alternative, ...] = ()
    statistics: Statistics = field(default_factory=Statistics)


def choose_plan(
    query: Query,
    setting: str,
    statistics: Statistics | None = None,
    limits: Limits = NO_LIMITS,
    model: CostModel = STANDARD_MODEL,
) -> ChosenPlan:
    """The plan that `setting` asks for."""
    statistics = statistics or Statistics()
    if len(query.aliases) == 1:
        tree = mjoin(query) if setting in dict(STRATEGIES) else choose_tree(query, setting)
        return ChosenPlan(tree, {}, "there is one stream, and nothing to join", (), statistics)
    if setting not in dict(STRATEGIES):
        tree = choose_tree(query, setting)
        known = statistics.given or statistics.measured.seconds > 0
        asked = price_as_written(graph_of(query, statistics), setting, tree, model) if known else None
        orders = {} if asked is None else dict(asked.orders)
        return ChosenPlan(tree, orders, explain_choice(setting), (), statistics)
    considered = consider(query, statistics, limits, model)
    if setting == "auto":
        known = statistics.given or statistics.measured.seconds > 0
        chosen = best_of(query, considered if known else _without_products(query, considered), limits)
        why = f"auto chose {chosen.strategy}" if len(considered) > 1 else "auto, the only plan there is"
    else:
        graph = graph_of(query, statistics)
        found = find_strategy(setting)(graph, limits, model)
        if can_run(query, found.tree):
            prices = filter_prices(query, statistics.measured)
            chosen = price_whole(query, graph, model, limits, found, prices)
            why = setting
        else:
            chosen = best_of(query, considered, limits)
            why = f"{setting} found {found.tree}, a cartesian product, so the best of the others"
        considered = [chosen, *(plan for plan in considered if plan.tree != chosen.tree)]
    fits = "" if limits == NO_LIMITS else " within the limits" if chosen.qualifies else ", the nearest to the limits"
    return ChosenPlan(
        tree=chosen.tree,
        orders=dict(chosen.orders),
        reason=f"{why}: {price_text(chosen.cost.cpu, chosen.cost.memory)}{fits}, estimated from {statistics.source}",
        alternatives=_shown(considered, chosen, limits),
        statistics=statistics,
    )


def explain_choice(setting: str) -> str:
    """Why `plan = setting` gives the tree that `choose_tree` makes of it, as a sentence."""
    if setting == "left-deep":
        return "left-deep was asked for: two inputs at a time, in the order of the text"
    if setting == "mjoin":
        return "mjoin was asked for: one join over all inputs"
    return f"the tree {setting} was asked for"


def show_considered(
    query: Query, tree: Tree, statistics: Statistics, limits: Limits, model: CostModel
) -> tuple[Alternative, ...]:
    """What a plan that stands already costs by what is known now, and what else there would be."""
    if len(query.aliases) == 1:
        return ()
    graph = graph_of(query, statistics)
    prices = filter_prices(query, statistics.measured)
    as_written = price_as_written(graph, "this plan", tree, model)
    standing = price_whole(query, graph, model, limits, as_written, prices)
    others = [plan for plan in consider(query, statistics, limits, model, tree) if plan.tree != tree]
    return _shown(others, standing, limits)


def consider(
    query: Query, statistics: Statistics, limits: Limits, model: CostModel, former: Tree | None = None
) -> list[PlannedTree]:
    """The plans that can run and are worth a look, each with its full price; the first ones win where costs are alike.

    The strategy of each says where it comes from. With `former`, for a run that has had that one.
    """
    graph = graph_of(query, statistics)
    plans = [price_as_written(graph, name, tree, model) for name, tree in written_plans(query)]
    if len(query.aliases) > 2:
        plans += [mjoin_init(graph, limits, model), bjtree_init(graph, limits, model)]
        if len(query.aliases) <= EXHAUSTIVE_UP_TO:
            plans += dominating(graph, limits, model)
    found: dict[str, PlannedTree] = {}
    prices = filter_prices(query, statistics.measured)
    for plan in plans:
        if can_run(query, plan.tree):
            carrying = plan if former is None else replace(plan, tree=still_weighed(plan.tree, former))
            found.setdefault(str(carrying.tree), price_whole(query, graph, model, limits, carrying, prices))
    for plan in placed_plans(query, graph, model, limits, [*found.values()], prices):
        found.setdefault(str(plan.tree), plan)
    for plan in weighed_plans(query, graph, model, limits, [*found.values()], prices):
        found.setdefault(str(plan.tree), plan)
    return list(found.values())


def _without_products(query: Query, plans: list[PlannedTree]) -> list[PlannedTree]:
    """Those that keep no results of a ring: nobody knows how many these would be."""
    return [
        plan
        for plan in plans
        if all(join is plan.tree or any(join.aliases <= part for part in query.parts) for join in joins_of(plan.tree))
    ]


def written_plans(query: Query) -> list[tuple[str, Tree]]:
    """Plans that need no search, by what they are called; the first ones win where costs are alike."""
    whole, deep = mjoin(query), left_deep(query)
    if len(query.parts) > 1:
        parts = ring_of_parts(query)
        return [("a ring of the parts", parts), ("left-deep", deep), *([] if parts == whole else [("mjoin", whole)])]
    by_key = join_by_key(query, deep)
    if by_key == whole:
        return [("mjoin", whole), ("left-deep", deep)]
    return [("one join a key", by_key), ("left-deep", deep), ("mjoin", whole)]


def best_of(query: Query, plans: list[PlannedTree], limits: Limits) -> PlannedTree:
    if not any(plan.qualifies for plan in plans):
        # What does not fit has to be spilled, and a routed join cannot be.
        plans = [plan for plan in plans if can_spill(query, plan.tree)] or plans
    least = min(limits.merit(plan.cost) for plan in plans)
    for plan in plans:
        merit = limits.merit(plan.cost)
        if merit[0] == least[0] and merit[1] <= least[1] * ALIKE:
            return plan
    raise AssertionError("one of the plans is the best")


def price_as_written(graph: JoinGraph, name: str, tree: Tree, model: CostModel) -> PlannedTree:
    """A tree that nobody searched for, with the probe orders of `mjoin_order`."""
    estimates = Estimates(graph, model)
    plan = finish_plan(estimates, name, from_tree(estimates, tree), NO_LIMITS, "as the text has it")
    return replace(plan, tree=tree)  # with filters where it has them


def placed_plans(
    query: Query, graph: JoinGraph, model: CostModel, limits: Limits, plans: Sequence[PlannedTree], prices: Prices
) -> list[PlannedTree]:
    """Those of these plans that are cheaper with a filter above a join, with their filters there."""
    found: list[PlannedTree] = []
    for plan in plans if prices else ():
        at_inputs = replace(plan, tree=with_marks(bare(plan.tree), marks_of(plan.tree)))
        placed = place_filters(query, graph, model, at_inputs, prices)
        if placed is not at_inputs:
            named = replace(placed, strategy=f"{plan.strategy}, filters above")
            found.append(price_whole(query, graph, model, limits, named, prices))
    return found


def price_whole(
    query: Query, graph: JoinGraph, model: CostModel, limits: Limits, plan: PlannedTree, prices: Prices
) -> PlannedTree:
    """The plan with all that it costs: moves, filters where they stand, and the weighing of inputs, too."""
    joined = price_plan(query, weighed_graph(graph, plan), model, plan, prices, graph.rates)
    full = Cost(joined.cpu + price_weighing(graph, plan), joined.memory)
    return replace(plan, cost=full, qualifies=limits.allow(full))


def weighed_plans(
    query: Query, graph: JoinGraph, model: CostModel, limits: Limits, plans: Sequence[PlannedTree], prices: Prices
) -> list[PlannedTree]:
    """Those of these plans that are cheaper with rows of some inputs combined, with these marked."""
    found: list[PlannedTree] = []

    def price(plan: PlannedTree) -> PlannedTree:
        return price_whole(query, graph, model, limits, plan, prices)

    for plan in plans if graph.alike else ():
        weighed = weigh_inputs(graph, plan, price)
        if weighed is not plan:
            found.append(replace(weighed, strategy=f"{plan.strategy}, rows combined"))
    return found


def can_run(query: Query, tree: Tree) -> bool:
    """Whether it has no cartesian product."""
    try:
        check_tree(query, tree)
    except JobError:
        return False
    return True


def _shown(considered: list[PlannedTree], chosen: PlannedTree, limits: Limits) -> tuple[Alternative, ...]:
    """The chosen plan first, then the others, the best first."""
    others = sorted((plan for plan in considered if plan is not chosen), key=lambda plan: limits.merit(plan.cost))
    return tuple(
        Alternative(plan.strategy, str(plan.tree), plan.cost, plan.qualifies) for plan in (chosen, *others[:SHOWN])
    )
