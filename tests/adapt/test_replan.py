"""When the plan is looked at again, what is reason enough to ask the optimiser, and when a change pays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapt.asking import PLAN, Asked
from small_plans import GROUPS, manifest_of, piece
from watersmeet.adapt.decisions import ChangePlan, Decision, LookAtPlan, ReviewPlan
from watersmeet.adapt.policies.migrate import ROADS
from watersmeet.adapt.policies.replan.looks import Look, change, figures_of
from watersmeet.adapt.policies.replan.triggers import TRIGGERS
from watersmeet.adapt.policies.replan_worthwhile import ReplanWorthwhile
from watersmeet.adapt.settings import ReplanSettings
from watersmeet.errors import JobError
from watersmeet.model.statistics import Measured, PairCounts
from watersmeet.state.manifest import BatchRecord, Learned, Manifest
from watersmeet.state.segment_table import SegmentTable

EVERY = 5


def measured(first: float, second: float, rate: float = 1000.0) -> Measured:
    """So many rows a second of A, B and C; A and B match with the first share, B and C with the second."""
    many = 1e9
    pairs = (
        PairCounts(("A",), ("B",), many, first * many),
        PairCounts(("B",), ("C",), many, second * many),
        PairCounts(("A", "B"), ("C",), many, second * many),
    )
    return Measured(5.0, dict.fromkeys("ABC", rate * 5.0), pairs)


def asked(found: Measured, batch: int, look: Look | None = None, **learned: Any) -> Asked:
    manifest: Manifest = replace(manifest_of(PLAN), batch=BatchRecord(batch - 1, 0, 0, 0), measured=found)
    return Asked(manifest, learned=Learned(look=None if look is None else look.to_json(), **learned))


def propose(
    found: Measured, batch: int, look: Look | None = None, trigger: str = "refined", **more: Any
) -> list[Decision]:
    policy = ReplanWorthwhile(ReplanSettings(trigger, EVERY), None)
    return asked(found, batch, look, **more).propose(policy)


GOOD, BAD = measured(1e-6, 1e-2), measured(1e-2, 1e-6)  # for ((A B) C), which the plan of these tests is


def looked(found: Measured, batch: int, **more: Any) -> Look:
    return Look(batch, figures_of(found), 0, 0, 0, **more)


def test_a_good_plan_stays() -> None:
    (look,) = propose(GOOD, EVERY)
    assert isinstance(look, LookAtPlan)
    assert (look.look["batch"], look.look["figures"]["A B"]) == (EVERY, 1e-6)


def test_a_bad_plan_is_changed_with_its_figures() -> None:
    found = propose(BAD, 40, looked(GOOD, 35))
    (decided,) = [entry for entry in found if isinstance(entry, ChangePlan)]
    assert (decided.plan, decided.by, decided.before_batch) == ("(A (B C))", "auto", 40)
    assert decided.figures["cpu_predicted"] < decided.figures["cpu"]
    assert decided.reason.startswith("figures changed by 100%: it costs ")


@pytest.mark.parametrize("batch", [35, 36, 39])
def test_it_is_looked_at_from_time_to_time(batch: int) -> None:
    assert propose(BAD, batch, looked(GOOD, 35)) == []


def test_what_has_not_changed_is_no_reason_to_ask() -> None:
    (look,) = propose(BAD, 40, looked(BAD, 35))
    assert isinstance(look, LookAtPlan), "the optimiser was asked before, with the same figures"


def test_small_changes_add_up() -> None:
    """What the optimiser was last asked with is compared, not the look before."""
    look, batch, shares = looked(measured(1e-2, 1e-6), 5), 5, [0.009, 0.0082, 0.0075]
    for share in shares:
        batch += EVERY
        (decided,) = [d for d in propose(measured(share, 1e-6), batch, look) if isinstance(d, LookAtPlan)]
        look = Look(**decided.look)
        assert look.figures["A B"] == (1e-2 if share > 0.008 else share)


def test_a_change_that_does_not_pay_is_not_made() -> None:
    """The figures have changed every few batches: what is saved until the next time is less than what it takes."""
    restless = looked(GOOD, 35, changes=30)
    assert not any(isinstance(d, ChangePlan) for d in propose(measured(2e-5, 1e-6, 10.0), 40, restless))


def test_a_change_that_did_not_pay_is_thought_of_again() -> None:
    """Was: until figures changed once more, though they were expected to last longer from look to look."""
    batch, look, waited = 40, looked(GOOD, 35, changes=30), list[bool]()
    held = [piece(PLAN, name, name, ((0, GROUPS),), 0, rows=100) for name in "ABC"]
    while len(waited) < 100:
        told = asked(BAD, batch, look, rows_a_second=1000.0)
        full = replace(told, manifest=replace(told.manifest, segments=SegmentTable.of(held)))
        decided = full.propose(ReplanWorthwhile(ReplanSettings("refined", EVERY), None))
        if any(isinstance(entry, ChangePlan) for entry in decided):
            break
        (noted,) = [entry for entry in decided if isinstance(entry, LookAtPlan)]
        look, batch = Look(**noted.look), batch + EVERY
        waited.append(look.waits)
    assert 0 < len(waited) < 100
    assert all(waited)
    (noted,) = [entry for entry in propose(GOOD, 40, looked(BAD, 35)) if isinstance(entry, LookAtPlan)]
    assert not noted.look["waits"], "nothing is better"


def test_a_change_is_reviewed_at_the_next_look() -> None:
    review = {"cpu": 2.0, "cpu_predicted": 1.0, "batch": 35}
    assert not any(
        isinstance(d, ReviewPlan) for d in propose(GOOD, 40, looked(GOOD, 34), review={**review, "batch": 36})
    )
    told, look = propose(GOOD, 40, looked(GOOD, 35), review=review)
    assert isinstance(told, ReviewPlan)
    assert told.reason.startswith("2 cores before, 1 predicted, ")
    assert isinstance(look, LookAtPlan)
    assert look.reviewed


def test_how_long_figures_last() -> None:
    first = looked(GOOD, 30)
    assert first.life == 30, "they have never changed"
    second = looked(BAD, 35).after(first, 0.2)
    assert (second.since, second.changes, second.life) == (35, 1, 17.5)
    third = replace(looked(GOOD, 40)).after(second, 0.2)
    assert (third.since, third.changes) == (40, 1), "it goes on"
    calm = looked(GOOD, 80).after(third, 0.2)
    assert (calm.since, calm.life) == (40, 40)


def test_figures() -> None:
    assert figures_of(measured(0.5, 0.25)) == {"A": 1000, "B": 1000, "C": 1000, "A B": 0.5, "B C": 0.25, "A+B C": 0.25}
    assert change({}, {"A": 1.0}) == 0.0


def test_memory_is_a_reason_where_it_grows() -> None:
    settings = ReplanSettings("memory-driven", EVERY)
    before, grown, surged = (
        replace(looked(GOOD, batch), state_bytes=size) for batch, size in ((5, 85), (10, 90), (15, 84))
    )
    trigger = TRIGGERS["memory-driven"]
    assert trigger(settings, before, grown, 100) == "the state has come to 90% of the budget, and grows"
    assert trigger(settings, grown, surged, 100) is None, "a surge is spilled"
    assert trigger(settings, before, grown, None) is None
    assert trigger(settings, replace(before, state_bytes=20), grown, 100) is None, "nor was it near before"
    owed = replace(before, owed=3), replace(grown, owed=9, state_bytes=0)
    assert TRIGGERS["refined"](settings, *owed, None) == "9 groups owe results, and 3 did before"


def test_settings_are_checked() -> None:
    with pytest.raises(JobError, match='unknown replan "refine"'):
        ReplanSettings("refine")
    with pytest.raises(JobError, match='"replan_every" is 0'):
        ReplanSettings("refined", 0)
    with pytest.raises(JobError, match='"replan_threshold" is 2'):
        ReplanSettings("refined", 1, 2)


def test_what_roads_cost() -> None:
    prices = {road.name: road.price(1_000_000, 0.0, 10.0, 0.5) for road in ROADS}
    assert prices == {"seeded": 2.0, "moving-state": 2.0, "parallel-track": 5.0}
    assert {road.price(1_000_000, 1e6, None, 0.5) for road in ROADS} == {1.0, float("inf")}


def test_the_plan_is_changed_once_before_a_batch() -> None:
    """Whatever the optimiser says of what then stands, which is asked again at once."""
    once = asked(BAD, 40, looked(GOOD, 35))
    made = {"decision": "ChangePlan", "before_batch": 40, "reason": ""}
    again = replace(once, manifest=replace(once.manifest, decisions=(made,)))
    policy = ReplanWorthwhile(ReplanSettings("refined", EVERY), None)
    assert any(isinstance(entry, ChangePlan) for entry in once.propose(policy))
    assert [type(entry) for entry in again.propose(policy)] == [LookAtPlan]
