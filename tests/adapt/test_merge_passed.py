"""Generations that have outlived their windows are merged, so that what is cold and owed stays bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapt.asking import J1, J2, PLAN, Asked, at, entry
from small_plans import STREAMS, manifest_of, piece
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.merge_passed import MergePassed
from watersmeet.lang.binder import bind
from watersmeet.model.ids import LIVE
from watersmeet.model.segments import Segment
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.state.learned import MERGE, Learned, Lesson, Trial

TWO = (entry("a", "A", 0, ((0, 2),), end=10, cold=1), entry("b", "B", 5, ((0, 2),), end=25, cold=2))

MORE = entry("b3", "B", 9, ((1, 2),), end=29)


def came(share: float) -> Learned:
    """So much of what was expected of the last merges of J1 has come."""
    trial = Trial(MERGE, "", 0, {}, {"results": 1e300}, J1)
    return Learned(lessons=(Lesson(trial, {"results": share * 1e300}, True),))


def decided(
    *segments: Segment,
    seconds: float,
    budget: int = 100_000,
    learned: Learned | None = None,
    moment: Moment = Moment.IDLE,
) -> list[MergeGroup]:
    asked = Asked(manifest_of(PLAN, *segments), moment, marks=at(seconds), learned=learned or Learned())
    found = asked.propose(MergePassed(budget))
    return [decision for decision in found if isinstance(decision, MergeGroup)]


def merged(
    *segments: Segment, seconds: float, budget: int = 100_000, learned: Learned | None = None
) -> list[tuple[str, int]]:
    """Groups whose closed generations alone are merged."""
    found = decided(*segments, seconds=seconds, budget=budget, learned=learned)
    assert not any(decision.with_live for decision in found)
    return [(decision.operator, decision.group) for decision in found]


@pytest.mark.parametrize(
    "segments, seconds, groups",
    [
        (TWO, 9, []),
        (TWO, 10, [0, 1]),
        ((*TWO, entry("a3", "A", 8, ((5, 6),), end=18, cold=1)), 10, [0, 1]),
        ((*TWO, entry("a3", "A", 8, ((1, 2),), end=18, cold=1)), 10, [0]),
        (TWO[:1], 99, []),
        ((TWO[0], entry("b", "B", 5, ((0, 2),), end=25)), 99, []),
        ((TWO[0], replace(TWO[1], groups=((1, 2),))), 10, [1]),
    ],
    ids=[
        "a future row may join both",
        "no future row joins the first",
        "a generation passes group by group",
        "once the last row of all its parts has",
        "one generation owes nothing",
        "nor does it to another closed one where the other is live",
        "groups that are in one of them alone",
    ],
)
def test_what_is_merged(segments: tuple[Segment, ...], seconds: float, groups: list[int]) -> None:
    assert merged(*segments, seconds=seconds) == [(J1, group) for group in groups]


def test_lower_operators_come_first() -> None:
    above = (entry("c", "C", 0, ((0, 1),), end=5, rows=90, cold=1), entry("ab", "A+B", 4, ((0, 1),), end=9, cold=2))
    found = merged(*TWO, *above, seconds=99)
    assert found == [(J1, 0), (J1, 1), (J2, 0)]
    assert merged(*above, seconds=99) == [(J2, 0)]


def test_an_operator_that_owes_holds_back_those_above() -> None:
    """What J1 owes is no older than second 5, so a generation of C that expires at 6 has not passed for J2."""
    above = (entry("c", "C", 0, ((0, 1),), end=6, cold=1), entry("c2", "C", 4, ((0, 1),), end=9, cold=2))
    assert merged(*above, seconds=99) == [(J2, 0)]
    assert merged(*TWO, *above, seconds=99) == [(J1, 0), (J1, 1)]


def test_the_work_of_a_batch_is_bounded() -> None:
    """A group has 40 bytes, and should emit one row of 20: a quarter of the budget, and one group at least."""
    rows = (entry("a", "A", 0, end=10, cold=1), entry("b", "B", 5, end=25, cold=2))
    sizes = {budget: len(merged(*rows, seconds=10, budget=budget)) for budget in (1, 500, 1000, 100_000)}
    assert sizes == {1: 1, 500: 2, 1000: 4, 100_000: 8}
    learned = came(0.01)
    assert len(merged(*rows, seconds=10, budget=1000, learned=learned)) == 6, "results do not come as expected"


@pytest.mark.parametrize(
    "seconds, budget, merges",
    [(10, 320, 2), (10, 321, 0), (19, 1000, 0), (20, 1000, 2), (30, 1000, 2)],
    ids=["a quarter of the budget waits", "less than that", "and has not waited long", "as long as a window", "longer"],
)
def test_before_a_batch_it_waits_until_there_is_enough(seconds: float, budget: int, merges: int) -> None:
    """Two groups with 40 bytes each; the widest window is of 20 seconds, and the first generation passed at 0."""
    rows = (entry("a", "A", 0, ((0, 2),), end=0, cold=1), entry("b", "B", 5, ((0, 2),), end=25, cold=2))
    learned = came(0.0)
    found = decided(*rows, seconds=seconds, budget=budget, learned=learned, moment=Moment.BEFORE_BATCH)
    assert len(found) == merges


def test_without_windows_nothing_passes() -> None:
    query = bind("SELECT A.v AS a FROM A, B WHERE A.k = B.k", STREAMS)
    plan = lay_out(query, choose_tree(query, "(A B)"))
    rows = (piece(plan, "a", "A", ((0, 2),), 0, cold=1), piece(plan, "b", "B", ((0, 2),), 0, cold=2))
    assert Asked(manifest_of(plan, *rows), marks=at(10**6), plan=plan).propose(MergePassed(10)) == []


@pytest.mark.parametrize(
    "segments, groups",
    [
        ((TWO[0], entry("b", "B", 5, ((0, 1),), end=25, cold=LIVE)), [0]),
        (
            (*TWO, entry("b2", "B", 8, ((1, 2),), end=28, rows=4, cold=LIVE), entry("b3", "B", 9, ((1, 2),), end=29)),
            [1],
        ),
        ((*TWO, entry("b2", "B", 8, ((1, 2),), end=28, rows=3, cold=LIVE), entry("b3", "B", 9, ((1, 2),), end=29)), []),
    ],
    ids=["with one closed generation", "with two, and as many rows that cooled", "not for a few of them"],
)
def test_where_rows_of_the_live_generation_have_cooled_it_is_merged_too(
    segments: tuple[Segment, ...], groups: list[int]
) -> None:
    """Or it would go on for ever where no spill ends it: new rows cool, and are kept for what has passed."""
    found = decided(*segments, seconds=20)
    assert [decision.group for decision in found if decision.with_live] == groups


def test_a_generation_that_has_not_passed_waits_whatever_has_cooled() -> None:
    cooled = entry("b", "B", 5, ((0, 2),), end=9, cold=LIVE)
    assert decided(TWO[0], cooled, seconds=9) == []
