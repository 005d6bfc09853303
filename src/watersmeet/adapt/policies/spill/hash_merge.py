"""`hash-merge`, for comparison: keep the memory of each operator balanced between its inputs, after [Mokbel04].

Known to us by the description in [Levandoski11, sections II and IV-C] alone: pairs of buckets are flushed so that both
inputs keep like shares of the memory, and what they earn does not count. How we do that, again and again:
1. The operator is the one with most bytes left; the original has a single join.
2. Of its groups that leave it balanced, the largest. Balanced: the inputs with most and with fewest bytes differ by at
   most `tolerance` of what is left. For two inputs that is |A - B|; for more the span is our extension.
3. Where there is none, the one that leaves the smallest difference.
Ties as in `choice.py`. The time is that of (groups chosen) * (groups of an operator): fine for some thousands.
"""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.spill.choice import in_order
from watersmeet.adapt.view import GroupView, MemoryView
from watersmeet.model.ids import GroupKey, OperatorName

TOLERANCE = 0.05  # not tuned


def hash_merge(view: MemoryView, bytes_to_free: int, *, tolerance: float = TOLERANCE) -> SpillGroups:
    """Spill groups that leave the inputs of their operators balanced."""
    why = f"those that leave the inputs of their operator within {tolerance:g} of its bytes, or nearest to that"
    return in_order(view, bytes_to_free, _balancing(view, tolerance), why)


def _balancing(view: MemoryView, tolerance: float) -> Iterator[GroupView]:
    groups: dict[OperatorName, list[GroupView]] = {}
    for group in view.spillable:
        groups.setdefault(group.operator, []).append(group)
    held = {id: [sum(column) for column in zip(*(g.bytes for g in kept), strict=True)] for id, kept in groups.items()}

    def order(group: GroupView) -> tuple[int, int, GroupKey]:
        left = [total - part for total, part in zip(held[group.operator], group.bytes, strict=True)]
        span = max(left) - min(left)
        beyond = span if span > tolerance * sum(left) else 0
        return beyond, -group.size_bytes, group.key

    while groups:
        id = min(groups, key=lambda id: (-sum(held[id]), id))
        chosen = min(groups[id], key=order)
        yield chosen
        groups[id].remove(chosen)
        held[id] = [total - part for total, part in zip(held[id], chosen.bytes, strict=True)]
        if not groups[id]:
            del groups[id]
