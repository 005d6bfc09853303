"""What a run begins with, decided once: `explain` shows it, and the run that begins is given the same value.

Frozen data. `start/resolve.py` makes it of a query, settings and what a checkpoint holds; nothing else decides any of
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from watersmeet.model.placement import Placement
from watersmeet.optimize.choose import ChosenPlan
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.settings.run import RunSettings
from watersmeet.state.manifest import Manifest
from watersmeet.state.query_identity import QueryIdentity


@dataclass(frozen=True)
class PlanChange:
    """A plan, and perhaps a query, that a run changes to before its first batch."""

    asked: str  # the plan, as a setting names it
    setting: str  # that the run resumes with from then on
    reason: str  # of the change
    why: str  # it is this plan
    plan: PhysicalPlan  # with its spec, and the query
    identity: QueryIdentity  # of this query


@dataclass(frozen=True)
class StartPlan:
    """What a run begins with: the plan and the placement by its first batch, and what it changes before that."""

    settings: RunSettings
    manifest: Manifest  # that the run resumes from; the first version of a new run, which has no name yet
    is_new: bool
    query: Query
    former: PhysicalPlan  # that answers until the change is made
    plan: PhysicalPlan  # by the first batch
    claimed: Placement  # that the run takes its checkpoint with
    placement: Placement  # by the first batch
    chosen: ChosenPlan  # why it is this plan, and what else was considered
    change: PlanChange | None = None
    query_changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # of forced steps that do not fit any more

    @property
    def groups(self) -> int:
        """The number of groups that the run comes to before its first batch."""
        return self.settings.groups

    @property
    def tree(self) -> str:
        """The plan by the first batch, as a manifest names it: with the trees of groups that have another."""
        return self.manifest.plan if self.plan is self.former else self.plan.tree

    def is_from(self, manifest: Manifest | None) -> bool:
        """Whether this is the start from that version of a checkpoint; None: where there is none."""
        if manifest is None or self.is_new:
            return manifest is None and self.is_new
        known = self.manifest
        return (known.id, known.version, known.committed_us) == (manifest.id, manifest.version, manifest.committed_us)

    def sentences(self) -> Iterator[str]:
        """What a user is told before the run begins."""
        yield from (f"the query was changed: {sentence}" for sentence in self.query_changes)
        yield from self.notes

    def change_json(self) -> dict[str, Any] | None:
        """What the run changes of its checkpoint before its first batch; None where that is nothing."""
        before, changed = self.manifest.placement, self.plan is not self.former
        slots, groups = (before.slots, self.placement.slots), (before.groups, self.placement.groups)
        if not changed and slots[0] == slots[1] and groups[0] == groups[1]:
            return None
        reason = "the number of groups is changed" if changed else None
        return {
            "from": self.manifest.plan,
            "to": self.tree,
            "reason": reason if self.change is None else self.change.reason,
            "query_changes": list(self.query_changes),
            "slots": list(slots),
            "groups": list(groups),
        }
