"""Groups that several slots work on: what the placement says of one, and what tasks are told of it. Frozen data.

A group that is hardly more than one hot key cannot be cut any further. It is *spread*: the rows of one input are
*dealt* out over some slots, each row to one of them, and those of all other inputs are *copied* to each. A combination
has one dealt row, so exactly one slot makes it, and has all that it takes. The first of the slots is the group's owner:
what is copied is kept by it alone, and it alone merges and compacts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Spread:
    """`alias` names an input of the query: what is dealt is every input of a join that has it."""

    alias: str
    slots: tuple[int, ...]  # two at least, the owner first

    def to_json(self) -> dict[str, Any]:
        return {"alias": self.alias, "slots": list(self.slots)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Spread:
        return cls(data["alias"], tuple(data["slots"]))


@dataclass(frozen=True)
class Share:
    """A spread group of the partitioning of a stage, with its hashes: from `low` to before `high`."""

    spread: Spread
    group: int
    low: int
    high: int

    @property
    def slots(self) -> tuple[int, ...]:
        return self.spread.slots

    @property
    def owner(self) -> int:
        return self.slots[0]

    def deals(self, aliases: Collection[str]) -> bool:
        """Whether rows over these inputs are dealt out; otherwise they are copied."""
        return self.spread.alias in aliases
