"""Which slot of a ring holds which slices: balance by rows, smoothing by count, longer and shorter rings. Pure.

After [Wang09], 5.5 and 6. Slices are listed from the newest to the oldest; a slot is its place in the ring, 0 the head.
The work of a slot is in proportion to the rows that it holds, so rows are what is balanced.

The functions come in two families. Where rows move from the head to the tail as they age, as in the paper, a slot holds
a run of slices: `even_runs`, `smooth`, `aged_owners`, `Relocation`. Where rows stay and new slices go to the next slot
(`model/slices.py`), a slot holds any set of them: `level`. It keeps what it can where it is, so that a fourth slot gets
a quarter of the rows and no other row moves; along a ring half of all rows move, since each slot hands on to its
neighbour.

None of them keeps the windows. A slot that is smoothed by count holds rows that have expired when rates fall (the paper
has the tail alone see to that): windows have to be checked at every probe.

Departures: a new slot j follows the least k with k * added / slots >= j; the paper has > there, which has no solution
for the last one. Moves are worked out from what slots have before and after, since the paper's formula leaves out what
goes into a new slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import ceil

import numpy as np
import numpy.typing as npt

from watersmeet.errors import JobError

Owners = tuple[int, ...]  # of each slice, a slot
IntArray = npt.NDArray[np.int64]


def even_runs(rows: Sequence[int], slots: int) -> Owners:
    """Slices in runs, one for each slot from the head on, with about as many rows each (5.5).

    A slice goes where its middle row does, so that no slot is off by more than a slice.

    >>> even_runs((5, 5, 10, 10, 10), 4)
    (0, 0, 1, 2, 3)
    >>> even_runs((0, 0), 2)
    (0, 1)
    """
    if not len(rows):
        return ()
    counts = np.asarray(rows, dtype=np.float64)
    if not counts.sum():
        counts = np.ones(len(rows))
    middles = np.cumsum(counts) - counts / 2
    return tuple(np.minimum((middles * slots / counts.sum()).astype(np.int64), slots - 1).tolist())


def count_bound(rows: Sequence[int], slots: int) -> int:
    """The most rows that a slot but the tail may hold, so that all have as many.

    >>> count_bound((5, 5, 10, 11), 3)
    11
    """
    return ceil(Fraction(int(sum(rows)), slots))


def smooth(rows: Sequence[int], owners: Owners, bound: int) -> Owners:
    """Workload smoothing by count: a slot that holds more than `bound` rows hands its oldest slices on, from the head
    on; the tail, the last slot that has any, keeps what comes. Rows never move towards the head.

    >>> smooth((8, 4, 4, 4, 4), (0, 0, 1, 1, 2), 8)
    (0, 1, 1, 2, 2)
    """
    after = list(owners)
    tail = max(owners, default=0)
    held = [0] * (tail + 1)
    for place, (count, owner) in enumerate(zip(rows, owners, strict=True)):
        slot = max(owner, after[place - 1] if place else 0)
        while slot < tail and held[slot] and held[slot] + count > bound:
            slot += 1
        held[slot] += count
        after[place] = slot
    return tuple(after)


def level(rows: Sequence[int], owners: Owners, slots: int) -> Owners:
    """The same rows over `slots` slots, few of them in another one than before: a slot keeps as many as its share is,
    the newest first, and what is beyond goes, the largest first, to those that hold least. One that is no more keeps
    none.

    >>> level((4,) * 12, (0, 1, 2) * 4, 4)
    (0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 3, 3)
    >>> level((4,) * 4, (0, 1, 2, 2), 2)
    (0, 1, 0, 1)
    """
    share = Fraction(int(sum(rows)), slots)
    after, held, rest = list(owners), [0] * slots, []
    for place, (count, owner) in enumerate(zip(rows, owners, strict=True)):
        if owner < slots and held[owner] + count <= share:
            held[owner] += count
        else:
            rest.append(place)
    for place in sorted(rest, key=lambda place: (-rows[place], place)):
        to = min(range(slots), key=lambda slot: (held[slot], slot != owners[place], slot))
        held[to] += rows[place]
        after[place] = to
    return tuple(after)


def rows_held(rows: Sequence[int], owners: Owners, slots: int) -> tuple[int, ...]:
    """
    >>> rows_held((8, 4, 4), (0, 1, 1), 3)
    (8, 8, 0)
    """
    return (
        tuple(np.bincount(owners, weights=rows, minlength=slots).astype(np.int64).tolist()) if owners else (0,) * slots
    )


# --- longer and shorter rings -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Relocation:
    """From one length to another at once (aggressive).

    `ring` has the slots from head to tail while rows move, new ones numbered after the old (`leaving` says which go);
    `moves` what each but the last hands on to the next, as a share of the window: below 0 where it goes to the head.
    """

    ring: tuple[int, ...]
    moves: tuple[Fraction, ...]

    @property
    def moved(self) -> Fraction:
        """Rows that change slots, as a share of all; one that goes over two counts twice."""
        return sum(map(abs, self.moves), Fraction(0))


def relocate(before: int, after: int) -> Relocation:
    """Longer or shorter by whole slots, each with an even share before and after.

    >>> longer = relocate(3, 4)
    >>> longer.ring, [str(share) for share in longer.moves]
    ((0, 1, 2, 3), ['1/12', '1/6', '1/4'])
    >>> relocate(4, 3).moved == longer.moved
    True
    """
    _check_lengths(before, after)
    if after < before:
        longer = relocate(after, before)
        return Relocation(tuple(range(before)), tuple(-share for share in longer.moves))
    added = after - before
    ring: list[int] = []
    for slot in range(before):
        ring.append(slot)
        # After the slot with the number k (from 1): new slots j with k the least such that k * added / before >= j.
        ring.extend(range(before + added * slot // before, before + added * (slot + 1) // before))
    gains = (Fraction(1, before) * (slot < before) - Fraction(1, after) for slot in ring)
    return Relocation(tuple(ring), tuple(accumulate(gains))[:-1])


def leaving(before: int, after: int) -> tuple[int, ...]:
    """The places of the slots that a ring loses when it is made shorter: where new ones would come in.

    >>> leaving(4, 3), leaving(6, 3)
    ((3,), (1, 3, 5))
    """
    _check_lengths(before, after)
    longer = relocate(after, before) if after < before else Relocation((), ())
    return tuple(place for place, slot in enumerate(longer.ring) if slot >= after)


def aged_owners(ages: Sequence[float], window: float, elapsed: float, before: int, after: int) -> IntArray:
    """From one length to another as slices age (passive): the slot of each, `elapsed` seconds after the change.

    What came since goes by the new widths, what was there by the old ones, so that nothing moves that would not have
    moved anyway. After a window all is as it is to be.

    >>> ages = (0, 2.9, 3.1, 11.9)  # of a window of 12 s
    >>> aged_owners(ages, 12, 0, 3, 4).tolist(), aged_owners(ages, 12, 3.5, 3, 4).tolist()
    ([0, 0, 0, 2], [0, 0, 1, 2])
    >>> aged_owners(ages, 12, 12, 3, 4).tolist()
    [0, 0, 1, 3]
    """
    _check_lengths(before, after)
    old = np.asarray(ages, dtype=np.float64)
    slots = np.where(old <= elapsed, after, before)
    places: IntArray = np.minimum((old * slots / window).astype(np.int64), slots - 1)
    return places


def _check_lengths(before: int, after: int) -> None:
    if before < 1 or after < 1:
        raise JobError(f"a ring of {min(before, after)} slots cannot be", detail="It has at least one.")
