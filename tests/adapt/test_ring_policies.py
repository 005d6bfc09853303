"""How a ring is kept in shape, as tables: what slots hold and take in; moves, and another length, out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapt.asking import Asked
from small_plans import STREAMS, manifest_of, piece
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Known, effects_of
from watersmeet.adapt.decisions.place import MoveGroups
from watersmeet.adapt.decisions.rescale import Rescale, ResizeRing
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.policies.adapt_ring import AdaptRing
from watersmeet.adapt.policies.balance.load import BalanceView, Piece, Slot
from watersmeet.adapt.policies.balance.time_of_slots import level_seconds
from watersmeet.adapt.policies.replan.recent import then
from watersmeet.adapt.policies.ring.length import NEAR, ring_signals
from watersmeet.adapt.policies.ring.relocation import next_step
from watersmeet.adapt.policies.ring.smoothing import RingView, level_rows, smooth
from watersmeet.adapt.policies.scale.seconds import LOW
from watersmeet.adapt.settle import settle
from watersmeet.adapt.trials import figures_of
from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.model.ids import OperatorName
from watersmeet.model.origin import Forced
from watersmeet.model.placement import Placement
from watersmeet.model.slices import BY_TIME
from watersmeet.model.slot_figures import SlotFigures
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.ring import RingSettings
from watersmeet.state.applying import apply_all
from watersmeet.state.learned import BALANCE, SLOTS, Learned, Trial
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Track, Warming
from watersmeet.state.updates import Learn, RecordDecision, SetPlacement, SetTracks

QUERY = bind("SELECT A.k FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.v < B.v", STREAMS)
PLAN = lay_out(QUERY, choose_tree(QUERY, "mjoin"))
HELD = (piece(PLAN, "a", "A", ((0, 8),), 0, rows=5), piece(PLAN, "b", "B", ((0, 8),), 0, rows=5))


# --- smoothing by count -----------------------------------------------------------------------------------------------


def view(rows: tuple[int, ...], owners: tuple[int, ...], seconds: tuple[float, ...], **more: Any) -> RingView:
    widths = (1 / len(rows),) * len(rows)
    bytes = tuple(count * 20 for count in rows)
    return RingView(7, seconds, owners, rows, bytes, widths, **{"batches": 5} | more)


EIGHT = (100,) * 8


@pytest.mark.parametrize(
    "rows, owners, seconds, moves",
    [
        (EIGHT, (0, 0, 0, 0, 1, 1, 1, 1), (1.0, 1.0), {}),
        (EIGHT, (0, 0, 0, 0, 0, 1, 1, 1), (1.0, 0.9), {}),
        (EIGHT, (0, 0, 0, 0, 0, 0, 0, 1), (1.0, 0.1), {4: 1, 5: 1, 6: 1}),
        (EIGHT, (0, 0, 0, 0, 0, 0, 0, 1), (0.004, 0.001), {}),
        (EIGHT, (0, 0, 0, 0, 0, 0, 0, 1), (1.0, 1.0), {}),
        (EIGHT, (0, 0, 0, 0, 0, 0, 0, 1), (0.5, 1.0), {}),
        ((800, 0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 1, 1, 1, 1), (1.0, 0.1), {}),
        ((1, 1, 400, 400, 0, 0, 1, 1), (0, 0, 0, 0, 1, 1, 1, 1), (1.0, 0.1), {3: 1}),
        ((0,) * 8, (0, 0, 0, 0, 1, 1, 1, 1), (1.0, 0.1), {}),
        (EIGHT, (0, 0, 0, 0, 0, 0, 2, 1), (1.0, 0.1), {4: 1, 5: 1, 6: 1}),
    ],
    ids=[
        "leaves an even ring alone",
        "leaves a small difference alone",
        "levels rows by moving what is too much",
        "leaves a ring alone that has next to nothing to do",
        "leaves slots alone that take equally long, whatever they hold",
        "leaves the fuller slot alone where it is the faster one",
        "leaves a burst alone that is one group",
        "parts two bursts",
        "leaves an empty ring alone",
        "takes a group in that lies outside of the ring",
    ],
)
def test_smoothing(
    rows: tuple[int, ...], owners: tuple[int, ...], seconds: tuple[float, ...], moves: dict[int, int]
) -> None:
    found = smooth(view(rows, owners, seconds), 0.8)
    assert ({} if found is None else {group: slot for _, group, slot in found.moves}) == moves


def test_smoothing_gives_its_figures() -> None:
    found = smooth(view(EIGHT, (0, 0, 0, 0, 0, 0, 0, 1), (1.0, 0.1)), 0.8)
    assert found is not None
    assert found.reason == (
        "smoothing: slot 0 holds 700 rows of the ring and another 100: 3 groups go over, and the most is 400; that "
        "saves 2.14 s in the 5 batches expected, and costs 1.5e-05 s"
    )
    assert figures_of(found.trial) == {"most_rows": 700.0, "rows": 800.0, "most_rows_expected": 400.0}
    assert {name for name, _, _ in found.moves} == {"time"}


def test_reading_the_rows_must_pay() -> None:
    uneven = view(EIGHT, (0, 0, 0, 0, 0, 0, 0, 1), (0.01, 0.001))
    assert smooth(uneven, 0.8) is not None
    assert smooth(replace(uneven, bytes=(1 << 30,) * 8), 0.8) is None


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_levelled_rows_stay_level_and_all_lie_in_the_ring(data: st.DataObject) -> None:
    groups, slots, after = (data.draw(st.integers(low, high)) for low, high in ((4, 40), (1, 4), (1, 4)))
    rows = tuple(data.draw(st.lists(st.integers(0, 50), min_size=groups, max_size=groups)))
    owners = tuple(data.draw(st.lists(st.integers(0, slots - 1), min_size=groups, max_size=groups)))
    ring = view(rows, owners, (1.0,) * slots)
    moves = level_rows(ring, after)
    then_owners = tuple(moves.get(group, slot) for group, slot in enumerate(owners))
    assert all(slot < after for slot in then_owners)
    burdens = [count + sum(rows) / groups for count in rows]
    held = [sum(b for b, owner in zip(burdens, then_owners, strict=True) if owner == s) for s in range(after)]
    assert max(held) - min(held) <= max(burdens) + 2 * groups


# --- balance = "time" keeps to the ring -------------------------------------------------------------------------------


@pytest.mark.parametrize("among, to", [(None, {2}), (2, {1})], ids=["any slot", "those of the ring"])
def test_time_leaves_slots_outside_of_the_ring_alone(among: int | None, to: set[int]) -> None:
    name = OperatorName(BY_TIME)
    pieces = [Piece(name, BY_TIME, group, 0, work=1.0, among=among) for group in range(6)]
    pieces += [Piece(name, BY_TIME, group, 1, work=1.0, among=among) for group in range(6, 8)]
    slots = (Slot(0, seconds=6.0), Slot(1, seconds=2.0), Slot(2, seconds=0.0))
    found = level_seconds(BalanceView(7, slots, tuple(pieces)), 0.8)
    assert isinstance(found, MoveGroups)
    assert to <= {slot for _, _, slot in found.moves} <= ({1, 2} if among is None else {1})


# --- how long it is ---------------------------------------------------------------------------------------------------

AUTO = RingSettings(policy="auto", seconds=1.0)
Machine = Callable[[int, float], float]


def follow(
    loads: list[float], machine: Machine, ring: RingSettings = AUTO, slots: int = 6, start: int = 2
) -> tuple[list[int], list[Decision]]:
    """The lengths that a ring comes to have under these loads (in seconds of one slot), and what is decided."""
    asked_for = AdaptSettings(ring=ring)
    policy, learned, decided = AdaptRing.of(asked_for), Learned(), list[Decision]()
    manifest = replace(manifest_of(PLAN, *HELD), placement=Placement(slots, 8, ring=start))
    had = []
    for batch, load in enumerate(loads, 1):
        asked = Asked(manifest, settings=asked_for, learned=learned, plan=PLAN).propose(policy)
        decided += asked
        effects = effects_of(settle(asked), Known(PLAN, manifest, Ledgers(PLAN), learned))
        manifest = apply_all(effects.updates, manifest)
        if effects.updates:
            learned = manifest.learned
        owners = manifest.placement.of(BY_TIME).owners
        had.append(len(set(owners)))
        took = max(machine(had[-1], load) * owners.count(slot) * had[-1] / 8 for slot in set(owners))
        figures = [SlotFigures(took, took)] + [SlotFigures()] * (slots - 1)
        learned = replace(learned, recent=then(learned.recent, ring_signals(tuple(figures), load, by_cpu=True)))
        assert manifest.batch is not None
        manifest = replace(manifest, batch=replace(manifest.batch, number=batch))
    return had, decided


def shared(sends: float = 0.0) -> Machine:
    """Comparisons are shared out, and `sends` is what any slot takes for each."""
    return lambda slots, load: load / slots + sends * load


def changes(decided: list[Decision]) -> list[tuple[int, int]]:
    return [(entry.from_slots, entry.slots) for entry in decided if isinstance(entry, ResizeRing)]


@pytest.mark.parametrize(
    "load, start, expected",
    [
        (1.2, 2, []),  # 0.6 s of 1 s
        (1.6, 2, [(2, 3)]),  # 0.8 s, and 0.53 s with three
        (9.0, 2, [(2, 6)]),
        (0.3, 2, [(2, 1)]),
        (0.9, 2, []),  # 0.45 s, and 0.9 s with one
        (0.3, 1, []),
    ],
    ids=[
        "leaves a ring alone that has room",
        "makes one longer that comes near the time",
        "takes all slots where none is enough",
        "makes one shorter that is idle",
        "leaves one alone that would be near the time if it were shorter",
        "leaves a ring of one slot alone that is idle",
    ],
)
def test_lengths(load: float, start: int, expected: list[tuple[int, int]]) -> None:
    _, decided = follow([load] * 12, shared(), start=start)
    assert changes(decided) == expected


def test_a_load_that_doubles_and_falls_again() -> None:
    had, decided = follow([0.6] * 15 + [2.4] * 20 + [0.6] * 30, shared())
    assert [had[i] for i in (14, 34, 64)] == [2, 5, 2]
    assert changes(decided) == [(2, 5), (5, 2)]
    assert [(entry.reason, entry.no_use) for entry in decided if isinstance(entry, Review)] == [
        ("the slowest slot took 1.2 s, 0.48 s were expected, and it takes 0.6 s", False),
        ("the slowest slot took 0.15 s, 0.375 s were expected, and it takes 0.3 s", False),
    ]


def test_a_longer_ring_that_is_of_no_use_is_made_as_short_as_it_was() -> None:
    """What is sent to all slots is what takes the time. It is not tried again before there is much more to do."""
    had, decided = follow([0.75] * 40, lambda slots, load: load)
    assert had[-1] == 2
    assert len(changes(decided)) == 2
    (back,) = [entry for entry in decided if isinstance(entry, ResizeRing) and entry.review is not None]
    assert back.review is not None and back.review.reason.endswith("a longer ring is of no use")


def test_passive_gets_there_step_by_step() -> None:
    passive = replace(AUTO, relocate="passive")
    had, decided = follow([9.0] * 30, shared(), passive)
    assert had[-1] == 6
    steps = [entry for entry in decided if isinstance(entry, ResizeRing)]
    assert len(steps) > 2 and all(len(entry.moves) <= 1 for entry in steps), "a group of 8 is more than a step may move"
    assert {(entry.from_slots, entry.slots) for entry in steps} == {(2, 6)}
    left = [entry.groups_left or 0 for entry in steps]
    assert left == sorted(left, reverse=True) and left[-1] == 0
    reviews = [entry for entry in decided if isinstance(entry, Review)]
    assert len(reviews) == 1, "once it is there"


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 8), st.floats(0, 0.5), st.integers(1, 6), st.sampled_from(["aggressive", "passive"]), st.data())
def test_under_one_load_it_comes_to_rest(
    load: float, sends: float, start: int, relocate: str, data: st.DataObject
) -> None:
    random = data.draw(st.randoms(use_true_random=False))
    machine = shared(sends)
    ring = replace(AUTO, relocate=relocate)
    had, decided = follow([load] * 120, lambda n, w: machine(n, w) * random.uniform(0.97, 1.03), ring, start=start)
    lengths = [entry for entry in decided if isinstance(entry, ResizeRing) and entry.groups_left is None]
    assert len(lengths) <= 5
    assert len(set(had[-40:])) == 1 or near_a_limit(machine, load), "it has come to rest"


def near_a_limit(machine: Machine, load: float) -> bool:
    """Whether some length takes what it may, to within the noise: then it may seem too long after any time, once."""
    took = [max(Placement(6, 8, ring=n).of(BY_TIME).owners.count(0), 1) * n / 8 * machine(n, load) for n in range(1, 7)]
    fewer = [took[n] * (n + 1) / m for n in range(1, 6) for m in range(1, n + 1)]
    return any(abs(each / (LOW * NEAR) - 1) < 0.04 for each in fewer) or any(abs(t / NEAR - 1) < 0.04 for t in took)


# --- when it is not asked ---------------------------------------------------------------------------------------------

BUSY = {"ring_seconds": (0.9,) * 6, "ring_pairs": (100.0,) * 6}


def proposed(ring: RingSettings = AUTO, plan: Any = PLAN, slots: int = 4, **more: Any) -> list[Decision]:
    manifest = replace(manifest_of(plan, *HELD), placement=Placement(slots, 8, ring=min(2, slots)))
    asked_for = AdaptSettings(ring=ring)
    asked = Asked(
        more.get("manifest", manifest), settings=asked_for, learned=more.get("learned", Learned(recent=BUSY)), plan=plan
    )
    return asked.propose(AdaptRing.of(asked_for))


def test_asked_as_things_are() -> None:
    (found,) = proposed()
    assert isinstance(found, ResizeRing)
    assert (found.from_slots, found.slots) == (2, 4)
    assert found.reason == (
        "the slowest slot of the ring takes 0.9 s of a batch, and 0.7 s would be near what it may take; over 4 slots "
        "0.45 s are expected"
    )
    effects = effects_of([found], Known(PLAN, manifest_of(PLAN, *HELD), Ledgers(PLAN), Learned()))
    assert {type(update) for update in effects.updates} == {SetPlacement, RecordDecision, Learn}, "no row is written"


def test_smooth_leaves_the_length_alone() -> None:
    assert proposed(RingSettings(policy="smooth")) == []


def test_never_while_the_plan_is_being_changed() -> None:
    manifest = replace(manifest_of(PLAN, *HELD), placement=Placement(4, 8, ring=2))
    track = Track(PLAN.spec, role="warms up", warming=Warming({"plan": "mjoin"}, 0, 0))
    assert proposed(manifest=manifest) != []
    assert proposed(manifest=apply_all([SetTracks((manifest.answering, track))], manifest)) == []


def test_one_slot_has_no_ring_to_resize() -> None:
    assert proposed(slots=1) == []


def test_moves_are_reviewed() -> None:
    learned = Learned(
        trials=(Trial(BALANCE, "x", 0, {"most_rows": 60.0}, {"most_rows": 45.0}),),
        placed_before=0,
        slots=(SlotFigures(1.0, 1.0),) * 4,
    )
    manifest = replace(manifest_of(PLAN, *HELD), placement=Placement(4, 8, ring=2))
    assert manifest.batch is not None
    manifest = replace(manifest, batch=replace(manifest.batch, number=9))
    (found,) = proposed(RingSettings(policy="smooth"), manifest=manifest, learned=learned)
    assert isinstance(found, Review)
    assert found.reason == "the most rows of a slot were 60, 45 expected, and are 40"


def test_balance_by_time_levels_rings_too() -> None:
    """Then nobody else does."""
    uneven = replace(Placement(2, 8), owners={BY_TIME: (0,) * 7 + (1,)})
    manifest = manifest_of(PLAN, *HELD)
    assert manifest.batch is not None
    manifest = replace(manifest, placement=uneven, batch=replace(manifest.batch, number=9))
    learned = Learned(slots=(SlotFigures(0.7, 0.7), SlotFigures(0.1, 0.1)))
    for balance, expected in (("off", [MoveGroups]), ("time", [])):
        asked_for = AdaptSettings(ring=RingSettings(policy="smooth"), balance=BalanceSettings(balance))
        asked = Asked(manifest, settings=asked_for, learned=learned, plan=PLAN)
        assert [type(entry) for entry in asked.propose(AdaptRing.of(asked_for))] == expected


def test_a_longer_ring_goes_before_more_slots() -> None:
    longer, more = ResizeRing(2, 4, (), 1, ""), Rescale(4, 6, 1, "")
    assert settle([more, longer]) == [longer]
    assert settle([more, replace(longer, slots=1)]) == [more]
    forced = replace(more, origin=Forced())
    assert settle([forced, longer]) == [forced]
    trial = Trial(SLOTS, "6 slots", 0, {"seconds": 1.0}, {"seconds": 0.5}, from_size=4, size=6)
    back = Rescale(6, 4, 1, "", trial, Review(trial, {"seconds": 1.0}, False, "", 1.0))
    assert settle([back, longer]) == settle([longer, back]) == [back], "it would never be proposed again"


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, slots, message",
    [
        ({"slots": 3}, 2, '"ring_slots" is 3, and there are 2 slots'),
        ({"policy": "auto"}, 2, 'ring_adapt = "auto" has no time that a batch may take'),
    ],
)
def test_settings_that_do_not_fit(given: dict[str, Any], slots: int, message: str) -> None:
    with pytest.raises(JobError) as caught:
        RingSettings(**given).following(None, slots)
    assert caught.value.primary == message


def test_a_step_moves_what_is_empty_and_little_else() -> None:
    assert next_step({}, [1, 2]) == {}
    assert next_step({0: 1, 1: 1}, [5, 5]) == {0: 1}, "one at least, or it would never end"
    assert next_step(dict.fromkeys(range(20), 1), [0] * 20 + [100]) == dict.fromkeys(range(20), 1)
