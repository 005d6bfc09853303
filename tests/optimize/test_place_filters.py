"""Where filters should stand, by what they were measured to take and to pass."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.expressions import describe
from watersmeet.model.statistics import FilterCounts, Measured, PairCounts
from watersmeet.model.streams import Stream
from watersmeet.optimize.choose import STANDARD_MODEL, choose_plan
from watersmeet.optimize.place_filters import filter_prices, price_plan
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.optimize.reconsider import Comparison, Planning, Reconsidering, price_standing, search_fully
from watersmeet.plan.spec import Orders, spec_of
from watersmeet.plan.tree import Join, Tree, choose_tree, joins_of

STREAMS = {name: Stream(name, parse_schema("v BIGINT, x BIGINT, y BIGINT, ts TIMESTAMP")) for name in "ABC"}
QUERY = bind(
    "SELECT A.x, C.v FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS], C [RANGE 10 SECONDS] "
    "WHERE A.x = B.x AND B.y = C.y AND A.v > 3 AND C.v > 5",
    STREAMS,
)
OF_A, OF_C = (describe(QUERY.input(alias).filters[0]) for alias in "AC")


def measured(us_a_row: float, share: float = 0.5, ab: float = 1e-5, us_c: float | None = None) -> Statistics:
    """A hundred seconds with 1000 rows a second of each input that pass all filters."""
    seen = [FilterCounts("A", OF_A, 1e6, 1e6 * share, us_a_row)]
    seen += [] if us_c is None else [FilterCounts("C", OF_C, 1e6, 5e5, us_c)]
    pairs = (PairCounts(("A",), ("B",), 1e9, 1e9 * ab), PairCounts(("B",), ("C",), 1e9, 1e9 * 1e-4))
    return Statistics(measured=Measured(100.0, dict.fromkeys("ABC", 1e5), pairs, tuple(seen)))


def reconsider(tree: Tree, statistics: Statistics, orders: Mapping[Join, Orders] | None = None) -> Comparison:
    asked = Reconsidering(QUERY, spec_of(QUERY, tree, orders), statistics.measured, Planning(statistics))
    return Comparison(price_standing(asked, asked.graph()), search_fully(asked))


@pytest.mark.parametrize(
    "statistics, expected",
    [
        pytest.param(Statistics(), (), id="nothing is known, so at the input"),
        pytest.param(measured(0.01), (), id="a cheap filter stays at the input"),
        pytest.param(measured(20.0), ("A",), id="an expensive one goes above a join that few get through"),
        pytest.param(measured(20.0, ab=0.05), (), id="but not above one that makes more of them"),
        pytest.param(measured(0.2, share=0.001), (), id="nor where to join what it keeps out takes longer than it"),
    ],
)
def test_where_a_filter_goes(statistics: Statistics, expected: tuple[str, ...]) -> None:
    chosen = choose_plan(QUERY, "auto", statistics)
    marks = tuple(mark for join in joins_of(chosen.tree) for mark in join.filters)
    assert marks == expected, chosen.reason


def test_the_plan_that_is_chosen_is_the_cheapest_of_all_places() -> None:
    statistics = measured(20.0, us_c=15.0)
    chosen = choose_plan(QUERY, "auto", statistics)
    least = chosen.alternatives[0].cost.cpu
    graph, prices = graph_of(QUERY, statistics), filter_prices(QUERY, statistics.measured)
    assert {alias for alias, _ in prices} == {"A", "C"}
    for text in ("((A B){} C){}", "((B C){} A){}"):
        for low in ("", "[A]", "[C]"):
            for top in ("", "[A]", "[C]", "[A C]"):
                try:
                    tree = choose_tree(QUERY, text.format(low, top))
                except JobError:  # that input is not below, or is named twice
                    continue
                planned = reconsider(tree, statistics).standing
                assert planned.cost == price_plan(QUERY, graph, STANDARD_MODEL, planned, prices)
                assert least <= planned.cost.cpu * 1.0001, tree


def test_filters_at_their_inputs_cost_the_rows_before_them() -> None:
    tree = choose_tree(QUERY, "left-deep")
    cheap, dear = (reconsider(tree, s).standing.cost.cpu for s in (measured(0.0), measured(20.0, share=0.25)))
    assert dear - cheap == pytest.approx(1000 / 0.25 * 20e-6, rel=1e-3)


def test_a_standing_plan_with_its_filter_above_is_found_to_be_best_and_stays() -> None:
    statistics = measured(20.0)
    best = choose_plan(QUERY, "auto", statistics)
    found = reconsider(best.tree, statistics, best.orders)
    assert found.same
    assert found.saved == pytest.approx(0.0, abs=1e-12)
    moved = reconsider(choose_tree(QUERY, "left-deep"), statistics)
    assert not moved.same
    assert moved.saved > 0
