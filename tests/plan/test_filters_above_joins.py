"""Filters that stand above joins: how a plan says so, and which columns and states follow from it."""

from __future__ import annotations

import json

import pytest

from watersmeet.draw.explain import explain_json, explain_text
from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.expressions import describe
from watersmeet.model.streams import Stream
from watersmeet.plan.hop import HopStage
from watersmeet.plan.layout import lay_out, lay_out_spec
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.spec import PlanSpec, tree_for
from watersmeet.plan.tree import bare, choose_tree

STREAMS = {name: Stream(name, parse_schema("u BIGINT, v BIGINT, x BIGINT, y BIGINT, ts TIMESTAMP")) for name in "ABC"}
ONE_KEY = "SELECT A.x, C.v FROM A, B, C WHERE A.x = B.x AND B.x = C.x AND A.v > 3 AND A.u < 5 AND C.v <> 1"
CHAIN = "SELECT A.x, C.v FROM A, B, C WHERE A.x = B.x AND B.y = C.y AND A.v > 3 AND A.u < 5 AND C.v <> 1"


def plan_of(text: str, plan: str, lineage: bool = False) -> PhysicalPlan:
    query = bind(text, STREAMS)
    return lay_out(query, choose_tree(query, plan), lineage=lineage)


def columns(plan: PhysicalPlan, inputs: str) -> list[list[str]]:
    """What the states of these inputs hold, without the names of the marks."""
    return [
        sorted("passed" if "#f" in name else name for name, _ in state.fields)
        for state in plan.states.values()
        if "".join(state.aliases) == inputs
    ]


def names(plan: PhysicalPlan, inputs: str) -> list[str]:
    return [name for name, state in plan.states.items() if "".join(state.aliases) == inputs]


@pytest.mark.parametrize(
    "written, means",
    [
        ("((A B)[A] C)", "((A B)[A] C)"),
        ("((A B)[A.2, A.1] C)", "((A B)[A] C)"),
        ("((A B)[A.2] C)[A.1 C.1]", "((A B)[A.2] C)[A.1 C]"),
        ("((A B)[] C)", "((A B) C)"),
        ("(A, B, C)[C A.1]", "(A B C)[A.1 C]"),
    ],
)
def test_a_plan_says_which_filters_stand_above_a_join(written: str, means: str) -> None:
    plan = plan_of(ONE_KEY, written)
    assert plan.tree == means
    assert plan_of(ONE_KEY, plan.tree) == plan
    spec = PlanSpec.from_json(json.loads(json.dumps(plan.spec.to_json())))
    assert (str(spec.tree), spec) == (means, plan.spec)
    assert lay_out_spec(plan.query, spec) == plan


@pytest.mark.parametrize(
    "plan, message",
    [
        ("((A B)[C] C)", 'places filters of "C" above a join that does not have it'),
        ("((A B)[X] C)", 'places filters of "X" above a join that does not have it'),
        ("((A B)[B] C)", 'places filters of "B", which has none'),
        ("((A B)[A.3] C)", 'places filter "A.3", which is not there'),
        ("((A B)[A.0] C)", 'places filter "A.0", which is not there'),
        ("((A B)[A.x] C)", 'places filter "A.x", which is not there'),
        ("((A B)[A.²] C)", 'places filter "A.²", which is not there'),
        ("((A B)[A] C)[A.1]", 'places a filter of "A" twice'),
        ("((A B)[A A] C)", 'places a filter of "A" twice'),
        ("((A[A] B) C)", 'names unknown input "A[A]"'),
        ("((A B)[A C)", 'names unknown input "[A"'),
    ],
)
def test_what_cannot_stand_there_is_refused(plan: str, message: str) -> None:
    with pytest.raises(JobError) as error:
        plan_of(ONE_KEY, plan)
    assert message in str(error.value)


def test_columns_of_a_filter_are_carried_up_to_it_and_no_further() -> None:
    at_input = plan_of(CHAIN, "((A B) C)")
    assert columns(at_input, "A") == [["A.x"]]
    low = plan_of(CHAIN, "((A B)[A.1] C)")
    assert columns(low, "A") == [["A.v", "A.x", "passed"]]
    assert columns(low, "AB") == columns(at_input, "AB") == [["A.x", "B.y"]]
    high = plan_of(CHAIN, "((A B) C)[A.1]")
    assert columns(high, "A") == [["A.v", "A.x", "passed"]]
    assert columns(high, "AB") == [["A.v", "A.x", "B.y", "passed"]]


