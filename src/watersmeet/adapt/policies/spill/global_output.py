"""`global-output` [Liu06, section 3.2.2]: spill the groups that gave the query the fewest results per byte they hold.

Productivity is P_output / P_size, with results of the whole query, traced to the groups that had a part in them.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.spill.choice import lowest_first
from watersmeet.adapt.view import GroupView, MemoryView


def global_output(view: MemoryView, bytes_to_free: int) -> SpillGroups:
    """Spill groups of the lowest global productivity."""
    return lowest_first(view, bytes_to_free, global_productivity, "results of the query per byte")


def global_productivity(group: GroupView) -> float:
    return group.global_output / group.size_bytes
