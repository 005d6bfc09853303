"""From a query and what is known of its streams to the join graph that the optimiser works on.

What was measured goes before what was given, and what was given before what is assumed:
- a stream has `RATE` rows a second;
- a row finds one partner in the larger of two windows by an equality, so that no join is assumed to explode;
- every other predicate passes one pair in three;
- windows for a pair of inputs pass what they leave of the time that the rows of the two are kept for.

Equalities closed by transitivity count once: a key over n inputs gives n - 1 edges, those with known selectivities
first. How long rows are kept comes from the windows of the query, closed over all pairs; what is unbounded is priced
after `HORIZON_SECONDS`. A window of n rows is as long as n rows of its input take to come. An input whose rows wait for
nobody is kept for a moment: `LEAST_SECONDS`.

A join measures the selectivity between its own inputs, which may be sets of streams. Where one edge of the graph
crosses between the two sets it is that edge's; where several cross, they are all scaled by the same factor.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.expressions import (
    Column,
    Expr,
    Literal,
    Prepared,
    aliases_of,
    children,
    columns_of,
    describe,
    python_calls,
)
from watersmeet.model.statistics import Measured, PairCounts
from watersmeet.model.streams import Rows
from watersmeet.optimize.estimates import CostConstants, HashProbes
from watersmeet.plan.count_windows import count_conditions, counted_streams
from watersmeet.plan.join_graph import JoinGraph, PairKey
from watersmeet.plan.query import Query
from watersmeet.plan.weighing import why_not_weighed

RATE = 1000.0
PREDICATE_SELECTIVITY = 1 / 3
HORIZON_SECONDS = 3600.0
LEAST_SECONDS = 1e-6
LEAST_SHARE = 1e-6
TEXT_BYTES = 24.0
STALE = 1.0  # `PairCounts.batches` of what was not seen for some eight batches

Edge = frozenset[str]


@dataclass(frozen=True)
class Statistics:
    """What is known: rows a second by input and outputs over possible outputs by pair of inputs, and what was measured.

    Selectivities are given as {"A B": 0.01}.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)
    repeats: Mapping[str, float] = field(default_factory=dict)  # rows of an input that agree, in a batch

    @property
    def given(self) -> bool:
        return bool(self.rates or self.selectivities or self.repeats)

    @property
    def source(self) -> str:
        """Where estimates come from, to stand after "estimated from"."""
        if self.measured.seconds > 0:
            return "the statistics measured so far"
        if self.given:
            return "the statistics given, and defaults for the rest"
        return "default statistics, as none were given"


@dataclass
class _Shares:
    """Of one edge: the share of pairs with the same key, and the share of those that passes further predicates."""

    key: float = 1.0
    predicates: float = 1.0


def graph_of(query: Query, statistics: Statistics) -> JoinGraph:
    """The join graph of `query`, with measured, given and assumed statistics, in this order."""
    _check_names(query, statistics)
    rates = {alias: _rate(alias, statistics) for alias in query.aliases}
    widths = {alias: _kept_seconds(query, alias, rates[alias]) for alias in query.aliases}
    rows = {alias: rates[alias] * (widths[alias] or HORIZON_SECONDS) for alias in query.aliases}
    edges = _assume(
        query, rows, widths, {_pair(query, text): value for text, value in statistics.selectivities.items()}
    )
    _measure(edges, statistics.measured.pairs)
    shares: dict[PairKey, float] = {pair: entry.key * entry.predicates for pair, entry in edges.items()}
    hashed: dict[PairKey, float] = {pair: entry.key for pair, entry in edges.items()}
    sizes = row_bytes(query)
    alike = _alike(query, statistics)
    return JoinGraph(rates, shares, widths, horizon=HORIZON_SECONDS, row_bytes=sizes, hashed=hashed, alike=alike)


def row_bytes(query: Query) -> dict[str, float]:
    """The size of a row of each input in memory: its hash, its event time, and the columns that joins carry along."""
    exprs: list[Expr] = [*query.joined, *query.predicates, *(term for key in query.keys for _, term in key.terms)]
    used = {column for expr in exprs for column in columns_of(expr)}
    timed = query.reach.is_bounded or bool(counted_streams(query))
    return {
        alias: 8.0 + 8.0 * timed + sum(_width(column.type) for column in used if column.alias == alias)
        for alias in query.aliases
    }


