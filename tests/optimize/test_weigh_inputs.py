"""Which inputs are weighed, by how many of their rows agree."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.statistics import AlikeCounts, Measured, PairCounts
from watersmeet.model.streams import Stream
from watersmeet.optimize.choose import choose_plan
from watersmeet.optimize.query_graph import Statistics
from watersmeet.optimize.reconsider import (
    Comparison,
    Planning,
    Reconsidering,
    price_standing,
    search_fully,
    search_quickly,
)
from watersmeet.plan.spec import spec_of
from watersmeet.plan.tree import choose_tree, marks_of

STREAMS = {name: Stream(name, parse_schema("v BIGINT, x BIGINT, y BIGINT, ts TIMESTAMP")) for name in "ABC"}
WINDOW = "[RANGE 10 SECONDS SLIDE 5 SECONDS]"
JOINED = f"FROM A {WINDOW}, B {WINDOW}, C {WINDOW} WHERE A.x = B.x AND B.x = C.x"
QUERY = bind(f"SELECT A.x, COUNT(*) AS n, SUM(C.v) AS s {JOINED} GROUP BY A.x", STREAMS)


def measured(alike: Mapping[str, float], matches: float = 10.0) -> Statistics:
    """A hundred seconds with 10,000 rows a second of each input, of which so large a share is left."""
    share = matches / 1e5
    pairs = (PairCounts(("A",), ("B",), 1e9, 1e9 * share), PairCounts(("B",), ("C",), 1e9, 1e9 * share))
    counts = {alias: AlikeCounts(1000.0, 1000.0 * left) for alias, left in alike.items()}
    return Statistics(measured=Measured(100.0, dict.fromkeys("ABC", 1e6), pairs, alike=counts))


@pytest.mark.parametrize(
    "statistics, expected",
    [
        pytest.param(Statistics(), "", id="nothing is known, so none"),
        pytest.param(measured({}), "", id="nor where nobody has looked"),
        pytest.param(measured(dict.fromkeys("ABC", 1.0)), "", id="no two rows agree"),
        pytest.param(measured(dict.fromkeys("ABC", 0.9)), "", id="hardly any do"),
        pytest.param(measured(dict.fromkeys("ABC", 0.1)), "ABC", id="ten agree everywhere"),
        pytest.param(measured({"A": 0.1, "B": 1.0, "C": 1.0}), "A", id="ten agree in one of them"),
        pytest.param(Statistics(repeats={"A": 20.0}, rates=dict.fromkeys("ABC", 1e4)), "A", id="somebody says so"),
    ],
)
def test_which_are_weighed(statistics: Statistics, expected: str) -> None:
    chosen = choose_plan(QUERY, "auto", statistics)
    assert marks_of(chosen.tree) == dict.fromkeys(expected, True), chosen.reason


def test_what_cannot_be_weighed_is_not() -> None:
    query = bind(f"SELECT A.x, C.v {JOINED.replace(' SLIDE 5 SECONDS', '')}", STREAMS)
    chosen = choose_plan(query, "auto", measured(dict.fromkeys("ABC", 0.01)))
    assert not marks_of(chosen.tree)


@pytest.mark.parametrize("repeats, said", [({"Z": 2.0}, 'name unknown input "Z"'), ({"A": 0.5}, "1 or more")])
def test_refused_repeats(repeats: Mapping[str, float], said: str) -> None:
    with pytest.raises(JobError) as error:
        choose_plan(QUERY, "auto", Statistics(repeats=repeats))
    assert said in str(error.value)


def reconsider(plan: str, statistics: Statistics) -> Comparison:
    asked = Reconsidering(QUERY, spec_of(QUERY, choose_tree(QUERY, plan)), statistics.measured, Planning(statistics))
    standing = price_standing(asked, asked.graph())
    full, quick = search_fully(asked), search_quickly(asked, asked.graph(), standing, 10_000)
    assert marks_of(full.tree) == marks_of(quick.tree)
    return Comparison(standing, full)


def test_a_run_comes_to_weigh_what_repeats_and_stops_when_it_does_not() -> None:
    down = reconsider("(A B C)", measured(dict.fromkeys("ABC", 0.1)))
    assert marks_of(down.best.tree) == dict.fromkeys("ABC", True)
    assert down.saved > 0
    up = reconsider("(A{} B{} C{})", measured(dict.fromkeys("ABC", 1.0)))
    assert marks_of(up.best.tree) == dict.fromkeys("ABC", False), "weights stay, and nothing is combined any more"
    assert up.saved > 0
    stays = reconsider(str(up.best.tree), measured(dict.fromkeys("ABC", 1.0)))
    assert stays.same
