"""`random`, for comparison ([Liu05, section 4.4] chooses so in its first experiment): any groups, with equal chances.

Drawn anew for each batch, and the same for the same batch: a policy is pure.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.spill.choice import draw, in_order
from watersmeet.adapt.view import MemoryView


def random_choice(view: MemoryView, bytes_to_free: int) -> SpillGroups:
    """Spill groups at random."""
    ordered = sorted(view.spillable, key=lambda group: draw(view, group))
    return in_order(view, bytes_to_free, ordered, f"at random, drawn for batch {view.batch}")
