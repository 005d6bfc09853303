"""Where filters should stand: what that does to the price of a plan, and the cheapest place for each of them.

A filter at its input looks at every row of the stream. Above a join it looks at what comes out of that, which is less
where the join is selective; but up to there the plan works on rows that the filter would have kept out: with the share
s of rows that pass, a join below has 1 / s times as many of that input. So a cheap filter belongs at its input, and one
that costs more than a probe or two may belong above a join that few rows get through.

With F the filters of inputs in N that stand above N or higher, a join N is priced on the graph in which the rates of
these inputs are divided by the shares of F. All else is as without: `rates` of the graph are those of rows that pass
all filters.

What a row costs a filter, and how many pass, is measured while a query runs (`FilterCounts`). A filter that was never
asked stays at its input, and costs nothing that anybody knows.

Limits: filters are placed one after the other, each at its best place given those before it; a row that comes out of a
join several times counts as often, though it is looked at once in a batch; the columns of a filter that are carried up
to it take no memory here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from watersmeet.model.expressions import describe
from watersmeet.model.statistics import Measured
from watersmeet.optimize.cost import Cost, PlannedTree
from watersmeet.optimize.estimates import CostModel, Estimates
from watersmeet.optimize.moves import price_moves
from watersmeet.plan.join_graph import JoinGraph
from watersmeet.plan.query import Query
from watersmeet.plan.tree import Filter, Join, bare, filter_counts, joins_of, standing_filters, with_filters

Places = Mapping[Filter, frozenset[str]]


@dataclass(frozen=True)
class FilterPrice:
    """The share of rows that pass, and the seconds that a row takes."""

    share: float
    seconds: float


Prices = Mapping[Filter, FilterPrice]


def filter_prices(query: Query, measured: Measured) -> Prices:
    """What is known of each filter that was asked."""
    found = {
        (entry.alias, place): measured.filter(entry.alias, describe(expr))
        for entry in query.inputs
        for place, expr in enumerate(entry.filters)
    }
    return {key: FilterPrice(seen.share, seen.seconds / seen.rows) for key, seen in found.items() if seen is not None}


def price_plan(
    query: Query,
    graph: JoinGraph,
    model: CostModel,
    plan: PlannedTree,
    prices: Prices,
    entering: Mapping[str, float] | None = None,
) -> Cost:
    """What a plan costs with its moves, and with its filters where they stand.

    `entering` are the rates of rows that enter, where the joins have others.
    """
    standing = standing_filters(plan.tree, filter_counts(query))
    orders = {bare(join): order for join, order in plan.orders}
    estimates_of = _by_pending(graph, model, standing, prices)
    cpus: list[float] = []
    memory: list[float] = []
    for join in joins_of(plan.tree):
        estimates = estimates_of(join)
        blocks = tuple(sum(estimates.bit[alias] for alias in child.aliases) for child in join.children)
        cpus.append(estimates.node_cpu(blocks, orders[bare(join)]))
        memory += [estimates.memory(block) for block in blocks]
    moves = price_moves(query, plan.tree, orders, estimates_of)
    asking = _price_asking(plan, entering or graph.rates, estimates_of, standing, prices)
    return Cost(math.fsum(cpus) + moves.cpu + asking, math.fsum(memory) + moves.memory)


def place_filters(query: Query, graph: JoinGraph, model: CostModel, plan: PlannedTree, prices: Prices) -> PlannedTree:
    """`plan`, whose filters are at their inputs, with each where it costs least; its cost is left as it is."""
    counts, best = filter_counts(query), dict[Filter, frozenset[str]]()

    def placed(places: Places) -> PlannedTree:
        return replace(plan, tree=with_filters(plan.tree, places, counts))

    least = price_plan(query, graph, model, plan, prices).cpu
    # The dearest first: it has most to gain.
    for entry in sorted(prices, key=lambda entry: -prices[entry].seconds):
        for join in joins_of(plan.tree):
            if entry[0] in join.aliases:
                tried = {**best, entry: join.aliases}
                cpu = price_plan(query, graph, model, placed(tried), prices).cpu
                if cpu < least:
                    best, least = tried, cpu
    return placed(best) if best else plan


def _by_pending(graph: JoinGraph, model: CostModel, standing: Places, prices: Prices) -> Callable[[Join], Estimates]:
    """For each join the figures of the rows that it works on."""
    known: dict[frozenset[Filter], Estimates] = {}

    def estimates_of(join: Join) -> Estimates:
        pending = frozenset(
            entry for entry, above in standing.items() if entry[0] in join.aliases and join.aliases <= above
        )
        if pending not in known:
            rates = dict(graph.rates)
            for entry in pending & prices.keys():
                rates[entry[0]] /= prices[entry].share
            known[pending] = Estimates(with_rates(graph, rates) if pending else graph, model)
        return known[pending]

    return estimates_of


def _price_asking(
    plan: PlannedTree,
    rates: Mapping[str, float],
    estimates_of: Callable[[Join], Estimates],
    standing: Places,
    prices: Prices,
) -> float:
    """Seconds a second that the filters take themselves."""
    joins = {join.aliases: join for join in joins_of(plan.tree)}
    raw = dict(rates)  # before any filter
    for (alias, _), price in prices.items():
        raw[alias] /= price.share
    total = 0.0
    for entry, price in prices.items():
        if entry not in standing:
            total += raw[entry[0]] * price.seconds
            continue
        estimates = estimates_of(joins[standing[entry]])
        mask = sum(estimates.bit[alias] for alias in standing[entry])
        total += estimates.rows(mask) * estimates.churn(mask) * price.seconds
    return total


def with_rates(graph: JoinGraph, rates: Mapping[str, float]) -> JoinGraph:
    """The same graph with other rates."""
    return JoinGraph(
        rates,
        graph.selectivities,
        graph.windows,
        horizon=graph.horizon,
        row_bytes=graph.row_bytes,
        hashed=graph.hashed,
        alike=graph.alike,
    )
