"""What the manifest knows of a segment. Frozen data, plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.model.file_names import checked_name
from watersmeet.model.ids import LIVE, NO_SEGMENT, Generation, SegmentId, StateName
from watersmeet.model.routing import (
    GroupRange,
    count_groups,
    expand_ranges,
    has_group,
    intersect_ranges,
    renumber_ranges,
    subtract_ranges,
)

Counts = npt.NDArray[np.int64]  # by group

ACTIVE, COLD, WAITING = "active", "cold", "waiting"  # tiers


@dataclass(frozen=True)
class Segment:
    """An immutable file of rows of one state, sorted by hash, with the groups that it still stands for.

    A group can leave a segment (merged into another, or expired) while the file stays as it is for the others.
    `written` are the groups that the file was written with, and `group_rows` and `group_keys` the rows and the distinct
    hashes of each of them; where these are missing, groups are taken to be of one size.
    `tier` is "active" (probed by every batch, counted against the budget), "cold" (read by merges only) or "waiting"
    (rows of a stream that have not entered the join, see `runtime/gate.py`; such a file is sorted by event time, is one
    group, and has its place among those of its batch for a generation). Active rows
    are of the live generation of their groups; a cold segment says its `generation`, which is `LIVE` for rows that went
    cold because they expired. All results within a generation have been emitted; results across generations are owed.
    `delivery` is the number that deliveries had come to when the newest of its rows came, which grows from batch to
    batch and from round to round: what a plan that is warming up has seen is told apart by it.

    A file whose groups are partly active and partly cold has an entry for each part; `file` is its name, that of the
    entry it began as.
    """

    id: SegmentId
    state: StateName
    rows: int
    bytes: int
    crc32: int
    groups: tuple[GroupRange, ...]
    written: tuple[GroupRange, ...]
    min_expiry_us: int
    max_expiry_us: int
    min_time_us: int  # the smallest time that a result with one of the rows can have: its newest event time
    batch: int
    generation: Generation = LIVE
    tier: str = ACTIVE
    group_rows: tuple[int, ...] = ()
    group_keys: tuple[int, ...] = ()
    part_of: SegmentId = NO_SEGMENT  # the entry that the file began as, where that is another one
    delivery: int = 0
    # With windows of rows: streams, and the largest end by the rows of each, where the time of that is not known yet.
    rank_ends: tuple[tuple[str, int], ...] = ()

    @property
    def file(self) -> SegmentId:
        return self.part_of or self.id

    @property
    def active(self) -> bool:
        return self.tier == ACTIVE

    @property
    def live_rows(self) -> int:
        return self.rows if self.groups == self.written else self._rest

    @property
    def live_bytes(self) -> int:
        return round(self.bytes * self.live_rows / self.rows) if self.rows else 0

    @cached_property
    def _counted(self) -> tuple[Counts, Counts]:
        """The groups that it was written with, and their rows where these were counted."""
        return np.array(expand_ranges(self.written), dtype=np.int64), np.array(self.group_rows, dtype=np.int64)

    @cached_property
    def _held(self) -> tuple[Counts, Counts, Counts]:
        """The groups that it still stands for and has rows of, with their rows and distinct keys."""
        numbers, rows = self._counted
        if not self.group_rows:
            rows = np.full(len(numbers), max(1, self.rows // max(1, len(numbers))), dtype=np.int64)
        keys = np.array(self.group_keys, dtype=np.int64) if self.group_keys else np.zeros(len(numbers), dtype=np.int64)
        there = rows > 0
        if self.groups != self.written:
            there &= _flags(self.groups, numbers)
        return numbers[there], rows[there], keys[there]

    def add_rows(self, total: Counts) -> None:
        """Add its rows by group to `total`."""
        numbers, rows, _ = self._held
        total[numbers] += rows

    @property
    def held_groups(self) -> Counts:
        """The groups that it has rows of."""
        return self._held[0]

    @property
    def held_rows(self) -> Counts:
        """The rows of each of these."""
        return self._held[1]

    @property
    def held_keys(self) -> Counts:
        """The distinct keys of each of these, 0 where they were not counted."""
        return self._held[2]

    @cached_property
    def rows_by_group(self) -> dict[int, int]:
        """The rows of each group that it still stands for, where there are any."""
        numbers, rows, _ = self._held
        return dict(zip(numbers.tolist(), rows.tolist(), strict=True))

    @cached_property
    def _rest(self) -> int:
        return int(self.held_rows.sum()) if self.group_rows else self.rows_in(self.groups)

    def rows_in(self, groups: tuple[GroupRange, ...]) -> int:
        """The rows of those of `groups` that the file was written with."""
        shared = intersect_ranges(self.written, groups)
        # A slot asks, and files are a slot's: all of it or nothing is the usual case.
        if shared == self.written or not shared:
            return self.rows if shared else 0
        if not self.group_rows:
            return round(self.rows * count_groups(shared) / max(1, count_groups(self.written)))
        numbers, rows = self._counted
        return int(rows[_flags(groups, numbers)].sum())

    def only(self, groups: tuple[GroupRange, ...]) -> Segment:
        return replace(self, groups=intersect_ranges(self.groups, groups))

    def cold(self, groups: tuple[GroupRange, ...], generation: Generation) -> Segment:
        """The entry for `groups` of this one as part of a generation that is cold."""
        part = intersect_ranges(self.groups, groups)
        name = _part_name(self.file, generation, part)
        return replace(self, id=name, part_of=self.file, groups=part, generation=generation, tier=COLD)

    def reopened(self, groups: tuple[GroupRange, ...]) -> Segment:
        """The entry for `groups` of the file as active rows of live generations."""
        return replace(self, id=self.file, part_of=NO_SEGMENT, groups=groups, generation=LIVE, tier=ACTIVE)

    def count_of(self, group: int) -> tuple[int, int] | None:
        """The rows and distinct keys that the file was written with in a group; None where they were not counted."""
        place = self._place(group)
        return None if place is None else (self.group_rows[place], self.group_keys[place] if self.group_keys else 0)

    def _place(self, group: int) -> int | None:
        """Where a group is among those that were counted."""
        if not self.group_rows or not has_group(self.written, group):
            return None
        return count_groups(intersect_ranges(self.written, [(0, group)]))

    def cut(self, group: int, first: tuple[int, int]) -> Segment:
        """After a group has been cut in two, the `first` of which has so many rows and distinct keys of the file.

        A part gets the name that it would get now: it is called by its first group, which may have another number.
        """
        groups, place = renumber_ranges(self.groups, group), self._place(group)
        return replace(
            self,
            id=_part_name(self.file, self.generation, groups) if self.part_of else self.id,
            groups=groups,
            written=renumber_ranges(self.written, group),
            group_rows=self.group_rows if place is None else _split(self.group_rows, place, first[0]),
            group_keys=self.group_keys if place is None else _split(self.group_keys, place, first[1]),
        )

    def gone_by(self, time_us: int) -> Segment:
        """The same where it is known that nothing later than this needs its rows."""
        return replace(
            self, min_expiry_us=min(self.min_expiry_us, time_us), max_expiry_us=min(self.max_expiry_us, time_us)
        )

    def without(self, groups: tuple[GroupRange, ...]) -> Segment:
        return replace(self, groups=subtract_ranges(self.groups, groups))

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": self.state,
            "rows": self.rows,
            "bytes": self.bytes,
            "crc32": self.crc32,
            "groups": self.groups,
            "written": self.written,
            "min_expiry_us": self.min_expiry_us,
            "max_expiry_us": self.max_expiry_us,
            "min_time_us": self.min_time_us,
            "batch": self.batch,
            "generation": self.generation,
            "tier": self.tier,
            "group_rows": self.group_rows,
            "group_keys": self.group_keys,
            "part_of": self.part_of,
            "delivery": self.delivery,
            **({"rank_ends": self.rank_ends} if self.rank_ends else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Segment:
        checked_name(data["id"])
        checked_name(data["part_of"] or data["id"])
        return cls(
            **{
                **data,
                "groups": ranges_from_json(data["groups"]),
                "written": ranges_from_json(data["written"]),
                "group_rows": tuple(data["group_rows"]),
                "group_keys": tuple(data["group_keys"]),
                "rank_ends": tuple((stream, end) for stream, end in data.get("rank_ends", ())),
            }
        )


def _part_name(file: SegmentId, generation: Generation, groups: tuple[GroupRange, ...]) -> SegmentId:
    """A name for the entry of some groups of a file that no other one has: each group is in one part at most."""
    number = "live" if generation == LIVE else str(generation)
    return SegmentId(f"{file}~{number}.{groups[0][0]}")


def _split(counts: tuple[int, ...], place: int, first: int) -> tuple[int, ...]:
    """
    >>> _split((5, 7, 9), 1, 3)
    (5, 3, 4, 9)
    """
    return (*counts[:place], first, counts[place] - first, *counts[place + 1 :]) if counts else ()


def ranges_from_json(data: Any) -> tuple[GroupRange, ...]:
    return tuple((low, high) for low, high in data)


def _flags(ranges: tuple[GroupRange, ...], numbers: Counts) -> npt.NDArray[np.bool_]:
    """Which of these ascending group numbers are in the ranges."""
    if not len(numbers):
        return np.zeros(0, dtype=bool)
    inside = np.zeros(int(numbers[-1]) + 1, dtype=bool)
    for low, high in ranges:
        inside[low:high] = True
    return inside[numbers]
