"""When rows may go: no future row needs them, and no result that is owed does."""

from __future__ import annotations

import time
from typing import Any

import pytest

from small_plans import GROUPS, SECOND, STREAMS, chain_plan, manifest_of, named, piece, state_of
from watersmeet.kernel.window import NEVER
from watersmeet.lang.binder import bind
from watersmeet.model.ids import LIVE, SegmentId
from watersmeet.model.routing import GroupRange
from watersmeet.model.segments import Segment
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.state.expiry import Watermarks, expire, horizon_us
from watersmeet.state.ledger import Ledgers
from watersmeet.state.updates import CoolGroups, ReleaseGroups, Update

PLAN = chain_plan()
J1, J2 = named(PLAN, "J1"), named(PLAN, "J2")
LATE = {"A": 1000 * SECOND, "B": 1000 * SECOND, "C": 1000 * SECOND}  # watermarks that everything has expired by
ALL = ((0, GROUPS),)


def entry(name: str, inputs: str, begin: float, groups: tuple[GroupRange, ...] = ALL, **more: Any) -> Segment:
    return piece(PLAN, name, inputs, groups, begin, **more)


def expired(*segments: Segment, marks: Watermarks = LATE) -> list[Update]:
    return expire(PLAN, manifest_of(PLAN, *segments), marks, Ledgers(PLAN))


def release(name: str, groups: tuple[GroupRange, ...] = ALL) -> ReleaseGroups:
    return ReleaseGroups(SegmentId(name), groups)


# --- how far time has come -------------------------------------------------------------------------------------------


def test_the_slowest_stream_that_comes_to_meet_a_state_decides() -> None:
    marks = {"A": 7 * SECOND, "B": 5 * SECOND, "C": 6 * SECOND}
    found = {
        inputs: horizon_us(PLAN, PLAN.states[state_of(PLAN, inputs)], marks, {}) for inputs in ("A", "B", "A+B", "C")
    }
    assert found == {"A": 5 * SECOND, "B": 6 * SECOND, "A+B": 6 * SECOND, "C": 5 * SECOND}


def test_nothing_expires_before_every_stream_has_shown_a_row() -> None:
    state = PLAN.states[state_of(PLAN, "C")]
    assert horizon_us(PLAN, state, {"A": None, "B": 5, "C": 5}, {J1: 1}) is None


def test_an_operator_that_owes_holds_back_those_above_it_alone() -> None:
    held = {J1: 2 * SECOND}
    marks = {"A": 7 * SECOND, "B": 7 * SECOND, "C": 7 * SECOND}
    found = {
        inputs: horizon_us(PLAN, PLAN.states[state_of(PLAN, inputs)], marks, held) for inputs in ("A", "B", "A+B", "C")
    }
    assert found == {"A": 7 * SECOND, "B": 7 * SECOND, "A+B": 7 * SECOND, "C": 2 * SECOND}
    # What the upper one owes is nobody's business: nothing stands above it.
    assert horizon_us(PLAN, PLAN.states[state_of(PLAN, "C")], marks, {J2: 1}) == 7 * SECOND


def test_rows_that_nothing_limits_stay_at_the_end_of_time() -> None:
    state = PLAN.states[state_of(PLAN, "A+B")]
    assert horizon_us(PLAN, state, {"A": NEVER, "B": NEVER, "C": NEVER}, {}) == NEVER - 1


def test_a_stream_that_is_done_with_rows_sooner_has_a_lead() -> None:
    """A is needed by C for 61 seconds, and by B for none: B is a minute ahead in that."""
    near = "ABS(B.ts - A.ts) <= 0 AND C.ts BETWEEN B.ts AND B.ts + 60000000"
    query = bind(f"SELECT A.v FROM A, B, C WHERE A.k = B.k AND B.k = C.k AND {near}", STREAMS)
    plan = lay_out(query, choose_tree(query, "((A B) C)"))
    found = {name.split("@")[0]: state for name, state in plan.states.items()}
    assert {name: dict(zip(state.outside, state.leads, strict=True)) for name, state in found.items()} == {
        "A": {"B": 60 * SECOND, "C": 0},
        "B": {"A": 60 * SECOND, "C": 0},
        "A+B": {"C": 0},
        "C": {"A": 0, "B": 0},
    }
    marks = {"A": 7 * SECOND, "B": 5 * SECOND, "C": 66 * SECOND}
    assert horizon_us(plan, found["A"], marks, {}) == 65 * SECOND
    assert horizon_us(plan, found["B"], marks, {}) == 66 * SECOND
    assert horizon_us(plan, found["C"], marks, {}) == 5 * SECOND
    assert horizon_us(plan, found["A"], {**marks, "B": None}, {}) is None
    # What a join owes may be of any of its streams, and has no lead.
    (below,) = plan.feeders[found["C"].name]
    assert horizon_us(plan, found["C"], marks, {below: 2 * SECOND}) == 2 * SECOND


