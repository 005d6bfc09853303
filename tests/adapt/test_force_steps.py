"""Cuts, plans, spills and merges that a user has asked for by batch."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from adapt.asking import HELD, J1, J2, PLAN, Asked
from small_plans import GROUPS, chain_plan, manifest_of
from watersmeet.adapt.decisions.cannot_force import CannotForce
from watersmeet.adapt.decisions.change_plan import ChangePlan, MigrationAbandoned, record_change
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Known, effects_of
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.decisions.place import DrawTogether, MoveGroups, SpreadGroup
from watersmeet.adapt.decisions.rescale import Rescale
from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.check_forced import check_steps
from watersmeet.adapt.policies.force_steps import ForceSteps
from watersmeet.errors import JobError
from watersmeet.model.ids import Label, OperatorName, Partitioning
from watersmeet.model.origin import ByHand, BySettings, Forced
from watersmeet.model.spread import Spread
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.forced_step import ForcedStep, LabelledGroup, LabelledMove, parse_step
from watersmeet.state.applying import apply_all
from watersmeet.state.learned import Learned
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest
from watersmeet.state.taken import CUT, Taken
from watersmeet.state.updates import RecordDecision

L1, L2 = Label("J1"), Label("J2")
K0, K1 = Partitioning("k0"), Partitioning("k1")


def forced(*steps: ForcedStep, spill: str = "largest") -> list[object]:
    """Before batch 1."""
    settings = AdaptSettings(forced=steps, spill=spill)
    return list(Asked(manifest_of(PLAN, *HELD), settings=settings).propose(ForceSteps.of(settings)))


def test_steps_are_taken_at_their_batch() -> None:
    step = ForcedStep(1, spill=((L1, 3), (L2, 1)), merge=((L1, 5), (L2, 0)))
    assert forced(ForcedStep(0, spill=((L1, 0),)), step, ForcedStep(2, merge=((L1, 0),))) == [
        SpillGroups(((J1, 3), (J2, 1)), "forced"),
        MergeGroup(J1, 5, "forced"),
        MergeGroup(J2, 0, "forced"),
    ]


@pytest.mark.parametrize(
    "spill, share, groups",
    [
        ((), 0.5, [0, 1, 2, 3]),
        (((L1, 7),), 0.25, [7, 0, 1]),
        (((L1, 0),), 0.25, [0, 1]),
        ((), 1.0, list(range(8))),
    ],
    ids=["half of it", "beside those that are named", "among which may be some of them", "all of it"],
)
def test_a_share_of_what_is_active(spill: tuple[LabelledGroup, ...], share: float, groups: list[int]) -> None:
    for policy in ("largest", "off"):  # where spills are off, the usual policy chooses
        (decision,) = forced(ForcedStep(1, spill, share), spill=policy)
        assert isinstance(decision, SpillGroups)
        if policy == "largest":
            assert [group for _, group in decision.groups] == groups
        assert len(decision.groups) == len(groups)


def cut(operator: OperatorName, group: int, at_hash: int) -> CutGroup:
    node = PLAN.operators[operator]
    reason = f"forced: group {group} of {node.label}, in the middle of its hashes"
    return CutGroup(operator, group, node.partitioning, at_hash, 1, reason)


def recorded(decision: Decision) -> RecordDecision:
    """As a run records what it has done."""
    told = decision.to_json()
    if isinstance(decision, ChangePlan):
        return record_change({**told, "asked": decision.plan})
    if isinstance(decision, MigrationAbandoned):
        return record_change(told)
    assert isinstance(decision, CutGroup)
    groups = ((decision.group, decision.group + 1),)
    return RecordDecision(told, Taken(CUT, decision.before_batch, decision.origin, decision.operator, groups))


def test_groups_are_cut_in_the_middle_of_their_hashes() -> None:
    first, second = cut(J1, 3, 7 << 60), cut(J2, 0, 1 << 60)
    assert forced(ForcedStep(1, cut=((L1, 3), (L2, 0)), spill=((L1, 4),))) == [
        first,
        second,
        SpillGroups(((J1, 4),), "forced"),
    ]


def test_a_cut_is_made_once() -> None:
    """A run that died between the cut and its batch starts again before that batch."""
    step = ForcedStep(1, cut=((L1, 3),))
    for made, expected in (
        (cut(J1, 3, 7 << 60), []),
        (replace(cut(J1, 3, 7 << 60), before_batch=2), [cut(J1, 3, 7 << 60)]),
        (cut(J2, 3, 7 << 60), [cut(J1, 3, 7 << 60)]),
    ):
        manifest = apply_all([recorded(made)], manifest_of(PLAN, *HELD))
        settings = AdaptSettings(forced=(step,))
        assert Asked(manifest, settings=settings).propose(ForceSteps.of(settings)) == expected


def test_groups_are_numbered_as_they_are_when_the_step_is_taken() -> None:
    """Each cut makes one more; those of a step come before its spills and merges."""

    def check(*steps: ForcedStep, manifest: Manifest | None = None) -> None:
        check_steps(AdaptSettings(forced=steps), PLAN, manifest or manifest_of(PLAN))

    check(ForcedStep(1, cut=((L1, 7),), spill=((L1, GROUPS),)))
    check(ForcedStep(2, merge=((L1, GROUPS + 1),)), ForcedStep(1, cut=((L1, 0), (L1, 7))))
    for steps, named in (
        ([ForcedStep(1, cut=((L1, GROUPS),))], "J1:8"),
        ([ForcedStep(1, cut=((L1, 0), (L1, GROUPS)))], "J1:8"),  # both are as before the step
        ([ForcedStep(1, cut=((Label("J9"), 0),))], "J9:0"),
        ([ForcedStep(1, cut=((L1, 0),)), ForcedStep(1, merge=((L2, GROUPS),))], "J2:8"),  # on another key
        ([ForcedStep(1, cut=((L1, 0),)), ForcedStep(1, merge=((L1, GROUPS + 1),))], "J1:9"),
        ([ForcedStep(2, cut=((L1, 0),)), ForcedStep(1, merge=((L1, GROUPS),))], "J1:8"),
        ([ForcedStep(0, cut=((L1, 0),)), ForcedStep(1, merge=((L1, GROUPS),))], "J1:8"),  # batch 0 is over
    ):
        with pytest.raises(JobError) as caught:
            check(*steps)
        assert caught.value.primary == f'[[adapt.force]] names "{named}", which the plan does not have'
    was_cut = manifest_of(PLAN)
    was_cut = replace(was_cut, placement=was_cut.placement.cut(PLAN.operators[J1].partitioning, 0, 5))
    check(ForcedStep(1, merge=((L1, GROUPS),)), manifest=was_cut)


def test_a_group_that_is_too_narrow_is_not_cut() -> None:
    steps = [ForcedStep(batch, cut=((L1, 0),)) for batch in range(1, 14)]  # of 2**61 hashes
    check_steps(AdaptSettings(forced=tuple(steps)), PLAN, manifest_of(PLAN))
    with pytest.raises(JobError) as caught:
        check_steps(AdaptSettings(forced=(*steps, ForcedStep(14, cut=((L1, 0),)))), PLAN, manifest_of(PLAN))
    assert caught.value.primary == '[[adapt.force]] cuts "J1:0", which is too narrow for it'
    assert caught.value.detail == (
        "It has 281,474,976,710,656 of 2**64 hashes, and a cut must leave 281,474,976,710,656 to each half."
    )


def test_a_step_must_name_what_the_plan_has() -> None:
    for step in (ForcedStep(1, spill=((Label("J9"), 0),)), ForcedStep(1, merge=((L1, GROUPS),))):
        with pytest.raises(JobError) as caught:
            check_steps(AdaptSettings(forced=(step,)), PLAN, manifest_of(PLAN))
        assert caught.value.detail == "Its operators are J1, J2, with groups 0 to 7."
    check_steps(AdaptSettings(forced=(ForcedStep(1, spill=((L2, GROUPS - 1),)),)), PLAN, manifest_of(PLAN))


MISFITS = (
    ForcedStep(1, spill=((L2, 0),)),
    ForcedStep(1, cut=((L2, 0),)),
    ForcedStep(1, move=((L2, (0, 1), 1),)),
    ForcedStep(1, move=((Label("k0"), None, 2),)),
    ForcedStep(1, plan="mjoin", groups=((0, 2),)),
)


@pytest.mark.parametrize("step", MISFITS, ids=["a spill", "a cut", "a move", "a slot", "groups of a plan"])
def test_a_run_that_has_changed_is_told_what_does_not_fit_any_more(step: ForcedStep) -> None:
    """A job file that was right when the run began does not keep it from going on."""
    routed = chain_plan(tree="(A B C)")
    notes: list[str] = []
    with pytest.raises(JobError) as caught:
        check_steps(AdaptSettings(forced=(step,)), routed, manifest_of(routed), notes.append)
    changed = apply_all([recorded(replace(CHANGE, before_batch=0))], manifest_of(routed))
    check_steps(AdaptSettings(forced=(step,)), routed, changed, notes.append)
    (told,) = notes
    assert told.endswith(f"does not fit what this run has changed to, and is passed over: {caught.value.primary}")


@pytest.mark.parametrize("step", MISFITS, ids=["a spill", "a cut", "a move", "a slot", "groups of a plan"])
def test_steps_that_are_past_are_not_looked_at(step: ForcedStep) -> None:
    routed = chain_plan(tree="(A B C)")
    check_steps(AdaptSettings(forced=(replace(step, at_batch=0),)), routed, manifest_of(routed))


@pytest.mark.parametrize(
    "steps, message",
    [
        ((ForcedStep(2, plan="((A B) X)"),), "X"),
        ((ForcedStep(2, slots=9),), "9 slots cannot share 8 groups"),
        ((ForcedStep(2, slots=1), ForcedStep(2, slots=2)), "for 1 and for 2 slots"),
        ((ForcedStep(2, plan="mjoin"), ForcedStep(2, plan="left-deep")), "two plans before batch 2"),
    ],
)
def test_what_no_plan_could_have_is_refused_whatever_has_changed(steps: tuple[ForcedStep, ...], message: str) -> None:
    """Also after a step that does not fit."""
    routed = chain_plan(tree="(A B C)")
    changed = apply_all([recorded(CHANGE)], manifest_of(routed))
    with pytest.raises(JobError, match=message):
        check_steps(AdaptSettings(forced=(MISFITS[0], *steps)), routed, changed, [].append)


def test_a_spread_by_an_input_that_comes_elsewhere_now_is_passed_over() -> None:
    step = ForcedStep(1, spread=((L1, 0, (0, 1), "C"), (L2, 1, (0, 1), "C")))
    spread, passed_over = forced(step)
    assert passed_over == CannotForce(1, "inputs that do not come there: J1:0, dealing C")
    assert spread == SpreadGroup(J2, 1, "C", (0, 1), 1, "forced")


# --- another plan ----------------------------------------------------------------------------------------------------

CHANGE = ChangePlan("mjoin", "moving-state", 1, "forced")
MADE = replace(CHANGE, origin=Forced())
ABANDONED = MigrationAbandoned("(A B C)", "moving-state", 1, "forced: no space left", asked="mjoin", origin=Forced())
STEP = ForcedStep(1, plan="mjoin", by="moving-state", cut=((L1, 3),), spill=((L1, 4),))


def proposed(*steps: ForcedStep, made: tuple[Decision, ...] = (), plan: PhysicalPlan = PLAN) -> list[Decision]:
    """Before batch 1, after these were decided."""
    settings = AdaptSettings(forced=steps)
    manifest = apply_all([RecordDecision(decision.to_json()) for decision in made], manifest_of(plan))
    settings = AdaptSettings(forced=steps)
    manifest = apply_all(map(recorded, made), manifest_of(plan))
    return Asked(manifest, settings=settings, plan=plan).propose(ForceSteps.of(settings))


def test_groups_are_cut_before_the_plan_is_changed_and_spilled_after() -> None:
    first = cut(J1, 3, 7 << 60)
    assert proposed(STEP) == [first, CHANGE]
    assert proposed(STEP, made=(first,)) == [CHANGE]
    assert proposed(STEP, made=(first, MADE)) == [SpillGroups(((J1, 4),), "forced")]


def test_the_order_of_entries_for_one_batch_is_nobodys_affair() -> None:
    """A cut has the numbers that groups have before the change, also if its entry stands after that of the change."""
    parts = (
        ForcedStep(1, plan="mjoin", by="moving-state"),
        ForcedStep(1, cut=((L1, 3),)),
        ForcedStep(1, spill=((L1, 4),)),
    )
    for steps in itertools.permutations(parts):
        assert proposed(*steps) == [cut(J1, 3, 7 << 60), CHANGE]
        assert proposed(*steps, made=(cut(J1, 3, 7 << 60), MADE)) == [SpillGroups(((J1, 4),), "forced")]


@pytest.mark.parametrize(
    "decision, again",
    [
        (MADE, False),
        (ABANDONED, False),
        (replace(MADE, origin=BySettings()), True),
        (replace(MADE, origin=ByHand()), True),
        (replace(ABANDONED, origin=BySettings()), True),
        (replace(MADE, before_batch=2), True),
    ],
    ids=["made", "tried in vain", "by settings", "by hand", "by settings in vain", "before another batch"],
)
def test_a_plan_is_changed_once_whatever_else_changed_it_before_the_same_batch(decision: Decision, again: bool) -> None:
    step = ForcedStep(1, plan="mjoin", by="moving-state")
    assert proposed(step, made=(decision,)) == ([CHANGE] if again else [])


def test_groups_that_are_not_there_after_all_are_passed_over() -> None:
    """The plan of the run is another than was thought of: its change came to nothing, or somebody made one by hand."""
    step = ForcedStep(1, spill=((Label("J3"), 0), (L1, 2)), merge=((L1, GROUPS), (L2, 1)), cut=((Label("J4"), 0),))
    assert proposed(step) == [
        CannotForce(1, f"the plan {PLAN.tree} does not have J4:0, J3:0, J1:{GROUPS}"),
        SpillGroups(((J1, 2),), "forced"),
        MergeGroup(J2, 1, "forced"),
    ]


def test_steps_after_a_change_are_named_by_the_plan_that_follows() -> None:
    manifest = manifest_of(PLAN)
    later = ForcedStep(2, spill=((Label("J2"), 0),))
    check_steps(AdaptSettings(forced=(later,)), PLAN, manifest)
    with pytest.raises(JobError, match='names "J2:0"'):
        check_steps(AdaptSettings(forced=(later, ForcedStep(1, plan="mjoin"))), PLAN, manifest)
    check_steps(AdaptSettings(forced=(later, ForcedStep(1, plan="auto"))), PLAN, manifest)  # who knows


def test_groups_are_moved_and_slots_come_and_go() -> None:
    """Nothing is decided again by a run that died before the batch."""
    step = ForcedStep(1, slots=3, move=((L1, (0, 1), 2), (L2, (7, 8), 0)))
    rescaled, moved = Rescale(2, 3, 1, "forced"), MoveGroups(((J1, 0, 2), (J2, 7, 0)), 1, "forced")
    assert forced(step) == [rescaled, moved]
    assert forced(ForcedStep(1, slots=2, move=((L1, (0, 1), 0),))) == []
    settings, manifest = AdaptSettings(forced=(step,)), manifest_of(PLAN, *HELD)
    after = apply_all(effects_of([rescaled, moved], Known(PLAN, manifest, Ledgers(PLAN), Learned())).updates, manifest)
    first, second = (after.placement.of(PLAN.operators[operator].partitioning) for operator in (J1, J2))
    assert (after.placement.slots, after.placement.asked_slots) == (3, 2)
    assert (first.owners[0], second.owners[7]) == (2, 0)
    assert Asked(after, settings=settings).propose(ForceSteps.of(settings)) == []


@pytest.mark.parametrize(
    "steps, primary, detail",
    [
        (
            [ForcedStep(1, move=((L1, (0, 1), 2),))],
            '[[adapt.force]] moves "J1:0" to slot 2, which is not there',
            "The last one that there is by then is 1; the first is 0.",
        ),
        (
            [ForcedStep(1, slots=3), ForcedStep(2, slots=1), ForcedStep(3, move=((L1, (0, 1), 1),))],
            '[[adapt.force]] moves "J1:0" to slot 1, which is not there',
            "The last one that there is by then is 0; the first is 0.",
        ),
        (
            [ForcedStep(1, move=((L1, (0, 1), 1), (L1, (0, 1), 0)))],
            '[[adapt.force]] moves "J1:0" to slot 0 and to slot 1',
            "Groups of operators on one key are moved together.",
        ),
        ([ForcedStep(1, slots=9)], "9 slots cannot share 8 groups", None),
        (
            [ForcedStep(1, slots=3), ForcedStep(1, slots=4)],
            "[[adapt.force]] asks for 3 and for 4 slots before batch 1",
            "",
        ),
        ([ForcedStep(1, move=((L1, (8, 9), 1),))], '[[adapt.force]] names "J1:8", which the plan does not have', None),
    ],
)
def test_moves_and_slots_that_cannot_be(steps: list[ForcedStep], primary: str, detail: str | None) -> None:
    with pytest.raises(JobError) as caught:
        check_steps(AdaptSettings(forced=tuple(steps)), PLAN, manifest_of(PLAN))
    assert caught.value.primary == primary
    if detail is not None:
        assert (caught.value.detail or "") == detail


def test_moves_among_slots_that_there_will_be() -> None:
    steps = (ForcedStep(1, slots=3, move=((L1, (0, 1), 2),)), ForcedStep(2, cut=((L1, 7),), move=((L1, (8, 9), 2),)))
    check_steps(AdaptSettings(forced=steps), PLAN, manifest_of(PLAN))


def test_whole_operators_ranges_and_keys_are_moved() -> None:
    assert forced(ForcedStep(1, move=((L1, (0, 3), 1), (Label("k1"), None, 0)))) == [
        MoveGroups((*((J1, group, 1) for group in range(3)), *((K1, group, 0) for group in range(8))), 1, "forced")
    ]
    assert forced(ForcedStep(1, move=((L1, (4, 8), 1), (Label("k1"), (0, 4), 0)))) == [], "they are there"


def test_a_routed_join_is_moved_by_its_keys() -> None:
    routed = chain_plan(tree="(A B C)")
    both = ForcedStep(1, move=((L1, None, 1),))
    assert proposed(both, plan=routed) == [
        MoveGroups(tuple((key, group, 1) for key in (K0, K1) for group in range(8)), 1, "forced")
    ]
    assert proposed(ForcedStep(1, move=((Label("k1"), (0, 1), 1),)), plan=routed) == [
        MoveGroups(((K1, 0, 1),), 1, "forced")
    ]
    single = ForcedStep(1, move=((L1, (0, 1), 1),))
    assert proposed(single, plan=routed) == [CannotForce(1, "the plan (A B C) does not have J1:0")]
    with pytest.raises(JobError) as caught:
        check_steps(AdaptSettings(forced=(single,)), routed, manifest_of(routed))
    assert caught.value.primary == '[[adapt.force]] moves "J1:0", and J1 is routed over several keys'
    assert caught.value.detail == "Each of k0, k1 has groups of its own."
    assert caught.value.hint == 'For example "k0:0->1", or all of them: "J1:*->1".'


@pytest.mark.parametrize(
    "move, primary, detail",
    [
        (
            (L1, (5, 9), 1),
            '[[adapt.force]] names "J1:5-8", which the plan does not have',
            "What can be moved is k0, k1, J1, J2, with groups 0 to 7.",
        ),
        (
            (Label("k7"), None, 1),
            '[[adapt.force]] names "k7:*", which the plan does not have',
            "What can be moved is k0, k1, J1, J2, with groups 0 to 7.",
        ),
        (
            (Label("k0"), None, 2),
            '[[adapt.force]] moves "k0:*" to slot 2, which is not there',
            "The last one that there is by then is 1; the first is 0.",
        ),
    ],
)
def test_ranges_and_keys_that_are_not_there(move: LabelledMove, primary: str, detail: str) -> None:
    with pytest.raises(JobError) as caught:
        check_steps(AdaptSettings(forced=(ForcedStep(1, move=(move,)),)), PLAN, manifest_of(PLAN))
    assert (caught.value.primary, caught.value.detail) == (primary, detail)


def test_one_key_under_two_names_is_moved_once() -> None:
    step = ForcedStep(1, move=((L1, (3, 4), 1), (Label("k0"), None, 0)))
    with pytest.raises(JobError, match='moves "k0:3" to slot 0 and to slot 1'):
        check_steps(AdaptSettings(forced=(step,)), PLAN, manifest_of(PLAN))


def test_slots_that_have_gone_since_are_passed_over() -> None:
    """A policy, or somebody by hand, has fewer than there were when the run began."""
    step = ForcedStep(1, move=((L1, (0, 1), 1), (L2, None, 3)))
    gone = CannotForce(1, "there are 2 slots now, the last of which is 1: J2:*->3")
    assert forced(step) == [MoveGroups(((J1, 0, 1),), 1, "forced"), gone]
    spread = ForcedStep(1, spread=((L1, 0, (0, 1, 2), "A"),))
    assert forced(spread) == [CannotForce(1, "there are 2 slots now, the last of which is 1: J1:0->0,1,2")]
    assert gone not in forced(step, ForcedStep(1, slots=4)), "whichever step has them come"


def test_groups_are_spread_and_drawn_together() -> None:
    """After moves, and not again by a run that died before the batch."""
    step = ForcedStep(1, move=((L1, (0, 1), 1),), spread=((L1, 0, (1, 0), "A"),), draw_together=((L2, 3),))
    moved, spread = MoveGroups(((J1, 0, 1),), 1, "forced"), SpreadGroup(J1, 0, "A", (1, 0), 1, "forced")
    assert forced(step) == [moved, spread], "nothing is to be drawn together"
    settings, manifest = AdaptSettings(forced=(step,)), manifest_of(PLAN, *HELD)
    after = apply_all(effects_of([moved, spread], Known(PLAN, manifest, Ledgers(PLAN), Learned())).updates, manifest)
    assert after.placement.spreads == {PLAN.operators[J1].partitioning: {0: Spread("A", (1, 0))}}
    assert Asked(after, settings=settings).propose(ForceSteps.of(settings)) == []
    draw = AdaptSettings(forced=(ForcedStep(1, draw_together=((L1, 0),)),))
    (drawn,) = Asked(after, settings=draw).propose(ForceSteps.of(draw))
    assert drawn == DrawTogether(J1, 0, 1, "forced")
    later = apply_all(effects_of([drawn], Known(PLAN, after, Ledgers(PLAN), Learned())).updates, after)
    assert later.placement.spreads == {}
    assert later.decisions[-1] == drawn.to_json() | {"version": later.version}


@pytest.mark.parametrize(
    "step, primary, detail",
    [
        (
            ForcedStep(1, spread=((L1, 0, (0, 2), "A"),)),
            '[[adapt.force]] spreads "J1:0" to slot 2, which is not there',
            "The last one that there is by then is 1; the first is 0.",
        ),
        (
            ForcedStep(1, spread=((L1, 0, (0, 1), "C"),)),
            '[[adapt.force]] spreads "J1:0" dealing "C", which does not come there',
            "The inputs that are joined on its key are A, B.",
        ),
        (
            ForcedStep(1, spread=((Label("J9"), 0, (0, 1), "A"),)),
            '[[adapt.force]] names "J9:0", which the plan does not have',
            None,
        ),
        (
            ForcedStep(1, draw_together=((L1, 8),)),
            '[[adapt.force]] names "J1:8", which the plan does not have',
            None,
        ),
        (
            ForcedStep(1, spread=((L1, 0, (0, 1), "A"), (L1, 0, (0, 1), "B"))),
            '[[adapt.force]] spreads "J1:0" in two ways before one batch',
            None,
        ),
        (
            ForcedStep(1, spread=((L1, 0, (0, 1), "A"),), draw_together=((L1, 0),)),
            '[[adapt.force]] spreads "J1:0" and draws it together before one batch',
            None,
        ),
    ],
    ids=["no such slot", "no such input", "no such operator", "no such group", "two ways", "drawn together as well"],
)
def test_spreads_that_cannot_be(step: ForcedStep, primary: str, detail: str | None) -> None:
    with pytest.raises(JobError) as caught:
        check_steps(AdaptSettings(forced=(step,)), PLAN, manifest_of(PLAN))
    assert caught.value.primary == primary
    assert detail is None or caught.value.detail == detail


def test_a_routed_join_cannot_be_spread() -> None:
    routed = chain_plan(tree="mjoin")
    step = ForcedStep(1, spread=((L1, 0, (0, 1), "A"),))
    with pytest.raises(JobError, match='names "J1:0", which the plan does not have') as caught:
        check_steps(AdaptSettings(forced=(step,)), routed, manifest_of(routed))
    assert caught.value.hint == "`watersmeet explain` shows the operators; routed ones have no groups."


@pytest.mark.parametrize(
    "value",
    ["J1:3", "J1:3->0", "J1:3->0 dealing A", "J1:3->0,0 dealing A", "J1:3->0,1", "J1->0,1 dealing A", 7],
)
def test_spreads_that_are_not_understood(value: object) -> None:
    with pytest.raises(JobError, match='"spread" in '):
        parse_step({"at_batch": 1, "spread": [value]})


def test_spreads_as_people_write_them() -> None:
    step = parse_step({"at_batch": 1, "spread": ["J1 : 3 -> 2, 0 dealing an input"], "draw_together": ["J2:1"]})
    assert step.spread == ((L1, 3, (2, 0), "an input"),)
    assert step.draw_together == ((L2, 1),)
