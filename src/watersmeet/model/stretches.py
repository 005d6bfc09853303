"""Where the times of rows lie: stretches of time with rows, and how far they go on without a gap.

A stretch is a run of times of which each is at most `gap` after the one before; between two stretches there is more.
Stretches of parts of the rows unite to those of all rows, exactly, in any order. That is all that has to be known of
the rows of a batch to tell up to when they follow what was there before: see `reach_us`.

Pure data and functions. Nothing here knows of streams or of clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Stretch(NamedTuple):
    """The times from `first_us` to `last_us`, both of them those of rows, and how many rows there are."""

    first_us: int
    last_us: int
    rows: int


def find_stretches(times_us: npt.NDArray[np.int64], gap_us: int) -> list[Stretch]:
    """The stretches of these times, in order.

    >>> find_stretches(np.array([70, 3, 5, 4]), 10)
    [Stretch(first_us=3, last_us=5, rows=3), Stretch(first_us=70, last_us=70, rows=1)]
    """
    if not len(times_us):
        return []
    first, last = int(times_us.min()), int(times_us.max())
    if last - first <= gap_us:  # as of most batches
        return [Stretch(first, last, len(times_us))]
    ordered = np.sort(times_us)
    # As unsigned numbers, which the distance between the ends of 64 bits fits into.
    steps = ordered[1:].view(np.uint64) - ordered[:-1].view(np.uint64)
    ends = np.flatnonzero(steps > gap_us)
    firsts = np.concatenate([[0], ends + 1])
    lasts = np.concatenate([ends, [len(ordered) - 1]])
    counts = lasts - firsts + 1
    return [
        Stretch(first, last, count)
        for first, last, count in zip(ordered[firsts].tolist(), ordered[lasts].tolist(), counts.tolist(), strict=True)
    ]


def unite_stretches(parts: Iterable[Stretch], gap_us: int) -> list[Stretch]:
    """The stretches of all of these together, in order; none of the parts has a longer gap in it.

    >>> unite_stretches([Stretch(70, 75, 2), Stretch(1, 9, 4), Stretch(5, 19, 3)], 10)
    [Stretch(first_us=1, last_us=19, rows=7), Stretch(first_us=70, last_us=75, rows=2)]
    """
    united: list[Stretch] = []
    for part in sorted(parts):
        if united and part.first_us - united[-1].last_us <= gap_us:
            before = united.pop()
            part = Stretch(before.first_us, max(before.last_us, part.last_us), before.rows + part.rows)
        united.append(part)
    return united


def reach_us(stretches: Sequence[Stretch], gap_us: int, since_us: int | None) -> int | None:
    """How far one comes from `since_us` by going from row to row, with no step longer than `gap_us`.

    `stretches` were found with a gap that is no longer. Where there is nothing to go on from, it is from where most of
    the rows lie, the earlier if in doubt. None if there are no rows either.

    >>> rows = [Stretch(10, 20, 5), Stretch(40, 50, 5), Stretch(900, 900, 1)]
    >>> [reach_us(rows, 30, since) for since in (0, 15, 950, None)]
    [50, 50, 950, 50]
    >>> [reach_us(rows, 15, since) for since in (0, 25, 950, None)]
    [20, 50, 950, 20]
    """
    if since_us is None:
        if not stretches:
            return None
        since_us = max(unite_stretches(stretches, gap_us), key=lambda stretch: stretch.rows).last_us
    for stretch in sorted(stretches):
        if stretch.first_us - since_us > gap_us:
            break
        since_us = max(since_us, stretch.last_us)
    return since_us
