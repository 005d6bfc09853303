"""Which slot owns which groups, for each partitioning of a plan. Frozen data, plain JSON.

A partitioning is the key classes that rows are hashed on. Two operators on different keys are placed independently, and
a hot group of the one may be cut in two without the other, or spread over several slots (`spread.py`). A partitioning
that nobody has placed is placed evenly. To move or spread groups, or to have more or fewer slots, changes this table
and nothing else.

The groups of slices of time (`slices.py`) are a *ring*, which may lie over fewer slots than there are: the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from watersmeet.errors import JobError
from watersmeet.model.bounds import MOST_GROUPS, Bounds
from watersmeet.model.ids import Partitioning
from watersmeet.model.routing import Routing
from watersmeet.model.slices import BY_TIME
from watersmeet.model.spread import Share, Spread

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
    """`groups` is what a user has set: the number of groups of a partitioning before any is cut.

    So is `asked`, the number of slots, where a run has come to have another: 0 where it has not. `ring` is how many of
    the slots the ring is to lie over, 0 for all that there are, and `asked_ring` what a user has set, 0 for auto.
    """

    slots: int
    groups: int
    owners: Mapping[Partitioning, tuple[int, ...]] = field(default_factory=dict)  # of each group
    cuts: Mapping[Partitioning, tuple[int, ...]] = field(default_factory=dict)  # hashes, see `Bounds`
    asked: int = 0
    spreads: Mapping[Partitioning, Mapping[int, Spread]] = field(default_factory=dict)  # by group
    ring: int = 0
    asked_ring: int = 0

    @cached_property
    def _even(self) -> Routing:
        return Routing.even(Bounds(self.groups), self.slots)

    @cached_property
    def _others(self) -> dict[Partitioning, Routing]:
        ring = (BY_TIME,) if self.ring else ()
        return {name: self._make(name) for name in (*self.owners, *self.cuts, *ring)}

    def _make(self, partitioning: Partitioning) -> Routing:
        bounds = Bounds(self.groups, self.cuts.get(partitioning, ()))
        if partitioning in self.owners:
            return Routing(self.slots, self.owners[partitioning], bounds)
        even = Routing.even(bounds, self._slots_for(partitioning))
        return replace(even, slots=self.slots)

    def _slots_for(self, partitioning: Partitioning) -> int:
        return self.ring_slots if partitioning == BY_TIME else self.slots

    @property
    def ring_slots(self) -> int:
        """How many slots the ring is to lie over, of those that there are."""
        return min(self.ring or self.slots, self.slots)

    @property
    def known(self) -> tuple[Partitioning, ...]:
        """The partitionings that have been placed or cut."""
        return tuple(self._others)

    def of(self, partitioning: Partitioning) -> Routing:
        """The groups of a partitioning, and their owners."""
        return self._others.get(partitioning, self._even)

    def shares(self, partitioning: Partitioning) -> tuple[Share, ...]:
        """The groups of a partitioning that are spread, in order."""
        routing, spreads = self.of(partitioning), self.spreads.get(partitioning, {})
        return tuple(Share(spreads[group], group, *routing.hash_range((group, group + 1))) for group in sorted(spreads))

    def cut(self, partitioning: Partitioning, group: int, at_hash: int) -> Placement:
        """With a group cut in two, both of which its owner keeps; drawn together, if it was spread."""
        routing = self.of(partitioning).cut(group, at_hash)
        spreads = self.draw_together(partitioning, group).spreads
        renumbered = {
            name: {number + (name == partitioning and number > group): entry for number, entry in entries.items()}
            for name, entries in spreads.items()
        }
        return replace(
            self,
            owners={**self.owners, partitioning: routing.owners},
            cuts={**self.cuts, partitioning: routing.bounds.cuts},
            spreads=renumbered,
        )

    def move(self, partitioning: Partitioning, owners: Mapping[int, int]) -> Placement:
        """With other owners for these groups.

        >>> Placement(2, 4).move(Partitioning("k0"), {0: 1}).owners
        {'k0': (1, 0, 1, 1)}
        """
        placed, spreads = list(self.of(partitioning).owners), dict(self.spreads.get(partitioning, {}))
        for group, slot in owners.items():
            placed[group] = slot
            if group in spreads and slot not in spreads[group].slots:  # it works in the place of the owner
                spreads[group] = replace(spreads[group], slots=spreads[group].slots[1:])
        owned = {**self.owners, partitioning: tuple(placed)}
        return replace(self, owners=owned, spreads={**self.spreads, partitioning: spreads})._fitted()

    def spread(self, partitioning: Partitioning, group: int, alias: str, slots: Iterable[int]) -> Placement:
        """With a group worked on by several slots; its owner, or the first of them where it is not among them, owns it.

        >>> k0 = Partitioning("k0")
        >>> Placement(3, 4).spread(k0, 2, "A", (0, 1)).spreads
        {'k0': {2: Spread(alias='A', slots=(1, 0))}}
        """
        over = tuple(dict.fromkeys(slots))
        placed = self if self.of(partitioning).owners[group] in over else self.move(partitioning, {group: over[0]})
        spreads = {**placed.spreads.get(partitioning, {}), group: Spread(alias, over)}
        return replace(placed, spreads={**placed.spreads, partitioning: spreads})._fitted()

    def draw_together(self, partitioning: Partitioning, group: int) -> Placement:
        """With a group worked on by its owner alone."""
        spreads = {number: entry for number, entry in self.spreads.get(partitioning, {}).items() if number != group}
        return replace(self, spreads={**self.spreads, partitioning: spreads})._fitted()

    def _fitted(self) -> Placement:
        """With spreads over slots that there are, owners first; a group that is left to one slot is not spread."""
        if not self.spreads:
            return self
        fitted: dict[Partitioning, dict[int, Spread]] = {}
        for name, entries in self.spreads.items():
            owners = self.of(name).owners
            for group, entry in entries.items():
                others = sorted(slot for slot in {*entry.slots} - {owners[group]} if slot < self.slots)
                if others:
                    fitted.setdefault(name, {})[group] = replace(entry, slots=(owners[group], *others))
        return replace(self, spreads=fitted)

    def with_ring(self, slots: int) -> Placement:
        """With a ring that is to lie over so many slots. Its groups stay where they are until they are moved.

        >>> longer = Placement(4, 4, ring=1).with_ring(2)
        >>> longer.ring_slots, longer.of(BY_TIME).owners
        (2, (0, 0, 0, 0))
        """
        return replace(self.move(BY_TIME, {}), ring=slots)

    def ring_moves(self) -> dict[int, int]:
        """The groups that lie outside of the ring, or are too many for their slot, and where they are to go: few move.

        >>> Placement(4, 4, ring=1).with_ring(2).ring_moves(), Placement(4, 4).ring_moves()
        ({2: 1, 3: 1}, {})
        """
        owners = self.of(BY_TIME).owners
        return {
            group: slot
            for group, (before, slot) in enumerate(zip(owners, _dealt(owners, self.ring_slots), strict=True))
            if slot != before
        }

    def asking_ring(self, asked: int, chosen: int) -> Placement:
        """For a run that is started with a ring of so many slots, 0 for auto, which comes to `chosen`.

        What was come to lasts while the same is asked for.

        >>> Placement(4, 4, ring=3, asked_ring=2).asking_ring(2, 2).ring
        3
        >>> Placement(4, 4, ring=2, asked_ring=2).asking_ring(1, 1)
        Placement(slots=4, groups=4, owners={'time': (0, 0, 0, 0)}, cuts={}, asked=0, spreads={}, ring=1, asked_ring=1)
        """
        if asked == self.asked_ring:
            return self
        resized = self.with_ring(chosen)
        return replace(resized.move(BY_TIME, resized.ring_moves()), asked_ring=asked)

    def evenly(self, slots: int) -> Placement:
        """The same groups, placed evenly over the number of slots that a user has set, and none of them spread."""
        return replace(self, slots=slots, owners={}, asked=0, spreads={}, ring=self.asked_ring)

    def asking(self, slots: int) -> Placement:
        """For a run that is started with so many slots: what was come to lasts while the same number is asked for.

        >>> Placement(3, 4, asked=2).asking(2).slots, Placement(3, 4, asked=2).asking(4).slots
        (3, 4)
        """
        if slots == self.asked_slots:
            return self
        return replace(self, asked=0) if slots == self.slots else self.evenly(slots)

    def rescale(self, slots: int) -> Placement:
        """The same groups over another number of slots than a user has set. Where groups were placed, few of them move.

        >>> Placement(2, 4, {Partitioning("k0"): (1, 0, 1, 1)}).rescale(3)
        Placement(slots=3, groups=4, owners={'k0': (1, 0, 1, 2)}, cuts={}, asked=2, spreads={}, ring=0, asked_ring=0)
        """
        asked = 0 if slots == self.asked_slots else self.asked_slots
        there = replace(self, slots=slots, asked=asked)
        owners = {name: _dealt(placed, there._slots_for(name)) for name, placed in self.owners.items()}
        return replace(there, owners=owners)._fitted()

    def regroup(self, groups: int) -> Placement:
        """Other groups, placed evenly over the slots that there are; over those that were set where these are too many.

        >>> Placement(6, 300, asked=2).regroup(8)
        Placement(slots=6, groups=8, owners={}, cuts={}, asked=2, spreads={}, ring=0, asked_ring=0)
        >>> Placement(6, 300, asked=2).regroup(4)
        Placement(slots=2, groups=4, owners={}, cuts={}, asked=0, spreads={}, ring=0, asked_ring=0)
        """
        kept = self if self.slots <= groups else self.evenly(self.asked_slots)
        return Placement(kept.slots, groups, asked=kept.asked, ring=kept.ring, asked_ring=kept.asked_ring)

    @property
    def asked_slots(self) -> int:
        """The number of slots that a user has set."""
        return self.asked or self.slots

    def to_json(self) -> dict[str, Any]:
        """
        >>> Placement(2, 3, {Partitioning("k0"): (1, 0, 1)}).to_json()
        {'slots': 2, 'groups': 3, 'owners': {'k0': [1, 0, 1]}}
        """
        owners = {name: list(placed) for name, placed in self.owners.items()}
        cuts = {name: list(hashes) for name, hashes in self.cuts.items()}
        spreads = {
            name: {str(group): entry.to_json() for group, entry in entries.items()}
            for name, entries in self.spreads.items()
        }
        rest = {"cuts": cuts, "asked": self.asked, "spreads": spreads}
        rest |= {"ring": self.ring, "asked_ring": self.asked_ring}
        filled = {name: value for name, value in rest.items() if value}
        return {"slots": self.slots, "groups": self.groups, "owners": owners, **filled}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Placement:
        owners, cuts = data["owners"], data.get("cuts", {})
        spreads = {
            name: {int(group): Spread.from_json(entry) for group, entry in entries.items()}
            for name, entries in data.get("spreads", {}).items()
        }
        ring = data.get("ring", 0), data.get("asked_ring", 0)
        return cls(data["slots"], data["groups"], _tuples(owners), _tuples(cuts), data.get("asked", 0), spreads, *ring)


def _dealt(owners: tuple[int, ...], slots: int) -> tuple[int, ...]:
    """Owners among so many slots: the groups of one that is gone, and the last of one that has too many, move.

    >>> _dealt((0, 0, 0, 0, 1, 2), 2)
    (0, 0, 0, 1, 1, 1)
    """
    most, larger = divmod(len(owners), slots)
    held = [[group for group, owner in enumerate(owners) if owner == slot] for slot in range(slots)]
    # Slots that have most already are the ones that get one more than others.
    shares = {slot: most + (place < larger) for place, slot in enumerate(_by_size(held))}
    result = list(owners)
    free = [group for group, owner in enumerate(owners) if owner >= slots]
    free += [group for slot, groups in enumerate(held) for group in groups[shares[slot] :]]
    free.sort(reverse=True)
    for slot, groups in enumerate(held):
        for _ in range(shares[slot] - len(groups)):
            result[free.pop()] = slot
    return tuple(result)


def _by_size(held: list[list[int]]) -> list[int]:
    return sorted(range(len(held)), key=lambda slot: -len(held[slot]))


def _tuples(lists: Mapping[Partitioning, list[int]]) -> dict[Partitioning, tuple[int, ...]]:
    return {name: tuple(values) for name, values in lists.items()}
