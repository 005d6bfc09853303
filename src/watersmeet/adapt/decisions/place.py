"""Which slots own, or work on, a group. No row is moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Draft, carry_out
from watersmeet.adapt.trials import close_trials, open_trial
from watersmeet.model.ids import OperatorName, Partitioning
from watersmeet.model.placement import Placement
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.state.learned import BALANCE, Trial

Move = tuple[OperatorName | Partitioning, int, int]  # a group of an operator or partitioning, and the slot it goes to


@dataclass(frozen=True)
class MoveGroups(Decision):
    """Have other slots own these groups: of these operators, and of all on their partitionings."""

    moves: tuple[Move, ...]
    before_batch: int
    reason: str
    trial: Trial | None = None
    at_us: int | None = None  # when it was decided, where the next move has to wait for a time


@dataclass(frozen=True)
class SpreadGroup(Decision):
    """Have several slots work on a group: deal out the rows of the inputs that have `alias`, and copy all others'."""

    operator: OperatorName
    group: int
    alias: str
    slots: tuple[int, ...]
    before_batch: int
    reason: str
    trial: Trial | None = None


@dataclass(frozen=True)
class DrawTogether(Decision):
    """Leave a group that was spread to its owner."""

    operator: OperatorName
    group: int
    before_batch: int
    reason: str
    trial: Trial | None = None
    at_us: int | None = None


@carry_out.register
def _(decision: MoveGroups, draft: Draft) -> None:
    draft.placement = move(decision.moves, draft.plan, draft.placement)
    _placed(decision, draft, decision.at_us)


@carry_out.register(SpreadGroup)
@carry_out.register(DrawTogether)
def _(decision: SpreadGroup | DrawTogether, draft: Draft) -> None:
    draft.placement = spread(decision, draft.plan, draft.placement)
    _placed(decision, draft, decision.at_us if isinstance(decision, DrawTogether) else None)


def _placed(decision: MoveGroups | SpreadGroup | DrawTogether, draft: Draft, at_us: int | None) -> None:
    """What was expected of the move before cannot be compared any more."""
    learned = replace(draft.learned, placed_before=decision.before_batch, moved_us=at_us)
    draft.learned = open_trial(close_trials(learned, BALANCE), decision.trial)
    draft.record(decision.to_json())


def move(moves: Iterable[Move], plan: PhysicalPlan, placement: Placement) -> Placement:
    """With groups where they are to go, as far as these and their slots are there."""
    wanted: dict[Partitioning, dict[int, int]] = {}
    for name, group, slot in moves:
        partitioning = plan.placed_on(name)
        if partitioning and group < placement.of(partitioning).groups and slot < placement.slots:
            wanted.setdefault(partitioning, {})[group] = slot
    for partitioning, owners in wanted.items():
        placement = placement.move(partitioning, owners)
    return placement


def spread(decision: SpreadGroup | DrawTogether, plan: PhysicalPlan, placement: Placement) -> Placement:
    """With a group spread, or drawn together, as far as it and its slots are there."""
    partitioning = plan.operators[decision.operator].partitioning
    if decision.group >= placement.of(partitioning).groups:
        return placement
    if isinstance(decision, DrawTogether):
        return placement.draw_together(partitioning, decision.group)
    slots = [slot for slot in decision.slots if slot < placement.slots]
    if len(slots) < 2:
        return placement
    return placement.spread(partitioning, decision.group, decision.alias, slots)
