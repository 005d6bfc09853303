"""How many slots there are, as tables: what batches took in, another number of slots or none out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapt.asking import PLAN, Asked
from small_plans import manifest_of
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Known, effects_of
from watersmeet.adapt.decisions.rescale import Rescale
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.policies.replan.recent import then
from watersmeet.adapt.policies.scale.seconds import BATCH, ROWS, WORK, Bounds, Load, wanted
from watersmeet.adapt.policies.scale_slots import ScaleSlots
from watersmeet.adapt.settle import settle
from watersmeet.errors import JobError
from watersmeet.model.slot_figures import SlotFigures
from watersmeet.run.batch import load_signals
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.scale import ScaleSettings
from watersmeet.settings.words import OFF
from watersmeet.state.applying import apply_all
from watersmeet.state.learned import Learned
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest, Track, Warming
from watersmeet.state.updates import SetTracks

SETTINGS = ScaleSettings("seconds", (1, 6), 10.0)
BOUNDS = Bounds(1, 6, 10.0)


def found(slots: int, batches: Sequence[float], share: float = 0.9, bounds: Bounds = BOUNDS) -> int | None:
    """Batches of so many seconds, of which `share` is the work of the slot that has most."""
    took = tuple(map(float, batches))
    change = wanted(Load(slots, took, tuple(share * each for each in took), (100.0,) * len(took)), bounds)
    return None if change is None else change.slots


@pytest.mark.parametrize(
    "slots, batches, share, expected",
    [
        (2, [14] * 5, 0.9, 4),  # 14 * (0.1 + 0.9 * 2/4) = 7.7 s
        (2, [11, 9, 12, 13, 14], 0.9, 4),
        (2, [9, 9, 9, 40, 40], 0.9, None),
        (2, [16, 14, 13, 12, 11], 0.9, None),
        (2, [40] * 5, 0.9, 6),
        (2, [14] * 5, 0.1, None),
        (6, [14] * 5, 0.9, None),
        (4, [9] * 12, 0.9, None),
        (4, [3] * 12, 0.9, 2),  # 3 * (0.1 + 0.9 * 4/2) = 5.7 s
        (4, [3] * 9, 0.9, None),
        (4, [2] * 6 + [4] + [2] * 5, 0.9, 3),  # 4 * (0.1 + 0.9 * 4/3) = 5.2 s, and 7.6 s with 2
        (4, [1] * 4 + [2] * 4 + [3] * 4, 0.9, None),
        (4, [0.5] * 12, 0.9, 1),
        (1, [0.5] * 12, 0.9, None),
        (9, [9] * 5, 0.9, 6),
    ],
    ids=[
        "longer than it may, steadily",
        "and more and more",
        "a surge",
        "one that goes by itself",
        "as many as there may be",
        "not where it is not the work of slots",
        "nor beyond the bound",
        "near to what it may take",
        "far less",
        "but not after a few batches",
        "all of them count",
        "nor where it becomes more and more",
        "no more than it takes",
        "nor below the bound",
        "what is outside of the bounds comes inside",
    ],
)
def test_when(slots: int, batches: Sequence[float], share: float, expected: int | None) -> None:
    assert found(slots, batches, share) == expected


def test_a_decision_says_what_is_expected() -> None:
    change = wanted(Load(2, (14.0,) * 5, (12.6,) * 5, (100.0,) * 5), BOUNDS)
    assert change is not None
    assert change.reason == (
        "seconds: a batch takes 14 s, 12.6 s of that in the slot that has most to do, and may take 10 s; "
        "with 4 slots 7.7 s are expected"
    )
    assert change.before == {"seconds": 14.0, "cpu_seconds": 12.6, "rows": 100}
    assert change.expected == {"seconds": pytest.approx(7.7), "cpu_seconds": 6.3}


# --- over many batches -----------------------------------------------------------------------------------------------


def follow(
    loads: Sequence[float],
    machine: Callable[[int, float], tuple[float, float]],
    slots: int = 2,
    limits: tuple[int, int] = SETTINGS.slots,
    **more: Any,
) -> tuple[list[int], list[Decision]]:
    """The slots of each batch, and all that was decided: `machine` says what a batch takes and the slot with most."""
    scale = replace(SETTINGS, slots=limits, **more)
    policy, learned, decided = ScaleSlots(scale), Learned(), list[Decision]()
    manifest = apply_all([], manifest_of(PLAN))
    manifest = replace(manifest, placement=replace(manifest.placement, slots=slots))
    had = []
    for load in loads:
        asked = Asked(manifest, settings=AdaptSettings(scale=scale), learned=learned).propose(policy)
        decided += asked
        effects = effects_of(settle(asked), Known(PLAN, manifest, Ledgers(PLAN), learned))
        manifest = apply_all(effects.updates, manifest)
        if effects.updates:
            learned = manifest.learned
        now = manifest.placement.slots
        had.append(now)
        took, work = machine(now, load)
        each = SlotFigures(work, work, load / now, 0.0)
        learned = replace(learned, recent=then(learned.recent, load_signals(took, (each,) * now)))
    return had, decided


def cores(number: int, fixed: float = 1.0) -> Callable[[int, float], tuple[float, float]]:
    """A machine on which more slots than these take turns: 1000 rows take a second of one of them."""

    def take(slots: int, rows: float) -> tuple[float, float]:
        work = rows / 1000 / slots
        return fixed + work * max(1.0, slots / number), work

    return take


def test_load_that_rises_and_falls() -> None:
    loads = [10_000.0] * 15 + [30_000.0] * 20 + [4_000.0] * 30
    slots, decided = follow(loads, cores(8))
    assert [slots[i] for i in (14, 34, 64)] == [2, 5, 1]
    changes = [entry for entry in decided if isinstance(entry, Rescale)]
    assert [(entry.from_slots, entry.slots) for entry in changes] == [(2, 5), (5, 1)]
    reviews = [entry for entry in decided if isinstance(entry, Review)]
    assert [entry.reason for entry in reviews] == [
        "seconds: a batch took 16 s, 7 s were expected, and it takes 7 s",
        "seconds: a batch took 1.8 s, 5 s were expected, and it takes 5 s",
    ]


def test_slots_that_are_of_no_use_are_given_back() -> None:
    """Two cores: with more slots the same work takes as long. It is tried again where there is much more to do."""
    slots, decided = follow([30_000.0] * 40, cores(2))
    assert max(slots) == 5
    assert slots[-1] == 2
    changes = [(entry.from_slots, entry.slots) for entry in decided if isinstance(entry, Rescale)]
    assert changes == [(2, 5), (5, 2)]
    (back,) = [entry for entry in decided if isinstance(entry, Rescale) and entry.review is not None]
    assert back.review is not None
    assert (
        back.review.reason
        == "seconds: a batch took 16 s, 7 s were expected, and it takes 16 s: more slots are of no use"
    )


@pytest.mark.parametrize("slots, least, most", [(1, 3, 6), (1, 2, 2), (2, 4, 4)])
def test_the_fewest_slots_stay_whatever_use_they_are_of(slots: int, least: int, most: int) -> None:
    """A user has forced fewer, or a run that has come to fewer is started again with more as the fewest."""
    had, decided = follow([1000.0] * 60, cores(1), slots, (least, most), seconds=100.0)
    assert had[-1] == least
    changes = [entry for entry in decided if isinstance(entry, Rescale)]
    assert len(changes) == 1
    assert not any(entry.no_use for entry in decided if isinstance(entry, Review))


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@example(rows=9847.0, of=1, fixed=0.0, slots=1, random=Random(0))
@given(
    st.floats(100, 60_000), st.integers(1, 8), st.floats(0, 12), st.integers(1, 6), st.randoms(use_true_random=False)
)
def test_under_one_load_it_comes_to_rest(rows: float, of: int, fixed: float, slots: int, random: Any) -> None:
    """Whatever the machine, and with noise of a few percent: a change or two, and never back and forth.

    Where batches take what they may to within that noise, they may seem too long after any time, once.
    """
    machine = cores(of, fixed)

    def noisy(slots: int, rows: float) -> tuple[float, float]:
        took, work = machine(slots, rows)
        noise = random.uniform(0.97, 1.03)
        return took * noise, work * noise

    had, decided = follow([rows] * 150, noisy, slots)
    changes = [entry for entry in decided if isinstance(entry, Rescale)]
    assert len(changes) <= 4
    close = any(abs(machine(number, rows)[0] / SETTINGS.seconds - 1) < 0.04 for number in range(1, 7))
    assert close or len(set(had[-60:])) == 1, "it has come to rest"
    assert all(1 <= number <= 6 for number in had)


# --- when it is not asked, or cannot be ------------------------------------------------------------------------------

LATE = {BATCH: (14.0,) * 6, WORK: (12.6,) * 6, ROWS: (100.0,) * 6}


def proposed(manifest: Manifest, recent: Mapping[str, tuple[float, ...]] = LATE, **more: Any) -> list[Decision]:
    scale = replace(SETTINGS, **more)
    return Asked(manifest, settings=AdaptSettings(scale=scale), learned=Learned(recent=recent)).propose(
        ScaleSlots(scale)
    )


def test_never_while_a_change_of_the_plan_is_under_way() -> None:
    manifest = manifest_of(PLAN)
    assert [entry.slots for entry in proposed(manifest) if isinstance(entry, Rescale)] == [4]
    track = Track(PLAN.spec, role="warms up", warming=Warming({"plan": "mjoin"}, 0, 0))
    under_way = apply_all([SetTracks((manifest.answering, track))], manifest)
    assert under_way.warming_up is not None
    assert proposed(under_way) == []


def test_never_beyond_the_number_of_groups() -> None:
    manifest = manifest_of(PLAN)
    few = replace(manifest, placement=replace(manifest.placement, groups=3))
    assert [entry.slots for entry in proposed(few) if isinstance(entry, Rescale)] == [3]


def test_nothing_is_known_yet() -> None:
    assert proposed(manifest_of(PLAN), {name: series[:4] for name, series in LATE.items()}) == []


@pytest.mark.parametrize(
    "make, primary",
    [
        (lambda: ScaleSettings("sloths"), 'unknown scale "sloths"'),
        (lambda: ScaleSettings("seconds", (0, 4)), '"scale_slots" are 0 and 4'),
        (lambda: ScaleSettings("seconds", (5, 4)), '"scale_slots" are 5 and 4'),
        (lambda: ScaleSettings("seconds", (1, 4), 0.0), '"scale_seconds" is 0'),
        (lambda: ScaleSettings("seconds").following(None, 2), '"scale" has no time that a batch may take'),
        (
            lambda: ScaleSettings("seconds", (1, 4), 1.0).following(None, 5),
            'a run with 5 slots is outside of "scale_slots", 1 to 4',
        ),
    ],
)
def test_mistakes(make: Callable[[], object], primary: str) -> None:
    with pytest.raises(JobError) as caught:
        make()
    assert caught.value.primary == primary


def test_off_asks_for_nothing() -> None:
    assert ScaleSettings().following(None, 99) == ScaleSettings(OFF)
