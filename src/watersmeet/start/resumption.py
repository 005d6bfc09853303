"""What a start does with the state of its checkpoint: what it keeps, makes and drops, or why it is refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import WatersmeetError
from watersmeet.plan.matching import match_plans
from watersmeet.plan.ring_ways import UNSAID, RingWay
from watersmeet.plan.spec import way_of
from watersmeet.settings.run import RunSettings
from watersmeet.start.placing import regrouped
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest

KEPT, MADE, DROPPED = "kept", "made", "dropped"


@dataclass(frozen=True)
class StateChange:
    """Whether a state is kept, made or dropped, its name, and the rows that it has."""

    what: str
    state: str
    rows: int


@dataclass(frozen=True)
class Resumption:
    """What becomes of a checkpoint: of its plan, its states, its slots and groups, and what waits in it."""

    version: int
    batch: int  # the last one; -1 before the first
    former: str  # the plan of the checkpoint
    plan: str  # by the first batch
    states: tuple[StateChange, ...]
    slots: tuple[int, int]
    groups: tuple[int, int]
    owing: int  # groups that owe results, which a change of the plan emits first
    undelivered: int  # deliveries that wait, and are the first that it does
    on_its_way: str = ""  # the plan of a change that is under way
    refused: WatersmeetError | None = None
    changes: tuple[str, ...] = ()  # of the query
    rings: tuple[RingWay, RingWay] = (UNSAID, UNSAID)  # how rings are spread, and would be

    @property
    def changes_plan(self) -> bool:
        return self.former != self.plan or self.rings[0] != self.rings[1] or bool(self.changes)

    @property
    def _plans(self) -> tuple[str, str]:
        """Both plans as text, with how their rings are spread where that differs."""
        if self.rings[0] == self.rings[1]:
            return self.former, self.plan
        former, new = map(str, self.rings)
        return f"{self.former} by {former}", f"{self.plan} by {new}"

    def sentences(self) -> Iterator[str]:
        """For people, of a run that is not refused."""
        reached = f"after batch {self.batch}" if self.batch >= 0 else "before the first batch"
        yield f"the checkpoint is at version {self.version}, {reached}"
        yield from (f"the query was changed: {sentence}" for sentence in self.changes)
        if self.undelivered:
            yield f"results of {self.undelivered:,} batches and rounds wait, and are delivered first"
        if self.on_its_way:
            fate = "is dropped" if self.changes_plan or self.groups[0] != self.groups[1] else "goes on"
            yield f"a change of the plan to {self.on_its_way} is under way, and {fate}"
        if self.changes_plan:
            owed = f"what {self.owing:,} groups owe is emitted, then " if self.owing else ""
            before, after = self._plans
            what = f"is changed from {before} to {after}" if before != after else f"stays {after}"
            yield f"the plan {what}, with what it needs of the state: {owed}between two batches"
            for state in self.states:
                yield f"  {state.what:<8}{state.state}" + (f", {state.rows:,} rows" if state.what != MADE else "")
        else:
            yield f"the plan stays {self.plan}, with all of its state"
        old, new = self.slots
        yield f"slots: {old} become {new}" if old != new else f"slots: {old}, as before"
        old, new = self.groups
        if old != new:
            # A change of the plan comes first, and emits what is owed.
            first = f"what {self.owing:,} groups owe is emitted first, " if self.owing and not self.changes_plan else ""
            yield f"groups: {old} become {new}: {first}the files of the state are counted by these"

    def to_json(self) -> dict[str, Any]:
        refused = None if self.refused is None else {"error": self.refused.primary, "detail": self.refused.detail}
        return {
            "version": self.version,
            "batch": self.batch,
            "goes_on": self.refused is None,
            "refused": refused,
            "from": self.former,
            "plan": self.plan,
            "rings": [way.name for way in self.rings],
            "states": [{"what": s.what, "state": s.state, "rows": s.rows} for s in self.states],
            "slots": list(self.slots),
            "groups": list(self.groups),
            "owing": self.owing,
            "undelivered": self.undelivered,
            "on_its_way": self.on_its_way or None,
            "query_changes": list(self.changes),
        }


def resumption_of(start: StartPlan) -> Resumption:
    """What a run that resumes does with the state of its checkpoint."""
    manifest, matching = start.manifest, match_plans(start.former, start.plan)
    changed = [(KEPT, matching.kept), (MADE, matching.made), (DROPPED, matching.dropped)]
    rows = {name: sum(entry.live_rows for entry in manifest.segments.of_state(name)) for name in start.former.states}
    coming = manifest.warming_up
    return Resumption(
        version=manifest.version,
        batch=manifest.last_batch,
        former=manifest.plan,
        plan=start.tree,
        states=tuple(StateChange(what, name, rows.get(name, 0)) for what, names in changed for name in names),
        slots=(manifest.placement.slots, start.placement.slots),
        groups=(manifest.placement.groups, start.placement.groups),
        owing=sum(int(ledger.owing.sum()) for ledger in Ledgers(start.former).at(manifest).values()),
        undelivered=len(manifest.undelivered),
        on_its_way="" if coming is None else str(coming.spec.tree),
        changes=start.query_changes,
        rings=(way_of(manifest.answering.spec), way_of(start.plan.spec)),
    )


def refused_resumption(manifest: Manifest, settings: RunSettings, error: WatersmeetError) -> Resumption:
    """What there is of a checkpoint that a run is refused."""
    coming, placement = manifest.warming_up, manifest.placement
    return Resumption(
        version=manifest.version,
        batch=manifest.last_batch,
        former=manifest.plan,
        plan=manifest.plan,
        states=(),
        slots=(placement.slots, regrouped(placement.asking(settings.slots), settings.groups).slots),
        groups=(placement.groups, settings.groups),
        owing=0,
        undelivered=len(manifest.undelivered),
        on_its_way="" if coming is None else str(coming.spec.tree),
        refused=error,
    )
