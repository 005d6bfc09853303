"""`active-disk`: as `lazy-disk`, and a slot whose groups earn little is made to spill for the others ([Liu05] 6).

Where memory is in balance and the slot with most results for each of its groups has more than `rates` times those of
the slot with least, groups of that one are spilled, the least productive first. It leaves room that the next levelling
fills with groups that earn more. Pushing out too much costs more than it gains: all that was pushed out in this way,
and is still cold, stays below what the query will take beyond the memory that there is (M_q - M_c).

Departures: the paper estimates M_q beforehand. Here it is what the state has come to, and as much again where streams
have no windows: such a query is taken to be at half of its time. And nothing is pushed out while the slot that earns
most has room of its own.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.place import MoveGroups
from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.balance.lazy_disk import level_productive
from watersmeet.adapt.policies.balance.load import BalanceView, take_bytes
from watersmeet.adapt.policies.balance.relocation import bytes_of, out_of_balance

SHARE = 0.3  # of what the slot holds, at once
FULL = 0.8  # of what a slot may hold, from which on it wants for room


def active_disk(view: BalanceView, threshold: float) -> MoveGroups | SpillGroups | None:
    if view.capacity_bytes is None or out_of_balance(view, threshold):
        return level_productive(view, threshold, bytes_of)  # room that was made is there to be filled
    best, worst = view.pair(lambda slot: slot.rate)
    if best.rate <= view.rates * worst.rate or best.bytes < FULL * view.capacity_bytes:
        return None
    allowed = view.expected_bytes - view.capacity_bytes * len(view.slots) - view.pushed_bytes
    most = min(allowed, SHARE * worst.bytes)
    ordered = sorted(view.of_slot[worst.number], key=lambda piece: (-piece.size_by_output, piece.key))
    chosen = take_bytes(ordered, most)
    if not chosen:
        return None
    reason = (
        f"slot {worst.number} has {worst.rate:.3g} results a group and slot {best.number} {best.rate:.3g}: "
        f"{sum(piece.bytes for piece in chosen):,} bytes make room, of {int(allowed):,} that may"
    )
    bytes, output = sum(piece.bytes for piece in chosen), sum(piece.output for piece in chosen)
    return SpillGroups(tuple(piece.key for piece in chosen), reason, bytes, output)
