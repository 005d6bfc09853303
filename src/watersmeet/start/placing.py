"""Where operators run when a run begins, and after a change of the plan. Pure."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.model.placement import Placement
from watersmeet.model.slices import BY_TIME
from watersmeet.model.statistics import Measured
from watersmeet.optimize.allocate import SPREAD, allocate, load_factors
from watersmeet.optimize.estimates import CostModel
from watersmeet.optimize.query_graph import Statistics
from watersmeet.optimize.ring_length import ring_length
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.run import RunSettings


def first_placement(plan: PhysicalPlan, settings: RunSettings, statistics: Statistics, model: CostModel) -> Placement:
    """The placement of a new run: operators are spread, or placed by the load that is expected of each."""
    asked, balance = _asked_ring(plan, settings), settings.memory.balance
    ring = asked or _auto_ring(plan, settings, statistics, settings.slots, model)
    placement = Placement(settings.slots, settings.groups, ring=ring, asked_ring=asked)
    if balance.allocate == SPREAD:
        return placement
    loads = load_factors(plan, statistics)
    if plan.has_ring:  # it has a length of its own, wherever other joins are
        placement = placement.with_ring(ring)
    return allocate(balance.allocate, loads, placement, balance.weights)


def placement_with_slots(
    before: Placement, plan: PhysicalPlan, settings: RunSettings, statistics: Statistics, model: CostModel
) -> Placement:
    """The placement of a checkpoint with the slots, and the ring, that a run is started with."""
    placement, asked = before.asking(settings.slots), _asked_ring(plan, settings)
    anew = placement.slots != before.slots
    if asked == placement.asked_ring and (asked or not anew):
        return placement
    ring = asked or _auto_ring(plan, settings, statistics, placement.slots, model)
    return replace(placement, ring=ring, asked_ring=asked) if anew else placement.asking_ring(asked, ring)


def placement_after_change(
    placement: Placement, former: PhysicalPlan, plan: PhysicalPlan, balance: BalanceSettings, measured: Measured
) -> Placement:
    """The placement once `plan` answers in the place of `former`: keys that this one did not have are placed."""
    if balance.allocate == SPREAD or len(plan.shapes) > 1:  # shapes are all on one key, which they had before
        return placement
    kept = placement
    for partitioning in {state.partitioning for state in former.states.values()}:
        kept = kept.move(partitioning, {})  # as it is
    return allocate(balance.allocate, load_factors(plan, Statistics(measured=measured)), kept, balance.weights)


def regrouped(placement: Placement, groups: int) -> Placement:
    """The placement with so many groups."""
    return placement if placement.groups == groups else placement.regroup(groups)


def _asked_ring(plan: PhysicalPlan, settings: RunSettings) -> int:
    """How many slots the settings want a ring to lie over; 0 for auto, and where there is no ring."""
    return settings.memory.ring.slots if len(plan.query.parts) > 1 else 0


def _auto_ring(plan: PhysicalPlan, settings: RunSettings, statistics: Statistics, slots: int, model: CostModel) -> int:
    """How many slots a ring is to lie over by what is known; 0, all of them, where nothing is.

    As many as rows have copies, at least.
    """
    if not plan.has_ring or not (statistics.given or statistics.measured.seconds):
        return 0
    length = ring_length(plan, statistics, slots, settings.memory.ring.seconds, model) or 0
    copies = max((round(state.copies) for state in plan.states.values() if state.partitioning == BY_TIME), default=1)
    return max(length, min(copies, slots)) if length else 0
