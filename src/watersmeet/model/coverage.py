"""Several copies of each row in slices of time, and which of them a visit goes to: coordinated tuple routing (ctr).

Copies. The line that slices lie on (`slices.py`) is folded: a place p on it is y = p // copies, and the copies of a row
lie at y, y + step, y + 2 step and so on, where step is 2**64 // copies. Where slots own neighbouring groups, as many or
more than there are copies, these lie in different slots.

Coverage. Groups cut the fold, the places from 0 to step, into stretches whose copies each have one owner. Of the slots
some are chosen that together own a copy of every stretch: the one that has most of what is missing first, and so on, a
greedy set cover. What lies in the first of them that has a copy *serves*, and nothing else is met. So each row is met
once, as one of its copies serves, and a visit goes to the chosen slots alone; of n slots that are placed evenly n /
copies are enough.

Turns. If all visits took the same slots, the others would have nothing to do. Rows take *turns*, as many as there are
slots: the turn of a row is the number of its slice, modulo that, and with each turn another slot is chosen first among
those that have as much. Who serves follows from the placement and the turn alone, so that sender and receiver agree.

After [Wang09, section 7], with copies where times say, not where rows have happened to go: what is chosen there for a
segment of rows, from where those before it went, is chosen here for a turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from watersmeet.model.bounds import HASH_END
from watersmeet.model.routing import Routing
from watersmeet.model.slices import Int64Array, UInt64Array

HashRange = tuple[int, int]


def copy_step(copies: int) -> int:
    """How far apart the copies of a row lie; the first of them lies before that."""
    return HASH_END // copies


def folded(places: UInt64Array, copies: int) -> UInt64Array:
    """Where the first copies of rows lie whose places on the line are these.

    >>> folded(np.array([0, 7, 2**64 - 1], np.uint64), 3).tolist() == [0, 2, 2**64 // 3 - 1]
    True
    """
    first: UInt64Array = np.minimum(places // np.uint64(copies), np.uint64(copy_step(copies) - 1))
    return first


def copy_places(places: UInt64Array, copies: int) -> tuple[Int64Array, UInt64Array]:
    """The row and the place of each copy of rows whose places on the line are these."""
    shifts = np.arange(copies, dtype=np.uint64) * np.uint64(copy_step(copies))
    spread = folded(places, copies)[:, np.newaxis] + shifts
    return np.repeat(np.arange(len(places)), copies), spread.reshape(-1)


@dataclass(frozen=True)
class Coverage:
    """Who serves in one turn: for each stretch of the fold, which begin at `starts`, the slot; and all that serves."""

    starts: UInt64Array
    slots: Int64Array
    serving: tuple[HashRange, ...]  # in order, of the whole line


def turns_of(slices: Int64Array, slots: int) -> Int64Array:
    """The turns of rows in slices of these numbers."""
    return slices % slots


@lru_cache(maxsize=256)
def cover(routing: Routing, copies: int, turn: int) -> Coverage:
    """Who serves in a turn.

    >>> from watersmeet.model.bounds import Bounds
    >>> even = Routing.even(Bounds(8), 4)
    >>> [cover(even, 2, turn).slots.tolist() for turn in range(4)]
    [[0, 0, 1, 1], [2, 2, 1, 1], [2, 2, 3, 3], [0, 0, 3, 3]]
    >>> cover(Routing(2, (0, 0, 1, 0), Bounds(4)), 2, 1).slots.tolist()  # slot 0 has a copy of everything
    [0, 0]
    """
    step = copy_step(copies)
    begins = {routing.bounds.hash_start(group) % step for group in range(routing.groups)}
    starts, ends = sorted({0, *begins}), [*sorted({0, *begins})[1:], step]
    # Whole numbers, so that all machines agree, which let go of what rounding makes of groups of one width.
    lengths = np.array([(high - low) >> 16 for low, high in zip(starts, ends, strict=True)])
    places = np.array(starts, dtype=np.uint64)[:, np.newaxis] + np.arange(copies, dtype=np.uint64) * np.uint64(step)
    owners = np.array(routing.owners)[routing.bounds.groups_of(places.reshape(-1))].reshape(places.shape)
    chosen = _chosen(owners, lengths, routing.slots, turn)
    copy = np.argmax(owners == chosen[:, np.newaxis], axis=1)
    shifted = ((low, high, number * step) for low, high, number in zip(starts, ends, copy.tolist(), strict=True))
    serving = _joined(sorted((low + shift, high + shift) for low, high, shift in shifted))
    return Coverage(np.array(starts, dtype=np.uint64), chosen, serving)


def _chosen(owners: Int64Array, lengths: Int64Array, slots: int, turn: int) -> Int64Array:
    """For each stretch with so many owners the slot that serves it, of as few as a greedy search finds."""
    chosen = np.full(len(owners), -1, dtype=np.int64)
    has = [(owners == slot).any(axis=1) for slot in range(slots)]
    in_turn = [(turn + place) % slots for place in range(slots)]
    while (missing := chosen < 0).any():
        found = [missing & has[slot] for slot in in_turn]
        most = max(range(slots), key=lambda place: (int(lengths[found[place]].sum()), bool(found[place].any())))
        chosen[found[most]] = in_turn[most]  # of equals the first
    return chosen


def _joined(ranges: list[HashRange]) -> tuple[HashRange, ...]:
    """Ranges in order, neighbours put together."""
    found: list[HashRange] = []
    for low, high in ranges:
        if found and found[-1][1] == low:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return tuple(found)
