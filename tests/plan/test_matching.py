"""Which states two plans of one query have in common, and what is made for the second, over one key and several."""

from __future__ import annotations

import itertools

import pytest

from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.matching import Matching, match_plans
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.tree import parse_tree

STREAMS = {name: Stream(name, parse_schema("w BIGINT, x BIGINT, y BIGINT, z BIGINT, ts TIMESTAMP")) for name in "ABCD"}
ONE_KEY = "SELECT A.w FROM A, B, C, D WHERE A.x = B.x AND B.x = C.x AND C.x = D.x"
CHAIN = "SELECT A.w FROM A, B, C, D WHERE A.x = B.x AND B.y = C.y AND C.z = D.z"
STAR = "SELECT A.w FROM A, B, C, D WHERE A.x = B.x AND B.y = C.y AND A.z = D.z"
TREES = {
    ONE_KEY: ("(A B C D)", "(((A B) C) D)", "(A ((B C) D))", "((A B) (C D))", "((A C) B D)", "(A (B C D))"),
    STAR: ("(A B C D)", "(((A B) C) D)", "(((A B) D) C)", "((A B) C D)", "((A B C) D)"),
    CHAIN: ("(A B C D)", "(((A B) C) D)", "(A ((B C) D))", "((A B) (C D))", "((A B C) D)", "(A B (C D))"),
}
PAIRS = [(text, one, other) for text, trees in TREES.items() for one, other in itertools.product(trees, repeat=2)]


def plan_of(text: str, tree: str) -> PhysicalPlan:
    query = bind(text, STREAMS)
    return lay_out(query, parse_tree(tree, query))


def match(text: str, former: str, new: str) -> Matching:
    return match_plans(plan_of(text, former), plan_of(text, new))


def short(names: tuple[str, ...]) -> list[str]:
    """What states hold, and the stream that has their key: `A+B@B.y#12345678` as `AB by B.y`."""
    parts = (name.partition("#")[0].partition("@") for name in names)
    return sorted(f"{held.replace('+', '')} by {key}" for held, _, key in parts)


@pytest.mark.parametrize("text, former, new", PAIRS)
def test_what_holds_of_every_pair(text: str, former: str, new: str) -> None:
    one, other, found = plan_of(text, former), plan_of(text, new), match(text, former, new)
    assert set(found.kept) == set(one.states) & set(other.states)
    assert {*found.kept, *found.dropped} == set(one.states)
    assert {*found.kept, *found.made} == set(other.states)
    assert len(found.kept) + len(found.made) == len(other.states), "each once"
    for port in found.ports:
        assert port.source.name in one.states
        assert port.source.aliases == port.state.aliases, "rows come from where they are kept"
        assert set(port.state.fields) <= set(port.source.fields)
    ready = {port.state.name for port in found.ports}
    needed = {
        state.aliases
        for name, state in other.states.items()
        if name in {*found.made} - ready and len(state.aliases) > 1
    }
    assert len(needed) <= len(found.joins), "each has a join that makes it"
    root = {alias for leaf in other.leaves for alias in leaf.alias}
    assert all(other.operators[name].aliases != root for name in found.joins if name in other.operators), (
        "emits nothing"
    )
    if former == new:
        assert (found.made, found.dropped, found.joins, found.ports) == ((), (), frozenset(), ())
        assert found.operators == frozenset(other.operators)


