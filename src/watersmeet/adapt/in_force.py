"""The policies in force, in one visible place."""

from __future__ import annotations

from watersmeet.adapt.policies.adapt_ring import AdaptRing
from watersmeet.adapt.policies.balance_slots import BalanceSlots
from watersmeet.adapt.policies.clean_up_all import CleanUpAll
from watersmeet.adapt.policies.force_steps import ForceSteps
from watersmeet.adapt.policies.merge_passed import MergePassed
from watersmeet.adapt.policies.merge_tiers import MergeTiers
from watersmeet.adapt.policies.merge_worthwhile import MergeWorthwhile
from watersmeet.adapt.policies.replan_by_slot import ReplanBySlot
from watersmeet.adapt.policies.replan_worthwhile import ReplanWorthwhile
from watersmeet.adapt.policies.scale_slots import ScaleSlots
from watersmeet.adapt.policies.spill_over_budget import SpillOverBudget
from watersmeet.adapt.policies.unite_parts import UniteColdParts
from watersmeet.adapt.policy import Policy
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.words import OFF


def policies_for(settings: AdaptSettings) -> tuple[Policy, ...]:
    """What a run with these settings asks, in this order."""
    replanning: tuple[Policy, ...] = ()
    if settings.replan.is_on:
        replanning = (
            ReplanBySlot(settings.replan)
            if settings.replan.is_by_slot
            else ReplanWorthwhile(settings.replan, settings.budget_bytes, settings.slot_bytes),
        )
    merging: tuple[Policy, ...] = ()
    if settings.merge != OFF and settings.watched:
        merging = (
            MergeWorthwhile(),
            MergePassed(settings.merge_bytes),  # after it: what pays goes first
            MergeTiers(settings.merge_bytes),  # takes the groups that neither of these wants
        )
    scaling = (ScaleSlots(settings.scale),) if settings.scale.policy != OFF else ()
    balancing = (BalanceSlots.of(settings),) if settings.balancing != OFF else ()
    rings = (AdaptRing.of(settings),) if settings.ring.policy != OFF else ()
    return (
        ForceSteps.of(settings),  # first: what is forced before a batch is part of what the others see
        *replanning,
        SpillOverBudget.of(settings),
        *scaling,  # before balancing: where slots come and go, nothing else is moved
        *balancing,
        *rings,  # after it: what differs by seconds is levelled for all joins alike
        *merging,
        CleanUpAll(settings.merge_bytes),
        UniteColdParts(),  # last: it looks at what the others leave
    )
