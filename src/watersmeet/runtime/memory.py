"""What a run does about memory between two batches: spills groups, and says which ones to merge with the next batch.

A spill is a commit of its own: it closes the live generations of some groups and makes them cold. A merge takes place
in the tasks of a batch (`runtime/stage.py`), or in a round of its own when no rows come; the live generation of its
group is closed first, for only closed generations are merged. Whatever dies in between leaves a group that owes a
little more, and nothing lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watersmeet import faults
from watersmeet.adapt.decisions import MergeGroup, SpillGroups
from watersmeet.model.routing import union_ranges
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.runtime.checkpoint import Checkpoint
from watersmeet.runtime.generations import owed
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import AtVersion
from watersmeet.state.updates import CloseGroups, RecordDecision, Update

GroupKey = tuple[str, int]  # operator and group


class MemoryKeeper:
    """Keeps the memory of one run. Called between batches only."""

    def __init__(self, plan: PhysicalPlan, checkpoint: Checkpoint) -> None:
        self.plan = plan
        self.checkpoint = checkpoint

    @property
    def manifest(self) -> Manifest:
        return self.checkpoint.manifest

    def spill(self, decision: SpillGroups) -> None:
        """Close the live generations of these groups and make them cold."""
        closed = self._close(decision.groups)
        if closed:
            self._commit([*closed, RecordDecision(decision.to_json())])

    def prepare_merges(self, decisions: Sequence[MergeGroup]) -> list[GroupKey]:
        """Close what is live in the groups to be merged; the groups, for the next batch or round."""
        groups = [(decision.operator, decision.group) for decision in decisions]
        updates: list[Update] = [*self._close(groups), *(RecordDecision(entry.to_json()) for entry in decisions)]
        if updates:
            self._commit(updates)
        return groups

    def owed(self) -> list[GroupKey]:
        """The groups that owe results, those of lower operators first."""
        return [(operator, group) for operator, groups in owed(self.plan, self.manifest).items() for group in groups]

    def _close(self, groups: Iterable[GroupKey]) -> list[Update]:
        """Updates that close those of `groups` with live rows."""
        wanted: dict[str, set[int]] = {}
        for operator, group in groups:
            wanted.setdefault(operator, set()).add(group)
        updates: list[Update] = []
        for operator, numbers in wanted.items():
            states = self.plan.operators[operator].states
            live: set[int] = set()
            for segment in self.manifest.segments.values():
                if segment.tier == "active" and segment.state in states:
                    live |= segment.rows_by_group.keys() & numbers
            cold = self._cooled(operator, states, numbers)
            if live | cold:
                ranges = union_ranges((group, group + 1) for group in live | cold)
                updates.append(CloseGroups(operator, states, ranges))
        return updates

    def _cooled(self, operator: str, states: tuple[str, ...], numbers: set[int]) -> set[int]:
        """Groups whose live generation has rows that are cold already, having expired."""
        closed = self.manifest.closed.get(operator, {})
        return {
            group
            for segment in self.manifest.segments.values()
            if segment.tier == "cold" and segment.state in states
            for group in segment.rows_by_group.keys() & numbers
            if segment.generation == closed.get(group, 0)
        }

    def _commit(self, updates: Sequence[Update]) -> None:
        faults.reach("before-spill")
        self.checkpoint.table.commit([AtVersion(self.manifest.version)], updates)
        faults.reach("after-spill")
