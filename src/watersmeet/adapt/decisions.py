"""What policies decide, as data: imperative, with a reason for people to read. `to_json` is what a manifest keeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from watersmeet.adapt.view import GroupKey


@dataclass(frozen=True)
class SpillGroups:
    """Close the live generations of these groups and make them cold, the first one first. May be none."""

    groups: tuple[GroupKey, ...]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """
        >>> SpillGroups((("J1", 17),), "least output").to_json()
        {'decision': 'SpillGroups', 'groups': [['J1', 17]], 'reason': 'least output'}
        """
        groups = [[operator, group] for operator, group in self.groups]
        return {"decision": "SpillGroups", "groups": groups, "reason": self.reason}


@dataclass(frozen=True)
class MergeGroup:
    """Emit what the closed generations of a group owe each other. Meanwhile the `waiting` operators take no rows."""

    operator: str
    group: int
    reason: str
    waiting: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"decision": "MergeGroup", **asdict(self), "waiting": list(self.waiting)}
