"""`largest`, for comparison: the groups that hold most go first, as in XJoin [Urhan00].

Departure: XJoin flushes the part of one input; here a group leaves with the rows of all its inputs.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.spill.choice import highest_first
from watersmeet.adapt.view import MemoryView


def largest(view: MemoryView, bytes_to_free: int) -> SpillGroups:
    """Spill the largest groups."""
    return highest_first(view, bytes_to_free, lambda group: group.size_bytes, "bytes")
