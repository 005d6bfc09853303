"""What each search promises about the plans that it passes: states kept, states removed, neighbours, all plans."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings

from optimize.join_graphs import all_trees, connected_binary_trees, graphs, models, stars
from watersmeet.optimize import (
    NO_LIMITS,
    Cost,
    CostModel,
    Limits,
    NestedLoops,
    bjtree_init,
    cost,
    dominating,
    exhaustive,
)
from watersmeet.optimize.estimates import Estimates
from watersmeet.optimize.local_search import improve
from watersmeet.optimize.min_state import join_smallest, join_smallest_joined, min_state
from watersmeet.optimize.shape import Shape, memory, mjoin_shape
from watersmeet.optimize.state_removal import remove_states
from watersmeet.optimize.state_selection import select_states
from watersmeet.plan import JoinGraph


@settings(max_examples=40, deadline=None)
@given(stars(most=6))
def test_min_state_is_the_smallest_binary_tree_of_a_star(graph: JoinGraph) -> None:
    best = min(cost(tree, graph).memory for tree in connected_binary_trees(graph, graph.streams))
    estimates = Estimates(graph, NestedLoops())
    assert memory(estimates, join_smallest_joined(estimates)) == pytest.approx(best, rel=1e-12)
    assert bjtree_init(graph).cost.memory <= best * (1 + 1e-12)


def test_cartesian_products_can_mislead_min_state_even_on_a_star() -> None:
    # C x D is the lightest pair (20 rows) but leads to A B (250); A D (25) and then B (125) is smaller.
    graph = JoinGraph({"A": 50, "B": 50, "C": 20, "D": 1}, {"A B": 0.1, "A C": 0.5, "A D": 0.5}, 1)
    estimates = Estimates(graph, NestedLoops())
    assert memory(estimates, join_smallest(estimates)) == pytest.approx(121 + 20 + 250)
    assert memory(estimates, min_state(estimates)) == pytest.approx(121 + 25 + 125)


@settings(max_examples=60, deadline=None)
@given(graphs(least=3), models)
def test_each_state_kept_saves_cpu(graph: JoinGraph, model: CostModel) -> None:
    estimates = Estimates(graph, model)
    passed = list(select_states(estimates, float("inf")))
    assert passed[0][0] == mjoin_shape(estimates)
    assert all(later.cpu < earlier.cpu for (_, earlier), (_, later) in pairwise(passed))
    assert all(is_plan(estimates, shape) for shape, _ in passed)


@settings(max_examples=60, deadline=None)
@given(graphs(least=3), models)
def test_removal_ends_at_the_mjoin_one_state_less_at_a_time(graph: JoinGraph, model: CostModel) -> None:
    estimates = Estimates(graph, model)
    passed = list(remove_states(estimates, min_state(estimates)))
    assert [len(shape) for shape, _ in passed] == list(range(len(graph.streams) - 1, 0, -1))
    assert all(later.memory <= earlier.memory for (_, earlier), (_, later) in pairwise(passed))
    assert all(is_plan(estimates, shape) for shape, _ in passed)


@settings(max_examples=40, deadline=None)
@given(graphs(least=2, most=5), models)
def test_every_neighbour_is_a_plan(graph: JoinGraph, model: CostModel) -> None:
    estimates = Estimates(graph, model)
    shape, price = next(remove_states(estimates, min_state(estimates)))
    for neighbour, _ in improve(estimates, Limits(price.cpu / 2, price.memory / 2), shape, price):
        assert is_plan(estimates, neighbour)


def is_plan(estimates: Estimates, shape: Shape) -> bool:
    """Each node's inputs divide it, and every input of two or more streams is a node, and no other node is there."""
    inputs = [block for blocks in shape.values() for block in blocks]
    divided = all(sum(blocks) == node and len(blocks) > 1 for node, blocks in shape.items())
    disjoint = all(sum(b.bit_count() for b in blocks) == node.bit_count() for node, blocks in shape.items())
    inner = sorted(block for block in inputs if block.bit_count() > 1)
    return divided and disjoint and sorted([*inner, estimates.everything]) == sorted(shape)


@settings(max_examples=25, deadline=None)
@given(graphs(least=2, most=5), models)
def test_no_tree_is_outside_what_dominates(graph: JoinGraph, model: CostModel) -> None:
    plans = dominating(graph, NO_LIMITS, model)
    slack = 1 + 1e-9
    for tree in all_trees(graph.streams):
        price = cost(tree, graph, model)
        assert any(p.cost.cpu <= price.cpu * slack and p.cost.memory <= price.memory * slack for p in plans)


def dominates(one: Cost, other: Cost) -> bool:
    """No worse in both, and better in one."""
    return one.cpu <= other.cpu and one.memory <= other.memory and one != other


@settings(max_examples=60, deadline=None)
@given(graphs(), models)
def test_dominating_plans_do_not_dominate_each_other(graph: JoinGraph, model: CostModel) -> None:
    plans = dominating(graph, NO_LIMITS, model)
    assert not any(dominates(p.cost, q.cost) for p in plans for q in plans)
    assert len({p.cost for p in plans}) == len(plans)
    best = exhaustive(graph, NO_LIMITS, model)
    assert min(p.cost.cpu for p in plans) == pytest.approx(best.cost.cpu, rel=1e-9)
    mjoin = memory(estimates := Estimates(graph, model), mjoin_shape(estimates))
    assert min(p.cost.memory for p in plans) == pytest.approx(mjoin, rel=1e-9)


def test_dominating_plans_of_many_streams() -> None:
    names = "ABCDEFGHIJKL"
    graph = JoinGraph({n: 10 + 3 * i for i, n in enumerate(names)}, dict.fromkeys(pairwise(names), 0.05), 1)
    plans = dominating(graph, Limits(cpu=1e9, memory=400))
    assert len(plans) > 1
    assert not any(dominates(p.cost, q.cost) for p in plans for q in plans)
    assert any(p.qualifies for p in plans) and not all(p.qualifies for p in plans)
