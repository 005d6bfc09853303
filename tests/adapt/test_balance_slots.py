"""When slots are looked at, and what comes of it: by manifests made by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from unittest import mock

import pytest

from adapt.asking import J1, J2, PLAN, Asked, at, entry
from small_plans import SECOND, manifest_of
from watersmeet.adapt.decisions.effects import Known, effects_of
from watersmeet.adapt.decisions.place import MoveGroups
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.decisions.spill import CountPushed, SpillGroups
from watersmeet.adapt.outlook import Facts, Moment, Outlook
from watersmeet.adapt.policies.balance import relocation
from watersmeet.adapt.policies.balance.load import Piece
from watersmeet.adapt.policies.balance_slots import BalanceSlots, _described
from watersmeet.adapt.settle import settle
from watersmeet.adapt.trials import figures_of, lesson_of
from watersmeet.adapt.view import MemoryView
from watersmeet.model.ids import Partitioning
from watersmeet.model.placement import Placement
from watersmeet.model.slot_figures import SlotFigures
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.state.learned import BALANCE, Learned, Trial
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import BatchRecord, Manifest

# Groups 0 to 3 are slot 0's. They have 40 bytes each; those of slot 1 have none, or as many.
CROWDED = (entry("a", "A", groups=((0, 4),), rows=2), entry("b", "B", groups=((0, 4),), rows=2))
MEASURED = (SlotFigures(), SlotFigures())
LEVEL = (entry("a", "A", rows=2), entry("b", "B", rows=2))


@pytest.fixture(autouse=True)
def small_loads() -> Iterator[None]:
    with mock.patch.object(relocation, "LEAST_BYTES", 1):
        yield


def asked(*segments: object, after_batch: int = 4, **more: object) -> Asked:
    manifest = manifest_of(PLAN, *segments)  # type: ignore[arg-type]
    manifest = replace(manifest, batch=BatchRecord(after_batch, 0, 0, 0))
    return Asked(manifest, learned=Learned(slots=MEASURED), **more)  # type: ignore[arg-type]


def policy(**settings: object) -> BalanceSlots:
    return BalanceSlots.of(AdaptSettings(balance=BalanceSettings("relocate", **settings)))  # type: ignore[arg-type]


def test_a_crowded_slot_is_relieved_at_a_look() -> None:
    (found,) = asked(*CROWDED).propose(policy())
    assert isinstance(found, MoveGroups)
    assert len(found.moves) == 2 and {slot for *_, slot in found.moves} == {1}
    assert asked(*CROWDED, after_batch=5).propose(policy()) == [], "looks are before every fifth batch"
    assert asked(*LEVEL).propose(policy()) == []


@pytest.mark.parametrize(
    "name, allocate, slot_bytes, moved",
    [
        ("lazy-disk", "spread", 200, True),
        ("lazy-disk", "fewest", 200, False),
        ("lazy-disk", "fewest", 159, True),
        ("relocate", "fewest", None, False),
        ("relocate", "spread", None, True),
        ("time", "fewest", None, True),
    ],
    ids=["no matter whose", "left empty on purpose", "one is over its limit", "no limit", "any slot", "seconds"],
)
def test_a_slot_that_was_left_empty_stays_so(name: str, allocate: str, slot_bytes: int | None, moved: bool) -> None:
    """All groups are slot 0's, and have 160 bytes."""
    settings = AdaptSettings(balance=BalanceSettings(name, allocate=allocate), slot_bytes=slot_bytes)
    case = asked(*CROWDED)
    figures = (SlotFigures(seconds=1.0, cpu_seconds=1.0), SlotFigures())
    placement = case.manifest.placement
    for partitioning in ("k0", "k1"):
        placement = placement.move(Partitioning(partitioning), dict.fromkeys(range(8), 0))
    case = replace(case, manifest=replace(case.manifest, placement=placement), learned=Learned(slots=figures))
    view = BalanceSlots.of(settings).view(case.outlook(BalanceSlots.of(settings)), ())
    assert (len(view.slots) == 2) is moved
    if name != "time":  # for which some groups would have to have had rows
        assert bool(case.propose(BalanceSlots.of(settings))) is moved


def test_groups_are_not_looked_at_where_slots_are_level() -> None:
    with mock.patch.object(Outlook, "memory", side_effect=AssertionError):
        assert asked(*LEVEL).propose(policy()) == []


def test_a_span_of_time_lies_between_two_moves() -> None:
    often = policy(every=1, span=timedelta(seconds=45))
    case = asked(*CROWDED)

    def propose(seconds: float, learned: Learned) -> list[object]:
        facts = Facts(
            Moment.BEFORE_BATCH,
            PLAN,
            case.manifest,
            Ledgers(PLAN),
            learned,
            at(0),
            AdaptSettings(),
            now_us=int(seconds * SECOND),
        )
        return list(often.propose(Outlook(facts, often.needs)))

    (first,) = propose(100, Learned(slots=MEASURED))
    assert isinstance(first, MoveGroups)
    assert figures_of(first.trial)["at_us"] == first.at_us == 100 * SECOND
    assert first.trial is not None
    made = replace(first.trial, at_batch=0)
    learned = Learned(trials=(made,), moved_us=first.at_us, placed_before=0, slots=MEASURED)
    assert propose(144, learned) == []
    review, second = propose(145, learned)
    assert isinstance(review, Review) and isinstance(second, MoveGroups)


