"""Which slot owns which groups, for each partitioning of a plan. Frozen data, plain JSON.

A partitioning is the key classes that rows are hashed on. Two operators on different keys are placed independently, and
a hot group of the one may be cut in two without the other. A partitioning that nobody has placed is spread evenly. To
move a group changes this table and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from watersmeet.errors import JobError
from watersmeet.model.bounds import MOST_GROUPS, Bounds
from watersmeet.model.ids import Partitioning
from watersmeet.model.routing import Routing

DEFAULT_SLOTS = 2
DEFAULT_GROUPS = 300
_HINT = f"The default is groups = {DEFAULT_GROUPS}; many times the slots is best."


def check_slots(slots: int, groups: int) -> None:
    """Refuse a number of slots or groups that cannot be, before anything is as long as there are groups."""
    if slots < 1 or groups < slots:
        raise JobError(
            f"{slots} slots cannot share {groups} groups",
            detail="There is at least one slot, and at least one group for each slot.",
            hint=_HINT,
        )
    if groups > MOST_GROUPS:
        raise JobError(
            f"{groups:,} groups are too many",
            detail=f"There can be {MOST_GROUPS:,}: finer ranges of the hash are not told apart.",
            hint=_HINT,
        )


@dataclass(frozen=True)
class Placement:
    """`groups` is what a user has set: the number of groups of a partitioning before any is cut."""

    slots: int
    groups: int
    owners: Mapping[Partitioning, tuple[int, ...]] = field(default_factory=dict)  # of each group
    cuts: Mapping[Partitioning, tuple[int, ...]] = field(default_factory=dict)  # hashes, see `Bounds`

    @cached_property
    def _even(self) -> Routing:
        return Routing.even(Bounds(self.groups), self.slots)

    @cached_property
    def _others(self) -> dict[Partitioning, Routing]:
        return {name: self._make(name) for name in (*self.owners, *self.cuts)}

    def _make(self, partitioning: Partitioning) -> Routing:
        bounds = Bounds(self.groups, self.cuts.get(partitioning, ()))
        if partitioning in self.owners:
            return Routing(self.slots, self.owners[partitioning], bounds)
        return Routing.even(bounds, self.slots)

    @property
    def known(self) -> tuple[Partitioning, ...]:
        """The partitionings that have been placed or cut."""
        return tuple(self._others)

    def of(self, partitioning: Partitioning) -> Routing:
        """The groups of a partitioning, and their owners."""
        return self._others.get(partitioning, self._even)

    def cut(self, partitioning: Partitioning, group: int, at_hash: int) -> Placement:
        """With a group cut in two, both of which its owner keeps."""
        routing = self.of(partitioning).cut(group, at_hash)
        return replace(
            self,
            owners={**self.owners, partitioning: routing.owners},
            cuts={**self.cuts, partitioning: routing.bounds.cuts},
        )

    def spread(self, slots: int) -> Placement:
        """The same groups, spread evenly over another number of slots."""
        return replace(self, slots=slots, owners={})

    def to_json(self) -> dict[str, Any]:
        """
        >>> Placement(2, 3, {Partitioning("k0"): (1, 0, 1)}).to_json()
        {'slots': 2, 'groups': 3, 'owners': {'k0': [1, 0, 1]}}
        """
        owners = {name: list(placed) for name, placed in self.owners.items()}
        cuts = {name: list(hashes) for name, hashes in self.cuts.items()}
        return {"slots": self.slots, "groups": self.groups, "owners": owners, **({"cuts": cuts} if cuts else {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Placement:
        owners, cuts = data["owners"], data.get("cuts", {})  # none were written before groups could be cut
        return cls(data["slots"], data["groups"], _tuples(owners), _tuples(cuts))


def _tuples(lists: Mapping[Partitioning, list[int]]) -> dict[Partitioning, tuple[int, ...]]:
    return {name: tuple(values) for name, values in lists.items()}
