"""From a query and what is known of its streams to the plan that it starts with, and the sentence why.

`choose_plan` is what `plan = ".."` in a job means:
- `left-deep`, `mjoin` or a tree: that one, as asked;
- `auto` without statistics: one join where all inputs share a key, else left-deep, as nothing speaks for another;
- `auto` with statistics, and the strategies by name: the optimiser's choice among the plans that can run.

The optimiser may propose a cartesian product, which does not run; then the cheapest of the other plans is taken.

What is not given is assumed: `RATE` rows a second, `KEY_SELECTIVITY` for an equality, `PREDICATE_SELECTIVITY` for every
other predicate. Equalities closed by transitivity count once: a key over n inputs gives n - 1 edges, those with given
selectivities first. Windows come from the query; an unbounded one is priced after `HORIZON_SECONDS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.expressions import aliases_of
from watersmeet.model.streams import Range
from watersmeet.optimize.cost import NO_LIMITS, Cost, Limits, PlannedTree, cost
from watersmeet.optimize.estimates import CostModel, HashProbes, Orders
from watersmeet.optimize.strategies import STRATEGIES, bjtree_init, find_strategy, mjoin_init
from watersmeet.plan.explain import explain_choice
from watersmeet.plan.join_graph import JoinGraph, PairKey
from watersmeet.plan.query import Query
from watersmeet.plan.tree import Join, Tree, check_tree, choose_tree, left_deep, mjoin

RATE = 1000.0
KEY_SELECTIVITY = 0.001
PREDICATE_SELECTIVITY = 1 / 3
HORIZON_SECONDS = 3600.0
TEXT_BYTES = 24.0
MODEL: CostModel = HashProbes()


@dataclass(frozen=True)
class Statistics:
    """What is known before the first row: rows a second by input, outputs over possible outputs by pair of inputs."""

    rates: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        return bool(self.rates or self.selectivities)


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


def choose_plan(
    query: Query, setting: str, statistics: Statistics | None = None, limits: Limits = NO_LIMITS
) -> ChosenPlan:
    """The plan that `setting` asks for."""
    strategies = dict(STRATEGIES)
    informed = statistics is not None and statistics.known
    if setting not in strategies or (setting == "auto" and not informed):
        return ChosenPlan(choose_tree(query, setting), {}, explain_choice(query, setting))
    graph = graph_of(query, statistics or Statistics())
    wanted = find_strategy(setting)(graph, limits, MODEL)
    others = {
        "mjoin-init": mjoin_init(graph, limits, MODEL),
        "bjtree-init": bjtree_init(graph, limits, MODEL),
        "mjoin": _planned(graph, limits, "mjoin", mjoin(query)),
        "left-deep": _planned(graph, limits, "left-deep", left_deep(query)),
    }
    considered = {setting: wanted, **{name: plan for name, plan in others.items() if name != setting}}
    runnable = {name: plan for name, plan in considered.items() if _runs(query, plan.tree)}
    chosen = runnable.get(setting) or min(runnable.values(), key=lambda plan: limits.merit(plan.cost))
    return ChosenPlan(
        tree=chosen.tree,
        orders=dict(chosen.orders),
        reason=_reason(setting, chosen, limits),
        alternatives=tuple(
            Alternative(name, str(plan.tree), plan.cost, plan.qualifies) for name, plan in considered.items()
        ),
    )


def _planned(graph: JoinGraph, limits: Limits, name: str, tree: Tree) -> PlannedTree:
    price = cost(tree, graph, MODEL)
    return PlannedTree(name, tree, (), price, limits.allow(price), f"{name} as the text has it")


def _runs(query: Query, tree: Tree) -> bool:
    try:
        check_tree(query, tree)
    except JobError:
        return False
    return True


def _reason(setting: str, chosen: PlannedTree, limits: Limits) -> str:
    kept = "" if limits == NO_LIMITS else " within the limits" if chosen.qualifies else ", the nearest to the limits"
    return f"{setting}: estimated {chosen.cost}{kept} ({chosen.reason})"


def graph_of(query: Query, statistics: Statistics) -> JoinGraph:
    """The join graph of `query`, with given statistics where there are any and assumed ones elsewhere."""
    for name in statistics.rates:
        if name not in query.aliases:
            raise JobError(
                f'rates in [stats] name unknown input "{name}"',
                detail=f"The query's inputs are {', '.join(query.aliases)}.",
                hint=did_you_mean(name, query.aliases),
            )
    given = {_pair(query, text): value for text, value in statistics.selectivities.items()}
    edges: dict[PairKey, list[float]] = {pair: [value] for pair, value in given.items()}
    for key in query.keys:
        for pair in _spanning_pairs([alias for alias in query.aliases if alias in key.aliases], given):
            if pair not in given:
                edges.setdefault(pair, []).append(KEY_SELECTIVITY)
    for predicate in query.predicates:
        pair = aliases_of(predicate)
        if len(pair) == 2 and pair not in given:
            edges.setdefault(pair, []).append(PREDICATE_SELECTIVITY)
    return JoinGraph(
        {alias: statistics.rates.get(alias, RATE) for alias in query.aliases},
        edges,
        {
            entry.alias: entry.window.width.total_seconds() if isinstance(entry.window, Range) else None
            for entry in query.inputs
        },
        horizon=HORIZON_SECONDS,
        row_bytes={entry.alias: row_bytes(entry.stream.schema) for entry in query.inputs},
    )


def row_bytes(schema: pa.Schema) -> float:
    """A guess at the size of a row in memory, its hash and event time included.

    >>> row_bytes(pa.schema([("k", pa.int64()), ("name", pa.string())]))
    48.0
    """
    widths = [field.type.bit_width / 8 if _fixed(field.type) else TEXT_BYTES for field in schema]
    return 16.0 + sum(widths)


def _fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind))


def _spanning_pairs(aliases: list[str], given: Mapping[frozenset[str], float]) -> list[frozenset[str]]:
    """Pairs that connect `aliases` without a circle: those with given statistics first, then as the text has them."""
    pairs = [frozenset(pair) for pair in itertools.combinations(aliases, 2)]
    neighbours = [frozenset(pair) for pair in itertools.pairwise(aliases)]
    home = {alias: alias for alias in aliases}
    chosen = []
    for pair in (*(p for p in pairs if p in given), *neighbours, *pairs):
        first, second = pair
        if home[first] != home[second]:
            chosen.append(pair)
            old, new = home[second], home[first]
            home = {alias: new if where == old else where for alias, where in home.items()}
    return chosen


def _pair(query: Query, text: str) -> frozenset[str]:
    names = text.split()
    unknown = [name for name in names if name not in query.aliases]
    if len(names) != 2 or names[0] == names[1] or unknown:
        raise JobError(
            f'selectivity in [stats] is for "{text}", which is not a pair of inputs',
            detail=f"The query's inputs are {', '.join(query.aliases)}.",
            hint=(did_you_mean(unknown[0], query.aliases) if unknown else None) or 'For example "A B" = 0.01.',
        )
    return frozenset(names)
