"""What a run would do with a checkpoint that is there: goes on or not, with what it has, and what it would make.

Looks only: takes no lock, changes nothing. What it says is true until somebody else commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from watersmeet.errors import CheckpointError, WatersmeetError
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.matching import match_plans
from watersmeet.plan.query import Query
from watersmeet.plan.ring_ways import UNSAID, RingWay
from watersmeet.plan.spec import PlanSpec, way_of
from watersmeet.runtime.checkpoint import newest_manifest
from watersmeet.runtime.former_query import fitted, former_of
from watersmeet.runtime.opening import plan_ahead, refuse_steps, regrouped, spec_of_changed
from watersmeet.runtime.planning import silent_note
from watersmeet.settings.run import RunSettings
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest
from watersmeet.state.shapes import plan_of

KEPT, MADE, DROPPED = "kept", "made", "dropped"


@dataclass(frozen=True)
class ForeseenState:
    """What becomes of a state, by its name, and the rows that it has."""

    what: str
    state: str
    rows: int


@dataclass(frozen=True)
class Foreseen:
    version: int
    batch: int  # the last one; -1 before the first
    former: str  # the plan of the checkpoint
    plan: str  # that the run would have
    states: tuple[ForeseenState, ...]
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


def foresee(query: Query, settings: RunSettings, folders: CheckpointFolders) -> Foreseen:
    """What a run of `query` would do with the checkpoint in `folders`."""
    manifest = newest_manifest(folders)
    if manifest is None:
        raise CheckpointError(
            f'there is no checkpoint in "{folders.home.path()}"',
            hint="Name the folder that [run] checkpoint or checkpointLocation names.",
        )
    try:
        former, changes = former_of(manifest, query)
        query = fitted(query, manifest)
        if changes:
            spec = spec_of_changed(former, query, settings, manifest)
        else:
            former = query
            spec, _ = plan_ahead(query, settings, folders)
            refuse_steps(query, settings, manifest, silent_note)
    except WatersmeetError as error:
        return _foreseen(manifest, settings, manifest.plan, refused=error)
    return replace(_with_states(former, query, settings, manifest, spec), changes=changes)


def _with_states(
    former_query: Query, query: Query, settings: RunSettings, manifest: Manifest, spec: PlanSpec
) -> Foreseen:
    former, new = plan_of(former_query, manifest), lay_out_spec(query, spec)
    if former_query is query and spec == manifest.answering.spec:
        new = former  # with all its shapes
    matching = match_plans(former, new)
    told = [(KEPT, matching.kept), (MADE, matching.made), (DROPPED, matching.dropped)]
    rows = {name: sum(entry.live_rows for entry in manifest.segments.of_state(name)) for name in former.states}
    states = tuple(ForeseenState(what, name, rows.get(name, 0)) for what, names in told for name in names)
    owing = sum(int(ledger.owing.sum()) for ledger in Ledgers(former).at(manifest).values())
    rings = way_of(manifest.answering.spec), way_of(spec)
    return replace(_foreseen(manifest, settings, new.tree, states, owing), rings=rings)


def _foreseen(
    manifest: Manifest,
    settings: RunSettings,
    plan: str,
    states: tuple[ForeseenState, ...] = (),
    owing: int = 0,
    refused: WatersmeetError | None = None,
) -> Foreseen:
    track, placement = manifest.warming_up, manifest.placement
    then = regrouped(placement.asking(settings.slots), settings)
    return Foreseen(
        version=manifest.version,
        batch=manifest.last_batch,
        former=manifest.plan,
        plan=plan,
        states=states,
        slots=(placement.slots, then.slots),
        groups=(placement.groups, settings.groups),
        owing=owing,
        undelivered=len(manifest.undelivered),
        on_its_way="" if track is None else str(track.spec.tree),
        refused=refused,
    )
