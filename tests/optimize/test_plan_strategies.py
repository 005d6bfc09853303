"""Strategies: no false promise, exhaustive search is never beaten, the reasons are told, and none takes long."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimize.join_graphs import NAMES, graphs, models
from watersmeet.optimize import (
    NO_LIMITS,
    STRATEGIES,
    CostModel,
    HashProbes,
    Limits,
    auto,
    bjtree_init,
    cost,
    dominating,
    exhaustive,
    mjoin_init,
)
from watersmeet.plan import JoinGraph


@st.composite
def limits_of(draw: st.DrawFn, graph: JoinGraph, model: CostModel) -> Limits:
    """Limits that are sometimes out of reach, sometimes ample, mostly between the costs of the extreme plans."""
    plans = dominating(graph, NO_LIMITS, model)
    first, last = plans[0].cost, plans[-1].cost
    share = st.floats(-0.2, 1.2)
    cpu = first.cpu + draw(share) * (last.cpu - first.cpu)
    memory = last.memory + draw(share) * (first.memory - last.memory)
    return Limits(max(cpu, 1e-9), max(memory, 1e-9))


@settings(max_examples=120, deadline=None)
@given(st.data(), graphs(), models)
def test_what_is_called_qualified_is_and_exhaustive_is_never_worse(
    data: st.DataObject, graph: JoinGraph, model: CostModel
) -> None:
    limits = data.draw(limits_of(graph, model))
    best = exhaustive(graph, limits, model)
    for name, strategy in STRATEGIES:
        plan = strategy(graph, limits, model)
        assert plan.strategy == name
        price = cost(plan, graph, model)
        assert price == plan.cost
        assert plan.qualifies == (price.cpu <= limits.cpu and price.memory <= limits.memory)
        assert plan.tree.aliases == frozenset(graph.streams)
        if plan.qualifies:
            assert best.cost.cpu <= plan.cost.cpu * (1 + 1e-9)
            # A limit that a plan meets to the last digit may be missed by one rounding.
            slack = Limits(limits.cpu * (1 + 1e-9), limits.memory * (1 + 1e-9))
            assert slack.allow(best.cost)
        else:
            assert best.qualifies or limits.overload(best.cost) <= limits.overload(plan.cost) * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(graphs(least=2, most=5), models)
def test_orders_name_every_other_input(graph: JoinGraph, model: CostModel) -> None:
    for _, strategy in STRATEGIES:
        plan = strategy(graph, NO_LIMITS, model)
        assert plan.orders[0][0] == plan.tree
        for node, orders in plan.orders:
            places = range(len(node.children))
            assert [sorted((origin, *order)) for origin, order in enumerate(orders)] == [list(places) for _ in places]


CHAIN = JoinGraph({"A": 20, "B": 20, "C": 20, "D": 20}, {"A B": 0.02, "B C": 0.2, "C D": 0.05}, 10)


@pytest.mark.parametrize(
    ("limits", "qualified"),
    [
        pytest.param(NO_LIMITS, (True, True), id="without limits the first plan of each will do"),
        pytest.param(Limits(memory=800), (True, True), id="memory for the streams alone leaves the mjoin"),
        pytest.param(Limits(memory=799), (False, False), id="less than that leaves nothing"),
        pytest.param(Limits(cpu=1), (False, False), id="hardly any CPU leaves nothing"),
    ],
)
def test_table(limits: Limits, qualified: tuple[bool, bool]) -> None:
    plans = (mjoin_init(CHAIN, limits), bjtree_init(CHAIN, limits))
    assert tuple(plan.qualifies for plan in plans) == qualified
    for plan in plans:
        assert ("does not fit" in plan.reason) == (not plan.qualifies)


def test_states_are_kept_until_the_cpu_fits() -> None:
    mjoin = mjoin_init(CHAIN)
    assert str(mjoin.tree) == "(A B C D)"
    plan = mjoin_init(CHAIN, Limits(cpu=mjoin.cost.cpu * 0.999))
    assert plan.qualifies and plan.cost.memory > mjoin.cost.memory
    assert "kept 1 intermediate state, from the mjoin" in plan.reason


def test_states_are_removed_until_the_memory_fits() -> None:
    bjtree = bjtree_init(CHAIN)
    assert all(len(node.children) == 2 for node, _ in bjtree.orders)
    plan = bjtree_init(CHAIN, Limits(memory=bjtree.cost.memory * 0.999))
    assert plan.qualifies and plan.cost.memory < bjtree.cost.memory
    assert "from the binary tree" in plan.reason


def test_auto_searches_all_plans_where_that_is_quick() -> None:
    few, many = random_graph(7, random.Random(3)), random_graph(8, random.Random(3))
    assert replace(auto(few), strategy="", reason="") == replace(exhaustive(few), strategy="", reason="")
    assert auto(many).cost.cpu == min(mjoin_init(many).cost.cpu, bjtree_init(many).cost.cpu)
    assert auto(many).reason.startswith("auto by ")


def test_a_disconnected_graph_gets_a_cartesian_plan() -> None:
    graph = JoinGraph({"A": 1, "B": 1, "C": 1}, {"A B": 0.5}, 1)
    assert all(strategy(graph, NO_LIMITS, HashProbes()).qualifies for _, strategy in STRATEGIES)


def random_graph(count: int, source: random.Random, extra: float = 0.3) -> JoinGraph:
    names = NAMES[:count]
    edges = {(names[source.randrange(i)], names[i]): source.random() for i in range(1, count)}
    for pair in itertools.combinations(names, 2):
        if source.random() < extra:
            edges.setdefault(pair, source.random())
    return JoinGraph({name: source.uniform(1, 100) for name in names}, edges, 1)


@pytest.mark.parametrize("extra", [0.0, 0.3, 1.0])
def test_twenty_streams_take_under_100_ms(extra: float) -> None:
    # CPU time, the best of two, so that other work on the machine does not count. No plan meets the limit on CPU, so
    # the searches go on for as long as they ever do.
    graph = random_graph(20, random.Random(7), extra)
    bjtree = bjtree_init(graph)
    limits = Limits(bjtree.cost.cpu / 2, bjtree.cost.memory * 1.01)
    for strategy in (mjoin_init, bjtree_init):
        assert min(seconds(strategy, graph, limits) for _ in range(2)) < 0.1


def test_all_plans_of_seven_streams_take_under_50_ms() -> None:
    graph = random_graph(7, random.Random(7))
    assert min(seconds(exhaustive, graph, NO_LIMITS) for _ in range(3)) < 0.05


def seconds(strategy: object, graph: JoinGraph, limits: Limits) -> float:
    begin = time.process_time()
    strategy(graph, limits)  # type: ignore[operator]
    return time.process_time() - begin
