"""What comes of decisions: conflicts are settled in one place, and become updates and work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapt.asking import ALL, HELD, J1, J2, PLAN, entry
from small_plans import manifest_of, state_of
from watersmeet.adapt.decisions.cannot_force import CannotForce
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Effects, Known, effects_of
from watersmeet.adapt.decisions.merge import MergeGenerations, MergeGroup, UniteParts
from watersmeet.adapt.decisions.place import Move, MoveGroups
from watersmeet.adapt.decisions.rescale import Rescale
from watersmeet.adapt.decisions.spill import CannotSpill, CloseLive, SpillGroups
from watersmeet.adapt.decisions.work import Work
from watersmeet.adapt.settle import settle
from watersmeet.model.ids import LIVE, Generation, OperatorName, Partitioning, SegmentId
from watersmeet.model.origin import ByPolicy, Forced
from watersmeet.model.segments import Segment
from watersmeet.state.applying import apply_all
from watersmeet.state.learned import MERGE, Learned, Trial
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest
from watersmeet.state.taken import Taken
from watersmeet.state.updates import CloseGroups, Learn, RecordDecision

STATES = PLAN.operators[J1].states
WHOLE, CLOSED_ONLY = MergeGroup(J1, 1, "x"), MergeGroup(J1, 1, "y", with_live=False)
UNITE = UniteParts(state_of(PLAN, "A"), Generation(1), (SegmentId("a"), SegmentId("b")))
UNITE_LIVE = UniteParts(state_of(PLAN, "A"), LIVE, (SegmentId("a"), SegmentId("b")))
K0 = PLAN.operators[J1].partitioning
CUT, CUT_LATER = CutGroup(J1, 3, K0, 7 << 60, 1, "c"), CutGroup(J1, 5, K0, 11 << 60, 1, "c")
SAME_CUT = CutGroup(J2, 3, K0, 7 << 60, 1, "by another operator on the same key")
SPILL = SpillGroups(((J1, 1), (J1, 2)), "s")
TIER = MergeGenerations(J1, (Generation(1), Generation(2)), ((0, 4),), "t")
NEWER = (Generation(3), Generation(4))
FEWER, MORE = Rescale(2, 1, 1, "r"), Rescale(2, 3, 1, "r")
LEVELLED = MoveGroups(((J1, 0, 1),), 1, "time: ..")
FORCED_MOVE = MoveGroups(((J1, 0, 1),), 1, "x", origin=Forced())
FORCED_FEWER, FORCED_MORE = replace(FEWER, origin=Forced()), replace(MORE, origin=Forced())


@pytest.mark.parametrize(
    "decisions, settled",
    [
        ([], []),
        ([SPILL, CannotSpill("no")], [SPILL, CannotSpill("no")]),
        ([WHOLE, MergeGroup(J1, 1, "later")], [WHOLE]),
        ([CLOSED_ONLY, WHOLE], [CLOSED_ONLY]),
        ([WHOLE, MergeGroup(J2, 1, "x")], [WHOLE, MergeGroup(J2, 1, "x")]),
        ([WHOLE, SPILL], [SpillGroups(((J1, 2),), "s"), WHOLE]),
        ([SpillGroups(((J1, 1),), "s"), WHOLE], [WHOLE]),
        ([SPILL, CLOSED_ONLY], [SPILL, CLOSED_ONLY]),
        ([CloseLive(((J1, 1),), "room"), WHOLE], [CloseLive(((J1, 1),), "room"), WHOLE]),
        ([TIER], [TIER]),
        ([TIER, SPILL], [TIER, SPILL]),
        ([TIER, CLOSED_ONLY], [replace(TIER, within=((0, 1), (2, 4))), CLOSED_ONLY]),
        (
            [TIER, *(MergeGroup(J1, group, "x") for group in range(4))],
            [MergeGroup(J1, group, "x") for group in range(4)],
        ),
        ([TIER, MergeGenerations(J1, NEWER, ((2, 8),), "t")], [TIER, MergeGenerations(J1, NEWER, ((4, 8),), "t")]),
        ([TIER, replace(TIER, operator=J2)], [TIER, replace(TIER, operator=J2)]),
        ([UNITE], [UNITE]),
        ([UNITE, SPILL], [UNITE, SPILL]),
        ([UNITE_LIVE], [UNITE_LIVE]),
        ([UNITE_LIVE, SPILL], [SPILL]),
        ([UNITE_LIVE, CloseLive(((J1, 1),), "room")], [CloseLive(((J1, 1),), "room")]),
        ([UNITE, WHOLE], [UNITE, WHOLE]),
        ([UNITE, CLOSED_ONLY], [UNITE, CLOSED_ONLY]),
        ([UNITE_LIVE, WHOLE], [WHOLE]),
        ([UNITE_LIVE, CLOSED_ONLY], [UNITE_LIVE, CLOSED_ONLY]),
        ([SPILL, CUT, WHOLE, UNITE], [CUT]),
        ([CUT, SAME_CUT, CUT_LATER], [CUT_LATER, CUT]),
        ([LEVELLED, FEWER], [FEWER]),
        ([FORCED_MOVE, FORCED_FEWER], [FORCED_FEWER, FORCED_MOVE]),
        ([FORCED_FEWER, FORCED_MORE], [FORCED_FEWER, CannotForce(1, "another number was asked for first: 3 slots")]),
        ([MORE, FORCED_MOVE], [FORCED_MOVE]),
    ],
    ids=[
        "nothing",
        "what goes together stays",
        "a group is merged once",
        "whoever asked first",
        "groups of another operator have other rows",
        "a group that is merged whole needs no spill",
        "a spill of which nothing is left goes",
        "one whose closed generations alone are merged may be spilled",
        "what makes room for merges stays",
        "generations are merged apart",
        "also beside a spill, which makes one more",
        "but not in groups that are merged whole",
        "and where these are all of them, not at all",
        "a group is in one such merge at most",
        "of one operator",
        "parts are united",
        "also beside a spill, which changes other rows",
        "and so are those that have cooled",
        "but not beside a spill, which would close them",
        "or anything else that would",
        "and beside merges, which take their groups out of it",
        "of either kind",
        "those that have cooled not where the live generation is closed",
        "but where it is not",
        "nothing goes with a cut, which gives other numbers to groups",
        "a group is cut once, and the last one first",
        "a policy that has gone by other slots moves nothing, and is asked again",
        "who is forced to knows which slots there will be",
        "of two forced numbers the first holds, and the other is not dropped in silence",
        "a policy adds no slots beside forced moves, and is asked again",
    ],
)
def test_settle(decisions: list[Decision], settled: list[Decision]) -> None:
    assert settle(decisions) == settled
    assert settle(settle(decisions)) == settled


def effects(decisions: list[Decision], *segments: Segment, learned: Learned | None = None) -> tuple[Effects, Manifest]:
    manifest = manifest_of(PLAN, *segments)
    return effects_of(decisions, Known(PLAN, manifest, Ledgers(PLAN), learned or Learned())), manifest


def test_a_spill_closes_all_states_of_its_operator_and_no_other() -> None:
    found, manifest = effects([SpillGroups(((J1, 2), (J1, 3), (J1, 2)), "why")], *HELD, entry("c", "C"))
    assert found.updates[0] == CloseGroups(J1, STATES, ((2, 4),), Generation(1))
    (shown,) = found.shown
    assert found.updates[1] == RecordDecision(shown)
    assert (shown["decision"], shown["reason"], bool(found.work)) == ("SpillGroups", "why", False)
    after = apply_all(found.updates, manifest)
    assert {name: entry.groups for name, entry in after.segments.items() if not entry.active} == {
        "a~1.2": ((2, 4),),
        "b~1.2": ((2, 4),),
    }
    assert after.segments[SegmentId("c")].groups == ALL


def test_operators_get_a_close_each() -> None:
    found, _ = effects([SpillGroups(((J2, 0), (J1, 0)), "x")], *HELD, entry("c", "C", cold=4), entry("c2", "C"))
    closed = [update for update in found.updates if isinstance(update, CloseGroups)]
    assert {(update.operator, update.generation) for update in closed} == {(J1, 1), (J2, 5)}


def test_a_spill_of_groups_without_rows_is_nothing() -> None:
    found, _ = effects([SpillGroups(((J1, 5), (J2, 0)), "x")], entry("a", "A", groups=((0, 2),)))
    assert found == Effects()


def test_what_is_live_is_closed_before_a_merge() -> None:
    decisions: list[Decision] = [
        MergeGroup(J1, 1, "x"),
        MergeGroup(J1, 2, "x"),
        MergeGroup(J1, 3, "x", with_live=False),
    ]
    found, _ = effects(decisions, *HELD, entry("old", "A", groups=((1, 2),), cold=7))
    assert found.updates[0] == CloseGroups(J1, STATES, ((1, 3),), Generation(8))
    assert Work.of(found.work).merges == ((J1, 1), (J1, 2), (J1, 3))
    assert [entry["group"] for entry in found.shown] == [1, 2, 3]


def test_rows_that_cooled_are_closed_with_their_generation() -> None:
    """The live generation of group 1 has expired rows only, which are cold already; it is closed all the same."""
    cooled, old = entry("cooled", "A", groups=((1, 2),), cold=LIVE), entry("old", "A", groups=((1, 2),), cold=1)
    found, manifest = effects([MergeGroup(J1, 1, "x")], old, cooled)
    after = apply_all(found.updates, manifest)
    assert {segment.generation for segment in after.segments.values()} == {1, 2}


def test_a_cut_is_left_to_be_counted_and_shown() -> None:
    found, _ = effects([CUT], *HELD)
    assert found.work == (CUT,)
    (shown,) = found.shown
    taken = Taken("cut", 1, ByPolicy(), J1, ((3, 4),))
    assert found.updates == (RecordDecision(shown, taken), Learn(Learned(placed_before=1)))
    assert (shown["decision"], shown["group"], shown["at_hash"], shown["reason"]) == ("CutGroup", 3, 7 << 60, "c")


def test_means_to_an_end_are_not_shown() -> None:
    found, _ = effects([CloseLive(((J1, 0),), "room"), UNITE], *HELD)
    assert (found.shown, found.work) == ([], (UNITE,))
    assert [type(update) for update in found.updates] == [CloseGroups]


def test_that_nothing_can_be_spilled_is_recorded() -> None:
    found, manifest = effects([CannotSpill("why")], *HELD)
    after = apply_all(found.updates, manifest)
    assert [(entry["decision"], entry["reason"]) for entry in after.decisions] == [("CannotSpill", "why")]
    assert after.learned.cannot_spill, "so that it is not said again"


def test_what_is_expected_is_learned_with_the_commit() -> None:
    """The live generation of group 0 has 5 rows of each input, the closed one 5 more of A, and all have one key."""
    old = replace(entry("old", "A", rows=5, cold=1), group_keys=(1,) * 8)
    held = [replace(segment, group_keys=(1,) * 8) for segment in HELD]
    found, _ = effects([MergeGroup(J1, 0, "x"), MergeGroup(J1, 1, "x")], *held, old, learned=Learned(0.5))
    results = pytest.approx(2 * 5.0 * 5.0, rel=0.01)  # keys are estimated
    assert found.learned is not None
    assert found.learned.trials == (Trial(MERGE, "merges of J1", 1, {}, {"results": results}, J1),)
    assert found.updates[-1] == Learn(found.learned)


def test_a_spill_predicts_what_it_frees_and_puts_off() -> None:
    spills: list[Decision] = [SpillGroups(((J1, 0),), "x", 100, 3.0), SpillGroups(((J1, 1),), "x", 100, 4.0)]
    found, manifest = effects(spills, *HELD)
    assert found.learned is not None
    freed, put_off = found.learned.trials
    assert (freed.before, freed.expected) == ({"bytes": 800.0}, {"bytes": 600.0})
    assert put_off.expected == {"results": 7.0}
    assert apply_all(found.updates, manifest).active_bytes == 600


@pytest.mark.parametrize(
    "moves, owners",
    [
        (((J1, 0, 1), (K0, 1, 1)), (1, 1, 0, 0, 1, 1, 1, 1)),
        (((J1, 8, 1), (J1, 0, 2), (OperatorName("J9"), 0, 1), (Partitioning("k9"), 0, 1), (K0, 7, 0)), None),
    ],
    ids=["by an operator and by a key", "what is not there any more is passed over"],
)
def test_moves_as_far_as_they_fit(moves: tuple[Move, ...], owners: tuple[int, ...] | None) -> None:
    found, manifest = effects([MoveGroups(moves, 1, "x")])
    after = apply_all(found.updates, manifest)
    assert after.placement.of(K0).owners == (owners or (0, 0, 0, 0, 1, 1, 1, 0))
