"""`inactive-or-unproductive` [Liu05, section 4.3]: groups that nothing comes to any more, then those that yield little.

First the groups to which no row has come for more than `theta` batches, the longest silent first, as LRU would. Then
the others, those with the largest P_s / P_o first: size over output, so that a large figure means few results a byte.

Departures: time is counted in batches. The report sets theta to half of the whole run, which is not known while it
runs; without a theta it is half of the batches so far. The order among silent groups is ours (the report has none).
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.spill.choice import in_order
from watersmeet.adapt.policies.spill.local_output import local_productivity
from watersmeet.adapt.view import GroupView, MemoryView
from watersmeet.model.ids import GroupKey


def inactive_or_unproductive(view: MemoryView, bytes_to_free: int, *, theta: float | None = None) -> SpillGroups:
    """Spill groups that have been silent for more than `theta` batches, then the least productive ones."""
    limit = (view.batch + 1) / 2 if theta is None else theta

    def silence(group: GroupView) -> float:
        inactive = view.batch - group.last_use
        return inactive if inactive > limit else 0.0

    def order(group: GroupView) -> tuple[float, float, int, GroupKey]:
        return -silence(group), local_productivity(group), -group.size_bytes, group.key

    silent = sum(silence(group) > 0 for group in view.spillable)
    why = f"first the {silent} without a row for more than {limit:g} batches, then by most bytes per result"
    return in_order(view, bytes_to_free, sorted(view.spillable, key=order), why)
