"""A join graph takes its pairs in several spellings and refuses statistics that cannot be."""

from __future__ import annotations

import math
from typing import Any

import pytest

from watersmeet.errors import JobError
from watersmeet.optimize import CostConstants, Limits, cost, exhaustive, find_strategy
from watersmeet.plan import JoinGraph
from watersmeet.plan.tree import Join, Leaf

RATES = {"A": 1, "B": 2, "C": 3}
GOOD = {"A B": 0.5, "B C": 0.1}


def test_a_pair_may_be_spelled_in_any_way_and_order() -> None:
    spellings: list[Any] = [
        {("A", "B"): 0.5, ("B", "C"): 0.1},
        {("B", "A"): 0.5, ("C", "B"): 0.1},
        {"A B": 0.5, "C B": 0.1},
        {frozenset("AB"): 0.5, frozenset("BC"): 0.1},
        {("A", "B"): 0.5, "B A": 0.5, "B C": 0.1},
    ]
    assert all(JoinGraph(RATES, given, 2) == JoinGraph(RATES, GOOD, 2) for given in spellings)


def test_several_predicates_of_a_pair_are_multiplied() -> None:
    assert JoinGraph(RATES, {"A B": [0.5, 0.5, 1]}, 1).selectivity("B", "A") == 0.25


def test_one_width_is_for_all_streams() -> None:
    assert JoinGraph(RATES, GOOD, 7) == JoinGraph(RATES, GOOD, {"A": 7, "B": 7, "C": 7})


@pytest.mark.parametrize(
    ("arguments", "primary", "hint"),
    [
        (({}, {}, 1), "a join graph needs a stream", None),
        (({"A": 1, "B": 0}, {}, 1), 'rate of stream "B" must be a number above zero', None),
        (({"A": 1, "B": -4}, {}, 1), 'rate of stream "B" must be a number above zero', None),
        (({"A": 1, "B": math.nan}, {}, 1), 'rate of stream "B" must be a number above zero', None),
        (({"A": 1, "B": math.inf}, {}, 1), 'rate of stream "B" must be a number above zero', None),
        (({"A": 1, "B": "9"}, {}, 1), 'rate of stream "B" must be a number above zero', None),
        (({"A": True, "B": 2}, {}, 1), 'rate of stream "A" must be a number above zero', None),
        ((RATES, {"A B": 1.5}, 1), 'selectivity of "A" and "B" must lie between 0 and 1', "A selectivity is"),
        ((RATES, {"A B": -0.1}, 1), 'selectivity of "A" and "B" must lie between 0 and 1', "A selectivity is"),
        ((RATES, {"A B": [0.1, 2]}, 1), 'selectivity of "A" and "B" must lie between 0 and 1', "A selectivity is"),
        ((RATES, {"A B": math.nan}, 1), 'selectivity of "A" and "B" must lie between 0 and 1', "A selectivity is"),
        ((RATES, {"A B": "x"}, 1), 'selectivity of "A" and "B" must lie between 0 and 1', "A selectivity is"),
        ((RATES, {("A", "B"): 0.1, ("B", "A"): 0.2}, 1), 'two selectivities for "A" and "B"', "Give each pair once"),
        ((RATES, {("A", "B"): 0.1, "A B": 0.2}, 1), 'two selectivities for "A" and "B"', "Give each pair once"),
        ((RATES, {"A A": 0.1}, 1), 'selectivity "A A" joins stream "A" with itself', "A self join"),
        ((RATES, {"A": 0.1}, 1), 'selectivity "A" does not name two streams', "Write the pair"),
        ((RATES, {("A", "B", "C"): 0.1}, 1), 'selectivity "A B C" does not name two streams', "Write the pair"),
        ((RATES, {frozenset("A"): 0.1}, 1), 'selectivity "A" does not name two streams', "Write the pair"),
        ((RATES, {7: 0.1}, 1), 'selectivity "7" does not name two streams', "Write the pair"),
        (({"orders": 1, "bids": 2}, {"order bids": 0.1}, 1), 'unknown stream "order" in selectivities', "orders"),
        ((RATES, GOOD, {"A": 1, "B": 1}), 'stream "C" has no window', "None for an unbounded window"),
        ((RATES, GOOD, {"A": 1, "B": 1, "C": 1, "D": 1}), 'unknown stream "D" in windows', None),
        ((RATES, GOOD, 0), 'window of stream "A" must be a number above zero', None),
        ((RATES, GOOD, None), 'stream "A" is unbounded, so its state has no size to plan for', "Pass horizon"),
        ((dict.fromkeys("ABCD", 1e60), {}, 1), "rates and windows are too large to estimate costs", None),
    ],
)
def test_refuses(arguments: tuple[Any, ...], primary: str, hint: str | None) -> None:
    with pytest.raises(JobError) as caught:
        JoinGraph(*arguments)
    assert caught.value.primary == primary
    assert caught.value.exit_code == 2
    if hint is not None:
        assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("row_bytes", [{"A": 8}, {"A": 8, "B": 8, "C": 0}, {"A": 8, "B": 8, "C": 8, "X": 1}])
def test_refuses_row_sizes(row_bytes: dict[str, float]) -> None:
    with pytest.raises(JobError):
        JoinGraph(RATES, GOOD, 1, row_bytes=row_bytes)


@pytest.mark.parametrize("bad", [0, -1, math.nan, True, "9"])
def test_refuses_limits(bad: Any) -> None:
    with pytest.raises(JobError, match="the limit on memory must be above zero"):
        Limits(cpu=1, memory=bad)
    with pytest.raises(JobError, match="the limit on CPU must be above zero"):
        Limits(cpu=bad, memory=1)


def test_refuses_other_arguments() -> None:
    graph = JoinGraph(RATES, GOOD, 1)
    with pytest.raises(JobError, match='cost constant "join"'):
        CostConstants(join=-1)
    with pytest.raises(JobError, match='Did you mean "mjoin-init"'):
        find_strategy("mjoin-in")
    with pytest.raises(JobError, match="at most 9 streams"):
        exhaustive(JoinGraph(dict.fromkeys("ABCDEFGHIJ", 1), {}, 1))
    for tree in (Join((Leaf("A"), Leaf("B"))), Leaf("A"), Join((Leaf("A"), Leaf("B"), Leaf("C"), Leaf("C")))):
        with pytest.raises(JobError, match="is not over the streams of the graph"):
            cost(tree, graph)


def test_a_hash_cannot_pass_fewer_pairs_than_all_predicates_together() -> None:
    with pytest.raises(JobError) as caught:
        JoinGraph({"A": 1, "B": 1}, {"A B": 0.5}, 1, hashed={"A B": 0.1})
    assert caught.value.primary == 'the hash part of the selectivity of "A" and "B" is below the whole'


def test_a_hash_serves_all_of_a_selectivity_unless_it_is_said_otherwise() -> None:
    graph = JoinGraph({"A": 1, "B": 1, "C": 1}, {"A B": 0.5, "B C": 0.2}, 1, hashed={"C B": 0.4})
    assert (graph.hash_share("B", "A"), graph.hash_share("B", "C"), graph.hash_share("A", "C")) == (0.5, 0.4, 1.0)
