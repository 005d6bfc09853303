"""`global-output-penalty` [Liu06, section 3.2.3]: as `global-output`, and what a group makes others store counts too.

Productivity is P_output / (P_size + P_inter). The paper counts intermediate results; here P_inter is in bytes, as
P_size is, or the two could not be added.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.spill.choice import lowest_first
from watersmeet.adapt.view import GroupView, MemoryView


def global_output_penalty(view: MemoryView, bytes_to_free: int) -> SpillGroups:
    """Spill groups of the lowest global productivity, per byte here and above."""
    what = "results of the query per byte held here and above"
    return lowest_first(view, bytes_to_free, penalised_productivity, what)


def penalised_productivity(group: GroupView) -> float:
    return group.global_output / (group.size_bytes + group.inter_bytes)
