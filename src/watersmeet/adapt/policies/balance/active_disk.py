"""`active-disk`: as `lazy-disk`, and a slot whose groups earn little is made to spill for the others ([Liu05] 6).

Where memory is in balance and the slot with most results for each of its groups has more than `RATES` times those of
the slot with least, groups of that one are spilled, the least productive first. It leaves room that the next levelling
fills with groups that earn more. Pushing out too much costs more than it gains: all that is cold stays below what the
query would take beyond the memory that there is (M_q - M_c).

Departure: M_q is the paper's estimate of what the query takes in all. Here it is what the state has come to, in memory
and cold, which grows for as long as the query does.
"""

from __future__ import annotations

from watersmeet.adapt.decisions import MoveGroups, SpillGroups
from watersmeet.adapt.policies.balance.lazy_disk import lazy_disk
from watersmeet.adapt.policies.balance.load import BalanceView, take_bytes
from watersmeet.adapt.policies.balance.relocation import out_of_balance

RATES = 2.0  # theta_f
SHARE = 0.3  # of what the slot holds, at once


def active_disk(view: BalanceView, threshold: float) -> MoveGroups | SpillGroups | None:
    if view.capacity_bytes is None or out_of_balance(view, threshold):
        return lazy_disk(view, threshold)
    best, worst = view.pair(lambda slot: slot.rate)
    if best.rate <= RATES * worst.rate:
        return None
    there = sum(slot.bytes for slot in view.slots) + view.cold_bytes
    allowed = there - view.capacity_bytes * len(view.slots) - view.cold_bytes
    most = min(allowed, SHARE * worst.bytes)
    ordered = sorted(view.of_slot[worst.number], key=lambda piece: (-piece.size_by_output, piece.key))
    chosen = take_bytes(ordered, most)
    if not chosen:
        return None
    reason = (
        f"slot {worst.number} has {worst.rate:.3g} results a group and slot {best.number} {best.rate:.3g}: "
        f"{sum(piece.bytes for piece in chosen):,} bytes make room, of {int(allowed):,} that may"
    )
    return SpillGroups(tuple(piece.key for piece in chosen), reason)
