"""When the plan is looked at again, what is reason enough to ask the optimiser, and when a change pays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapt.asking import PLAN, Asked, entry
from small_plans import manifest_of
from watersmeet.adapt.decisions.change_plan import ChangePlan, LookAtPlan
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Known, effects_of
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.policies.migrate import ROADS
from watersmeet.adapt.policies.migrate.road import corrected, learn_road
from watersmeet.adapt.policies.replan.library import KEPT, Served, library_json, nearest, read_library, remember
from watersmeet.adapt.policies.replan.looks import after, change
from watersmeet.adapt.policies.replan_worthwhile import ReplanWorthwhile
from watersmeet.adapt.settle import settle
from watersmeet.adapt.trials import cools_down, learn
from watersmeet.errors import JobError
from watersmeet.model.origin import Forced
from watersmeet.model.statistics import Measured, PairCounts
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.optimize.reconsider import figures_of, guess_seconds
from watersmeet.settings.replan import ReplanSettings
from watersmeet.state.applying import apply_all
from watersmeet.state.learned import PLAN as PLAN_TRIAL
from watersmeet.state.learned import Learned, Look, Trial
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import BatchRecord, Manifest

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


def figures(found: Measured) -> dict[str, float]:
    return figures_of(graph_of(PLAN.query, Statistics(measured=found)))


def asked(
    found: Measured,
    batch: int,
    look: Look | None = None,
    library: tuple[Served, ...] = (),
    rows: int = 0,
    **learned: Any,
) -> Asked:
    """With so many rows in each group of each input."""
    held = [entry(name, name, rows=rows) for name in "ABC" if rows]
    manifest: Manifest = replace(
        manifest_of(PLAN, *held),
        batch=BatchRecord(batch - 1, 0, 0, 0),
        measured=found,
        library=library_json(library),
    )
    return Asked(manifest, learned=Learned(look=look, **learned))


def propose(
    found: Measured,
    batch: int,
    look: Look | None = None,
    trigger: str = "refined",
    quota: float = 0.02,
    **more: Any,
) -> list[Decision]:
    policy = ReplanWorthwhile(ReplanSettings(trigger, EVERY, quota=quota), None)
    return asked(found, batch, look, **more).propose(policy)


GOOD, BAD = measured(1e-6, 1e-2), measured(1e-2, 1e-6)  # for ((A B) C), which the plan of these tests is


def looked(found: Measured, batch: int, **more: Any) -> Look:
    return Look(batch, figures(found), 0, asked=figures(found), **more)


def test_a_good_plan_stays() -> None:
    (look,) = propose(GOOD, EVERY)
    assert isinstance(look, LookAtPlan)
    assert (look.look.batch, look.look.figures["A B"]) == (EVERY, pytest.approx(1e-6, rel=0.01))


def test_a_bad_plan_is_changed_with_its_figures() -> None:
    found = propose(BAD, 40, looked(GOOD, 35))
    (decided,) = [entry for entry in found if isinstance(entry, ChangePlan)]
    assert (decided.plan, decided.by, decided.before_batch) == ("(A (B C))", "auto", 40)
    told = decided.to_json()["figures"]
    assert told["cpu_predicted"] < told["cpu"]
    assert {"memory", "life_seconds", "price_by_model", "price_seconds", "batch_seconds"} <= told.keys()
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
        look = decided.look
        assert look.asked["A B"] == pytest.approx(1e-2 if share > 0.008 else share, rel=1e-3)


def test_a_change_that_does_not_pay_is_not_made() -> None:
    """The figures have changed every few batches: what is saved until the next time is less than what it takes."""
    restless = looked(GOOD, 35, changes=30)
    assert not any(isinstance(d, ChangePlan) for d in propose(measured(2e-5, 1e-6, 10.0), 40, restless))


def test_a_change_that_did_not_pay_is_thought_of_again() -> None:
    """Was: until figures changed once more, though they were expected to last longer from look to look."""
    batch, look, waited = 40, looked(GOOD, 35, changes=30), list[bool]()
    while len(waited) < 100:
        decided = propose(BAD, batch, look, rows=100, roads={"seeded": (0.0, 500.0)})
        if any(isinstance(entry, ChangePlan) for entry in decided):
            break
        (noted,) = [entry for entry in decided if isinstance(entry, LookAtPlan)]
        look, batch = noted.look, batch + EVERY
        waited.append(look.waits)
    assert 0 < len(waited) < 100
    assert all(waited)
    (noted,) = [entry for entry in propose(GOOD, 40, looked(BAD, 35)) if isinstance(entry, LookAtPlan)]
    assert not noted.look.waits, "nothing is better"


def test_a_change_is_reviewed_at_the_next_look() -> None:
    for trial in (tried(2.0, 1.0, at_batch=36), tried(2.0, 1.0, what="(A B C)")):
        assert not any(isinstance(d, Review) for d in propose(GOOD, 40, looked(GOOD, 34), trials=(trial,)))
    told, look = propose(GOOD, 40, looked(GOOD, 35), trials=(tried(2.0, 1.0),))
    assert isinstance(told, Review) and told.paid
    assert told.reason.startswith("2 cores before, 1 predicted, ")
    assert isinstance(look, LookAtPlan)


def tried(before: float, expected: float, at_batch: int = 35, what: str = "((A B) C)") -> Trial:
    """A change of the plan that was to bring it from so many cores to so many."""
    return Trial(PLAN_TRIAL, what, at_batch, {"cpu": before}, {"cpu": expected})


def test_how_long_figures_last() -> None:
    first = looked(GOOD, 30)
    assert first.life == 30, "they have never changed"
    second = after(first, looked(BAD, 35), 0.2)
    assert (second.since, second.changes, second.life) == (35, 1, 17.5)
    third = after(second, looked(measured(2e-2, 1e-7), 40), 0.2)
    assert (third.since, third.changes) == (40, 1), "it goes on"
    back = after(second, looked(GOOD, 40), 0.2)
    assert (back.since, back.changes, back.life) == (40, 2, pytest.approx(40 / 3)), "it turns back"
    calm = after(back, looked(GOOD, 80), 0.2)
    assert (calm.since, calm.changes, calm.life) == (40, 2, 40)


def test_figures_are_the_same_whichever_plan_measured_them() -> None:
    other = Measured(
        5.0,
        dict.fromkeys("ABC", 5000.0),
        (PairCounts(("B",), ("C",), 1e9, 0.25e9), PairCounts(("A",), ("B", "C"), 1e9, 0.5e9)),
    )
    assert figures(other) == pytest.approx(figures(measured(0.5, 0.25)))
    assert figures(other) == pytest.approx({"A": 1000, "B": 1000, "C": 1000, "A B": 0.5, "B C": 0.25})
    assert change({}, {"A": 1.0}) == 0.0


def test_what_a_former_plan_has_seen_does_not_count_for_long() -> None:
    """Was: pairs that the new plan does not probe kept their figures for ever, and came before those of the new one."""
    told = Measured(1.0, dict.fromkeys("ABC", 1000.0), (PairCounts(("A",), ("B",), 1e6, 0.5e6),))
    for _ in range(10):
        told = told.then(told)
    pairs = PairCounts(("B",), ("C",), 1e6, 0.1e6), PairCounts(("A",), ("B", "C"), 1e6, 1e3)
    for _ in range(10):
        told = told.then(Measured(1.0, dict.fromkeys("ABC", 1000.0), pairs))
    assert figures(told)["A B"] == pytest.approx(1e-3, rel=0.01)


def test_settings_are_checked() -> None:
    with pytest.raises(JobError, match='unknown replan "refine"'):
        ReplanSettings("refine")
    with pytest.raises(JobError, match='"replan_every" is 0'):
        ReplanSettings("refined", 0)
    with pytest.raises(JobError, match='"replan_threshold" is 2'):
        ReplanSettings("refined", 1, 2)
    with pytest.raises(JobError, match='"replan_quota" is 1'):
        ReplanSettings("refined", quota=1.5)


def test_what_roads_cost() -> None:
    prices = {road.name: road.price(1_000_000, 10.0, 0.5) for road in ROADS}
    assert prices == {"seeded": 2.0, "moving-state": 2.0, "parallel-track": 5.0}
    assert {road.price(1_000_000, None, 0.5) for road in ROADS} == {2.0, float("inf")}


def test_what_changes_took_corrects_what_they_are_expected_to() -> None:
    took = learn_road({}, "moving-state", 2.0, 8.0)
    assert (corrected(took, "moving-state", 1.0), corrected(took, "seeded", 1.0)) == (4.0, 4.0)
    took = learn_road(took, "parallel-track", 10.0, 1.0)
    assert corrected(took, "parallel-track", 10.0) == pytest.approx(1.0), "each road by its own"
    assert corrected(took, "moving-state", 1.0) == 4.0
    assert learn_road(took, "seeded", float("inf"), 1.0) is took, "nothing could be predicted"
    assert learn_road(took, "seeded", 1.0, 0.0) is took, "no time has passed"


def test_a_short_change_says_nothing_of_long_ones() -> None:
    """Most of what it took was not for its rows."""
    took = learn_road({}, "seeded", 0.001, 0.5)
    assert corrected(took, "seeded", 0.001) == pytest.approx(0.5, rel=0.01)
    assert corrected(took, "seeded", 10.0) == 10.5
    took = learn_road(took, "seeded", 10.0, 20.5)
    assert corrected(took, "seeded", 10.0) == 15.5, "as far again"


def test_a_road_that_took_long_is_dearer() -> None:
    rarely = looked(GOOD, 35, changes=30)
    bad = measured(2e-3, 1e-6)
    assert any(isinstance(entry, ChangePlan) for entry in propose(bad, 40, rarely, rows=500))
    dear = propose(bad, 40, rarely, rows=500, roads={"seeded": (0.0, 90.0)})
    assert not any(isinstance(entry, ChangePlan) for entry in dear)


# --- the library -----------------------------------------------------------------------------------------------------

OTHER = "(A (B C))"


def library_of(decisions: list[Decision]) -> tuple[Served, ...] | None:
    (look,) = [entry for entry in decisions if isinstance(entry, LookAtPlan)]
    return None if look.library is None else read_library(look.library)


def test_a_plan_that_no_search_beats_is_remembered() -> None:
    kept = library_of(propose(GOOD, 40, looked(BAD, 35)))
    assert kept is not None
    assert [(entry.plan, entry.batch) for entry in kept] == [("((A B) C)", 40)]
    assert kept[0].figures == figures(GOOD)
    assert library_of(propose(GOOD, 40, looked(GOOD, 35))) is None, "nobody was asked"
    assert library_of(propose(BAD, 40, looked(GOOD, 35), quota=0)) is None, "and here there is nobody to ask"


def test_a_plan_that_served_before_needs_no_search() -> None:
    served = Served(OTHER, figures(BAD), 0.1, 10)
    (decided,) = [
        d for d in propose(BAD, 40, looked(GOOD, 35), quota=0, library=(served,)) if isinstance(d, ChangePlan)
    ]
    assert (decided.plan, decided.found_by) == (OTHER, "library")
    assert f"{OTHER}, which served well under figures like these (0% apart), would cost " in decided.reason


def test_what_the_library_says_must_pay_too() -> None:
    mistaken = Served(OTHER, figures(GOOD), 0.1, 10)
    found = propose(GOOD, 40, looked(BAD, 35), library=(mistaken,))
    assert [type(entry) for entry in found] == [LookAtPlan]


@pytest.mark.parametrize("plan", ["((A C) B)", "((A B) D)", "nonsense"])
def test_a_plan_of_the_library_that_does_not_run_is_passed_over(plan: str) -> None:
    found = propose(BAD, 40, looked(GOOD, 35), library=(Served(plan, figures(BAD), 0.1, 10),))
    (decided,) = [entry for entry in found if isinstance(entry, ChangePlan)]
    assert decided.found_by == "search"


def test_the_nearest_comes_first_and_one_situation_has_one_plan() -> None:
    far, near = (Served(OTHER, {"A": value}, 1.0, batch) for value, batch in ((10.0, 5), (12.0, 6)))
    assert [entry for _, entry in nearest((far, near), {"A": 12.1}, 0.2)] == [near, far]
    assert nearest((far, near), {"A": 20.0}, 0.2) == []
    assert nearest((far, near), {"A": 12.0, "B": 1.0}, 0.2) == [], "other figures"
    newer = Served("((A B) C)", {"A": 11.0}, 1.0, 7)
    assert remember((far, near), newer, 0.2) == (newer,)


def test_the_library_has_an_end() -> None:
    library: tuple[Served, ...] = ()
    for batch in range(3 * KEPT):
        library = remember(library, Served(OTHER, {"A": 2.0**batch}, 1.0, batch), 0.2)
    assert [entry.batch for entry in library] == list(range(2 * KEPT, 3 * KEPT)), "the oldest go"


@pytest.mark.parametrize("cpu, kept", [(1e9, True), (1e-9, False)], ids=["came to it", "did not"])
def test_a_change_that_came_to_what_was_predicted_is_remembered(cpu: float, kept: bool) -> None:
    trial = tried(1.5 * cpu, cpu)
    known = (Served("((A B) C)", figures(GOOD), 1.0, 35),)
    library = library_of(propose(GOOD, 40, looked(GOOD, 35), library=known, trials=(trial,)))
    assert library is not None
    assert [(entry.plan, entry.batch) for entry in library] == ([("((A B) C)", 40)] if kept else [])


@pytest.mark.parametrize("origin", [None, Forced()], ids=["a policy", "a forced step"])
def test_what_did_not_pay_is_learned_whoever_changes_the_plan_next(origin: Forced | None) -> None:
    """Was: the change that follows took the place of the review, and of what the library was to learn by it."""
    served = Served("((A B) C)", figures(BAD), 1.0, 35)
    case = asked(BAD, 40, looked(GOOD, 35), library=(served,), trials=(tried(1.5e-9, 1e-9),))
    policy = ReplanWorthwhile(ReplanSettings("refined", EVERY), None)
    decided = case.propose(policy)
    assert [type(entry) for entry in decided] == [ChangePlan, LookAtPlan]
    if origin is not None:
        decided.append(ChangePlan("mjoin", "auto", 40, "x", origin=origin))
    effects = effects_of(settle(decided), Known(PLAN, case.manifest, Ledgers(PLAN), case.learned))
    (change,) = effects.work_of(ChangePlan)
    assert change.plan == ("(A (B C))" if origin is None else "mjoin")
    after = apply_all(effects.updates, case.manifest)
    assert [(entry["decision"], entry["plan"]) for entry in after.decisions] == [("ReviewPlan", "((A B) C)")]
    assert after.library == ()
    assert effects.learned is not None
    (lesson,) = effects.learned.lessons
    assert (lesson.trial.what, lesson.paid, lesson.in_vain) == ("((A B) C)", False, 1)
    assert [trial.what for trial in effects.learned.trials] == (["(A (B C))"] if origin is None else [])


def test_what_did_not_pay_is_reason_enough_to_look_for_another_plan() -> None:
    """Nothing else has changed."""
    found = propose(BAD, 40, looked(BAD, 35), trials=(tried(1.5e-9, 1e-9),))
    (change,) = [entry for entry in found if isinstance(entry, ChangePlan)]
    assert change.reason.startswith("the last change did not pay: it costs ")
    assert change.review is not None and not change.review.paid


def test_after_changes_in_vain_it_waits_longer_and_longer() -> None:
    """It is thought of at each look, and asked for when the wait is over."""
    learned, waits = Learned(), []
    for batch in (0, 100, 200, 300, 400):
        learned = learn(learned, tried(2.0, 1.0, at_batch=batch), {"cpu": 2.0}, paid=False)
        waits.append(next(n for n in range(100) if not cools_down(learned, PLAN_TRIAL, batch + n, EVERY)))
    assert waits == [10, 20, 40, 40, 40]
    failed = learn(Learned(), tried(2.0, 1.0, at_batch=31), {"cpu": 2.0}, paid=False)
    found = propose(BAD, 40, looked(GOOD, 35), lessons=failed.lessons)
    assert [(type(entry), entry.look.waits) for entry in found if isinstance(entry, LookAtPlan)] == [(LookAtPlan, True)]
    assert [type(entry) for entry in propose(BAD, 45, looked(GOOD, 40), lessons=failed.lessons)] == [
        ChangePlan,
        LookAtPlan,
    ]
    paid = learn(failed, tried(2.0, 1.0, at_batch=50), {"cpu": 1.0}, paid=True)
    assert not cools_down(paid, PLAN_TRIAL, 51, EVERY), "what pays ends it"


def test_the_plan_that_was_priced_is_the_one_that_the_run_goes_to() -> None:
    found = propose(BAD, 40, looked(GOOD, 35))
    (change,) = [entry for entry in found if isinstance(entry, ChangePlan)]
    assert change.spec is not None and str(change.spec.tree) == change.plan
    assert "spec" not in change.to_json()


# --- the quota -------------------------------------------------------------------------------------------------------


def test_a_search_that_takes_too_long_gives_way_to_a_quick_one() -> None:
    found = propose(BAD, 40, looked(GOOD, 35), search_seconds=3.0, batch_seconds=1.0)
    (decided,) = [entry for entry in found if isinstance(entry, ChangePlan)]
    assert (decided.plan, decided.found_by) == (OTHER, "quick search"), "it is a neighbour"
    assert "by a quick search, as a full one takes 3 s and the quota is 0.1 s, would cost" in decided.reason
    (look,) = [
        entry for entry in propose(GOOD, 40, looked(BAD, 35), search_seconds=3.0) if isinstance(entry, LookAtPlan)
    ]
    assert look.search_seconds == pytest.approx(2.7), "some day a full one is tried again"


def test_without_a_quota_nothing_is_searched() -> None:
    assert [type(entry) for entry in propose(BAD, 40, looked(GOOD, 35), quota=0)] == [LookAtPlan]
    assert 0 < guess_seconds(PLAN.query) < 0.02, "a join of three is searched however short batches are"


# --- hysteresis ------------------------------------------------------------------------------------------------------


def test_figures_that_alternate_do_not_make_the_plan_flap() -> None:
    """Every look finds the other figures. A change costs what takes longer than they last."""
    look, library = looked(GOOD, EVERY), ()
    changes = 0
    for n in range(2, 60):
        found = propose((GOOD, BAD)[n % 2], n * EVERY, look, library=library, roads={"seeded": (0.0, 50.0)}, rows=500)
        changes += any(isinstance(entry, ChangePlan) for entry in found)
        (told,) = [entry for entry in found if isinstance(entry, LookAtPlan)]
        look = told.look
        library = library if told.library is None else read_library(told.library)
    assert look.life < 2 * look.batch / EVERY
    assert changes <= 3, "before it was known that they alternate"


def test_the_plan_is_changed_once_before_a_batch() -> None:
    """Whatever the optimiser says of what then stands, which is asked again at once."""
    once = asked(BAD, 40, looked(GOOD, 35))
    policy = ReplanWorthwhile(ReplanSettings("refined", EVERY), None)
    change, look = once.propose(policy)
    assert isinstance(change, ChangePlan) and isinstance(look, LookAtPlan)
    assert settle([change, look]) == [change, look]
    again = replace(once, learned=replace(once.learned, look=look.look))
    assert again.propose(policy) == []
