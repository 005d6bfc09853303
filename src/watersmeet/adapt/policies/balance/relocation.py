"""`relocate`: level the memory of slots, a pair at a time ([Liu05] 5.1, [Zhu06] 20.3).

Where the least loaded slot has less than `threshold` of what the most loaded one has (M_l/M_m), half of the difference
goes over to it. The largest groups go first, so that few do. Not while nobody has much to bear (C_max), nor where the
receiver has no room either (C_min); what differs by little (C_diff) is within the threshold.

Departure: the papers stop the input of the groups, wait for what is on its way, and send the rows to the other machine,
in eight steps. Here it is one commit between two batches, and the rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from watersmeet.adapt.decisions import MoveGroups
from watersmeet.adapt.policies.balance.load import BalanceView, Piece, Slot, after_moves, take_bytes

LEAST_BYTES = 1 << 20  # that a slot must have before anything is worth a move, where there is no limit
LEAST_SHARE = 0.5  # of what it may have, where there is one

Order = Callable[[Piece], tuple[float, ...]]


def relocate(view: BalanceView, threshold: float) -> MoveGroups | None:
    return level_bytes(view, threshold, lambda piece: (-piece.bytes,), view.pieces, "the largest groups")


def level_bytes(
    view: BalanceView, threshold: float, order: Order, allowed: Sequence[Piece], what: str
) -> MoveGroups | None:
    """Move those of `allowed` that come first, up to half of the difference."""
    sender, receiver = view.pair(_bytes)
    if not out_of_balance(view, threshold):
        return None
    wanted = (sender.bytes - receiver.bytes) / 2
    candidates = [piece for piece in allowed if piece.slot == sender.number]
    chosen = take_bytes(sorted(candidates, key=lambda piece: (*order(piece), piece.key)), wanted)
    if not chosen:
        return None
    then = after_moves(view, [(piece, receiver.number) for piece in chosen])
    most, least = then.pair(_bytes)
    moved = sum(piece.bytes for piece in chosen)
    reason = (
        f"slot {sender.number} has {sender.bytes:,} bytes and slot {receiver.number} {receiver.bytes:,}, "
        f"{receiver.bytes / sender.bytes:.0%} of that: {moved:,} go over, {what}, and it is "
        f"{least.bytes / most.bytes:.0%}"
    )
    figures = {"most_bytes": float(sender.bytes), "most_bytes_expected": float(most.bytes)}
    moves = tuple((piece.operator, piece.group, receiver.number) for piece in chosen)
    return MoveGroups(moves, view.next_batch, reason, figures)


def out_of_balance(view: BalanceView, threshold: float) -> bool:
    """Whether the memory of slots is to be levelled."""
    sender, receiver = view.pair(_bytes)
    limit = view.capacity_bytes
    if limit is None:
        return sender.bytes >= LEAST_BYTES and receiver.bytes < threshold * sender.bytes
    if sender.bytes < LEAST_SHARE * limit or receiver.bytes >= limit:
        return False
    return receiver.bytes < threshold * sender.bytes


def _bytes(slot: Slot) -> float:
    return slot.bytes
