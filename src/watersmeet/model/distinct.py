"""How many distinct keys the groups of an operator hold, from what each segment counted when it was written.

A segment knows its own rows n and distinct keys d, but a key may be in several segments. Keys are taken to be drawn
evenly from some number D of keys, where n draws hit D * (1 - exp(-n / D)) of them. The largest segment tells D, and D
with the rows of all segments tells how many keys these hit together. Exact for one segment, and where no key repeats.
So four sums by group are enough, and they can be added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from watersmeet.model.segments import Counts, Segment

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """By group: the rows and keys of all segments together, and the rows and keys of the largest of them."""

    rows: Counts
    keys: Counts
    most_rows: Counts
    most_keys: Counts

    @classmethod
    def of(cls, segments: Iterable[Segment], groups: int) -> KeyCounts:
        """
        >>> KeyCounts.of([], 2).distinct.tolist()
        [0.0, 0.0]
        """
        total = cls(*(np.zeros(groups, dtype=np.int64) for _ in range(4)))
        for segment in segments:
            if segment.group_keys:
                held, rows, keys = segment.held_groups, segment.held_rows, segment.held_keys
                total.rows[held] += rows
                total.keys[held] += keys
                most = total.most_rows[held]
                larger = (rows > most) | ((rows == most) & (keys > total.most_keys[held]))
                total.most_rows[held[larger]] = rows[larger]
                total.most_keys[held[larger]] = keys[larger]
        return total

    @classmethod
    def sum(cls, counts: Sequence[KeyCounts], groups: int) -> KeyCounts:
        if not counts:
            return cls.of([], groups)
        if len(counts) == 1:
            return counts[0]
        rows, keys = np.stack([e.most_rows for e in counts]), np.stack([e.most_keys for e in counts])
        place = (rows * 2**31 + keys).argmax(axis=0), np.arange(groups)  # of equal rows, the one with most keys
        return cls(
            np.sum([entry.rows for entry in counts], axis=0),
            np.sum([entry.keys for entry in counts], axis=0),
            rows[place],
            keys[place],
        )

    @cached_property
    def distinct(self) -> Floats:
        """The keys in all segments together, by group."""
        result = self.keys.astype(np.float64)
        guess = (self.rows > self.most_rows) & (self.most_keys < self.most_rows)
        if guess.any():
            domain = _domain(self.most_rows[guess].astype(np.float64), self.most_keys[guess].astype(np.float64))
            hit = domain * -np.expm1(-self.rows[guess] / domain)
            result[guess] = np.minimum(result[guess], np.maximum(self.most_keys[guess], hit))
        return result


def _domain(rows: Floats, keys: Floats) -> Floats:
    """D such that `rows` draws hit `keys` of D keys; by halving, as the function rises."""
    low, high = keys.copy(), rows**2
    for _ in range(24):
        middle = np.sqrt(low * high)
        below = middle * -np.expm1(-rows / middle) < keys
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def keys_by_group(segments: Iterable[Segment]) -> dict[int, float]:
    """The distinct keys in each group that these segments have rows of."""
    held = list(segments)
    groups = max((int(segment.held_groups.max()) + 1 for segment in held if len(segment.held_groups)), default=0)
    counts = KeyCounts.of(held, groups)
    return {group: float(counts.distinct[group]) for group in np.flatnonzero(counts.rows).tolist()}
