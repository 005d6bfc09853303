"""Trees: which one a setting gives, and which ones are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.errors import JobError
from watersmeet.model.expressions import Column
from watersmeet.model.streams import Stream, Unbounded
from watersmeet.plan.query import KeyClass, OutputColumn, Query, QueryInput
from watersmeet.plan.tree import Join, Leaf, choose_tree, left_deep, parse_tree, shared_keys

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("ts", pa.int64())])


def make_query(aliases: str, *keys: str) -> Query:
    """`make_query("ABC", "A.x=B.x", ..)`: each key is a class of equal columns."""
    classes = tuple(
        KeyClass(f"k{n}", tuple((t[0], Column(t[0], t[2:], pa.int64())) for t in key.split("=")), pa.int64())
        for n, key in enumerate(keys)
    )
    inputs = tuple(QueryInput(alias, Stream(alias, SCHEMA), Unbounded()) for alias in aliases)
    return Query("", inputs, classes, (), (OutputColumn("x", Column(aliases[0], "x", pa.int64())),))


ONE_KEY = make_query("ABC", "A.x=B.x=C.x")
CHAIN = make_query("ABCD", "A.x=B.x", "B.y=C.y", "C.x=D.x")


@pytest.mark.parametrize(
    "query, plan, tree",
    [
        pytest.param(ONE_KEY, "mjoin", "(A B C)", id="mjoin"),
        pytest.param(ONE_KEY, "left-deep", "((A B) C)", id="left-deep follows the text"),
        pytest.param(
            make_query("ABC", "A.x=C.x", "C.y=B.y"),
            "left-deep",
            "((A C) B)",
            id="an input waits for one that it can join",
        ),
        pytest.param(CHAIN, "((A B) (C D))", "((A B) (C D))", id="bushy"),
        pytest.param(CHAIN, "mjoin", "(A B C D)", id="one join over different keys is routed"),
        pytest.param(ONE_KEY, "(C,  (B A))", "(C (B A))", id="commas and spaces are alike"),
    ],
)
def test_the_tree_of_a_setting(query: Query, plan: str, tree: str) -> None:
    assert str(choose_tree(query, plan)) == tree


@pytest.mark.parametrize(
    "query, plan, primary, rest",
    [
        (ONE_KEY, "mjion", 'unknown plan "mjion"', 'Did you mean "mjoin"?'),
        (CHAIN, "((A C) (B D))", 'the inputs of join "(A C)" are not connected', "Equalities: A = B"),
        (CHAIN, "((A C) B D)", 'the inputs of join "(A C)" are not connected', ""),
        (ONE_KEY, "((A B) X)", 'plan "((A B) X)" names unknown input "X"', "A, B, C"),
        (ONE_KEY, "(A B)", 'plan "(A B)" must name each input exactly once', "Missing: C."),
        (ONE_KEY, "((A B) C A)", 'plan "((A B) C A)" must name each input exactly once', "twice"),
        (ONE_KEY, "((A B) C", 'plan "((A B) C" lacks a closing parenthesis', ""),
        (ONE_KEY, "((A B) C) D", 'plan "((A B) C) D" goes on after its end', '"D"'),
        (ONE_KEY, "((A) B C)", 'plan "((A) B C)" has a join of fewer than two inputs', ""),
        (ONE_KEY, ")", 'plan ")" is not a tree', "left-deep"),
    ],
)
def test_refused_trees(query: Query, plan: str, primary: str, rest: str) -> None:
    with pytest.raises(JobError) as caught:
        choose_tree(query, plan)
    assert caught.value.primary.startswith(primary)
    assert rest in caught.value.render()


def test_parse_is_the_inverse_of_str() -> None:
    tree = Join((Join((Leaf("A"), Leaf("B"))), Leaf("C")))
    assert parse_tree(str(tree), ONE_KEY) == tree


def test_left_deep_names_every_input_once() -> None:
    assert left_deep(CHAIN).aliases == frozenset("ABCD")


def test_shared_keys_reach_every_input() -> None:
    parts = (frozenset("AB"), frozenset("C"))
    assert [key.name for key in shared_keys(CHAIN, parts)] == ["k1"]
    assert shared_keys(CHAIN, (frozenset("A"), frozenset("C"))) == ()