def _width(kind: pa.DataType) -> float:
    if pa.types.is_fixed_size_list(kind):
        return float(kind.list_size) * _width(kind.value_type)
    fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)
    return kind.bit_width / 8 if fixed else TEXT_BYTES


def _rate(alias: str, statistics: Statistics) -> float:
    measured = statistics.measured.rate(alias)
    if measured is None:
        return statistics.rates.get(alias, RATE)
    # A stream that was silent may yet speak: less than one row in the time seen, not none.
    return max(measured, 0.5 / statistics.measured.seconds)


def known_rates(query: Query, statistics: Statistics) -> dict[str, float]:
    """Rows a second of the inputs of which that was measured or given."""
    known = [alias for alias in query.aliases if alias in statistics.rates or statistics.measured.rate(alias)]
    return {alias: _rate(alias, statistics) for alias in known}


def _alike(query: Query, statistics: Statistics) -> dict[str, float]:
    """The share of rows that is left of each input where those that agree are combined, as far as that is known."""
    found = {alias: 1 / repeats for alias, repeats in statistics.repeats.items()}
    found |= {alias: seen.share for alias, seen in statistics.measured.alike.items() if seen.rows}
    return {alias: share for alias, share in found.items() if why_not_weighed(query, alias) is None}


def _seconds(width_us: int | None) -> float | None:
    return None if width_us is None else max(width_us / 1e6, LEAST_SECONDS)


def _kept_seconds(query: Query, alias: str, rate: float) -> float | None:
    """How long rows of an input are kept: by time, or until so many have come; None: for ever."""
    by_time, window = _seconds(query.reach.kept_for_us(alias)), query.input(alias).window
    by_rows = max(window.count / rate, LEAST_SECONDS) if isinstance(window, Rows) else None
    return min((width for width in (by_time, by_rows) if width is not None), default=None)


def _window_shares(query: Query, widths: Mapping[str, float | None]) -> dict[Edge, float]:
    """Of the pairs of two inputs whose rows are there together, the share that the windows for that pair leave.

    A row of A meets those of B that came up to so long before it as rows of B are kept, and the other way round: pairs
    come at a rate that goes with the sum of the two. Of these the windows leave what the bounds on both sides leave.
    """
    shares: dict[Edge, float] = {}
    predicates = {describe(expr) for expr in query.predicates}
    for window in query.pair_windows:
        first, second = window.bounds[0].first, window.bounds[0].second
        if describe(window.expr) in predicates:
            sides = [(query.reach.most_us(a, b), widths[a]) for a, b in ((first, second), (second, first))]
            met = sum(width or HORIZON_SECONDS for _, width in sides)
            left = sum(width or HORIZON_SECONDS if most is None else (most + 1) / 1e6 for most, width in sides)
            shares[frozenset((first, second))] = min(1.0, max(left / met, LEAST_SHARE))
    return shares


def _assume(
    query: Query, rows: Mapping[str, float], widths: Mapping[str, float | None], given: Mapping[Edge, float]
) -> dict[Edge, _Shares]:
    """The edges of the query, with what was given and, elsewhere, what is assumed."""
    edges: dict[Edge, _Shares] = {}
    for key in query.keys:
        for pair in _spanning_pairs([alias for alias in query.aliases if alias in key.aliases], given):
            edges.setdefault(pair, _Shares()).key *= min(1.0, 1 / max(rows[alias] for alias in pair))
    for pair, share in _window_shares(query, widths).items():
        edges.setdefault(pair, _Shares()).predicates *= share
    windows = {describe(window.expr) for window in query.pair_windows} | set(map(describe, count_conditions(query)))
    for predicate in query.predicates:
        pair = aliases_of(predicate)
        if len(pair) == 2 and describe(predicate) not in windows:
            edges.setdefault(pair, _Shares()).predicates *= PREDICATE_SELECTIVITY
    for pair, share in given.items():
        entry = edges.setdefault(pair, _Shares())
        if not 0 <= share <= 1:
            entry.key = share  # refused by the graph, which names the pair
        elif entry.key < 1.0:
            entry.key = min(1.0, share / entry.predicates)
            entry.predicates = share / entry.key if entry.key else 1.0
        else:
            entry.predicates = share
    return edges


