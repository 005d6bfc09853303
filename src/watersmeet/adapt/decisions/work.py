"""What the tasks of the next batch, or of a round, are to do beside joining new rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import MergeGenerations, MergeGroup, UniteParts
from watersmeet.model.ids import GroupKey


@dataclass(frozen=True)
class Work:
    merges: tuple[GroupKey, ...] = ()  # of all their closed generations
    unites: tuple[UniteParts, ...] = ()
    partial_merges: tuple[MergeGenerations, ...] = ()  # of some closed generations of groups

    @classmethod
    def of(cls, items: Iterable[Decision]) -> Work:
        """Of what is to be done, the part that is for tasks."""
        items = list(items)
        return cls(
            tuple((item.operator, item.group) for item in items if isinstance(item, MergeGroup)),
            tuple(item for item in items if isinstance(item, UniteParts)),
            tuple(item for item in items if isinstance(item, MergeGenerations)),
        )

    def __bool__(self) -> bool:
        return bool(self.merges or self.unites or self.partial_merges)
