"""What the manifest knows of a segment. Frozen data, plain JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from watersmeet.model.routing import GroupRange, count_groups, expand_ranges, intersect_ranges, subtract_ranges


@dataclass(frozen=True)
class Segment:
    """An immutable file of rows of one state, sorted by hash, with the groups that it still stands for.

    A group can leave a segment (merged into another, or expired) while the file stays as it is for the others. `born`
    are the groups that the file was written with, and `group_rows` and `group_keys` the rows and the distinct hashes of
    each of them; where these are missing, groups are taken to be of one size.
    `tier` is "active" (probed by every batch, counted against the budget) or "cold" (read by merges only). A group of
    an active segment is of its live generation, whose number the manifest knows; a cold segment says its `generation`.
    All results within a generation have been emitted; results across generations are owed.

    A file whose groups are partly active and partly cold has an entry for each part; `file` is its name, that of the
    entry it began as.
    """

    id: str
    state: str
    rows: int
    bytes: int
    crc32: int
    groups: tuple[GroupRange, ...]
    born: tuple[GroupRange, ...]
    min_expiry: int
    max_expiry: int
    min_time: int  # the smallest time that a result with one of the rows can have: its newest event time
    batch: int
    generation: int = 0
    tier: str = "active"
    group_rows: tuple[int, ...] = ()
    group_keys: tuple[int, ...] = ()
    origin: str = ""  # the entry that the file began as, where that is another one

    @property
    def file(self) -> str:
        return self.origin or self.id

    @property
    def live_rows(self) -> int:
        return self.rows if self.groups == self.born else self._rest

    @property
    def live_bytes(self) -> int:
        return round(self.bytes * self.live_rows / self.rows) if self.rows else 0

    @cached_property
    def rows_by_group(self) -> dict[int, int]:
        """The rows of each group that it still stands for, where there are any."""
        share = max(1, self.rows // max(1, count_groups(self.born)))
        return self._by_group(self.group_rows or (share,) * count_groups(self.born))

    @cached_property
    def keys_by_group(self) -> dict[int, int]:
        """The distinct hashes of each group that it still stands for, as far as they were counted."""
        return self._by_group(self.group_keys) if self.group_keys else {}

    def _by_group(self, counts: tuple[int, ...]) -> dict[int, int]:
        held = set(expand_ranges(self.groups))
        return {g: count for g, count in zip(expand_ranges(self.born), counts, strict=True) if count and g in held}

    @cached_property
    def _rest(self) -> int:
        return self.rows_in(self.groups)

    def rows_in(self, groups: tuple[GroupRange, ...]) -> int:
        """The rows of those of `groups` that the file was written with."""
        if not self.group_rows:
            return round(
                self.rows * count_groups(intersect_ranges(self.born, groups)) / max(1, count_groups(self.born))
            )
        total, place = 0, 0
        for low, high in self.born:
            for first, last in intersect_ranges([(low, high)], groups):
                total += sum(self.group_rows[place + first - low : place + last - low])
            place += high - low
        return total

    def only(self, groups: tuple[GroupRange, ...]) -> Segment:
        return replace(self, groups=intersect_ranges(self.groups, groups))

    def cold(self, groups: tuple[GroupRange, ...], generation: int) -> Segment:
        """The entry for `groups` of this one as part of a generation that is cold."""
        part = intersect_ranges(self.groups, groups)
        name = f"{self.file}~{generation}.{part[0][0]}"
        return replace(self, id=name, origin=self.file, groups=part, generation=generation, tier="cold")

    def without(self, groups: tuple[GroupRange, ...]) -> Segment:
        return replace(self, groups=subtract_ranges(self.groups, groups))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Segment:
        return cls(
            **{
                **data,
                "groups": tuple((low, high) for low, high in data["groups"]),
                "born": tuple((low, high) for low, high in data["born"]),
                "group_rows": tuple(data["group_rows"]),
                "group_keys": tuple(data["group_keys"]),
            }
        )
