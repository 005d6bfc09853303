"""The order by rank against all orders, and where it departs from the dissertation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from optimize.join_graphs import best_connected_cpu, graphs, models, order_cpu, trees
from watersmeet.optimize import CostModel, NestedLoops, mjoin_order
from watersmeet.plan import JoinGraph


@settings(max_examples=80, deadline=None)
@given(trees(), models)
def test_never_worse_than_all_orders_without_cartesian_products(graph: JoinGraph, model: CostModel) -> None:
    for origin, order in mjoin_order(graph, model).items():
        best = best_connected_cpu(graph, model, origin)
        assert order_cpu(graph, model, origin, order) <= best * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(graphs(), models)
def test_every_stream_probes_every_other_once(graph: JoinGraph, model: CostModel) -> None:
    for origin, order in mjoin_order(graph, model).items():
        assert sorted((origin, *order)) == sorted(graph.streams)


def test_looks_beyond_the_next_join() -> None:
    # From A, B yields fewer rows than C, but C leads to D, which nearly nothing passes.
    graph = JoinGraph({"A": 1, "B": 2, "C": 3, "D": 50}, {"A B": 1, "A C": 1, "C D": 0.001}, 1)
    assert mjoin_order(graph)["A"] == ("C", "D", "B")


def test_takes_a_cartesian_product_where_that_is_cheaper() -> None:
    # As in figure 5.3: B and C are slow, A between them is fast.
    graph = JoinGraph({"A": 100, "B": 1, "C": 2}, {"A B": 0.5, "A C": 0.5}, 1)
    assert mjoin_order(graph)["B"] == ("C", "A")


def test_keeps_to_the_predicates_where_the_spanning_tree_with_cartesian_edges_does_worse() -> None:
    # The lightest tree has B x C (weight 300) in place of A - B (500): by it rows of B would go to C first, although
    # A and D together leave nearly nothing.
    graph = JoinGraph({"A": 50, "B": 100, "C": 3, "D": 20}, {"A B": 0.1, "A C": 0.5, "A D": 0.001}, 1)
    assert order_cpu(graph, NestedLoops(), "B", ("C", "D", "A")) == pytest.approx(63.15)
    assert mjoin_order(graph)["B"] == ("A", "D", "C")
    assert order_cpu(graph, NestedLoops(), "B", ("A", "D", "C")) == pytest.approx(5.25)


@pytest.mark.parametrize("selectivity", [0, 1])
def test_selectivities_at_the_ends(selectivity: float) -> None:
    graph = JoinGraph({"A": 5, "B": 5, "C": 5}, {"A B": selectivity, "B C": 0.5}, 1)
    first = {0: "A", 1: "C"}[selectivity]
    assert mjoin_order(graph)["B"][0] == first


def test_a_disconnected_graph_is_joined_by_cartesian_products() -> None:
    graph = JoinGraph({"A": 5, "B": 5, "C": 5, "D": 5}, {"A B": 0.01, "C D": 0.02}, 1)
    assert mjoin_order(graph)["A"] == ("B", "C", "D") or mjoin_order(graph)["A"] == ("B", "D", "C")
