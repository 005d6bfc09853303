"""Spills when the active state has outgrown its budget: how much, by the settings; which groups, by a spill policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from watersmeet.adapt.decisions import CannotSpill, Decision, SpillGroups
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.spill import find_spill_policy
from watersmeet.adapt.settings import OFF, MemorySettings


@dataclass(frozen=True)
class SpillOverBudget:
    budget_bytes: int | None  # None: no limit
    choice: str  # the spill policy that names the groups
    above: float  # share of the budget at which it acts
    share: float  # of the active state that one spill takes
    slot_bytes: int | None = None  # that one slot may have

    # Before a batch too: an earlier run may have died before it could spill, or have had a larger budget.
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH, Moment.AFTER_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY})

    @classmethod
    def of(cls, settings: MemorySettings) -> SpillOverBudget:
        if settings.spill == OFF:
            return cls(None, settings.spill, settings.spill_at, settings.share)
        budget = settings.budget_bytes
        return cls(budget, settings.spill, settings.spill_at, settings.share, settings.slot_bytes)

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        spilled = list(self._of_slots(outlook))
        yield from spilled
        active, memory = outlook.active_bytes, outlook.memory if spilled else None
        if memory is not None:  # what slots leave may be too much in all
            gone = {key for decision in spilled for key in decision.groups}
            active -= sum(group.size_bytes for group in memory.groups if group.key in gone)
            memory = replace(memory, groups=tuple(g for g in memory.groups if g.key not in gone), active_bytes=active)
        if self.budget_bytes is None or active <= self.budget_bytes * self.above:
            return
        wanted = max(int(self.share * active), active - self.budget_bytes)
        decision = find_spill_policy(self.choice)(memory or outlook.memory, wanted)
        if decision.groups:
            yield replace(decision, reason=f"{self.choice}: {decision.reason}")
        elif (outlook.last_decision or {}).get("decision") != CannotSpill.__name__:  # said once, until there is news
            kept = ", ".join(outlook.unspillable)
            why = f"; {kept} cannot be spilled" if kept else ""
            yield CannotSpill(f"{self.choice}: {decision.reason}{why}")

    def _of_slots(self, outlook: Outlook) -> Iterator[SpillGroups]:
        """From each slot that has more than it may."""
        if self.slot_bytes is None:
            return
        for slot, active in enumerate(outlook.slot_bytes):  # groups are looked at where one is over: that takes longer
            if active > self.slot_bytes * self.above:
                groups = tuple(group for group in outlook.memory.groups if group.slot == slot)
                wanted = max(int(self.share * active), active - self.slot_bytes)
                decision = find_spill_policy(self.choice)(replace(outlook.memory, groups=groups), wanted)
                if decision.groups:
                    yield replace(decision, reason=f"{self.choice}, of slot {slot}: {decision.reason}")
