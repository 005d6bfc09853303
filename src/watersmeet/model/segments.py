"""What the manifest knows of a segment. Frozen data, plain JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from watersmeet.model.routing import GroupRange, count_groups, intersect_ranges, subtract_ranges


@dataclass(frozen=True)
class Segment:
    """An immutable file of rows of one state, sorted by hash, with the groups that it still stands for.

    A group can leave a segment (merged into another, or expired) while the file stays as it is for the others. `born`
    are the groups that the file was written with, and `group_rows` and `group_keys` the rows and the distinct hashes of
    each of them; where these are missing, groups are taken to be of one size.
    `tier` is "active" (probed by every batch, counted against the budget) or "cold". All results within a generation
    have been emitted; results across generations are owed. So far every segment is active and of generation 0.
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
    batch: int
    generation: int = 0
    tier: str = "active"
    group_rows: tuple[int, ...] = ()
    group_keys: tuple[int, ...] = ()

    @property
    def live_rows(self) -> int:
        return self.rows if self.groups == self.born else self.rows_in(self.groups)

    @property
    def live_bytes(self) -> int:
        return round(self.bytes * self.live_rows / self.rows) if self.rows else 0

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
