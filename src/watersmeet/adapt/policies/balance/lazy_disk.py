"""`lazy-disk`: each slot spills by itself what it has too much; what fits elsewhere goes there first ([Liu05] 6).

Memory is levelled as by `relocate`, but the most productive groups go (the fewest bytes for a result), so that they
stay in memory, as spills take the least productive; and groups with closed generations stay where they are. Never both
at once: where a spill is decided at the same moment, nothing moves (`effects.settle`).

Departure: a slot that has spilled counts as full, for it will be again. By the paper's rule a slot gets groups whenever
it has spilled; it then fills up the sooner, spills again and gets more, and the others are left with little to do.

It has a meaning where there is a limit on memory, and none without.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.place import MoveGroups
from watersmeet.adapt.policies.balance.load import BalanceView
from watersmeet.adapt.policies.balance.relocation import Load, level_bytes


def lazy_disk(view: BalanceView, threshold: float) -> MoveGroups | None:
    return level_productive(view, threshold, view.wanted_bytes)


def level_productive(view: BalanceView, threshold: float, load: Load) -> MoveGroups | None:
    """Level memory where it is limited, with the most productive groups that have not been spilled."""
    if view.capacity_bytes is None:
        return None
    warm = [piece for piece in view.pieces if not piece.cold]
    return level_bytes(view, threshold, load, lambda piece: (piece.size_by_output,), warm, "the most productive ones")
