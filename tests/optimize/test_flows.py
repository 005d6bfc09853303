"""Rates and sizes of a plan's inputs, worked out by hand, and against the memory of its cost."""

from __future__ import annotations

import math

import pytest

from optimize.join_graphs import all_trees
from watersmeet.optimize import cost
from watersmeet.optimize.flows import Flow, estimate_source, flows
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan import JoinGraph
from watersmeet.plan.tree import Join, Leaf

A, B, C = map(Leaf, "ABC")
WINDOWS = {"A": 2, "B": 5, "C": 0.5}
# A chain A - B - C with windows of different width: A holds 8 * 2 = 16 rows, B 4 * 5 = 20, C 16 * 0.5 = 8.
GRAPH = JoinGraph(
    {"A": 8, "B": 4, "C": 16}, {"A B": 0.125, "B C": 0.25}, WINDOWS, row_bytes={"A": 10, "B": 20, "C": 30}
)
STREAMS = {
    frozenset("A"): Flow(8, 16, 160),
    frozenset("B"): Flow(4, 20, 400),
    frozenset("C"): Flow(16, 8, 240),
}
# Results by their newest row. A: 8 rows meet 20 * 0.125 = 2.5 of B, and then 8 * 0.25 = 2 of C. B: 4 rows meet
# 16 * 0.125 = 2 of A and 2 of C. C: 16 rows meet 20 * 0.25 = 5 of B and then 2 of A.
RESULTS = {frozenset("ABC"): Flow(8 * 2.5 * 2 + 4 * 2 * 2 + 16 * 5 * 2, 0, 0)}


def test_one_join() -> None:
    check(flows(Join((A, B, C)), GRAPH), STREAMS | RESULTS)


def test_an_intermediate_result_has_a_rate_and_a_state() -> None:
    # 16 * 20 * 0.125 = 40 pairs of 30 bytes are alive. New ones: 8 rows of A meet 2.5 of B, 4 of B meet 2 of A.
    pairs = {frozenset("AB"): Flow(8 * 2.5 + 4 * 2, 40, 1200)}
    check(flows(Join((Join((A, B)), C)), GRAPH), STREAMS | pairs | RESULTS)
    # 20 * 8 * 0.25 = 40 pairs of 50 bytes. New ones: 4 rows of B meet 2 of C, 16 of C meet 5 of B.
    pairs = {frozenset("BC"): Flow(4 * 2 + 16 * 5, 40, 2000)}
    check(flows(Join((A, Join((B, C)))), GRAPH), STREAMS | pairs | RESULTS)


def test_an_unbounded_window_is_as_old_as_the_horizon() -> None:
    graph = JoinGraph({"A": 8, "B": 4}, {"A B": 0.5}, {"A": 2, "B": None}, horizon=100)
    # 8 rows of A meet 400 * 0.5 of B, 4 rows of B meet 16 * 0.5 of A. Nobody knows the size of a row.
    expected = {
        frozenset("A"): Flow(8, 16, 0),
        frozenset("B"): Flow(4, 400, 0),
        frozenset("AB"): Flow(8 * 200 + 4 * 8, 0, 0),
    }
    check(flows(Join((A, B)), graph), expected)


def test_what_never_matches_does_not_flow() -> None:
    graph = JoinGraph({"A": 8, "B": 4}, {"A B": 0}, 1)
    assert flows(Join((A, B)), graph)[frozenset("AB")] == Flow(0, 0, 0)


def test_states_add_up_to_the_memory_of_the_cost() -> None:
    graph = JoinGraph(
        {"A": 8, "B": 4, "C": 16, "D": 3},
        {"A B": 0.125, "B C": 0.25, "C D": 0.01},
        WINDOWS | {"D": 7},
        row_bytes={"A": 10, "B": 20, "C": 30, "D": 8},
    )
    for tree in all_trees(tuple("ABCD")):
        held = math.fsum(flow.bytes for flow in flows(tree, graph).values())
        assert held == pytest.approx(cost(tree, graph).memory)


def test_the_source_says_what_was_assumed() -> None:
    assert estimate_source(GRAPH, Statistics({"A": 8})) == (
        "estimated from the statistics given, and defaults for the rest"
    )
    unbounded = JoinGraph({"A": 8, "B": 4}, {}, None, horizon=3600)
    assert estimate_source(unbounded, Statistics()) == (
        "estimated from default statistics, as none were given; unbounded windows as they are after 60 minutes"
    )


def check(found: dict[frozenset[str], Flow], expected: dict[frozenset[str], Flow]) -> None:
    assert found.keys() == expected.keys()
    for streams, flow in expected.items():
        assert vars(found[streams]) == pytest.approx(vars(flow)), sorted(streams)
