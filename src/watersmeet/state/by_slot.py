"""What the groups of each slot hold and owe: a manifest by its placement."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from watersmeet.model.ids import Partitioning
from watersmeet.model.placement import Placement
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.state.ledger import Flags, Floats, Ledgers
from watersmeet.state.manifest import Manifest


def active_bytes_by_slot(plan: PhysicalPlan, manifest: Manifest) -> list[int]:
    """The bytes in memory of all states of a plan."""
    return _bytes_by_slot(plan.states.values(), manifest)


def grouped_bytes_by_slot(plan: PhysicalPlan, manifest: Manifest) -> list[int]:
    """The bytes in memory of joins that have groups of their own: what can go to another slot."""
    grouped = {name for node in plan.operators.values() for name in node.states}
    return _bytes_by_slot([state for name, state in plan.states.items() if name in grouped], manifest)


def _bytes_by_slot(states: Iterable[State], manifest: Manifest) -> list[int]:
    placement, total = manifest.placement, np.zeros(manifest.placement.slots)
    for state in states:
        held = manifest.segments.active(state.name)
        if held.rows:
            groups = placement.of(state.partitioning).groups
            total += _by_owner(held.by_group(groups).bytes, state.partitioning, placement)
    return [round(value) for value in total.tolist()]


def cold_bytes_by_slot(plan: PhysicalPlan, manifest: Manifest, ledgers: Ledgers) -> list[int]:
    """The bytes of closed generations."""
    placement, total = manifest.placement, np.zeros(manifest.placement.slots)
    for name, ledger in ledgers.at(manifest).items():
        total += _by_owner(ledger.bytes, plan.operators[name].partitioning, placement)
    return [round(value) for value in total.tolist()]


def state_bytes_by_slot(plan: PhysicalPlan, manifest: Manifest, ledgers: Ledgers) -> list[int]:
    """In memory and cold."""
    both = zip(active_bytes_by_slot(plan, manifest), cold_bytes_by_slot(plan, manifest, ledgers), strict=True)
    return [active + cold for active, cold in both]


def owing_by_slot(plan: PhysicalPlan, manifest: Manifest, ledgers: Ledgers) -> list[int]:
    """The groups that owe results."""
    placement, total = manifest.placement, np.zeros(manifest.placement.slots)
    for name, ledger in ledgers.at(manifest).items():
        total += _by_owner(ledger.owing, plan.operators[name].partitioning, placement)
    return [int(value) for value in total.tolist()]


def _by_owner(values: Floats | Flags, partitioning: Partitioning, placement: Placement) -> Floats:
    """Figures of groups, added up by slot."""
    owners = np.array(placement.of(partitioning).owners)
    return np.asarray(np.bincount(owners, weights=values, minlength=placement.slots), dtype=np.float64)
