"""Groups and slots: which stretch of the hash each group is, and which slot owns each group.

A group is a contiguous range of the 64-bit hash; the `groups` ranges have equal width and cover it. A slot owns any
set of groups. Changing the owner changes this table and nothing else: rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

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
    return _ranges(_mask(tuple(ranges)))


def intersect_ranges(left: Iterable[GroupRange], right: Iterable[GroupRange]) -> tuple[GroupRange, ...]:
    """The groups in both.

    >>> intersect_ranges([(0, 5)], [(3, 9)])
    ((3, 5),)
    """
    return _ranges(_mask(tuple(left)) & _mask(tuple(right)))


def subtract_ranges(left: Iterable[GroupRange], right: Iterable[GroupRange]) -> tuple[GroupRange, ...]:
    """The groups of `left` that are not in `right`.

    >>> subtract_ranges([(0, 9)], [(3, 5)])
    ((0, 3), (5, 9))
    """
    return _ranges(_mask(tuple(left)) & ~_mask(tuple(right)))


def has_group(ranges: tuple[GroupRange, ...], group: int) -> bool:
    """
    >>> has_group(((0, 2), (7, 8)), 7), has_group(((0, 2), (7, 8)), 2)
    (True, False)
    """
    return bool(_mask(ranges) >> group & 1)


# Spills leave scattered groups, so that ranges are many and the same ones are asked about again and again: sets of
# groups are worked with as the bits of a number, and both ways are remembered.
@lru_cache(maxsize=20_000)
def _mask(ranges: tuple[GroupRange, ...]) -> int:
    mask = 0
    for low, high in ranges:
        if low < high:
            mask |= (1 << high) - (1 << low)
    return mask


@lru_cache(maxsize=20_000)
def _ranges(mask: int) -> tuple[GroupRange, ...]:
    result: list[GroupRange] = []
    at = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        length = (~mask & (mask + 1)).bit_length() - 1
        result.append((at + skip, at + skip + length))
        mask >>= length
        at += skip + length
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
