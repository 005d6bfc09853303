"""`time`: level the seconds of slots, for a batch takes as long as its slowest slot. Ours.

The seconds of a slot are shared out to its groups by the rows that come and the results that are made. From the slot
that takes longest a group goes to the one that is done first, the one that leaves the longer of the two shortest; again
and again, until the slots are within the threshold or no group helps. A slot that works more slowly takes longer for
the same group: by its weight, or by what it has done in a second lately, if it had enough to do.

Seconds are those of the clock on Spark, where a slow machine shows in nothing else, and of the CPU in one process: its
threads wait for each other and for the machine. With 2 slots of 3 : 1 rows and both cores taken by others tasks took
3.3 : 1 seconds of CPU and 2.7 : 1 by the clock, and of four slots with 3 : 1 : 1 : 1 rows 4.0 : 1.0 : 0.8 : 1.2 and
3.2 : 1.0 : 0.7 : 0.8; in batches of 10,000 rows, 1.5 : 1 and 4.6 : 1, with 5 ms a task.

It moves only what pays: the longest slot is shorter by `LEAST` of its time, and what that saves in the batches that
figures are expected to last is more than reading the rows elsewhere takes. A group that is longer than what differs
cannot help whole: it is cut in two where it has several keys. What takes that long for one key is spread over all slots
(`model/spread.py`), and drawn together when it has cooled to where it is one group among others.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.adapt.decisions.place import DrawTogether, MoveGroups
from watersmeet.adapt.policies.balance.load import BalanceView, CutWanted, Moved, Piece, SpreadWanted
from watersmeet.state.learned import BALANCE, Trial

LEAST = 0.1
SECONDS = "seconds"  # of the slot that takes longest
READ_BYTES = 400e6  # in a second
LEAST_SECONDS = 0.005  # a batch that takes less is not worth a thought
MOST_MOVES = 200
SLOWEST = 4.0  # a slot is not taken to be slower, or faster, than the others by more than this
# The share of the most work of a slot from which on what another takes tells how fast it is: any task takes some
# milliseconds, however little there is to do. Half of what the slowest has where all take equally long.
TELLING = 1 / (2 * SLOWEST)
HOT = 0.5  # the share of the time of the slowest slot from which on a group is cut or spread
COOL = 0.25  # the share of what a slot takes on average below which one is drawn together: far from `HOT`, to and fro

Decided = MoveGroups | DrawTogether | CutWanted | SpreadWanted


def level_seconds(view: BalanceView, threshold: float) -> Decided | None:
    seconds = {slot.number: slot.seconds for slot in view.slots}
    longest = max(seconds.values())
    if longest < LEAST_SECONDS:
        return None
    if (cooled := _cooled(view)) is not None:
        return cooled
    if min(seconds.values()) >= threshold * longest:
        return None
    moved, after = _level(view, threshold)
    saved = longest - max(after.values())
    if saved < LEAST * longest:
        return _hot(view, longest)
    bytes = sum(piece.bytes for piece, _ in moved)
    price, gained = bytes / READ_BYTES, saved * view.batches
    if gained <= price:
        return None
    slowest = max(seconds, key=lambda number: seconds[number])
    reason = (
        f"slot {slowest} takes {longest:.3g} s of a batch and another {min(seconds.values()):.3g} s: {len(moved)} "
        f"groups go over, and the longest takes {max(after.values()):.3g} s; that saves {gained:.3g} s in the "
        f"{view.batches} batches expected, and costs {price:.2g} s"
    )
    moves = tuple((piece.operator, piece.group, slot) for piece, slot in moved)
    trial = _trial(view, f"{len(moves)} groups", longest, max(after.values()))
    return MoveGroups(moves, view.next_batch, reason, trial)


def _trial(view: BalanceView, what: str, longest: float, expected: float) -> Trial:
    return Trial(BALANCE, what, view.next_batch, {SECONDS: longest}, {SECONDS: expected})


def _level(view: BalanceView, threshold: float) -> tuple[list[Moved], dict[int, float]]:
    """The moves, and what slots take after them."""
    speeds = _speeds(view)
    seconds = {slot.number: slot.seconds for slot in view.slots}
    held = {
        number: {piece: _seconds(view, piece, number) for piece in pieces if not piece.spread}
        for number, pieces in view.of_slot.items()
    }
    to: dict[Piece, int] = {}
    for _ in range(MOST_MOVES):
        sender = max(seconds, key=lambda number: (seconds[number], -number))
        movable = [piece for piece, took in held[sender].items() if took > 0]
        open_to = [number for number in seconds if any(piece.may_go_to(number) for piece in movable)]
        receiver = min(open_to or seconds, key=lambda number: (seconds[number], number))
        if seconds[receiver] >= threshold * seconds[sender]:
            break
        slower = speeds[sender] / speeds[receiver]

        def longer(piece: Piece, sender: int = sender, receiver: int = receiver, slower: float = slower) -> float:
            took = held[sender][piece]
            return max(seconds[sender] - took, seconds[receiver] + took * slower)

        able = [piece for piece in movable if piece.may_go_to(receiver)]
        best = min(able, key=lambda piece: (longer(piece), piece.key), default=None)
        if best is None or longer(best) >= seconds[sender]:
            break
        took = held[sender].pop(best)
        seconds[sender] -= took
        seconds[receiver] += took * slower
        held[receiver][best] = took * slower
        to[best] = receiver
    return [(piece, slot) for piece, slot in to.items() if piece.slot != slot], seconds


def _seconds(view: BalanceView, piece: Piece, slot: int) -> float:
    """That a piece takes of the seconds of a slot which works on it."""
    work = sum(other.work_each for other in view.worked_on_by[slot])
    return view.slots[slot].seconds * piece.work_each / work if work else 0.0


def _speeds(view: BalanceView) -> dict[int, float]:
    """How fast slots are: as a user has said, or by the work that they do in a second."""
    if any(slot.weight != 1.0 for slot in view.slots):
        return {slot.number: slot.weight for slot in view.slots}
    work = {number: sum(piece.work_each for piece in pieces) for number, pieces in view.worked_on_by.items()}
    most = max(work.values())
    known = {
        slot.number: work[slot.number] / slot.seconds
        for slot in view.slots
        if slot.seconds and most and work[slot.number] >= TELLING * most
    }
    usual = sorted(known.values())[len(known) // 2] if known else 0.0
    if not usual:  # next to no work in a second comes to none at all
        return {slot.number: 1.0 for slot in view.slots}
    return {slot.number: min(SLOWEST, max(1 / SLOWEST, known.get(slot.number, usual) / usual)) for slot in view.slots}


def _hot(view: BalanceView, longest: float) -> CutWanted | SpreadWanted | None:
    """A group that takes most of the time of the slowest slot: its keys are shared out, or the rows of its one key."""
    slowest = max(view.slots, key=lambda slot: (slot.seconds, -slot.number)).number
    able = [
        piece
        for piece in view.worked_on_by[slowest]
        if piece.keys > 0  # nobody counts those of a routed join, which is neither cut nor spread
        and len(piece.slots) < len(view.slots)
        and _seconds(view, piece, slowest) >= HOT * longest
    ]
    hottest = max(able, key=lambda piece: (piece.work_each, piece.key), default=None)
    if hottest is None:
        return None
    share = _seconds(view, hottest, slowest) / longest
    reason = f"it takes {share:.0%} of the {longest:.3g} s of slot {slowest}"
    if hottest.narrow or hottest.spread:
        return _spread(view, hottest, longest, reason)
    return CutWanted(hottest.operator, hottest.group, f"{reason}, and cannot help another whole")


def _spread(view: BalanceView, piece: Piece, longest: float, reason: str) -> SpreadWanted | None:
    """Over all slots, if the slowest of them is then so much faster that it pays.

    What slots have done in a second is not looked at: beside a hot key the others have little to do, and seem slow by
    what any task takes.
    """
    numbers = tuple(slot.number for slot in view.slots)
    took = {number: _seconds(view, piece, number) for number in piece.slots}
    each = sum(seconds * view.slots[number].weight for number, seconds in took.items()) / len(numbers)
    expected = max(slot.seconds - took.get(slot.number, 0.0) + each / slot.weight for slot in view.slots)
    if longest - expected < LEAST * longest:
        return None
    reason = (
        f"{reason} and is hardly more than one key: dealt out over {len(numbers)} slots, it leaves the longest of them "
        f"{expected:.3g} s"
    )
    trial = _trial(view, f"a spread of {view.title(piece)}", longest, expected)
    return SpreadWanted(piece.operator, piece.group, numbers, reason, trial)


def _cooled(view: BalanceView) -> DrawTogether | None:
    """A group that is spread, and would be one among others of a slot."""
    usual = sum(slot.seconds for slot in view.slots) / len(view.slots)
    for piece in view.pieces:
        takes = sum(_seconds(view, piece, slot) for slot in piece.spread)
        if piece.spread and takes < COOL * usual:
            reason = f"all of it takes {takes:.3g} s of a batch, {takes / usual:.0%} of what a slot takes on average"
            owner = next(slot for slot in view.slots if slot.number == piece.slot)
            alone = owner.seconds + takes - _seconds(view, piece, piece.slot)
            longest = max(slot.seconds for slot in view.slots)
            trial = _trial(view, f"{view.title(piece)} drawn together", longest, max(longest, alone))
            trial = replace(trial, notes={"seconds_taken": takes})
            return DrawTogether(piece.operator, piece.group, view.next_batch, reason, trial)
    return None