# --- what goes -------------------------------------------------------------------------------------------------------


def test_rows_that_have_expired_go() -> None:
    rows = entry("a", "A", 0, end=9), entry("a2", "A", 0, end=10), entry("a3", "A", 0, end=11)
    marks = {"A": 0, "B": 10 * SECOND, "C": 12 * SECOND}
    assert expired(*rows, marks=marks) == [release("a"), release("a2")]


def test_in_groups_with_a_closed_generation_they_go_cold_instead() -> None:
    closed = entry("b", "B", 0, ((2, 4), (7, 8)), end=9999, cold=2)
    assert expired(entry("a", "A", 0), closed, entry("c", "C", 0, end=-1)) == [
        release("a", ((0, 2), (4, 7))),
        CoolGroups(SegmentId("a"), state_of(PLAN, "A"), ((2, 4), (7, 8))),
        release("c"),
    ]


def test_a_segment_of_such_groups_alone_is_not_released_at_all() -> None:
    closed = entry("b", "B", 0, ((2, 4),), end=9999, cold=2)
    assert expired(entry("a", "A", 0, ((2, 4),)), closed) == [
        CoolGroups(SegmentId("a"), state_of(PLAN, "A"), ((2, 4),))
    ]


def test_an_operator_that_owes_keeps_the_rows_above_that_its_results_may_meet() -> None:
    """J1 owes nothing older than second 8, so C must keep what expires after that."""
    owing = [entry("a", "A", 3, end=5000, cold=2), entry("b", "B", 8, end=5000)]
    above = [entry("c", "C", 1, end=8), entry("c2", "C", 4, end=9), entry("ab", "A+B", 1, end=900)]
    assert _released(expired(*owing, *above)) == {"c", "ab"}
    emitted = [entry("a", "A", 3, end=5000, cold=2), entry("b", "B", 8, end=5000, cold=2)]
    assert _released(expired(*emitted, *above)) == {"c", "c2", "ab"}


def _released(updates: list[Update]) -> set[str]:
    return {update.segment for update in updates if isinstance(update, ReleaseGroups)}


@pytest.mark.parametrize(
    "others, goes",
    [
        ([], True),
        ([entry("b", "B", 11, cold=2)], True),
        ([entry("b", "B", 10, end=9999, cold=2)], True),
        ([entry("b", "B", 9, end=9999, cold=2)], False),
        ([entry("b", "B", 9, end=9999, cold=1)], True),
        ([entry("b", "B", 9, ((5, 6),), end=9999, cold=2)], True),
        ([entry("b", "B", 9, ((1, 2),), end=9999, cold=2)], False),
        ([entry("b", "B", 9, end=9999)], False),
        ([entry("c", "C", 9, end=9999, cold=2)], True),
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
    cold = entry("a", "A", 0, ((0, 3),), end=10, cold=1)
    found = expired(cold, *others)
    assert (release("a", ((0, 3),)) in found) is goes


def test_cold_rows_go_group_by_group() -> None:
    """Only in group 1 is there a row that may join them."""
    cold = entry("a", "A", 0, ((0, 3),), end=10, cold=1)
    partner = entry("b", "B", 9, ((1, 2),), end=9999, cold=2)
    assert expired(cold, partner) == [release("a", ((0, 1), (2, 3)))]


def test_cooled_rows_go_once_nothing_can_join_them() -> None:
    cooled = entry("a", "A", 12, ((0, 3),), end=22, cold=LIVE)
    assert expired(cooled) == [release("a", ((0, 3),))], "nothing else is there"
    assert expired(cooled, entry("b", "B", 22, end=9999, cold=1)) == [release("a", ((0, 3),))], "it is too young"
    assert expired(cooled, entry("b", "B", 21, end=9999, cold=1)) == []
    assert expired(cooled, entry("b", "B", 21, end=9999)) == [release("a", ((0, 3),))], "it is of the same generation"


def test_cold_rows_that_future_rows_may_need_stay() -> None:
    marks = {"A": 100 * SECOND, "B": 9 * SECOND, "C": 100 * SECOND}
    assert expired(entry("a", "A", 0, end=10, cold=1), marks=marks) == []


def test_what_it_costs_does_not_grow_with_the_square_of_what_is_cold() -> None:
    def seconds(generations: int) -> float:
        rows = [entry(f"{n}{name}", name, n, end=n + 5, cold=n) for n in range(1, generations) for name in "AB"]
        manifest, ledgers = manifest_of(PLAN, *rows), Ledgers(PLAN)
        ledgers.at(manifest)
        started = time.process_time()
        expire(PLAN, manifest, LATE, ledgers)
        return time.process_time() - started

    seconds(50)
    few, many = min(seconds(200) for _ in range(3)), min(seconds(1600) for _ in range(3))
    assert many < 8 * few * 3, f"8 times as much: {few:.4f} s and {many:.4f} s"
