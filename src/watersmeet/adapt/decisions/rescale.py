"""Another number of slots, or of those that a ring lies over. No row is moved."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Draft, carry_out
from watersmeet.adapt.decisions.place import Move, move
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.policies.ring.length import RING_SERIES
from watersmeet.adapt.policies.scale.seconds import SERIES
from watersmeet.adapt.trials import close_trials, forget_lessons, open_trial
from watersmeet.state.learned import BALANCE, RING, SLOTS, Learned, Resizing, Trial


@dataclass(frozen=True)
class Rescale(Decision):
    """Have so many slots from now on."""

    from_slots: int
    slots: int
    before_batch: int
    reason: str
    trial: Trial | None = None
    review: Review | None = None  # that it is the consequence of: the last number of slots did not pay


@dataclass(frozen=True)
class ResizeRing(Decision):
    """Have slices of time lie over so many slots, the first ones; these groups go at once."""

    from_slots: int
    slots: int
    moves: tuple[Move, ...]
    before_batch: int
    reason: str
    trial: Trial | None = None
    review: Review | None = None
    groups_left: int | None = None  # that are to go with later batches, by and by; None: none ever were


@carry_out.register
def _(decision: Rescale, draft: Draft) -> None:
    if decision.review is not None:
        carry_out(replace(decision.review, origin=decision.origin), draft)
    draft.placement = draft.placement.rescale(decision.slots)
    learned = replace(of_other_slots(draft.learned), placed_before=decision.before_batch)
    draft.learned = open_trial(learned, decision.trial)
    draft.record(decision.to_json())


@carry_out.register
def _(decision: ResizeRing, draft: Draft) -> None:
    if decision.review is not None:
        carry_out(replace(decision.review, origin=decision.origin), draft)
    slots = min(decision.slots, draft.placement.slots)
    draft.placement = move(decision.moves, draft.plan, draft.placement.with_ring(slots))
    under_way = None
    if decision.groups_left:
        under_way = Resizing(decision.from_slots, decision.slots, decision.before_batch, decision.groups_left)
    learned = replace(of_other_slots(draft.learned), placed_before=decision.before_batch, resizing=under_way)
    draft.learned = open_trial(learned, decision.trial)
    draft.record(decision.to_json())


def of_other_slots(learned: Learned) -> Learned:
    """What is still true where slots have come or gone: what more of them are known to be of no use for, among others.

    What batches took before is no trend of these, and what was expected of a move, or of the last number, cannot come.
    """
    recent = {name: series for name, series in learned.recent.items() if name not in (*SERIES, *RING_SERIES)}
    kept = close_trials(forget_lessons(learned, BALANCE), SLOTS, RING, BALANCE)
    return replace(kept, recent=recent, resizing=None)
