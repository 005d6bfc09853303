"""Spills when the active state has outgrown its budget: how much, by the settings; which groups, by a spill policy.

What a group-by keeps for its boundaries goes first, all of it: no batch probes it, and it owes nothing, so that it
costs no more than to be read again when a boundary is due. Groups of joins go if that is not enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.decisions.spill import BYTES, RESULTS, CannotSpill, SpillAggregates, SpillGroups
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.spill import find_spill_policy
from watersmeet.adapt.trials import came_true, trial_of
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.words import OFF
from watersmeet.state.learned import SPILL


@dataclass(frozen=True)
class SpillOverBudget:
    budget_bytes: int | None  # None: no limit
    choice: str  # the spill policy that names the groups
    above: float  # share of the budget at which it acts
    share: float  # of the active state that one spill takes
    slot_bytes: int | None = None  # that one slot may have

    origin: ClassVar[Origin] = ByPolicy("spill-over-budget")
    # Before a batch too: an earlier run may have died before it could spill, or have had a larger budget.
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH, Moment.AFTER_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY})

    @classmethod
    def of(cls, settings: AdaptSettings) -> SpillOverBudget:
        if settings.spill == OFF:
            return cls(None, settings.spill, settings.spill_at, 0.0)
        share = settings.spill_share or find_spill_policy(settings.spill).share
        return cls(settings.budget_bytes, settings.spill, settings.spill_at, share, settings.slot_bytes)

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        yield from _reviews(outlook)
        if not self._is_over(outlook.active_bytes) and not any(map(self._is_slot_over, self._slots(outlook))):
            return
        active, memory = outlook.active_bytes, None
        if aggregates := outlook.aggregate_bytes:
            yield SpillAggregates(aggregates, "what is kept for boundaries is not probed, and owes nothing")
            active -= aggregates
        # What slots have without it is looked at the next time.
        spilled = [] if aggregates else list(self._of_slots(outlook))
        yield from spilled
        if spilled:  # what slots leave may be too much in all
            memory = outlook.memory
            gone = {key for decision in spilled for key in decision.groups}
            active -= sum(group.size_bytes for group in memory.groups if group.key in gone)
            memory = replace(memory, groups=tuple(g for g in memory.groups if g.key not in gone), active_bytes=active)
        if self.budget_bytes is None or not self._is_over(active):
            return
        if aggregates:
            memory = replace(outlook.memory, active_bytes=active)
        wanted = max(int(self.share * active), active - self.budget_bytes)
        decision = find_spill_policy(self.choice)(memory or outlook.memory, wanted)
        if decision.groups:
            yield replace(decision, reason=f"{self.choice}: {decision.reason}")
        elif not outlook.learned.cannot_spill:  # users are told once, until something can be spilled again
            kept = ", ".join(outlook.unspillable)
            why = f"; {kept} cannot be spilled" if kept else ""
            yield CannotSpill(f"{self.choice}: {decision.reason}{why}")

    def _is_over(self, active: int) -> bool:
        return self.budget_bytes is not None and active > self.budget_bytes * self.above

    def _is_slot_over(self, active: int) -> bool:
        return self.slot_bytes is not None and active > self.slot_bytes * self.above

    def _slots(self, outlook: Outlook) -> list[int]:
        """What each slot has, where that matters."""
        return [] if self.slot_bytes is None else outlook.slot_bytes

    def _of_slots(self, outlook: Outlook) -> Iterator[SpillGroups]:
        """From each slot that has more than it may."""
        for slot, active in enumerate(self._slots(outlook)):  # groups are looked at where one is over: it takes longer
            if self.slot_bytes is not None and self._is_slot_over(active):
                groups = tuple(group for group in outlook.memory.groups if group.slot == slot)
                wanted = max(int(self.share * active), active - self.slot_bytes)
                decision = find_spill_policy(self.choice)(replace(outlook.memory, groups=groups), wanted)
                if decision.groups:
                    yield replace(decision, reason=f"{self.choice}, of slot {slot}: {decision.reason}")


def _reviews(outlook: Outlook) -> Iterator[Review]:
    """What spills came to: the bytes that they freed, before the next batch, and the results that they put off, after.

    It costs nothing but a comparison: groups are not looked at.
    """
    freed, put_off = (trial_of(outlook.learned, SPILL, of) for of in (BYTES, RESULTS))
    if outlook.moment is Moment.BEFORE_BATCH and freed is not None and freed.at_batch == outlook.next_batch:
        found = {BYTES: float(outlook.active_bytes)}
        yield Review(freed, found, came_true(freed, found), "")
    last = outlook.last_batch
    if last is not None and put_off is not None and put_off.at_batch == last.number and not last.round:
        rows = put_off.before["rows"]
        as_before = put_off.before["rows_out"] * (last.rows_in / rows if rows else 1.0)
        found = {RESULTS: max(0.0, as_before - last.rows_out)}
        yield Review(put_off, found, came_true(put_off, found), "")