def test_a_review_leaves_when_it_was() -> None:
    trial = Trial(BALANCE, "x", 3, {"most_bytes": 1.0}, {"most_bytes": 1.0})
    learned = Learned(trials=(trial,), moved_us=7, placed_before=3)
    manifest = manifest_of(PLAN, *LEVEL)
    effects = effects_of(
        settle([Review(trial, {"most_bytes": 1.0}, True, "")]), Known(PLAN, manifest, Ledgers(PLAN), learned)
    )
    (learn,) = [update.learned for update in effects.updates if hasattr(update, "learned")]
    assert (learn.trials, learn.moved_us, learn.placed_before) == ((), 7, 3)


@pytest.mark.parametrize(
    "after, gaps",
    [
        (10.0, [10, 20, 40, 40, 40]),
        (5.0, [5, 5, 5, 5, 5]),
        (7.4, [5, 5, 5, 5, 5]),
    ],
    ids=["in vain, it waits longer and longer, up to a bound", "as expected", "more than half of it"],
)
def test_how_long_it_waits_after_moves(after: float, gaps: list[int]) -> None:
    """A group is to move at every look. It should take the longest slot from 10 s to 5 s, and it is `after`."""
    trial = Trial(BALANCE, "a group", 0, {"seconds": 10.0}, {"seconds": 5.0})
    move = MoveGroups(((J1, 0, 1),), 0, "x", trial)
    figures = (SlotFigures(seconds=after, cpu_seconds=after), SlotFigures())
    by_time = BalanceSlots.of(AdaptSettings(balance=BalanceSettings("time")))
    learned, moved, reviews = Learned(slots=figures), list[int](), list[Review]()
    for batch in range(5, 200):
        case = replace(asked(*LEVEL, after_batch=batch - 1), learned=learned)
        made = replace(move, before_batch=batch, trial=replace(trial, at_batch=batch))
        stub = (("time", lambda view, threshold, made=made: made),)
        with mock.patch("watersmeet.adapt.policies.balance_slots.BALANCE_POLICIES", stub):
            decided = case.propose(by_time)
        reviews += [entry for entry in decided if isinstance(entry, Review)]
        moved += [batch for entry in decided if isinstance(entry, MoveGroups)]
        effects = effects_of(settle(decided), Known(PLAN, case.manifest, Ledgers(PLAN), learned))
        learned = next((update.learned for update in effects.updates if hasattr(update, "learned")), learned)
    assert [later - sooner for sooner, later in itertools.pairwise(moved)][:5] == gaps
    assert reviews[0].paid == (gaps[0] == 5)
    lesson = lesson_of(learned, BALANCE)
    assert lesson is not None and bool(lesson.in_vain) == (gaps[0] > 5)


def test_what_is_pushed_out_goes_with_all_operators_and_is_counted() -> None:
    def push(view: object, threshold: float) -> SpillGroups:
        return SpillGroups(((J1, 1),), "x", 40, 2.0)

    with mock.patch("watersmeet.adapt.policies.balance_slots.BALANCE_POLICIES", (("active-disk", push),)):
        settings = AdaptSettings(balance=BalanceSettings("active-disk"))
        spill, count = asked(*CROWDED).propose(BalanceSlots.of(settings))
    assert isinstance(spill, SpillGroups)
    same = [name for name in (J1, J2) if PLAN.operators[name].partitioning == PLAN.operators[J1].partitioning]
    assert spill == SpillGroups(tuple((name, 1) for name in same), "active-disk: x", 40, 2.0)
    assert count == CountPushed(40)
    manifest: Manifest = manifest_of(PLAN, *CROWDED)
    effects = effects_of(settle([spill, count]), Known(PLAN, manifest, Ledgers(PLAN), Learned()))
    (learn,) = [update.learned for update in effects.updates if hasattr(update, "learned")]
    assert learn.pushed_bytes == 40


def test_the_view_of_memory_is_what_pieces_are_made_of() -> None:
    """What slots hold at a glance is what their groups hold."""
    case = asked(*CROWDED)
    outlook = case.outlook(policy())
    memory: MemoryView = outlook.memory
    held = [sum(group.size_bytes for group in memory.groups if group.slot == slot) for slot in range(2)]
    assert outlook.slot_bytes == held
    assert sum(held) == 160


@pytest.mark.parametrize("cuts, narrow", [(0, False), (1, False), (2, True), (3, True)])
def test_groups_are_cut_only_so_often(cuts: int, narrow: bool) -> None:
    """Of four groups two may be cut; the last one never was, and has many keys."""
    name, placement = Partitioning("k0"), Placement(2, 4)
    for _ in range(cuts):
        middle = placement.of(name).bounds.middle(0)
        assert middle is not None
        placement = placement.cut(name, 0, middle)
    last = Piece(J1, name, 3 + cuts, 1, work=10.0, keys=100.0)
    assert _described(last, {(name, last.group): last}, placement).narrow == narrow
