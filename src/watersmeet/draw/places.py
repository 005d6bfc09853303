"""Which slots the joins of a plan run in, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from watersmeet.draw.words import counted
from watersmeet.model.ids import Partitioning
from watersmeet.model.placement import Placement
from watersmeet.model.routing import Routing
from watersmeet.plan.physical import PhysicalPlan


def place_lines(plan: PhysicalPlan, placement: Placement) -> Iterator[str]:
    """For each join and each key that it is placed by, the slots that have groups of it."""
    for label, partitioning in _placed(plan):
        yield f"{label} by {partitioning}: {_slots_text(placement.of(partitioning))}"


def places_json(plan: PhysicalPlan, placement: Placement) -> list[dict[str, Any]]:
    return [
        {
            "id": label,
            "partitioning": partitioning,
            "groups_by_slot": [Counter(placement.of(partitioning).owners)[slot] for slot in range(placement.slots)],
        }
        for label, partitioning in _placed(plan)
    ]


def _placed(plan: PhysicalPlan) -> Iterator[tuple[str, Partitioning]]:
    joins = {label: placed for label, placed in plan.partitionings.items() if label not in placed}
    for label, placed in sorted(joins.items(), key=lambda entry: (len(entry[0]), entry[0])):
        for partitioning in placed:
            yield label, partitioning


def _slots_text(routing: Routing) -> str:
    """
    >>> from watersmeet.model.bounds import Bounds
    >>> _slots_text(Routing.even(Bounds(8), 2)), _slots_text(Routing(2, (0,) * 8, Bounds(8)))
    ('all 2 slots alike', 'slot 0')
    >>> _slots_text(Routing(3, (0,) * 7 + (2,), Bounds(8)))
    'slot 0 (7 groups), slot 2 (1 group)'
    """
    held = Counter(routing.owners)
    if len(held) == 1:
        return f"slot {routing.owners[0]}"
    if sorted(held.values()) == sorted(Counter(Routing.even(routing.bounds, routing.slots).owners).values()):
        return f"all {routing.slots} slots alike"
    return ", ".join(f"slot {slot} ({counted(held[slot], 'group')})" for slot in sorted(held))
