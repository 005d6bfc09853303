"""What the manifest knows of a segment. Frozen data, plain JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from watersmeet.model.routing import GroupRange, count_groups, intersect_ranges, subtract_ranges


@dataclass(frozen=True)
class Segment:
    """An immutable file of rows of one state, sorted by hash, with the groups that it still stands for.

    A group can leave a segment (merged into another, or expired) while the file stays as it is for the others.
    `tier` is "active" (probed by every batch, counted against the budget) or "cold". All results within a generation
    have been emitted; results across generations are owed. So far every segment is active and of generation 0.
    """

    id: str
    state: str
    rows: int
    bytes: int
    crc32: int
    groups: tuple[GroupRange, ...]
    groups_at_birth: int
    min_expiry: int
    max_expiry: int
    batch: int
    generation: int = 0
    tier: str = "active"

    @property
    def share(self) -> float:
        """The share of the file's groups that it still stands for; sizes are taken to follow it."""
        return count_groups(self.groups) / max(1, self.groups_at_birth)

    @property
    def live_rows(self) -> int:
        return round(self.rows * self.share)

    @property
    def live_bytes(self) -> int:
        return round(self.bytes * self.share)

    def only(self, groups: tuple[GroupRange, ...]) -> Segment:
        return replace(self, groups=intersect_ranges(self.groups, groups))

    def without(self, groups: tuple[GroupRange, ...]) -> Segment:
        return replace(self, groups=subtract_ranges(self.groups, groups))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Segment:
        return cls(**{**data, "groups": tuple((low, high) for low, high in data["groups"])})
