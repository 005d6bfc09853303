"""Trials: what changes came to is learned in all kinds, in one place, and is there after a restart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapt.asking import HELD, J1, J2, PLAN, Asked
from small_plans import manifest_of
from watersmeet.adapt.decisions.change_plan import after_change
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Known, effects_of
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.spill_over_budget import SpillOverBudget
from watersmeet.adapt.settle import settle
from watersmeet.adapt.trials import (
    came_true,
    close_trials,
    come_true,
    cools_down,
    learn_merges,
    lesson_of,
    open_trial,
    trial_of,
)
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.state.applying import apply_all
from watersmeet.state.learned import BALANCE, MERGE, RING, SLOTS, SPILL, Learned, Trial
from watersmeet.state.learned import PLAN as PLAN_TRIAL
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import BatchRecord, Manifest


def trial(kind: str, at_batch: int = 5, **more: object) -> Trial:
    return Trial(kind, "x", at_batch, {"seconds": 2.0}, {"seconds": 1.0}, **more)  # type: ignore[arg-type]


def after_reviews(manifest: Manifest, *trials: Trial, paid: bool = False) -> Manifest:
    """As it is once all of these have been reviewed, in one commit, and read again."""
    reviews: list[Decision] = [Review(tried, {"seconds": 2.0}, paid, "why") for tried in trials]
    effects = effects_of(settle(reviews), Known(PLAN, manifest, Ledgers(PLAN), manifest.learned))
    committed = apply_all(effects.updates, manifest)
    return Manifest.from_json(json.loads(json.dumps(committed.to_json())))


@pytest.mark.parametrize(
    "kind, name",
    [(PLAN_TRIAL, "ReviewPlan"), (SLOTS, "ReviewRescale"), (RING, "ReviewRing"), (BALANCE, "ReviewMoves")],
)
def test_what_did_not_pay_is_learned_and_survives_a_restart(kind: str, name: str) -> None:
    manifest = manifest_of(PLAN)
    for times in (1, 2, 3):
        tried = trial(kind, at_batch=5 * times)
        manifest = replace(manifest, learned=open_trial(manifest.learned, tried))
        manifest = after_reviews(manifest, tried)
        lesson = lesson_of(manifest.learned, kind)
        assert lesson is not None
        assert (lesson.in_vain, lesson.paid, lesson.trial) == (times, False, tried)
        assert trial_of(manifest.learned, kind) is None, "it is reviewed once"
        told = manifest.decisions[-1]
        assert (told["decision"], told["paid"], told["figures"]["in_vain"]) == (name, False, times)
    assert cools_down(manifest.learned, kind, 54, 5) and not cools_down(manifest.learned, kind, 55, 5)
    paid = after_reviews(manifest, trial(kind, at_batch=60), paid=True)
    lesson = lesson_of(paid.learned, kind)
    assert lesson is not None and lesson.in_vain == 0
    assert not cools_down(paid.learned, kind, 61, 5)


def test_kinds_and_parts_are_learned_apart() -> None:
    one, other = trial(PLAN_TRIAL, of="slot 0"), trial(PLAN_TRIAL, of="slot 1")
    after = after_reviews(manifest_of(PLAN), one, trial(SLOTS))
    assert [lesson.trial.kind for lesson in after.learned.lessons] == [PLAN_TRIAL, SLOTS]
    assert cools_down(after.learned, PLAN_TRIAL, 6, 5, "slot 0")
    assert not cools_down(after.learned, PLAN_TRIAL, 6, 5, "slot 1")
    both = open_trial(open_trial(Learned(), one), other)
    assert trial_of(both, PLAN_TRIAL, "slot 1") == other
    assert open_trial(both, replace(one, at_batch=9)).trials == (other, replace(one, at_batch=9))
    assert close_trials(both, PLAN_TRIAL).trials == ()


@pytest.mark.parametrize(
    "before, expected, found, times, paid",
    [
        (2.0, 1.0, 1.5, 1.0, True),
        (2.0, 1.0, 1.6, 1.0, False),
        (2.0, 1.0, 0.1, 1.0, True),
        (2.0, 1.0, 2.9, 2.0, True),
        (2.0, 1.0, 0.9, 0.5, False),
        (1.0, 2.0, 2.4, 1.0, True),
        (1.0, 2.0, 2.6, 1.0, False),
        (1.0, 1.0, 1.05, 1.0, True),
    ],
    ids=[
        "half way",
        "not half way",
        "better than expected",
        "twice as much came",
        "half as much came",
        "worse, as expected",
        "worse than expected",
        "what was to stay did, but for noise",
    ],
)
def test_whether_a_figure_came_true(before: float, expected: float, found: float, times: float, paid: bool) -> None:
    tried = Trial(BALANCE, "x", 5, {"seconds": before}, {"seconds": expected})
    assert came_true(tried, {"seconds": found, "rows": 7.0}, times) is paid


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 7))
def test_the_wait_doubles_up_to_a_bound(course: list[bool], every: int) -> None:
    manifest, in_vain = manifest_of(PLAN), 0
    for paid in course:
        manifest = after_reviews(manifest, trial(BALANCE, at_batch=100), paid=paid)
        in_vain = 0 if paid else in_vain + 1
    wait = every * 2 ** min(in_vain, 3) if in_vain else 0
    assert not cools_down(manifest.learned, BALANCE, 100 + wait, every)
    assert not wait or cools_down(manifest.learned, BALANCE, 100 + wait - 1, every)


def test_merges_share_out_what_all_of_them_emitted() -> None:
    """Tasks count the results of merges, not whose they are."""
    learned = Learned()
    for operator, expected in ((J1, 30.0), (J2, 10.0)):
        learned = open_trial(learned, Trial(MERGE, "m", 5, {}, {"results": expected}, operator))
    after = learn_merges(learned, 20)
    assert after.trials == ()
    assert [come_true(after, operator) for operator in (J1, J2)] == [0.5, 0.5]
    assert come_true(learned, J1) == 1.0, "nothing is known yet"
    assert learn_merges(after, 100) == after, "what nobody expected is no lesson"


def test_spills_are_reviewed_without_a_word() -> None:
    """The bytes before the next batch, the results after it: neither is told, nor committed for itself."""
    settings = AdaptSettings(10_000)
    policy = SpillOverBudget.of(settings)
    manifest = replace(manifest_of(PLAN, *HELD), batch=BatchRecord(4, 100, 40, 0))
    freed = Trial(SPILL, "2 groups", 5, {"bytes": 1000.0}, {"bytes": 800.0}, "bytes")
    before = {"results": 0.0, "rows": 100.0, "rows_out": 40.0}
    put_off = Trial(SPILL, "2 groups", 5, before, {"results": 10.0}, "results")
    learned = Learned(trials=(freed, put_off))
    (first,) = Asked(manifest, Moment.BEFORE_BATCH, settings, learned).propose(policy)
    assert isinstance(first, Review) and (first.found, first.paid) == ({"bytes": 800.0}, True)
    later = replace(manifest, batch=BatchRecord(5, 200, 50, 0))
    (second,) = Asked(later, Moment.AFTER_BATCH, settings, learned).propose(policy)
    assert isinstance(second, Review) and (second.found, second.paid) == ({"results": 30.0}, False)
    effects = effects_of([first, second], Known(PLAN, later, Ledgers(PLAN), learned))
    assert (len(effects.updates), effects.shown) == (1, [])
    assert effects.learned is not None and effects.learned.trials == ()


def test_a_plan_that_is_changed_again_leaves_its_trial_behind() -> None:
    """Whoever changes it: what was expected of the former plan cannot be compared. What the road took is learned."""
    own = Trial(PLAN_TRIAL, "(A B)", 5, {"cpu": 2.0}, {"cpu": 1.0}, notes={"price_by_model": 2.0})
    told = {"plan": "(A B)", "before_batch": 5, "by": "moving-state", "rows": 10, "seconds": 8.0}
    before = open_trial(open_trial(open_trial(Learned(), own), trial(SLOTS)), trial(BALANCE))
    after = after_change(before, told, 7)
    assert after.trials == (trial(BALANCE), replace(own, at_batch=7, notes={**own.notes, "price_found": 8.0}))
    assert after.roads["moving-state"] == (0.0, 4.0)
    by_hand = after_change(after, {**told, "plan": "(B A)", "before_batch": 9}, 9)
    assert by_hand.trials == (trial(BALANCE),)
    of_slot = replace(own, of="slot 1")
    assert of_slot in after_change(open_trial(after, of_slot), {**told, "plan": "(B A)"}, 9).trials
