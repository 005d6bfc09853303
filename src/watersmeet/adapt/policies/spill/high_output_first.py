"""`high-output-first`, for comparison [Liu05, section 4.4, "High-OutputRate"]: the most productive groups go first.

The opposite of `local-output`: what a policy should never do.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.spill.choice import highest_first
from watersmeet.adapt.policies.spill.local_output import local_productivity
from watersmeet.adapt.view import MemoryView


def high_output_first(view: MemoryView, bytes_to_free: int) -> SpillGroups:
    """Spill groups of the highest local productivity."""
    return highest_first(view, bytes_to_free, local_productivity, "results of its operator per byte")
