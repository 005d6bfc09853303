"""`relocate`: level the memory of slots, a pair at a time ([Liu05] 5.1, [Zhu06] 20.3).

Where the least loaded slot has less than `threshold` of what the most loaded one has (M_l/M_m), half of the difference
goes over to it. The largest groups go first, so that few do. Not while nobody has much to bear (C_max: `least_bytes`,
or half of what a slot may have), nor where the receiver has no room either (C_min); what differs by little (C_diff) is
within the threshold.

Departure: the papers stop the input of the groups, wait for what is on its way, and send the rows to the other machine,
in eight steps. Here it is one commit between two batches, and the rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from watersmeet.adapt.decisions.place import MoveGroups
from watersmeet.adapt.policies.balance.load import BalanceView, Piece, Slot, after_moves, take_bytes
from watersmeet.state.learned import BALANCE, Trial

LEAST_BYTES = 1 << 20  # that a slot must have before anything is worth a move, where there is no limit
MOST_BYTES, BYTES = "most_bytes", "bytes"  # in memory of one slot, and of all
LEAST_SHARE = 0.5  # of what it may have, where there is one

Order = Callable[[Piece], tuple[float, ...]]
Load = Callable[[Slot], float]  # of a slot, in bytes


def relocate(view: BalanceView, threshold: float) -> MoveGroups | None:
    return level_bytes(view, threshold, bytes_of, lambda piece: (-piece.bytes,), view.pieces, "the largest groups")


def bytes_of(slot: Slot) -> float:
    """That a slot has in memory."""
    return slot.bytes


def level_bytes(
    view: BalanceView, threshold: float, load: Load, order: Order, allowed: Sequence[Piece], what: str
) -> MoveGroups | None:
    """Move those of `allowed` that come first, up to half of the difference."""
    sender, receiver = view.pair(load)
    if not out_of_balance(view, threshold, load):
        return None
    wanted = (load(sender) - load(receiver)) / 2
    candidates = [piece for piece in allowed if piece.slot == sender.number]
    chosen = take_bytes(sorted(candidates, key=lambda piece: (*order(piece), piece.key)), wanted)
    if not chosen:
        return None
    then = after_moves(view, [(piece, receiver.number) for piece in chosen])
    most, least = then.pair(bytes_of)
    moved = sum(piece.bytes for piece in chosen)
    reason = (
        f"slot {sender.number} has {sender.bytes:,} bytes and slot {receiver.number} {receiver.bytes:,}, "
        f"{receiver.bytes / max(1, sender.bytes):.0%} of that: {moved:,} go over, {what}, and it is "
        f"{least.bytes / most.bytes:.0%}"
    )
    before = {MOST_BYTES: float(sender.bytes), BYTES: float(sum(slot.bytes for slot in view.slots))}
    moves = tuple((piece.operator, piece.group, receiver.number) for piece in chosen)
    trial = Trial(BALANCE, f"{len(moves)} groups", view.next_batch, before, {MOST_BYTES: float(most.bytes)})
    return MoveGroups(moves, view.next_batch, reason, trial)


def out_of_balance(view: BalanceView, threshold: float, load: Load = bytes_of) -> bool:
    """Whether the memory of slots is to be levelled."""
    sender, receiver = view.pair(load)
    limit, least = view.capacity_bytes, view.least_bytes
    if least is None:
        least = LEAST_BYTES if limit is None else int(LEAST_SHARE * limit)
    if load(sender) < least or (limit is not None and load(receiver) >= limit):
        return False
    return load(receiver) < threshold * load(sender)
