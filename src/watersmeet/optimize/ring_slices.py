"""Which slot of a ring holds which slices: balance by rows. Pure.

After [Wang09], 5.5 and 6. Slices are listed from the newest to the oldest; a slot is its place in the ring, 0 the head.
The work of a slot is in proportion to the rows that it holds, so rows are what is balanced.

Where rows move from the head to the tail as they age, as in the paper, a slot holds a run of slices: `even_runs`. Where
rows stay and new slices go to the next slot (`model/slices.py`), a slot holds any set of them: `level`. It keeps what
it can where it is, so that a fourth slot gets a quarter of the rows and no other row moves; along a ring half of all
rows move, since each slot hands on to its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

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
