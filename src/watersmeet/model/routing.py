"""Groups and slots: sets of groups as ranges, and which slot owns each group.

A group is a contiguous range of the 64-bit hash (`bounds.py`). A slot owns any set of groups. Changing the owner
changes this table and nothing else: rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from watersmeet.errors import InternalError
from watersmeet.model.bounds import Bounds

GroupRange = tuple[int, int]  # first group, and the one after the last
Groups = tuple[GroupRange, ...]


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


def renumber_ranges(ranges: Iterable[GroupRange], cut: int) -> tuple[GroupRange, ...]:
    """The same hashes, after a group has been cut in two: it is both halves, and later ones count one more.

    >>> renumber_ranges([(0, 2), (3, 5)], 3), renumber_ranges([(0, 2), (3, 5)], 2)
    (((0, 2), (3, 6)), ((0, 2), (4, 6)))
    """
    return tuple((low + (low > cut), high + (high > cut)) for low, high in ranges)


@dataclass(frozen=True)
class Slice:
    """Some of the groups that lie between `bounds`: what a slot owns, or what a file holds."""

    groups: tuple[GroupRange, ...]
    bounds: Bounds


@dataclass(frozen=True)
class Routing:
    """The groups of a partitioning and the owner of each, for slots 0 to `slots` - 1."""

    slots: int
    owners: tuple[int, ...]
    bounds: Bounds

    @classmethod
    def even(cls, bounds: Bounds, slots: int) -> Routing:
        """Neighbouring groups together, as evenly as they go.

        >>> Routing.even(Bounds(5), 2).owners
        (0, 0, 0, 1, 1)
        """
        groups = len(bounds)
        return cls(slots, tuple(group * slots // groups for group in range(groups)), bounds)

    @property
    def groups(self) -> int:
        return len(self.owners)

    def cut(self, group: int, at_hash: int) -> Routing:
        """With a group cut in two: both halves are its owner's.

        >>> Routing(2, (0, 1), Bounds(2)).cut(1, 3 << 62).owners
        (0, 1, 1)
        """
        low, high = self.hash_range((group, group + 1))
        if not low < at_hash < high:
            raise InternalError(f"hash {at_hash} does not cut group {group}, which has {low} to {high - 1}")
        return Routing(self.slots, (*self.owners[: group + 1], *self.owners[group:]), self.bounds.cut(at_hash))

    def hash_range(self, groups: GroupRange) -> tuple[int, int]:
        """The hashes of a range of groups, as a half-open range; its end may be 2**64."""
        return self.bounds.hash_start(groups[0]), self.bounds.hash_start(groups[1])

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

    def pieces_within(self, groups: Groups) -> tuple[tuple[int, GroupRange], ...]:
        """The same of some groups alone.

        >>> Routing(2, (0, 0, 1), Bounds(3)).pieces_within(((1, 3),))
        ((0, (1, 2)), (1, (2, 3)))
        """
        return _pieces_within(self.pieces, groups)

    def owned_by(self, slot: int) -> tuple[GroupRange, ...]:
        return tuple(groups for owner, groups in self.pieces if owner == slot)


@lru_cache(maxsize=1_000)
def _pieces_within(pieces: tuple[tuple[int, GroupRange], ...], groups: Groups) -> tuple[tuple[int, GroupRange], ...]:
    """For every batch the same, as long as no group is moved."""
    return tuple((slot, part) for slot, piece in pieces for part in intersect_ranges((piece,), groups))


def groups_text(groups: Iterable[GroupRange]) -> str:
    """Groups as people write them.

    >>> groups_text([(0, 100), (120, 121)])
    '0-99, 120'
    """
    return ", ".join(str(low) if high == low + 1 else f"{low}-{high - 1}" for low, high in groups)
