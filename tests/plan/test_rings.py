"""Queries whose inputs equalities do not connect: their parts, their routes, and the trees that they allow."""

from __future__ import annotations

import pytest

from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.slices import BY_TIME
from watersmeet.model.streams import Stream
from watersmeet.plan.hop import HopStage
from watersmeet.plan.layout import lay_out
from watersmeet.plan.query import Query
from watersmeet.plan.tree import choose_tree, left_deep, ring_of_parts

STREAMS = {name: Stream(name, parse_schema("k BIGINT, x DOUBLE, ts TIMESTAMP")) for name in "ABCD"}


def bound(conditions: str, streams: str = "A [RANGE 1 SECOND], B [RANGE 2 SECONDS], C, D") -> Query:
    return bind(f"SELECT A.k FROM {streams} WHERE {conditions}", STREAMS)


@pytest.mark.parametrize(
    ("conditions", "parts"),
    [
        ("A.x < B.x", "A|B|C|D"),
        ("A.k = B.k AND C.k = D.k", "AB|CD"),
        ("A.k = C.k AND B.k = D.k AND A.x = B.x", "AC|BD"),  # floats are compared, and no key
        ("A.k = B.k OR A.k = C.k", "A|B|C|D"),
        ("A.k = B.k AND B.k = C.k AND C.k + 1 = D.k", "ABCD"),
    ],
)
def test_parts_are_what_equalities_connect(conditions: str, parts: str) -> None:
    assert bound(conditions).parts == tuple(map(frozenset, parts.split("|")))


@pytest.mark.parametrize("joined", ["A CROSS JOIN B", "A, B", "A JOIN B ON A.x < B.x"])
def test_two_inputs_need_no_equality(joined: str) -> None:
    assert len(bind(f"SELECT A.k FROM {joined}", STREAMS).parts) == 2


def test_trees_join_parts_as_wholes() -> None:
    query = bound("A.k = C.k AND B.k = D.k AND A.x < B.x")
    assert str(left_deep(query)) == "((A C) (B D))"
    assert str(ring_of_parts(query)) == "((A C) (B D))"


def test_a_product_within_a_part_is_refused_and_one_of_parts_is_not() -> None:
    query = bound("A.k = B.k AND B.x = C.x AND B.k + 1 = C.k")
    for tree in ("((A B C) D)", "(A B C D)", "((A D) B C)"):
        assert str(choose_tree(query, tree)) == tree
    with pytest.raises(JobError, match="not connected"):
        choose_tree(query, "((A C) B D)")


def test_rows_of_a_ring_are_kept_once_and_visit_each_other_by_time() -> None:
    query = bound("A.x < B.x AND B.x < C.x", "A [RANGE 1 SECOND], B [RANGE 2 SECONDS], C")
    plan = lay_out(query, choose_tree(query, "mjoin"))
    first, second = plan.stages
    assert isinstance(first, HopStage) and isinstance(second, HopStage)
    assert [state.partitioning for state in first.states] == [BY_TIME] * 3
    assert all(probe.scans for probe in (*first.probes, *second.probes))
    # To A rows reach back for its second, to B for its two; those of C visit B first, with which they are compared.
    backs = [plan.reaches[probe.port].back_us for probe in first.probes]
    assert backs == [2_000_000, 1_000_000, 2_000_000]
    assert query.slice_us == 2_000_000 // 256


def test_a_key_beside_a_ring_keeps_an_input_twice() -> None:
    query = bound("A.k = B.k AND A.x < C.x", "A, B, C")
    plan = lay_out(query, choose_tree(query, "mjoin"))
    kept = {(state.aliases, state.partitioning) for state in plan.states.values()}
    assert kept == {(("A",), "k0"), (("A",), "time"), (("B",), "k0"), (("C",), "time")}


def test_rows_first_visit_inputs_that_something_is_checked_with() -> None:
    query = bound("A.x < B.x AND B.x < C.x AND A.x + B.x < D.x", "A, B, C, D")
    plan = lay_out(query, choose_tree(query, "mjoin"))
    orders = plan.spec.joins[0].orders
    assert orders == ((1, 2, 3), (0, 2, 3), (1, 0, 3), (0, 1, 2))  # nothing is checked of D and one other alone
