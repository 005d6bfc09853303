"""`local-output` [Liu06, section 3.2.1]: spill the groups that gave their operator the fewest results per byte.

Productivity is P_output / P_size, with the results of the group's own operator, over all operators of the plan.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.spill.choice import lowest_first
from watersmeet.adapt.view import GroupView, MemoryView


def local_output(view: MemoryView, bytes_to_free: int) -> SpillGroups:
    """Spill groups of the lowest local productivity."""
    return lowest_first(view, bytes_to_free, local_productivity, "results of its operator per byte")


def local_productivity(group: GroupView) -> float:
    return group.local_output / group.size_bytes
