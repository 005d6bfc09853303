"""What a user has asked for by batch, whatever other policies say: the steps of `[[adapt.force]]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.adapt.decisions.cannot_force import CannotForce
from watersmeet.adapt.decisions.change_plan import ChangePlan
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.decisions.place import DrawTogether, Move, MoveGroups, SpreadGroup
from watersmeet.adapt.decisions.place import move as apply_moves
from watersmeet.adapt.decisions.place import spread as apply_spread
from watersmeet.adapt.decisions.rescale import Rescale, ResizeRing
from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.ring.smoothing import named_moves
from watersmeet.adapt.policies.spill import find_spill_policy
from watersmeet.model.ids import GroupKey, OperatorName, Partitioning
from watersmeet.model.origin import Forced, Origin
from watersmeet.model.placement import Placement
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.spreading import dealt_inputs
from watersmeet.settings.adapt import DEFAULT_POLICY, AdaptSettings
from watersmeet.settings.forced_step import ForcedStep, LabelledGroup, LabelledMove, LabelledSpread
from watersmeet.settings.words import OFF
from watersmeet.state.taken import CUT, PLAN, Taken

FORCED = "forced"  # the reason of its decisions


@dataclass(frozen=True)
class ForceSteps:
    steps: tuple[ForcedStep, ...]
    choice: str

    origin: ClassVar[Origin] = Forced()
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY})

    @classmethod
    def of(cls, settings: AdaptSettings) -> ForceSteps:
        return cls(settings.forced, settings.spill if settings.spill != OFF else DEFAULT_POLICY)

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        steps = [step for step in self.steps if step.at_batch == outlook.next_batch]
        changes = [step for step in steps if step.plan is not None]  # one for each group at most: two are refused
        waiting = [step for step in changes if not is_changed(step, outlook.taken)]
        if waiting or not changes:  # groups to cut are named by the plan that is there before
            for step in steps:
                yield from _cuts(step, outlook)
        for step in waiting:
            assert step.plan is not None
            yield ChangePlan(step.plan, step.by, step.at_batch, FORCED, within=step.groups)
        if not waiting:
            slots = next((step.slots for step in steps if step.slots is not None), outlook.placement.slots)
            yield from _placing(steps, slots, outlook)
            for step in steps:
                yield from _not_placed(step, slots, outlook)
                yield from self._spills_and_merges(step, outlook, () if changes else step.cut)

    def _spills_and_merges(
        self, step: ForcedStep, outlook: Outlook, cut: Sequence[LabelledGroup]
    ) -> Iterator[Decision]:
        narrow = [named for named in cut if _is_narrow(named, step, outlook)]
        if narrow:
            names = ", ".join(f"{label}:{group}" for label, group in narrow)
            yield CannotForce(step.at_batch, f"too narrow to be cut: {names}")
        unknown = [named for named in (*cut, *step.named) if not _is_there(named, outlook)]
        unmoved = [move_title(move) for move in step.move if not can_move(move, outlook.plan, outlook.placement)]
        if unknown or unmoved:
            names = ", ".join([*(f"{label}:{group}" for label, group in unknown), *unmoved])
            yield CannotForce(step.at_batch, f"the plan {outlook.plan.tree} does not have {names}")
        spilled = tuple(group_keys(outlook.plan, [named for named in step.spill if named not in unknown]))
        if step.spill_share is not None:
            wanted = int(step.spill_share * outlook.active_bytes)
            chosen = find_spill_policy(self.choice)(outlook.memory, wanted)
            spilled += tuple(key for key in chosen.groups if key not in spilled)
        if spilled:
            yield SpillGroups(spilled, FORCED)
        for operator, group in group_keys(outlook.plan, [named for named in step.merge if named not in unknown]):
            yield MergeGroup(operator, group, FORCED)


def _is_there(named: LabelledGroup, outlook: Outlook) -> bool:
    """Whether there is a group of this name.

    One that was promised when the run began need not be: an optimiser, or somebody by hand, may have changed the plan
    to another than was thought of, and a change of it may have come to nothing.
    """
    label, group = named
    operator = outlook.plan.labels.get(label)
    return operator is not None and has_group(outlook.plan, outlook.placement, operator, group)


def has_group(plan: PhysicalPlan, placement: Placement, operator: OperatorName, group: int) -> bool:
    there = placement.of(plan.operators[operator].partitioning).groups
    return group < there and plan.has_group(operator, group)


def _placing(steps: Sequence[ForcedStep], slots: int, outlook: Outlook) -> Iterator[Decision]:
    """Other slots and owners, where those that there are now are not the ones after all of these steps.

    All steps are seen together, for one may undo a part of another: a group that is moved to one slot and spread over
    others belongs to one of these. Taken each by itself, both would be taken again and again.
    """
    plan, placement = outlook.plan, outlook.placement
    taken: list[Decision] = []
    if slots != placement.slots:
        taken.append(Rescale(placement.slots, slots, steps[0].at_batch, FORCED))
        placement = placement.rescale(slots)
    for resized in _rings(steps, plan, placement):
        taken.append(resized)
        placement = apply_moves(resized.moves, plan, placement.with_ring(resized.slots))
    for moved in _moves(steps, slots, outlook):
        if not all(_is_owner(plan, placement, *move) for move in moved.moves):
            taken.append(moved)
            placement = apply_moves(moved.moves, plan, placement)
    for decision in _spreads(steps, slots, outlook):
        before, placement = placement, apply_spread(decision, plan, placement)
        if placement != before:
            taken.append(decision)
    if placement != outlook.placement:
        yield from taken


def _moves(steps: Iterable[ForcedStep], slots: int, outlook: Outlook) -> Iterator[MoveGroups]:
    plan, placement = outlook.plan, outlook.placement
    for step in steps:
        able = [move for move in step.move if can_move(move, plan, placement) and move[2] < slots]
        if moves := tuple(single for move in able for single in single_moves(move, plan, placement)):
            yield MoveGroups(moves, step.at_batch, FORCED)


def _spreads(steps: Iterable[ForcedStep], slots: int, outlook: Outlook) -> Iterator[SpreadGroup | DrawTogether]:
    """At most one spread of a group: the last, where operators on one key were not known to be that."""
    plan, spreads = outlook.plan, dict[tuple[Partitioning, int], SpreadGroup]()
    drawn: list[DrawTogether] = []
    for step in steps:
        for label, group, over, alias in step.spread:
            there = max(over) < slots and _is_there((label, group), outlook)
            if there and _is_dealt((label, group, over, alias), outlook):
                operator = plan.labels[label]
                spread = SpreadGroup(operator, group, alias, over, step.at_batch, FORCED)
                spreads[plan.operators[operator].partitioning, group] = spread
        there_to_draw = [named for named in step.draw_together if _is_there(named, outlook)]
        drawn += [DrawTogether(*key, step.at_batch, FORCED) for key in group_keys(plan, there_to_draw)]
    yield from spreads.values()
    yield from drawn


def _not_placed(step: ForcedStep, slots: int, outlook: Outlook) -> Iterator[CannotForce]:
    """What a step places where it cannot be."""
    gone = [f"{move_title(move)}->{move[2]}" for move in step.move if move[2] >= slots]
    gone += [
        f"{label}:{group}->{','.join(map(str, over))}" for label, group, over, _ in step.spread if max(over) >= slots
    ]
    elsewhere = [f"{entry[0]}:{entry[1]}, dealing {entry[3]}" for entry in step.spread if not _is_dealt(entry, outlook)]
    if elsewhere:
        yield CannotForce(step.at_batch, f"inputs that do not come there: {'; '.join(elsewhere)}")
    if gone:
        titles = ", ".join(gone)
        yield CannotForce(step.at_batch, f"there are {slots} slots now, the last of which is {slots - 1}: {titles}")
    if step.ring is not None and not outlook.plan.has_ring:
        yield CannotForce(step.at_batch, f"the plan {outlook.plan.tree} has no ring")
    elif step.ring is not None and step.ring > slots:
        yield CannotForce(step.at_batch, f"there are {slots} slots now, and the ring cannot lie over {step.ring}")


def _rings(steps: Iterable[ForcedStep], plan: PhysicalPlan, placement: Placement) -> Iterator[ResizeRing]:
    """Another length of the ring, at once, if it has not got it yet; as far as there are so many slots."""
    asked = [step for step in steps if step.ring is not None and plan.has_ring and step.ring <= placement.slots]
    for step in asked[:1]:  # one for a batch at most: two are refused
        assert step.ring is not None
        if step.ring != placement.ring:
            moves = named_moves(placement.with_ring(step.ring).ring_moves())
            yield ResizeRing(placement.ring_slots, step.ring, moves, step.at_batch, FORCED)


def _is_dealt(spread: LabelledSpread, outlook: Outlook) -> bool:
    """Whether the input that is to be dealt comes to the group, as far as that is there."""
    label, group, _, alias = spread
    if not _is_there((label, group), outlook):
        return True
    return alias in dealt_inputs(outlook.plan, outlook.plan.operators[outlook.plan.labels[label]].partitioning)


def _is_owner(
    plan: PhysicalPlan, placement: Placement, name: OperatorName | Partitioning, group: int, slot: int
) -> bool:
    partitioning = plan.placed_on(name)
    assert partitioning is not None
    return placement.of(partitioning).owners[group] == slot


def can_move(move: LabelledMove, plan: PhysicalPlan, placement: Placement) -> bool:
    """Whether what is to be moved is there. Single groups of a routed join are named by one of its keys."""
    name, groups, _ = move
    placed = plan.partitionings.get(name, ())
    if groups is None or len(placed) != 1:
        return groups is None and bool(placed)
    return groups[1] <= placement.of(placed[0]).groups


def single_moves(move: LabelledMove, plan: PhysicalPlan, placement: Placement) -> Iterator[Move]:
    """Group by group, under the name that a manifest has for it."""
    name, groups, slot = move
    for partitioning in plan.partitionings[name]:
        for group in range(*(groups or (0, placement.of(partitioning).groups))):
            yield plan.labels.get(name, partitioning), group, slot


def move_title(move: LabelledMove) -> str:
    """
    >>> move_title(("J1", (3, 4), 1)), move_title(("J1", (0, 10), 1)), move_title(("k0", None, 1))
    ('J1:3', 'J1:0-9', 'k0:*')
    """
    name, groups, _ = move
    if groups is None:
        return f"{name}:*"
    low, high = groups
    return f"{name}:{low}" if high == low + 1 else f"{name}:{low}-{high - 1}"


def _cuts(step: ForcedStep, outlook: Outlook) -> Iterator[CutGroup]:
    """The cuts of a step that are not made yet: a cut is made once, whoever asks again or starts again."""
    for operator, group in group_keys(outlook.plan, [named for named in step.cut if _is_there(named, outlook)]):
        if not is_cut(operator, group, step, outlook.taken):
            partitioning = outlook.plan.operators[operator].partitioning
            at_hash = outlook.placement.of(partitioning).bounds.middle(group)
            if at_hash is not None:
                reason = f"forced: group {group} of {outlook.plan.label(operator)}, in the middle of its hashes"
                yield CutGroup(operator, group, partitioning, at_hash, step.at_batch, reason)


def _is_narrow(named: LabelledGroup, step: ForcedStep, outlook: Outlook) -> bool:
    """Whether a group that is to be cut cannot be: a policy has cut it since, or the plan was not known in advance."""
    label, group = named
    if not _is_there(named, outlook):
        return False
    operator = outlook.plan.labels[label]
    bounds = outlook.placement.of(outlook.plan.operators[operator].partitioning).bounds
    return bounds.middle(group) is None and not is_cut(operator, group, step, outlook.taken)


def is_changed(step: ForcedStep, taken: Iterable[Taken]) -> bool:
    """Whether a change of the plan was made, or tried in vain: it is tried once.

    Not whether there was another before the same batch: at the start of a run, or by hand; nor one that the step asked
    for when the run was started before, and does not ask for now.
    """
    found = [
        entry for entry in taken if (entry.kind, entry.before_batch, entry.groups) == (PLAN, step.at_batch, step.groups)
    ]
    forced = [entry.what for entry in found if isinstance(entry.origin, Forced)]
    return forced[-1:] == [step.plan]


def is_cut(operator: OperatorName, group: int, step: ForcedStep, taken: Iterable[Taken]) -> bool:
    """Whether a cut was made, by whomever."""
    wanted = (CUT, step.at_batch, operator, ((group, group + 1),))
    return any((entry.kind, entry.before_batch, entry.what, entry.groups) == wanted for entry in taken)


def group_keys(plan: PhysicalPlan, groups: Iterable[LabelledGroup]) -> Iterator[GroupKey]:
    for label, group in groups:
        yield plan.labels[label], group
