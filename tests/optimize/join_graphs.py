"""Join graphs for the tests of the optimiser: random ones, and plans over them found without any cleverness."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hypothesis import strategies as st

from watersmeet.optimize import CostConstants, CostModel, HashProbes, NestedLoops
from watersmeet.plan import JoinGraph
from watersmeet.plan.tree import Join, Leaf, Tree

NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

rates = st.one_of(st.integers(1, 100), st.floats(0.01, 1000))
widths = st.one_of(st.just(1), st.floats(0.1, 20))
selectivities = st.one_of(st.floats(0, 1), st.floats(0, 0.05), st.sampled_from([0, 1]))
models = st.sampled_from(
    [
        NestedLoops(),
        HashProbes(),
        NestedLoops(CostConstants(compare=0.1)),
        HashProbes(CostConstants(2, 1, 0.5, 3)),
        HashProbes(CostConstants(compare=0.3)),
    ]
)


def _graph(draw: st.DrawFn, names: str, edges: dict[tuple[str, str], float]) -> JoinGraph:
    """With any rates and windows, and for some pairs a hash that serves a part of the selectivity only."""
    partly = {pair: share + (1 - share) * draw(st.floats(0, 1)) for pair, share in edges.items() if draw(st.booleans())}
    return JoinGraph(
        {name: draw(rates) for name in names}, edges, {name: draw(widths) for name in names}, hashed=partly
    )


@st.composite
def trees(draw: st.DrawFn, least: int = 3, most: int = 8) -> JoinGraph:
    """An acyclic, connected graph."""
    names = NAMES[: draw(st.integers(least, most))]
    edges = {(names[draw(st.integers(0, i - 1))], names[i]): draw(selectivities) for i in range(1, len(names))}
    return _graph(draw, names, edges)


@st.composite
def stars(draw: st.DrawFn, least: int = 3, most: int = 7) -> JoinGraph:
    names = NAMES[: draw(st.integers(least, most))]
    edges = {("A", name): draw(selectivities) for name in names[1:]}
    return _graph(draw, names, edges)


@st.composite
def graphs(draw: st.DrawFn, least: int = 2, most: int = 6) -> JoinGraph:
    """Any graph: cyclic, disconnected, without any edge."""
    names = NAMES[: draw(st.integers(least, most))]
    pairs = [(a, b) for a in names for b in names if a < b]
    edges = {pair: draw(selectivities) for pair in pairs if draw(st.booleans())}
    return _graph(draw, names, edges)


def best_connected_cpu(graph: JoinGraph, model: CostModel, origin: str) -> float:
    """CPU of a row of `origin` in the cheapest of all probe orders without cartesian products, by trying them all."""

    def go_on(joined: tuple[str, ...], partial: float) -> float:
        costs = []
        for name in graph.streams:
            linked = [(a, b) for a in joined for b in [name] if (a, b) in edges]
            if name not in joined and linked:
                state = graph.rates[name] * graph.width(name)
                results = partial * state * math.prod(edges[pair] for pair in linked)
                hashed = math.prod(graph.hash_share(a, name) for a in joined)
                costs.append(model.hop(partial, state, hashed, results) + go_on((*joined, name), results))
        return min(costs) if costs else 0.0

    edges = {**graph.selectivities, **{(b, a): s for (a, b), s in graph.selectivities.items()}}
    return go_on((origin,), 1.0)


def order_cpu(graph: JoinGraph, model: CostModel, origin: str, order: tuple[str, ...]) -> float:
    joined, partial, total = [origin], 1.0, 0.0
    for name in order:
        state = graph.rates[name] * graph.width(name)
        results = partial * state * math.prod(graph.selectivity(name, other) for other in joined)
        hashed = math.prod(graph.hash_share(name, other) for other in joined)
        total += model.hop(partial, state, hashed, results)
        joined, partial = [*joined, name], results
    return total


def all_trees(names: tuple[str, ...]) -> Iterator[Tree]:
    """Every tree of joins of two or more inputs over these streams."""
    if len(names) == 1:
        yield Leaf(names[0])
        return
    for parts in _partitions(names):
        if len(parts) > 1:
            for children in _products([tuple(all_trees(part)) for part in parts]):
                yield Join(children)


def connected_binary_trees(graph: JoinGraph, names: tuple[str, ...]) -> Iterator[Tree]:
    """Every binary tree without cartesian products."""
    if len(names) == 1:
        yield Leaf(names[0])
        return
    for parts in _partitions(names):
        if len(parts) == 2 and any(p in graph.selectivities for p in _pairs(*parts)):
            for children in _products([tuple(connected_binary_trees(graph, part)) for part in parts]):
                yield Join(children)


def _pairs(first: tuple[str, ...], second: tuple[str, ...]) -> list[tuple[str, str]]:
    return [pair for a in first for b in second for pair in ((a, b), (b, a))]


def _partitions(names: tuple[str, ...]) -> Iterator[list[tuple[str, ...]]]:
    if not names:
        yield []
        return
    first, *rest = names
    for parts in _partitions(tuple(rest)):
        yield [(first,), *parts]
        for place, part in enumerate(parts):
            yield [*parts[:place], (first, *part), *parts[place + 1 :]]


def _products(choices: list[tuple[Tree, ...]]) -> Iterator[tuple[Tree, ...]]:
    if not choices:
        yield ()
        return
    for head in choices[0]:
        for tail in _products(choices[1:]):
            yield (head, *tail)
