"""How many slots a ring should lie over when a run begins: rates, selectivities and prices in, a number out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from small_plans import STREAMS
from watersmeet.lang.binder import bind
from watersmeet.model.statistics import Measured, PairCounts, PredicateCounts
from watersmeet.optimize.choose import STANDARD
from watersmeet.optimize.estimates import Estimates, HashProbes
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.optimize.ring_cost import comparisons, sends
from watersmeet.optimize.ring_length import ring_length, rings_of
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.tree import choose_tree

MODEL = HashProbes(STANDARD)


def plan(tree: str = "mjoin", where: str = "A.v < B.v AND B.v < C.v") -> PhysicalPlan:
    windows = "A [RANGE 10 SECONDS], B [RANGE 10 SECONDS], C [RANGE 10 SECONDS]"
    query = bind(f"SELECT A.k FROM {windows} WHERE {where}", STREAMS)
    return lay_out(query, choose_tree(query, tree))


def given(rate: float, selectivity: float = 0.1) -> Statistics:
    return Statistics(dict.fromkeys("ABC", rate), {"A B": selectivity, "B C": selectivity})


def test_the_figures_of_the_paper() -> None:
    """500 rows in each window and a selectivity of .1: 25,500 comparisons and 51 sends for a row."""
    cycle = plan(where="A.v < B.v AND B.v < C.v AND C.k < A.k")
    statistics = Statistics(dict.fromkeys("ABC", 50.0), {"A B": 0.1, "B C": 0.1, "A C": 0.1})
    (ring,) = rings_of(cycle, Estimates(graph_of(cycle.query, statistics), MODEL), 1e-6)
    assert comparisons(ring) == pytest.approx(25_500)
    assert sends(ring) == pytest.approx(51)


def test_what_equalities_connect_enters_the_ring_as_a_stream() -> None:
    """A with B: 1,000 rows alive, of which a fifth comes each second."""
    joined = plan("((A B) C)", "A.k = B.k AND B.v < C.v")
    graph = graph_of(joined.query, given(100, 0.001))
    (ring,) = rings_of(joined, Estimates(graph, MODEL), 1e-6)
    assert [(round(entry.rate), round(entry.rows)) for entry in ring.streams] == [(200, 1000), (100, 1000)]


def test_two_rings_are_one_load() -> None:
    chain = plan("((A B) C)")
    rings = rings_of(chain, Estimates(graph_of(chain.query, given(50)), MODEL), 1e-6)
    assert len(rings) == 2


@pytest.mark.parametrize(
    "rate, slots",
    [(5, 1), (400, 8), (100, 8)],
    ids=["next to nothing to do", "more than slots can do", "a batch is shortest over all"],
)
def test_lengths(rate: float, slots: int) -> None:
    assert ring_length(plan(), given(rate), 8) == slots


def test_a_task_has_its_price() -> None:
    """Ten times as dear, more of them are not worth it."""
    dear = HashProbes(replace(STANDARD, batch=10 * STANDARD.batch))
    assert ring_length(plan(), given(60), 8, model=dear) < ring_length(plan(), given(60), 8, model=MODEL)


def test_predicates_cost_what_they_were_measured_to_cost() -> None:
    pairs = tuple(PairCounts((a,), (b,), 1e6, 1e6, 1e6, 1e5) for a, b in ("AB", "BC"))
    measured = Measured(10.0, dict.fromkeys("ABC", 300.0), pairs)
    cheap = replace(measured, predicates=(PredicateCounts("p", 2e6, 2e5, 0.002),))
    dear = replace(measured, predicates=(PredicateCounts("p", 2e6, 2e5, 20.0),))
    assert ring_length(plan(), Statistics(measured=cheap), 8) < ring_length(plan(), Statistics(measured=dear), 8) == 8
