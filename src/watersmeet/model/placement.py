"""Which slot owns which groups, for each partitioning of a plan. Frozen data, plain JSON.

A partitioning is the key classes that rows are hashed on. Two operators on different keys are placed independently; a
partitioning that nobody has placed is spread evenly. To move a group changes this table and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from watersmeet.model.ids import Partitioning
from watersmeet.model.routing import Routing


@dataclass(frozen=True)
class Placement:
    slots: int
    groups: int
    owners: Mapping[Partitioning, tuple[int, ...]] = field(default_factory=dict)  # of each group

    @cached_property
    def _even(self) -> Routing:
        return Routing.even(self.groups, self.slots)

    @cached_property
    def _placed(self) -> dict[Partitioning, Routing]:
        return {name: Routing(self.slots, owners) for name, owners in self.owners.items()}

    def of(self, partitioning: Partitioning) -> Routing:
        """The owners of the groups of a partitioning."""
        return self._placed.get(partitioning, self._even)

    def to_json(self) -> dict[str, Any]:
        """
        >>> Placement(2, 3, {Partitioning("k0"): (1, 0, 1)}).to_json()
        {'slots': 2, 'groups': 3, 'owners': {'k0': [1, 0, 1]}}
        """
        owners = {name: list(placed) for name, placed in self.owners.items()}
        return {"slots": self.slots, "groups": self.groups, "owners": owners}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Placement:
        return cls(data["slots"], data["groups"], {name: tuple(owners) for name, owners in data["owners"].items()})
