"""What the ways to spread a ring make of a plan, what they refuse, and that a spec says which one it is."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from watersmeet.errors import JobError, RingError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.aligned import BY_SEGMENT
from watersmeet.model.streams import Stream
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.hop import HopStage
from watersmeet.plan.layout import lay_out, lay_out_spec
from watersmeet.plan.layout.shapes import common_key
from watersmeet.plan.query import Query
from watersmeet.plan.ring_ways import ATR, CTR, PSP, UNSAID, Aligned, RingWay
from watersmeet.plan.spec import PlanSpec, going_on, spec_of, way_of
from watersmeet.plan.tree import choose_tree

STREAMS = {name: Stream(name, parse_schema("k BIGINT, x DOUBLE, ts TIMESTAMP")) for name in "ABCD"}
WINDOWED = "A [RANGE 10 SECONDS], B [RANGE 20 SECONDS], C [RANGE 30 SECONDS]"
TEN_SECONDS = RingWay(ATR, segment=timedelta(seconds=10))


def bound(conditions: str = "A.x < B.x AND B.x < C.x", streams: str = WINDOWED) -> Query:
    return bind(f"SELECT A.k FROM {streams} WHERE {conditions}", STREAMS)


def spec(query: Query, way: RingWay, plan: str = "mjoin", rates: dict[str, float] | None = None) -> PlanSpec:
    return spec_of(query, choose_tree(query, plan), ring=way, rates=rates)


def test_a_master_is_kept_once_and_others_as_often_as_windows_reach() -> None:
    query = bound()
    (stage,) = lay_out(query, choose_tree(query, "mjoin"), ring=TEN_SECONDS).stages
    assert isinstance(stage, FragmentStage)
    assert [state.partitioning for state in stage.states] == [BY_SEGMENT] * 3
    assert [state.copies for state in stage.states] == [1.0, 4.0, 5.0]  # 1 + (10 + 20) / 10, 1 + (10 + 30) / 10
    assert stage.root.exact_hash
    assert common_key([lay_out_spec(query, spec(query, TEN_SECONDS))]) is None


def test_the_input_of_most_rows_is_the_master_and_segments_are_as_long_as_the_widest_window() -> None:
    query = bound()
    (join,) = spec(query, RingWay(ATR), rates={"B": 100.0, "C": 7.0}).joins
    assert join.ring == Aligned(1, 30_000_000)
    assert spec(query, RingWay(ATR)).joins[0].ring == Aligned(0, 30_000_000)


def test_equalities_inside_of_an_aligned_ring_are_checked() -> None:
    query = bound("A.k = B.k AND B.x < C.x")
    (stage,) = lay_out(query, choose_tree(query, "mjoin"), ring=TEN_SECONDS).stages
    assert isinstance(stage, FragmentStage)
    assert len(stage.root.predicates) == 2
    lower, upper = lay_out(query, choose_tree(query, "((A B) C)"), ring=TEN_SECONDS).stages
    assert isinstance(lower, FragmentStage) and lower.keys == ("k0",)
    assert isinstance(upper, FragmentStage) and upper.keys == ()


def test_joins_that_are_no_rings_stay_as_they_are() -> None:
    query = bound("A.k = B.k AND B.k + 1 = C.k")
    assert spec(query, RingWay(ATR)) == spec(query, UNSAID)
    assert way_of(spec(query, RingWay(ATR))) == UNSAID
    assert isinstance(lay_out_spec(query, spec(query, RingWay(ATR))).stages[0], HopStage)


def test_copies_are_kept_and_not_what_visits_them() -> None:
    query = bound()
    plan = lay_out(query, choose_tree(query, "mjoin"), ring=RingWay(CTR, copies=3))
    first, second = plan.stages
    assert isinstance(first, HopStage) and isinstance(second, HopStage)
    assert [state.copies for state in first.states] == [3.0] * 3
    assert {state.copies for state in first.ports.values()} == {1.0, 3.0}
    assert all(probe.node.inputs[0].state.copies == 1 for probe in (*first.probes, *second.probes))
    assert {reach.copies for reach in plan.reaches.values()} == {3}
    once = lay_out(query, choose_tree(query, "mjoin"))
    assert not plan.states.keys() & once.states.keys()


@pytest.mark.parametrize("way", [UNSAID, RingWay(PSP), TEN_SECONDS, RingWay(CTR, copies=3)])
def test_a_spec_says_how_its_rings_are_spread(way: RingWay) -> None:
    query = bound()
    made = spec(query, way)
    assert PlanSpec.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert way_of(made) == (RingWay(PSP) if way == UNSAID else way)


def test_a_spec_of_an_earlier_release_is_one_of_slices() -> None:
    query = bound()
    assert "ring" not in json.dumps(spec(query, RingWay(PSP)).to_json())


def test_what_a_setting_does_not_name_stays_as_it_is() -> None:
    aligned = spec(bound(), TEN_SECONDS)
    assert going_on(UNSAID, aligned) == TEN_SECONDS
    assert going_on(RingWay(ATR), aligned) == TEN_SECONDS
    assert going_on(RingWay(PSP), aligned) == RingWay(PSP)
    longer = RingWay(ATR, segment=timedelta(seconds=40))
    assert going_on(longer, aligned) == longer


def test_an_input_without_a_window_cannot_be_aligned() -> None:
    query = bound(streams="A [RANGE 10 SECONDS], B, C [RANGE 30 SECONDS]")
    with pytest.raises(RingError, match='ring = "atr" needs a window for B') as caught:
        spec(query, RingWay(ATR))
    assert 'ring = "psp"' in str(caught.value.hint)
    # What is joined with one that has a window has one too.
    query = bound("A.k = B.k AND B.x < C.x", "A [RANGE 10 SECONDS], B, C [RANGE 30 SECONDS]")
    assert isinstance(spec(query, RingWay(ATR), "((A B) C)").joins[1].ring, Aligned)


def test_segments_that_would_copy_rows_without_end_are_refused() -> None:
    with pytest.raises(RingError, match=r"segments of 0\.1 seconds are too short") as caught:
        spec(bound(), RingWay(ATR, segment=timedelta(milliseconds=100)))
    assert "kept 301 times each; 50 are allowed" in str(caught.value.detail)
    least = timedelta(seconds=float(str(caught.value.hint).split()[3]))
    with pytest.raises(RingError):
        spec(bound(), RingWay(ATR, segment=least))  # enough for B, and not for C
    assert spec(bound(), RingWay(ATR, segment=timedelta(seconds=1)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RingWay("art"), 'unknown ring "art"'),
        (lambda: RingWay(PSP, segment=timedelta(seconds=1)), '"ring_segment" is set, and ring is "psp"'),
        (lambda: RingWay(ATR, copies=2), '"ring_copies" is set, and ring is "atr"'),
        (lambda: RingWay(ATR, segment=timedelta(0)), '"ring_segment" is 0 seconds'),
        (lambda: RingWay(CTR, copies=1), '"ring_copies" is 1'),
        (lambda: RingWay(CTR, copies=3).check_slots(2), '"ring_copies" is 3, and a ring lies over 2 slots'),
    ],
)
def test_ways_that_make_no_sense_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(JobError, match=message):
        make()
