"""`bottom-up` [Liu06, section 3.1.1]: empty the operators at the bottom of the plan first, so that less comes up.

Groups of one level go in a random order, as in the paper: with equal chances, whatever they earn. The bottom of a bushy
plan is every operator that streams alone feed (the paper has a chain).
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.spill.choice import draw, in_order
from watersmeet.adapt.view import GroupView, MemoryView


def bottom_up(view: MemoryView, bytes_to_free: int) -> SpillGroups:
    """Spill groups of the lowest operators, at random among those of one level."""

    def level(group: GroupView) -> int:
        return view.operator(group.operator).level

    ordered = sorted(view.spillable, key=lambda group: (level(group), draw(view, group)))
    levels = sorted({level(group) for group in ordered})
    return in_order(view, bytes_to_free, ordered, f"by level, of {levels} from the lowest up, at random within one")
