"""What a group owes, and when rows may go: the rules of `runtime/generations.py` and `runtime/expiry.py`."""

from __future__ import annotations

import pytest

from small_plans import SECOND, chain_plan, manifest_of, piece, state_of
from watersmeet.kernel.window import NEVER
from watersmeet.model.segments import Segment
from watersmeet.runtime.expiry import expire, horizon
from watersmeet.runtime.generations import closed_groups, holds, owed
from watersmeet.state.manifest import Manifest
from watersmeet.state.updates import CoolGroups, ReleaseGroups, Update

PLAN = chain_plan()
LATE = {"A": 1000 * SECOND, "B": 1000 * SECOND, "C": 1000 * SECOND}  # watermarks that everything has expired by
ALL = ((0, 8),)


def entry(name: str, inputs: str, begin: float, groups: tuple[tuple[int, int], ...] = ALL, **more: float) -> Segment:
    return piece(PLAN, name, inputs, groups, begin, **more)  # type: ignore[arg-type]


def with_closed(*segments: Segment, **closed: dict[int, int]) -> Manifest:
    return manifest_of(PLAN, *segments, closed=closed)


# --- what is owed ----------------------------------------------------------------------------------------------------


def test_nothing_is_owed_where_nothing_was_closed() -> None:
    assert owed(PLAN, with_closed(entry("a", "A", 3), entry("b", "B", 5))) == {}


def test_one_generation_owes_nothing() -> None:
    manifest = with_closed(entry("a", "A", 3, cold=0), entry("b", "B", 5, cold=0), J1=dict.fromkeys(range(8), 1))
    assert owed(PLAN, manifest) == {}
    assert holds(PLAN, manifest) == {}


def test_what_is_owed_is_no_older_than_the_second_oldest_generation_begins() -> None:
    manifest = with_closed(
        entry("a", "A", 3, cold=0),
        entry("b", "B", 1, cold=0),
        entry("a2", "A", 9, ((0, 2),), cold=1),
        entry("b2", "B", 7, ((0, 1),), cold=1),
        entry("b3", "B", 8, ((1, 4),)),
        J1={0: 2, 1: 2, 2: 1},
    )
    # Group 0: begins at 1 and 7. Group 1: 1, 9 and, live, 8. Group 2: 1 and, live, 8. Group 3 has no closed generation.
    assert owed(PLAN, manifest) == {"J1": {0: 7 * SECOND, 1: 8 * SECOND, 2: 8 * SECOND}}
    assert holds(PLAN, manifest) == {"J1": 7 * SECOND}


def test_a_generation_may_begin_before_the_one_that_was_closed_first() -> None:
    """Rows come out of order, and results that a merge below emits may be older than what is there."""
    manifest = with_closed(entry("c", "C", 30, cold=0), entry("d", "C", 2), J2=dict.fromkeys(range(8), 1))
    assert holds(PLAN, manifest) == {"J2": 30 * SECOND}


def test_rows_that_cooled_are_of_the_live_generation() -> None:
    manifest = with_closed(
        entry("a", "A", 3, ((0, 1),), cold=0), entry("a2", "A", 5, ((0, 1),), cold=1), entry("a3", "A", 4), J1={0: 1}
    )
    assert owed(PLAN, manifest) == {"J1": {0: 4 * SECOND}}, "two generations, the second of which begins at 4"


def test_only_groups_with_rows_in_two_generations_owe() -> None:
    manifest = with_closed(entry("a", "A", 3, ((0, 2),), cold=0), entry("b", "B", 4, ((2, 4),)), J1={0: 1, 1: 1, 2: 1})
    assert owed(PLAN, manifest) == {}
    assert closed_groups(manifest, "J1") == ((0, 3),)
    assert closed_groups(manifest, "J2") == ()


def test_operators_that_owe_come_from_the_lowest_up() -> None:
    closed = dict.fromkeys(range(8), 1)
    rows = [entry("c", "C", 3, cold=0), entry("c2", "C", 4), entry("a", "A", 5, cold=0), entry("a2", "A", 6)]
    assert list(owed(PLAN, with_closed(*rows, J2=closed, J1=closed))) == ["J1", "J2"]


# --- how far time has come -------------------------------------------------------------------------------------------


def test_the_slowest_stream_that_comes_to_meet_a_state_decides() -> None:
    marks = {"A": 7 * SECOND, "B": 5 * SECOND, "C": 6 * SECOND}
    found = {inputs: horizon(PLAN, PLAN.states[state_of(PLAN, inputs)], marks, {}) for inputs in ("A", "B", "A+B", "C")}
    assert found == {"A": 5 * SECOND, "B": 6 * SECOND, "A+B": 6 * SECOND, "C": 5 * SECOND}


def test_nothing_expires_before_every_stream_has_shown_a_row() -> None:
    state = PLAN.states[state_of(PLAN, "C")]
    assert horizon(PLAN, state, {"A": None, "B": 5, "C": 5}, {"J1": 1}) is None


