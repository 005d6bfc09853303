"""Groups and slots: which stretch of the hash each group is, and which slot owns each group.

A group is a contiguous range of the 64-bit hash; the `groups` ranges have equal width and cover it. A slot owns any
set of groups. Changing the owner changes this table and nothing else: rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

HASH_END = 1 << 64

UInt64Array = npt.NDArray[np.uint64]
Int64Array = npt.NDArray[np.int64]
GroupRange = tuple[int, int]  # first group, and the one after the last


def union_ranges(ranges: Iterable[GroupRange]) -> tuple[GroupRange, ...]:
    """The same groups as few ascending ranges.

    >>> union_ranges([(4, 6), (0, 2), (2, 3)])
    ((0, 3), (4, 6))
    """
    if isinstance(ranges, tuple) and (len(ranges) == 1 or not ranges):
        return ranges if not ranges or ranges[0][0] < ranges[0][1] else ()
    result: list[GroupRange] = []
    for low, high in sorted(r for r in ranges if r[0] < r[1]):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def intersect_ranges(left: Iterable[GroupRange], right: Iterable[GroupRange]) -> tuple[GroupRange, ...]:
    """The groups in both.

    >>> intersect_ranges([(0, 5)], [(3, 9)])
    ((3, 5),)
    """
    first, second = union_ranges(left), union_ranges(right)
    result: list[GroupRange] = []
    i = j = 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low < high:
            result.append((low, high))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(result)


def subtract_ranges(left: Iterable[GroupRange], right: Iterable[GroupRange]) -> tuple[GroupRange, ...]:
    """The groups of `left` that are not in `right`.

    >>> subtract_ranges([(0, 9)], [(3, 5)])
    ((0, 3), (5, 9))
    """
    gone = union_ranges(right)
    result: list[GroupRange] = []
    j = 0
    for low, high in union_ranges(left):
        while j < len(gone) and gone[j][1] <= low:
            j += 1
        begin, k = low, j
        while k < len(gone) and gone[k][0] < high:
            if begin < gone[k][0]:
                result.append((begin, gone[k][0]))
            begin = gone[k][1]
            k += 1
        if begin < high:
            result.append((begin, high))
    return tuple(result)


def expand_ranges(ranges: Iterable[GroupRange]) -> list[int]:
    """The groups one by one.

    >>> expand_ranges([(0, 2), (7, 8)])
    [0, 1, 7]
    """
    return [group for low, high in ranges for group in range(low, high)]


def count_groups(ranges: Iterable[GroupRange]) -> int:
    return sum(high - low for low, high in ranges)


def hash_start(group: int, total: int) -> int:
    """The first hash of a group, of `total`; 2**64 for the one after the last."""
    return -(-group * HASH_END // total)


def groups_of(hashes: UInt64Array, total: int) -> Int64Array:
    """The group of each hash."""
    starts = np.array([hash_start(group, total) for group in range(total)], dtype=np.uint64)
    return np.searchsorted(starts, hashes, side="right") - 1


@dataclass(frozen=True)
class Slice:
    """Some of the groups, of which there are `total`: what a slot owns, or what a file holds."""

    groups: tuple[GroupRange, ...]
    total: int

    def hash_start(self, group: int) -> int:
        return hash_start(group, self.total)


@dataclass(frozen=True)
class Routing:
    """The owner of each group, for slots 0 to `slots` - 1."""

    slots: int
    owners: tuple[int, ...]

    @property
    def groups(self) -> int:
        return len(self.owners)

    @classmethod
    def even(cls, groups: int, slots: int) -> Routing:
        """Neighbouring groups together, as evenly as they go.

        >>> Routing.even(5, 2).owners
        (0, 0, 0, 1, 1)
        """
        return cls(slots, tuple(group * slots // groups for group in range(groups)))

    def hash_range(self, groups: GroupRange) -> tuple[int, int]:
        """The hashes of a range of groups, as a half-open range; its end may be 2**64."""
        return hash_start(groups[0], self.groups), hash_start(groups[1], self.groups)

    @cached_property
    def pieces(self) -> tuple[tuple[int, GroupRange], ...]:
        """Ascending ranges of groups with their owner, neighbours of one owner joined."""
        result: list[tuple[int, GroupRange]] = []
        for group, slot in enumerate(self.owners):
            if result and result[-1][0] == slot:
                result[-1] = (slot, (result[-1][1][0], group + 1))
            else:
                result.append((slot, (group, group + 1)))
        return tuple(result)

    def owned_by(self, slot: int) -> tuple[GroupRange, ...]:
        return tuple(groups for owner, groups in self.pieces if owner == slot)
