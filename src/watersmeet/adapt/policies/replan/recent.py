"""What some figures were after each of the last batches, and whether they rise steadily. Pure.

A figure that rises steadily is a trend: the plan is not good enough for what comes. One that has jumped is a surge, for
which spills are the remedy, as the effect of another plan would come too late (DISS 3076).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

KEPT = 12  # batches
FEWEST = 6  # that a trend can be told from
LEAST_RISE = 0.1  # of what a figure has come to

Recent = Mapping[str, tuple[float, ...]]  # by what is counted, the newest last


def then(recent: Recent, figures: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    """With the figures after one more batch; of what has none now nothing is known any more.

    >>> then({"A": (1.0,), "B": (2.0,)}, {"A": 3.0})
    {'A': (1.0, 3.0)}
    """
    return {name: (*recent.get(name, ()), float(value))[-KEPT:] for name, value in figures.items()}


def rises_steadily(series: Sequence[float]) -> bool:
    """Whether it has risen all the way: from the first third to the second and from that to the last, and not at once.

    A step that is more than half of all that it has risen is a surge. What goes up and down on its way counts by its
    thirds.

    >>> rises_steadily([1, 2, 3, 4, 5, 6]), rises_steadily([1, 1, 1, 6, 6, 6]), rises_steadily([6, 6, 6, 6, 6, 6])
    (True, False, False)
    """
    if len(series) < FEWEST:
        return False
    third = len(series) // 3
    parts = series[:third], series[third:-third], series[-third:]
    first, second, last = (sum(part) / len(part) for part in parts)
    risen = last - first
    if not first < second < last or risen < LEAST_RISE * last:
        return False
    return max(after - before for before, after in itertools.pairwise(series)) <= risen / 2