def _measure(edges: dict[Edge, _Shares], pairs: tuple[PairCounts, ...]) -> None:
    """Put measured shares in the place of the others: single edges first, then sets of streams with several between."""
    crossing = [
        (pair, [edge for edge in edges if len(edge & set(pair.left)) == 1 and len(edge & set(pair.right)) == 1])
        for pair in pairs
    ]
    known: set[Edge] = set()
    # What a plan has seen that has gone counts only for edges that the one which runs says nothing of.
    for pair, found in sorted(crossing, key=lambda e: (e[0].batches < STALE, len(e[1]), -e[0].batches)):
        rest = [edge for edge in found if edge not in known]
        joined = [edge for edge in rest if edges[edge].key < 1.0]
        if joined and pair.possible:
            # Half a pair more than were seen, so that a pair never seen is rare, not impossible.
            seen = (pair.hashed + 0.5) / (pair.possible + 0.5)
            _scale(edges, found, joined, seen, "key")
        checked = [edge for edge in rest if edges[edge].predicates < 1.0]
        if checked and pair.checked:
            _scale(edges, found, checked, (pair.passed + 0.5) / (pair.checked + 0.5), "predicates")
        known.update(joined if pair.possible else (), checked if pair.checked else ())


def _scale(edges: dict[Edge, _Shares], crossing: list[Edge], change: list[Edge], seen: float, part: str) -> None:
    """Let the shares of all edges that cross multiply to what was seen, by changing some of them alike."""
    expected = 1.0
    for edge in crossing:
        expected *= getattr(edges[edge], part)
    factor = (seen / expected) ** (1 / len(change)) if expected > 0 else 1.0
    for edge in change:
        setattr(edges[edge], part, min(1.0, getattr(edges[edge], part) * factor))


def _spanning_pairs(aliases: list[str], given: Mapping[Edge, float]) -> list[Edge]:
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


def _check_names(query: Query, statistics: Statistics) -> None:
    for what, names in (("rates", statistics.rates), ("repeats", statistics.repeats)):
        for name in names:
            if name not in query.aliases:
                raise JobError(
                    f'{what} in [stats] name unknown input "{name}"',
                    detail=f"The query's inputs are {', '.join(query.aliases)}.",
                    hint=did_you_mean(name, query.aliases),
                )
    for name, repeats in statistics.repeats.items():
        if not repeats >= 1:
            raise JobError(
                f'repeats of "{name}" in [stats] are {repeats:g}', detail="A row agrees with itself: 1 or more."
            )


def _pair(query: Query, text: str) -> Edge:
    names = text.split()
    unknown = [name for name in names if name not in query.aliases]
    if len(names) != 2 or names[0] == names[1] or unknown:
        raise JobError(
            f'selectivity in [stats] is for "{text}", which is not a pair of inputs',
            detail=f"The query's inputs are {', '.join(query.aliases)}.",
            hint=(did_you_mean(unknown[0], query.aliases) if unknown else None) or 'For example "A B" = 0.01.',
        )
    return frozenset(names)


def model_for(query: Query, constants: CostConstants) -> HashProbes:
    """The hash-based kernel with these prices, where a pair costs what it takes to check a predicate of this query."""
    if not query.predicates:
        return HashProbes(constants)
    steps = sum(_operations(expr) - 1 for expr in query.predicates) / len(query.predicates)
    declared = sum(call.cost or 0.0 for expr in query.predicates for call in python_calls(expr)) / len(query.predicates)
    return HashProbes(replace(constants, compare=constants.compare + steps * constants.operation + declared))


def _operations(expr: Expr) -> int:
    """How many functions and casts an expression applies."""
    own = 0 if isinstance(expr, Column | Literal | Prepared) else 1
    return own + sum(map(_operations, children(expr)))
