"""Where groups begin: the bounds of the ranges that a partitioning cuts the 64-bit hash into.

There are `even` ranges of equal width, and each of `cuts` is the first hash of one more: it cuts the range that it lies
in into two finer ones. Groups are numbered from 0 by ascending hash, so that a cut shifts the numbers of all groups
after it. Nothing else works out where a group begins. Frozen data, plain JSON, small however many groups there are;
arrays are worked out once in a process.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

HASH_END = 1 << 64
# The least width that a cut leaves to a group. Results are traced to groups by 16 bits of the hash (their lineage), so
# that what finer ones earn could not be told apart.
NARROWEST = 1 << 48
MOST_GROUPS = HASH_END // NARROWEST

UInt64Array = npt.NDArray[np.uint64]
Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Bounds:
    """`len` is the number of groups.

    >>> bounds = Bounds(4, (1 << 61,))
    >>> len(bounds), [bounds.hash_start(group) / HASH_END for group in range(6)]
    (5, [0.0, 0.125, 0.25, 0.5, 0.75, 1.0])
    """

    even: int
    cuts: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.even + len(self.cuts)

    def hash_start(self, group: int) -> int:
        """The first hash of a group; 2**64 for the one after the last."""
        return _starts(self)[group] if self.cuts else -(-group * HASH_END // self.even)

    @property
    def start_array(self) -> UInt64Array:
        """The first hash of each group."""
        return _start_array(self)

    def groups_of(self, hashes: UInt64Array) -> Int64Array:
        """The group of each hash."""
        return np.searchsorted(self.start_array, hashes, side="right") - 1

    def groups_of_upper(self, cells: Int64Array) -> Int64Array:
        """The group of the first hash with each of these upper 16 bits."""
        if not self.cuts:
            return (cells * self.even) >> 16
        return self.groups_of(cells.astype(np.uint64) << np.uint64(48))

    def middle(self, group: int) -> int | None:
        """The hash that halves a group; None where that would leave ranges too narrow.

        >>> Bounds(2).middle(1) == 3 << 62, Bounds(1 << 16).middle(0)
        (True, None)
        """
        low, high = self.hash_start(group), self.hash_start(group + 1)
        return (low + high) // 2 if high - low >= 2 * NARROWEST else None

    def cut(self, at_hash: int) -> Bounds:
        """With one more group, which begins at a hash that none began at."""
        return replace(self, cuts=tuple(sorted((*self.cuts, at_hash))))


@lru_cache(maxsize=100)
def _starts(bounds: Bounds) -> tuple[int, ...]:
    """Where each group begins, and 2**64."""
    even = Bounds(bounds.even)
    return tuple(sorted(itertools.chain(map(even.hash_start, range(bounds.even + 1)), bounds.cuts)))


@lru_cache(maxsize=100)
def _start_array(bounds: Bounds) -> UInt64Array:
    return np.array(_starts(bounds)[:-1], dtype=np.uint64)
