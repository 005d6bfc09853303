"""Several trees as one plan, each for some groups: what they share, and which trees fit together."""

from __future__ import annotations

import pytest

from watersmeet.errors import InternalError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.layout.shapes import common_key, unite_shapes
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.tree import parse_tree

STREAMS = {name: Stream(name, parse_schema("x BIGINT, y BIGINT, z BIGINT, ts TIMESTAMP")) for name in "ABCD"}
ONE_KEY = "A.x = B.x AND B.x = C.x AND C.x = D.x"
LOW, HIGH = ((0, 4),), ((4, 8),)


def plan_of(tree: str, where: str = ONE_KEY) -> PhysicalPlan:
    query = bind(f"SELECT A.y FROM A, B, C, D WHERE {where}", STREAMS)
    return lay_out(query, parse_tree(tree, query))


@pytest.mark.parametrize(
    ("where", "trees", "key"),
    [
        pytest.param(ONE_KEY, ("(((A B) C) D)", "((A B) (C D))", "(A B C D)"), "k0", id="any trees on one key"),
        pytest.param("A.x = B.x AND B.y = C.y AND C.x = D.x", ("(((A B) C) D)",), None, id="no key that all share"),
        pytest.param("A.x = B.x AND B.y = C.y AND C.z = D.z", ("(A B C D)",), None, id="a routed join"),
        pytest.param(
            f"{ONE_KEY} AND A.y = B.y", ("(A B C D)", "(A B (C D))"), "k0", id="joins on the shared key alone"
        ),
        pytest.param(f"{ONE_KEY} AND A.y = B.y", ("((A B) (C D))",), None, id="a join on a second key too"),
    ],
)
def test_trees_that_fit_together(where: str, trees: tuple[str, ...], key: str | None) -> None:
    assert common_key([plan_of(tree, where) for tree in trees]) == key


def test_a_plan_of_two_shapes() -> None:
    left, right = plan_of("(((A B) C) D)"), plan_of("((A B) (C D))")
    plan = unite_shapes([(left, LOW), (right, HIGH)])
    assert plan.shapes == (("(((A B) C) D)", LOW), ("((A B) (C D))", HIGH))
    assert (plan.tree, plan.spec) == (left.tree, left.spec)
    assert len(plan.waves) == 1, "they run side by side"
    assert set(plan.states) == {*left.states, *right.states}
    assert [(leaf.alias, plan.port_stage[leaf.port], leaf.within) for leaf in plan.leaves] == [
        *((alias, 0, LOW) for alias in "ABCD"),
        *((alias, 1, HIGH) for alias in "ABCD"),
    ]
    assert len({leaf.port for leaf in plan.leaves}) == len(plan.port_stage) == 8
    for stage in plan.stages:
        assert set(stage.ports) == {port for port, index in enumerate(plan.port_stage) if index == stage.index}


def test_an_operator_has_the_groups_of_all_shapes_that_it_is_in() -> None:
    plan = unite_shapes([(plan_of("(((A B) C) D)"), LOW), (plan_of("((A B) (C D))"), HIGH)])
    named = {node.label: (node.tree, plan.within[name]) for name, node in plan.operators.items()}
    assert named == {
        "J1": ("(A B)", ((0, 8),)),
        "J2": ("((A B) C)", LOW),
        "J3": ("(((A B) C) D)", LOW),
        "J4": ("(C D)", HIGH),
        "J5": ("((A B) (C D))", HIGH),
    }
    assert [node.label for node in plan.stages[1].operators] == ["J1", "J4", "J5"]
    state = next(name for name in plan.states if name.startswith("A+B@"))
    assert [plan.label(name) for name in plan.operators_of[state]] == ["J2", "J5"]
    assert plan.has_group(plan.labels["J4"], 4) and not plan.has_group(plan.labels["J4"], 3)


def test_feeders_are_those_of_all_shapes() -> None:
    """What is owed in one shape holds back rows of the other too: they are kept for longer."""
    plan = unite_shapes([(plan_of("(((A B) C) D)"), LOW), (plan_of("(A B (C D))"), HIGH)])
    state = next(name for name in plan.states if name.startswith("B@"))
    assert [plan.label(name) for name in plan.feeders[state]] == ["J4"]


def test_what_does_not_fit_is_no_plan() -> None:
    routed = plan_of("(A B C D)", "A.x = B.x AND B.y = C.y AND C.z = D.z")
    with pytest.raises(InternalError):
        unite_shapes([(routed, LOW), (routed, HIGH)])
