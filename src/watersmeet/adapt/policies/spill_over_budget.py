"""Spills when the active state has outgrown its budget: how much, by the settings; which groups, by a spill policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from watersmeet.adapt.decisions import CannotSpill, Decision
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.spill import find_spill_policy
from watersmeet.adapt.settings import OFF, MemorySettings


@dataclass(frozen=True)
class SpillOverBudget:
    budget_bytes: int | None  # None: no limit
    choice: str  # the spill policy that names the groups
    above: float  # share of the budget at which it acts
    share: float  # of the active state that one spill takes

    # Before a batch too: an earlier run may have died before it could spill, or have had a larger budget.
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH, Moment.AFTER_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY})

    @classmethod
    def of(cls, settings: MemorySettings) -> SpillOverBudget:
        budget = None if settings.spill == OFF else settings.budget_bytes
        return cls(budget, settings.spill, settings.spill_at, settings.share)

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        active = outlook.active_bytes
        if self.budget_bytes is None or active <= self.budget_bytes * self.above:
            return
        wanted = max(int(self.share * active), active - self.budget_bytes)
        decision = find_spill_policy(self.choice)(outlook.memory, wanted)
        if decision.groups:
            yield replace(decision, reason=f"{self.choice}: {decision.reason}")
        elif (outlook.last_decision or {}).get("decision") != CannotSpill.__name__:  # said once, until there is news
            routed = ", ".join(outlook.unspillable)
            why = f"; {routed} cannot be spilled, being routed" if routed else ""
            yield CannotSpill(f"{self.choice}: {decision.reason}{why}")