def test_an_operator_that_owes_holds_back_those_above_it_alone() -> None:
    held = {"J1": 2 * SECOND}
    marks = {"A": 7 * SECOND, "B": 7 * SECOND, "C": 7 * SECOND}
    found = {
        inputs: horizon(PLAN, PLAN.states[state_of(PLAN, inputs)], marks, held) for inputs in ("A", "B", "A+B", "C")
    }
    assert found == {"A": 7 * SECOND, "B": 7 * SECOND, "A+B": 7 * SECOND, "C": 2 * SECOND}
    # What the upper one owes is nobody's business: nothing stands above it.
    assert horizon(PLAN, PLAN.states[state_of(PLAN, "C")], marks, {"J2": 1}) == 7 * SECOND


def test_rows_that_nothing_limits_stay_at_the_end_of_time() -> None:
    state = PLAN.states[state_of(PLAN, "A+B")]
    assert horizon(PLAN, state, {"A": NEVER, "B": NEVER, "C": NEVER}, {}) == NEVER - 1


# --- what goes -------------------------------------------------------------------------------------------------------


def test_rows_that_have_expired_go() -> None:
    manifest = with_closed(entry("a", "A", 0, end=9), entry("a2", "A", 0, end=10), entry("a3", "A", 0, end=11))
    marks = {"A": 0, "B": 10 * SECOND, "C": 12 * SECOND}
    assert expire(PLAN, manifest, marks) == [ReleaseGroups("a", ALL), ReleaseGroups("a2", ALL)]


def test_in_groups_with_a_closed_generation_they_go_cold_instead() -> None:
    manifest = with_closed(entry("a", "A", 0), entry("c", "C", 0), J1={2: 1, 3: 2, 7: 1})
    assert expire(PLAN, manifest, LATE) == [
        ReleaseGroups("a", ((0, 2), (4, 7))),
        CoolGroups("J1", "a", ((2, 4), (7, 8))),
        ReleaseGroups("c", ALL),
    ]


def test_a_segment_of_such_groups_alone_is_not_released_at_all() -> None:
    manifest = with_closed(entry("a", "A", 0, ((2, 4),)), J1={2: 1, 3: 1})
    assert expire(PLAN, manifest, LATE) == [CoolGroups("J1", "a", ((2, 4),))]


def test_an_operator_that_owes_keeps_the_rows_above_that_its_results_may_meet() -> None:
    """J1 owes nothing older than second 8, so C must keep what expires after that."""
    closed = dict.fromkeys(range(8), 1)
    owing = [entry("a", "A", 3, end=5000, cold=0), entry("b", "B", 8, end=5000)]
    above = [entry("c", "C", 1, end=8), entry("c2", "C", 4, end=9), entry("ab", "A+B", 1, end=900)]
    found = expire(PLAN, with_closed(*owing, *above, J1=closed), LATE)
    assert found == [ReleaseGroups("c", ALL), ReleaseGroups("ab", ALL)]
    paid = [entry("a", "A", 3, end=5000, cold=0), entry("b", "B", 8, end=5000, cold=0)]
    found = expire(PLAN, with_closed(*paid, *above, J1=closed), LATE)
    assert found == [ReleaseGroups("c", ALL), ReleaseGroups("c2", ALL), ReleaseGroups("ab", ALL)]


@pytest.mark.parametrize(
    "others, goes",
    [
        ([], True),
        ([entry("b", "B", 11, cold=1)], True),
        ([entry("b", "B", 10, end=9999, cold=1)], True),
        ([entry("b", "B", 9, end=9999, cold=1)], False),
        ([entry("b", "B", 9, end=9999, cold=0)], True),
        ([entry("b", "B", 9, ((5, 6),), end=9999, cold=1)], True),
        ([entry("b", "B", 9, ((1, 2),), end=9999, cold=1)], False),
        ([entry("b", "B", 9, end=9999)], False),
        ([entry("c", "C", 9, end=9999, cold=1)], True),
    ],
    ids=[
        "nothing else is there",
        "the rest is too young",
        "the rest is just too young",
        "a row of another generation may join it",
        "what may join it is of its own generation",
        "what may join it is in another group",
        "what may join it is in one of its groups",
        "a live row may join it",
        "what is as old belongs to another operator",
    ],
)
def test_cold_rows_go_once_nothing_can_join_them(others: list[Segment], goes: bool) -> None:
    cold = entry("a", "A", 0, ((0, 3),), end=10, cold=0)
    closed = dict.fromkeys(range(8), 2)
    found = expire(PLAN, with_closed(cold, *others, J1=closed, J2=closed), LATE)
    release: list[Update] = [update for update in found if update == ReleaseGroups("a", ((0, 3),))]
    assert bool(release) is goes


def test_cold_rows_that_future_rows_may_need_stay() -> None:
    manifest = with_closed(entry("a", "A", 0, end=10, cold=0), J1=dict.fromkeys(range(8), 1))
    marks = {"A": 100 * SECOND, "B": 9 * SECOND, "C": 100 * SECOND}
    assert expire(PLAN, manifest, marks) == []