def test_a_state_is_named_by_the_filters_that_its_rows_have_been_through() -> None:
    at_input, low, high = (plan_of(CHAIN, plan) for plan in ("((A B) C)", "((A B)[A.1] C)", "((A B) C)[A.1]"))
    assert names(low, "A") == names(high, "A") != names(at_input, "A")
    assert names(low, "AB") == names(at_input, "AB") != names(high, "AB")
    for inputs in "BC":
        assert names(low, inputs) == names(at_input, inputs) == names(high, inputs)
    selected = CHAIN.replace("SELECT", "SELECT A.v AS other,")  # the same columns, and yet not the same rows
    assert names(plan_of(selected, "((A B)[A.1] C)"), "A") != names(plan_of(selected, "((A B) C)"), "A")


def test_a_join_applies_what_stands_above_it() -> None:
    plan = plan_of(ONE_KEY, "((A B)[A.1] C)[A.2 C]")
    lower, upper = plan.operators.values()
    assert [describe(entry.expr) for entry in lower.filters] == ["greater(A.v, 3)"]
    assert [describe(entry.expr) for entry in lower.awaited] == ["greater(A.v, 3)", "less(A.u, 5)"]
    assert [(entry.input, describe(entry.expr)) for entry in upper.filters] == [
        (0, "less(A.u, 5)"),
        (1, "not_equal(C.v, 1)"),
    ]
    assert upper.awaited == upper.filters
    assert [plan.filters_at(alias) for alias in "ABC"] == [(), (), ()]


@pytest.mark.parametrize("plan, above", [("(A B)[A]", 1), ("(A B)[A.2]", 1), ("(A B)[A.1]", 0)])
def test_a_filter_that_the_query_has_twice_is_one(plan: str, above: int) -> None:
    laid_out = plan_of("SELECT A.x FROM A, B WHERE A.x = B.x AND A.v > 3 AND A.v > 3", plan)
    (join,) = laid_out.operators.values()
    assert (len(join.filters), len(laid_out.filters_at("A"))) == (above, 2 - 2 * above)
    assert columns(laid_out, "A") == ([["A.v", "A.x", "passed"]] if above else [["A.x"]])


def test_a_routed_join_applies_it_in_its_last_hop() -> None:
    plan = plan_of(CHAIN, "(A B C)[A.1]")
    assert all(isinstance(stage, HopStage) for stage in plan.stages)
    first, last = ([probe.node for probe in stage.probes] for stage in plan.stages)  # type: ignore[attr-defined]
    assert not any(node.filters for node in first)
    assert [[describe(entry.expr) for entry in node.filters] for node in last] == [["greater(A.v, 3)"]] * 3
    assert all("A.v" not in dict(node.out_fields) for node in last)


def test_explain_shows_where_each_filter_stands() -> None:
    plan = plan_of(CHAIN, "((A B)[A.1] C)")
    lines = [line.strip("│├└─ ") for line in explain_text(plan, "why not").splitlines()]
    assert lines[0] == "plan ((A B)[A.1] C): 2 stages, 1 exchange"
    assert "then filters A.v > 3" in lines
    assert "A [UNBOUNDED] where A.u < 5" in lines
    told = explain_json(plan, "why not")
    assert told["stages"][0]["nodes"][0]["filters"] == ["A.v > 3"]
    assert told["spec"]["filters"][0] == {"alias": "A", "filter": "greater(A.v, 3)", "at": ["A", "B"]}
    assert told["spec"]["filters"][1]["at"] == "input"
    routed = explain_text(plan_of(CHAIN, "(A B C)[C]"), "why not")
    assert "then filters C.v <> 1" in routed


def test_filters_stay_where_they_are_when_the_query_gets_more_of_them() -> None:
    spec = plan_of(CHAIN, "((A B)[A] C)").spec
    more = bind(CHAIN.replace("A.v > 3", "A.y > 1 AND A.v > 3"), STREAMS)
    assert str(tree_for(more, spec)) == "((A B)[A.2 A.3] C)"


def test_probe_orders_are_found_for_a_shape_wherever_its_filters_stand() -> None:
    query = bind(ONE_KEY, STREAMS)
    tree = choose_tree(query, "(A B C)[A]")
    orders = {bare(tree): ((2, 1), (2, 0), (1, 0))}
    assert lay_out(query, tree, orders).spec.joins[0].orders == ((2, 1), (2, 0), (1, 0))  # type: ignore[arg-type]