@pytest.mark.parametrize(
    "former, new, made, dropped",
    [
        ("(((A B) C) D)", "(A ((B C) D))", ["BC", "BCD"], ["AB", "ABC"]),  # figure 12.1 of the dissertation
        ("(A B C D)", "(((A B) C) D)", ["AB", "ABC"], []),
        ("(((A B) C) D)", "(A B C D)", [], ["AB", "ABC"]),
        ("((A B) (C D))", "(((A B) C) D)", ["ABC"], ["CD"]),
        ("((A B) (C D))", "((C D) (A B))", [], []),
    ],
)
def test_over_one_key_what_streams_keep_serves_every_plan(
    former: str, new: str, made: list[str], dropped: list[str]
) -> None:
    found = match(ONE_KEY, former, new)
    assert [name.split(" ")[0] for name in short(found.made)] == made
    assert [name.split(" ")[0] for name in short(found.dropped)] == dropped
    assert {name for name in short(found.kept) if len(name.split(" ")[0]) == 1} == {f"{s} by {s}.x" for s in "ABCD"}
    assert found.ports == (), "their rows are where the joins of the new plan look for them"


def test_a_matched_state_does_not_excuse_what_is_below_it() -> None:
    """B, C and D together are kept by both plans; what B and C are together is not, and future D need it."""
    found = match(ONE_KEY, "(A (B C D))", "(A ((B C) D))")
    assert "BCD by B.x" in short(found.kept)
    assert short(found.made) == ["BC by B.x"]
    (join,) = found.joins
    assert plan_of(ONE_KEY, "(A ((B C) D))").operators[join].aliases == {"B", "C"}, "that of B, C and D need not run"


def test_joins_of_the_same_states_go_on_as_they_are() -> None:
    found = match(ONE_KEY, "((A B) (C D))", "(((A B) C) D)")
    assert {name.partition("#")[0] for name in found.operators} == {"A*B"}
    assert match(ONE_KEY, "(A B C D)", "((A C) B D)").operators == frozenset()


def test_over_several_keys_a_state_on_another_key_is_another() -> None:
    found = match(CHAIN, "(((A B) C) D)", "(A ((B C) D))")
    assert short(found.kept) == ["A by A.x", "C by C.y", "D by D.z"]
    assert short(found.made) == ["B by B.y", "BC by C.z", "BCD by B.x"]
    assert short(found.dropped) == ["AB by B.y", "ABC by C.z", "B by B.x"]
    assert [("".join(port.state.aliases), short((port.source.name,))) for port in found.ports] == [("B", ["B by B.x"])]


def test_a_routed_join_has_states_of_inputs_alone() -> None:
    found = match(CHAIN, "(((A B) C) D)", "(A B C D)")
    assert short(found.made) == ["B by B.y", "C by C.z"]
    assert short(found.dropped) == ["AB by B.y", "ABC by C.z"]
    assert found.joins == frozenset(), "rows are hashed on another key, and nothing is joined"
    back = match(CHAIN, "(A B C D)", "(((A B) C) D)")
    assert short(back.made) == ["AB by B.y", "ABC by C.z"]
    assert len(back.joins) == 2


def test_a_joined_state_on_another_key_is_hashed_anew_and_not_joined_again() -> None:
    found = match(STAR, "(((A B) C) D)", "(((A B) D) C)")
    assert short(found.kept) == ["A by A.x", "B by B.x", "C by C.y", "D by D.z"]
    assert short(found.made) == ["AB by A.z", "ABD by B.y"]
    assert [("".join(port.state.aliases), short((port.source.name,))) for port in found.ports] == [
        ("AB", ["AB by B.y"])
    ]
    (join,) = found.joins
    assert plan_of(STAR, "(((A B) D) C)").operators[join].aliases == {"A", "B", "D"}, "that of A and B need not run"


@pytest.mark.parametrize(
    "text, former, new, at_once",
    [
        (CHAIN, "(A B C D)", "((A B C) D)", True),  # B is kept on x and on y, and the join of A, B and C runs
        (CHAIN, "((A B) C D)", "((A B C) D)", False),  # on y it is made of what is kept on x
        (CHAIN, "(A B C D)", "(A ((B C) D))", False),  # no routed join runs
        (STAR, "((A B) C D)", "(A B C D)", False),  # nothing is joined
    ],
)
def test_what_has_to_be_taken_in_at_once(text: str, former: str, new: str, at_once: bool) -> None:
    assert match(text, former, new).at_once == at_once
