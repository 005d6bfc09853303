"""Plan specs: JSON both ways, and nothing left for statistics to decide once a spec is written down."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from watersmeet.errors import InternalError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.optimize.choose import choose_plan
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.layout import lay_out, lay_out_spec
from watersmeet.plan.query import Query
from watersmeet.plan.spec import FilterSpec, JoinSpec, PlanSpec, VisitSpec, spec_of
from watersmeet.plan.tree import choose_tree, joins_of, parse_tree

STREAMS = {name: Stream(name, parse_schema("w BIGINT, x BIGINT, y BIGINT, z BIGINT, ts TIMESTAMP")) for name in "ABCD"}
ONE_KEY = "SELECT A.w FROM A, B, C WHERE A.x = B.x AND B.x = C.x AND A.w > 3 AND C.w + 1 < 9"
CHAIN = "SELECT A.w FROM A, B, C, D WHERE A.x = B.x AND B.y = C.y AND C.z = D.z"
TRIANGLE = "SELECT A.w FROM A, B, C WHERE A.x = B.x AND B.y = C.y AND A.z = C.z"
SQUARE = "SELECT A.w FROM A, B, C, D WHERE A.x = B.x AND B.y = C.y AND C.z = D.z AND D.w = A.w"
ODD_NAMES = "SELECT `(`.w FROM A `(`, B ` [` WHERE `(`.x = ` [`.x"


def query_of(text: str) -> Query:
    return bind(text, STREAMS)


def written(spec: PlanSpec) -> PlanSpec:
    """`spec` as it comes back from a file."""
    return PlanSpec.from_json(json.loads(json.dumps(spec.to_json())))


@pytest.mark.parametrize("lineage", [False, True])
@pytest.mark.parametrize(
    "text, setting",
    [
        (ONE_KEY, "mjoin"),
        (ONE_KEY, "left-deep"),
        (CHAIN, "left-deep"),
        (CHAIN, "((A B) (C D))"),
        (CHAIN, "mjoin"),
        (CHAIN, "((A B C) D)"),
        (TRIANGLE, "mjoin"),
        (TRIANGLE, "((A B) C)"),
        (SQUARE, "mjoin"),
        (ODD_NAMES, "mjoin"),
    ],
)
def test_a_spec_comes_back_from_json_as_it_was(text: str, setting: str, lineage: bool) -> None:
    query = query_of(text)
    plan = lay_out(query, choose_tree(query, setting), lineage=lineage)
    assert written(plan.spec) == plan.spec
    assert lay_out_spec(query, written(plan.spec)) == plan


def test_the_json_of_a_spec() -> None:
    query = query_of(ONE_KEY)
    tree = parse_tree("((A B) C)", query)
    upper, lower = tree, next(iter(joins_of(tree)))
    spec = spec_of(query, tree, {lower: ((1,), (0,)), upper: ((1,), (0,))}, lineage=True)
    assert spec.to_json() == {
        "tree": [["A", "B"], "C"],
        "joins": [
            {"join": "(A B)", "orders": [[1], [0]], "routes": []},
            {"join": "((A B) C)", "orders": [[1], [0]], "routes": []},
        ],
        "filters": [
            {"alias": "A", "filter": "greater(A.w, 3)", "at": "input"},
            {"alias": "C", "filter": "less(add(C.w, 1), 9)", "at": "input"},
        ],
        "lineage": [["A", "B"]],
    }


def test_routes_are_written_down_with_keys_and_checks() -> None:
    query = query_of(TRIANGLE)
    spec = spec_of(query, choose_tree(query, "mjoin"))
    (join,) = spec.joins
    # C is kept on y and z, which A and B have once they are together. B is kept on x, so origin C checks y afterwards.
    assert join.routes == (
        (VisitSpec(1, ("k0",)), VisitSpec(2, ("k1", "k2"))),
        (VisitSpec(0, ("k0",)), VisitSpec(2, ("k1", "k2"))),
        (VisitSpec(0, ("k2",)), VisitSpec(1, ("k0",), ("k1",))),
    )
    assert join.orders == ((1, 2), (0, 2), (0, 1))


def test_orders_of_a_routed_join_are_those_that_its_equalities_allow() -> None:
    query = query_of(CHAIN)
    tree = choose_tree(query, "mjoin")
    (join,) = spec_of(query, tree, {tree: ((3, 2, 1), (0, 2, 3), (1, 0, 3), (0, 1, 2))}).joins
    assert join.orders == ((1, 2, 3), (0, 2, 3), (1, 0, 3), (2, 1, 0))


# Two statistics under which the routes of the same tree keep other states, so that to choose anew would lose rows.
SEEN = {
    TRIANGLE: [
        Statistics({"A": 10, "B": 1000, "C": 10}, {"A B": 0.5, "B C": 1e-6, "A C": 1e-6}),
        Statistics({"A": 1000, "B": 10, "C": 10}, {"A B": 1e-6, "B C": 0.5, "A C": 0.5}),
    ],
    SQUARE: [
        Statistics({"A": 10, "B": 1000, "C": 10, "D": 10}, {"A B": 0.5, "B C": 1e-6, "C D": 1e-6, "A D": 1e-6}),
        Statistics({"A": 10, "B": 10, "C": 10, "D": 1000}, {"A B": 1e-6, "B C": 1e-6, "C D": 0.5, "A D": 0.5}),
    ],
}


@pytest.mark.parametrize("text", [TRIANGLE, SQUARE])
def test_routes_of_cyclic_keys_stay_as_they_are_whatever_the_statistics_say(text: str) -> None:
    query = query_of(text)
    tree = choose_tree(query, "mjoin")
    first, second = (lay_out(query, tree, choose_plan(query, "mjoin", statistics).orders) for statistics in SEEN[text])
    assert set(first.states) != set(second.states), "statistics decide which states there are"
    again = lay_out_spec(query, written(first.spec))
    assert again == first
    assert list(again.states) == list(first.states)
    assert [stage.ports for stage in again.stages] == [stage.ports for stage in first.stages]


def test_probe_orders_stay_as_they_are_whatever_the_statistics_say() -> None:
    query = query_of(ONE_KEY)
    chosen = [
        choose_plan(query, "mjoin", Statistics({"A": 1, "B": 1, "C": 1}, selective))
        for selective in ({"A B": 1e-6, "A C": 1.0, "B C": 1.0}, {"A B": 1.0, "A C": 1.0, "B C": 1e-6})
    ]
    first, second = (spec_of(query, entry.tree, entry.orders) for entry in chosen)
    assert first.joins != second.joins
    (node,) = lay_out_spec(query, written(first)).operators.values()
    assert node.orders == first.joins[0].orders


def test_joins_come_after_those_that_feed_them() -> None:
    query = query_of(CHAIN)
    tree = parse_tree("((A B) (C D))", query)
    assert list(map(str, joins_of(tree))) == ["(A B)", "(C D)", "((A B) (C D))"]
    assert list(joins_of(parse_tree("(A B C D)", query).children[0])) == []


def test_lineage_names_the_joins_below_the_root_that_share_a_key() -> None:
    query = query_of(CHAIN)

    def lineage(tree: str) -> tuple[tuple[str, ...], ...]:
        return spec_of(query, parse_tree(tree, query), lineage=True).lineage

    assert lineage("(((B A) C) D)") == (("A", "B"), ("A", "B", "C"))
    assert lineage("(A B C D)") == ()
    assert lineage("((A B C) D)") == (), "groups of a routed join are not watched"
    assert spec_of(query, parse_tree("(((A B) C) D)", query)).lineage == ()


def test_a_spec_describes_all_joins_of_its_tree() -> None:
    query = query_of(ONE_KEY)
    spec = spec_of(query, choose_tree(query, "left-deep"))
    with pytest.raises(InternalError, match=r"plan spec of \(\(A B\) C\) does not describe all its joins"):
        replace(spec, joins=spec.joins[:1])
    assert spec.join(spec.tree) == JoinSpec(((1,), (0,)))


def test_every_filter_stands_somewhere() -> None:
    query = query_of(ONE_KEY)
    spec = spec_of(query, choose_tree(query, "mjoin"))
    assert spec.filters[0] == FilterSpec("A", "greater(A.w, 3)")
    with pytest.raises(AssertionError, match="every filter"):
        lay_out_spec(query, replace(spec, filters=spec.filters[1:]))
