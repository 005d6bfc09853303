"""What policies of balance see: slots with their loads, and the pieces of work that may go from one to another.

A piece is a group of a partitioning, with what all operators on it hold and do: it is moved as one. Of routed joins see
`routed.py`.

The most and the least loaded slot are a pair, as in [Liu05] and [Zhu06]: the *sender* and the *receiver*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from watersmeet.model.ids import GroupKey, OperatorName, Partitioning
from watersmeet.state.learned import Trial

Moved = tuple["Piece", int]  # with the slot that it goes to


@dataclass(frozen=True)
class Piece:
    operator: OperatorName  # one on its partitioning, which it is named by; of routed joins, the partitioning itself
    partitioning: Partitioning
    group: int
    slot: int
    bytes: int = 0  # in memory
    work: float = 0.0  # recent: rows that come and results that are made, in a batch
    output: float = 0.0  # recent: results of the query in a batch
    cold: bool = False  # it has closed generations
    keys: float = 0.0  # distinct
    narrow: bool = False  # it is hardly more than one key, or is not to be cut any more
    spread: tuple[int, ...] = ()  # the slots that work on it, where these are several
    among: int | None = None  # it may lie in the first so many slots alone, as a ring does; None: in any

    def may_go_to(self, slot: int) -> bool:
        return self.among is None or slot < self.among

    @property
    def key(self) -> GroupKey:
        return self.operator, self.group

    @property
    def slots(self) -> tuple[int, ...]:
        return self.spread or (self.slot,)

    @property
    def work_each(self) -> float:
        """Of each slot that works on it."""
        return self.work / len(self.slots)

    @property
    def size_by_output(self) -> float:
        """Bytes for each result, [Liu05]'s P_s/P_o: the more, the less productive."""
        return self.bytes / self.output if self.output else float("inf")


@dataclass(frozen=True)
class Slot:
    number: int
    bytes: int = 0  # in memory
    seconds: float = 0.0  # recent: that its tasks take in a batch
    output: float = 0.0  # recent: results of the query in a batch, of its groups
    groups: int = 0
    weight: float = 1.0  # its strength, where a user has said so
    cold_bytes: int = 0

    @property
    def rate(self) -> float:
        """Results for each group ([Liu05]: of the number of groups, not of their bytes)."""
        return self.output / self.groups if self.groups else 0.0


@dataclass(frozen=True)
class CutWanted:
    """A group is to be cut in two, wherever that is best; whoever knows its hashes makes a `CutGroup` of it."""

    operator: OperatorName
    group: int
    reason: str


@dataclass(frozen=True)
class SpreadWanted:
    """A group is to be spread, by whichever input is best; whoever knows what comes makes a `SpreadGroup` of it."""

    operator: OperatorName
    group: int
    slots: tuple[int, ...]
    reason: str
    trial: Trial


@dataclass(frozen=True)
class BalanceView:
    """After a batch. `capacity_bytes` is what a slot may hold in memory, None for no limit."""

    next_batch: int
    slots: tuple[Slot, ...]
    pieces: tuple[Piece, ...]
    capacity_bytes: int | None = None
    least_bytes: int | None = None  # that a slot must hold before memory is levelled; None: the policy's own
    expected_bytes: int = 0  # that the state will come to, in memory and cold
    pushed_bytes: int = 0  # that slots were made to spill for others, and are cold
    rates: float = 2.0  # times as many results a group, from which on a slot is made to spill for another
    labels: tuple[tuple[OperatorName, str], ...] = ()
    batches: int = 1  # that what is measured is expected to last

    @cached_property
    def of_slot(self) -> dict[int, tuple[Piece, ...]]:
        """The pieces of each slot, by operator and number."""
        held: dict[int, list[Piece]] = {slot.number: [] for slot in self.slots}
        for piece in sorted(self.pieces, key=lambda piece: piece.key):
            held[piece.slot].append(piece)
        return {number: tuple(found) for number, found in held.items()}

    def wanted_bytes(self, slot: Slot) -> float:
        """That a slot would have in memory had it not spilled, as far as it may.

        Room that a spill has just made is no room to spare: the slot that has it will fill it again.
        """
        return slot.bytes if self.capacity_bytes is None else min(slot.bytes + slot.cold_bytes, self.capacity_bytes)

    @cached_property
    def worked_on_by(self) -> dict[int, tuple[Piece, ...]]:
        """The pieces that each slot works on, its own and those that are spread."""
        held: dict[int, list[Piece]] = {slot.number: [] for slot in self.slots}
        for piece in sorted(self.pieces, key=lambda piece: piece.key):
            for slot in piece.slots:
                held[slot].append(piece)
        return {number: tuple(found) for number, found in held.items()}

    def pair(self, load: Callable[[Slot], float]) -> tuple[Slot, Slot]:
        """The slots with most and with least to bear; of equal ones the first."""
        ordered = sorted(self.slots, key=lambda slot: (load(slot), slot.number))
        return max(ordered, key=load), ordered[0]

    def title(self, piece: Piece) -> str:
        return f"{dict(self.labels).get(piece.operator, piece.operator)}:{piece.group}"


def take_bytes(ordered: Iterable[Piece], most: float) -> list[Piece]:
    """The first of them, without those that would make it more than so many bytes."""
    chosen: list[Piece] = []
    left = most
    for piece in ordered:
        if 0 < piece.bytes <= left:
            chosen.append(piece)
            left -= piece.bytes
    return chosen


def after_moves(view: BalanceView, moved: Iterable[Moved]) -> BalanceView:
    """As it would be by bytes, output and groups."""
    to = {(piece.partitioning, piece.group): slot for piece, slot in moved}
    pieces = tuple(replace(piece, slot=to.get((piece.partitioning, piece.group), piece.slot)) for piece in view.pieces)
    change = {slot.number: [0, 0.0, 0] for slot in view.slots}
    for before, after in zip(view.pieces, pieces, strict=True):
        for slot, sign in ((before.slot, -1), (after.slot, 1)) if before.slot != after.slot else ():
            change[slot][0] += sign * before.bytes
            change[slot][1] += sign * before.output
            change[slot][2] += sign
    slots = tuple(
        replace(
            slot,
            bytes=slot.bytes + int(change[slot.number][0]),
            output=slot.output + change[slot.number][1],
            groups=slot.groups + int(change[slot.number][2]),
        )
        for slot in view.slots
    )
    return replace(view, slots=slots, pieces=pieces)
