"""Takes a run from one plan to another, by the steps that a road says; the driver has one, and commits for it.

A change is the life of a second track, which is silent: until the switch the old one answers, for all rows. The new one
takes in the rows that the old one keeps (`seeding.py`), in as many steps as its road likes. What it makes lies among
the segments of the checkpoint, cold, since no batch probes it. Each step is a commit, so a run that dies goes on where
it was. The switch is one commit too:

- First all that is owed is emitted. Then every group of the old plan has one generation, and each of its states holds
  all that it should: so does each state that the new plan takes over, and each that was made from these.
- So no result among the rows of a group is missing, in any group of any join of the new plan: they are one generation
  there as well, the live one. What is too much for the budget is spilled at once, as ever.

What goes wrong with the disk or with a segment meanwhile ends the change, not the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from watersmeet import faults
from watersmeet.adapt.decisions import BeginMigration, ChangePlan, MigrationAbandoned, to_json
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.migrate import check_road, find_road
from watersmeet.adapt.policies.migrate.road import FULL, Advance, Standing, TakeOver, Wait
from watersmeet.errors import InternalError, JobError, ResourceError
from watersmeet.model.ids import LIVE, StateName
from watersmeet.model.segments import Segment
from watersmeet.optimize.allocate import SPREAD, allocate, load_factors
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.matching import Matching, match_plans
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.runtime.context import watermarks_us
from watersmeet.runtime.reports import TaskReport
from watersmeet.runtime.seeding import Seeding
from watersmeet.state.expiry import expire_made, horizon_us
from watersmeet.state.identity import identify
from watersmeet.state.manifest import ANSWERS, WARMS_UP, Manifest, Track, Warming
from watersmeet.state.updates import (
    AddSegment,
    RecordDecision,
    ReleaseGroups,
    SetPlacement,
    SetTracks,
    SwitchPlan,
    Update,
)

if TYPE_CHECKING:
    from watersmeet.runtime.driver import Driver

Decided = Mapping[str, Any]


class Target(NamedTuple):
    """The plan that is to take over, and what it has in common with the one that answers."""

    plan: PhysicalPlan
    matching: Matching


@dataclass
class Pace:
    """How fast steps and batches go, as far as this run has seen it: it decides how much a step takes, and no more."""

    rows_a_second: float = 0.0  # that the last step took in; 0: there was none
    left: int | None = None  # rows since the round under way began, when steps were last taken; None: it is not known
    batch: int = -1  # the last one then
    batch_rows: int = 0  # that it brought
    taken_before: int = 0  # rows that had been taken in when it came
    usual: float | None = None  # seconds from result to result before the change began, which it makes longer itself

    def notice(self, batch: int, new_rows: int, taken: int) -> None:
        """There may have been a batch since: `new_rows` are there now, and `taken` were taken in before."""
        if batch != self.batch:
            self.batch_rows = 0 if self.left is None else max(0, new_rows - self.left)
            self.batch, self.taken_before = batch, taken


class Migrator:
    """Whoever calls has the driver's turn."""

    def __init__(self, driver: Driver[Any]) -> None:
        self._driver = driver
        self._waits = ""
        track = driver.manifest.warming_up
        self._target: Target | None = None
        if track is not None:
            self._head_for(lay_out_spec(driver.plan.query, track.spec))
        self._pace = Pace()

    def _head_for(self, plan: PhysicalPlan) -> None:
        self._target = Target(plan, match_plans(self._driver.plan, plan))

    @property
    def _manifest(self) -> Manifest:
        return self._driver.manifest

    @property
    def under_way(self) -> bool:
        return self._manifest.warming_up is not None

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """How far a change is that is under way, for people."""
        track = self._manifest.warming_up
        if track is None or track.warming is None:
            return None
        seen = track.warming
        return {
            "plan": str(track.spec.tree),
            "by": seen.by,
            "rows": seen.rows,
            "seconds": round(seen.seconds, 6),
            "seeded": round(seen.share, 4),
            "behind": max(0, self._now - (seen.done if seen.share == 1.0 else seen.start)),
            "waits_for": self._waits,
        }

    @property
    def _now(self) -> int:
        """The delivery that the answering track has come to."""
        return self._manifest.next_delivery - 1

    # --- the steps ---------------------------------------------------------------------------------------------------

    def begin(self, change: ChangePlan, asked: str | None = None, query: Query | None = None) -> Decided:
        """Set out for another plan; where there is nothing to wait for, it is there at once. The decision.

        With `query`, for a plan of that one, which the query was changed to.
        """
        driver = self._driver
        if self.under_way:
            if asked is None:
                return self._record(self._abandoned(change, "another change of the plan is under way"))
            self.abandon("the settings name another plan")
        road = check_road(change.by, driver.plan.query)
        spec, why = driver.make_spec(change.plan, self._manifest, driver.controller.watched)
        plan = lay_out_spec(query or driver.plan.query, spec)
        told = {**to_json(change), "by": road.name, "from": driver.plan.tree, "plan": plan.tree}
        before = self._manifest.answering
        track = Track(
            spec,
            why,
            WARMS_UP,
            self._manifest.last_batch + 1,
            before.asked if asked is None else asked,
            replace(road.begin(self._now), change=told),
        )
        self._head_for(plan)
        self._pace = Pace(left=0, batch=self._manifest.last_batch, usual=driver.rhythm.usual)
        if isinstance(road.next(self._standing(track)), TakeOver):
            return self._tried(self._take_over, track)
        begun = {**told, "decision": BeginMigration.__name__}
        driver.commit([SetTracks((before, track)), RecordDecision(begun)])
        return driver.tell_decision()

    def go_on(self, silent_seconds: float | None = None) -> bool:
        """Take the next steps of a change that is under way, as far as its road likes; whether there were any.

        The sources have been silent for so long; None: a batch is next.
        """
        steps, self._waits = 0, ""
        if (begun := self._manifest.warming_up) is not None:
            self._pace.notice(self._manifest.last_batch, self._rows(begun)[1], _warming(begun).rows)
        while (track := self._manifest.warming_up) is not None:
            step = find_road(_warming(track).by).next(self._standing(track, silent_seconds))
            match step:
                case Wait(what):
                    self._waits = what
                    break
                case Advance():
                    self._tried(self._advance, track, step)
                case TakeOver():
                    self._tried(self._take_over, track)
            steps += 1
            if silent_seconds is not None:  # rows may have come meanwhile
                break
        if (track := self._manifest.warming_up) is not None:
            self._pace.left = self._rows(track)[1]
        return steps > 0

    def abandon(self, why: str) -> Decided:
        """Drop a change that is under way."""
        track = self._manifest.warming_up
        assert track is not None
        made = self._heading.matching.made
        left = [segment for state in made for segment in self._manifest.segments.of_state(state)]
        dropped: list[Update] = [ReleaseGroups(segment.id, segment.groups) for segment in left]
        return self._record(self._abandoned(_change_of(track), why), SetTracks((self._manifest.answering,)), *dropped)

    def _abandoned(self, change: ChangePlan, why: str) -> dict[str, Any]:
        return to_json(MigrationAbandoned(change.plan, change.by, change.before_batch, f"{change.reason}: {why}"))

    def _record(self, decision: Mapping[str, Any], *updates: Update) -> Decided:
        self._driver.commit([*updates, RecordDecision(decision)])
        return self._driver.tell_decision()

    def _tried(self, take: Any, track: Track, *arguments: Any) -> Decided:
        """Take a step; what the machine does not allow ends the change. After the switch that is the run's affair."""
        answering = self._manifest.answering
        try:
            decided: Decided = take(track, *arguments)
            return decided
        except ResourceError as error:
            if self._manifest.answering != answering:
                raise
            self._driver.checkpoint.drop_attempt()
            if self.under_way:
                return self.abandon(error.primary)
            return self._record(self._abandoned(_change_of(track), error.primary))

    @property
    def _heading(self) -> Target:
        assert self._target is not None
        return self._target

    def _advance(self, track: Track, step: Advance) -> Decided:
        driver, seen, (plan, matching) = self._driver, _warming(track), self._heading
        started = driver.clock.now()
        seeding = Seeding(plan, self._manifest, matching, seen, step.upto, step.cursor)
        faults.reach("before-advance")
        tasks = self._make(seeding)
        if step.cursor is None:
            come = replace(seen, done=step.upto)
        else:
            over = step.cursor >= FULL
            come = replace(seen, start=step.upto, cursor=step.cursor, done=step.upto if over else seen.done)
        seconds = driver.clock.now() - started
        if seeding.rows and seconds > 0:
            self._pace.rows_a_second = seeding.rows / seconds
        come = replace(come, rows=seen.rows + seeding.rows, seconds=seen.seconds + seconds)
        made = [replace(segment, tier="cold", generation=LIVE) for task in tasks for segment in task.added]
        marks, names = watermarks_us(driver.plan, self._manifest), matching.made
        driver.commit(
            [*_changed(made, tasks), SetTracks((self._manifest.answering, replace(track, warming=come)))],
            lambda after: expire_made(plan, names, after, marks),
        )
        faults.reach("after-advance")
        self._drop_scratch(tasks)
        driver.tidy()
        return {}

    def _take_over(self, track: Track) -> Decided:
        driver, seen, started = self._driver, _warming(track), self._driver.clock.now()
        faults.reach("before-migration")
        driver.drain(ended=False)
        if driver.controller.owes(self._manifest):
            raise InternalError("results are owed after all of them were to be emitted")
        former, (plan, matching) = driver.plan, self._heading
        seeding = Seeding(plan, self._manifest, matching, seen, self._now)
        tasks = self._make(seeding)
        added = [segment for task in tasks for segment in task.added]
        since = self._manifest.last_batch + 1
        told = {
            **seen.change,
            "states_kept": len(matching.kept),
            "states_made": len(matching.made),
            "rows": seen.rows + seeding.rows,
            "batches": since - track.since_batch,
            "seconds": round(seen.seconds + driver.clock.now() - started, 6),
        }
        shared = [state for state in matching.kept if former.operator_of.get(state) not in matching.operators]
        switch = SwitchPlan(
            replace(track, role=ANSWERS, since_batch=since, warming=None),
            matching.dropped,
            (*shared, *matching.made),
            tuple(sorted(matching.operators)),
            None if plan.query is former.query else identify(plan.query),
        )
        if plan.query is not former.query:
            driver.deliver_pending(at_end=True)  # results of the two have other columns, and are not gathered
        faults.reach("before-switch")
        driver.commit([*_changed(added, tasks), switch, *self._placed(former, plan), RecordDecision(told)])
        faults.reach("after-switch")
        self._drop_scratch(tasks)
        self._target = None
        decided = driver.tell_decision()
        driver.follow(plan, told)
        driver.decide(Moment.AFTER_BATCH)  # what is in memory now may be too much
        driver.tidy()
        return decided

    def _placed(self, former: PhysicalPlan, plan: PhysicalPlan) -> list[Update]:
        """Where operators run on keys that the former plan did not have; the others stay."""
        balance, placement = self._driver.controller.settings.balance, self._manifest.placement
        if balance.allocate == SPREAD:
            return []
        for partitioning in {state.partitioning for state in former.states.values()}:
            placement = placement.move(partitioning, {})  # as it is
        loads = load_factors(plan, Statistics(measured=self._manifest.measured))
        placed = allocate(balance.allocate, loads, placement, balance.weights)
        return [] if placed == placement else [SetPlacement(placed)]

    def _make(self, seeding: Seeding) -> list[TaskReport]:
        return self._driver.executor.make_states(seeding) if seeding.matching.made and seeding.rows else []

    def _drop_scratch(self, tasks: Sequence[TaskReport]) -> None:
        self._driver.checkpoint.drop_later(scratch=[name for task in tasks for name in task.scratch])

    # --- what roads see ----------------------------------------------------------------------------------------------

    def _standing(self, track: Track, silent_seconds: float | None = None) -> Standing:
        seen, pace, (old_rows, new_rows) = _warming(track), self._pace, self._rows(track)
        rhythm, now = self._driver.rhythm, self._driver.clock.now()
        batch_seconds = rhythm.long or self._driver.batch_seconds
        return Standing(
            seen,
            self._now,
            old_rows,
            new_rows,
            pace.batch_rows,
            batch_seconds,
            silent_seconds,
            pace.usual or batch_seconds,
            0.0 if rhythm.last is None else now - rhythm.last,
            self._slowest_stream(),
            seen.rows - pace.taken_before,
            pace.rows_a_second,
            self._heading.matching.at_once,
        )

    def _rows(self, track: Track) -> tuple[int, int]:
        """Rows that are still needed: of the round under way, or that are done without, and those since."""
        seen, old_rows, new_rows = _warming(track), 0, 0
        low = -1 if seen.skips else seen.done
        for state in self._sources():
            until = self._horizon_us(state)
            for segment in self._manifest.segments.of_state(state):
                if segment.delivery > max(seen.start, seen.done):
                    new_rows += segment.live_rows
                elif low < segment.delivery <= seen.start and (until is None or segment.max_expiry_us > until):
                    old_rows += segment.live_rows
        return old_rows, new_rows

    def _sources(self) -> list[StateName]:
        """The states of the answering plan that the new one takes rows from."""
        matching = self._heading.matching
        return list(dict.fromkeys((*matching.kept, *(port.source.name for port in matching.ports))))

    def _horizon_us(self, state: StateName) -> int | None:
        plan = self._driver.plan
        return horizon_us(plan, plan.states[state], watermarks_us(plan, self._manifest), {})

    def _slowest_stream(self) -> str:
        marks = watermarks_us(self._driver.plan, self._manifest)
        return min(marks, key=lambda name: (marks[name] is not None, marks[name] or 0), default="")


def refuse_while_under_way(migrator: Migrator) -> None:
    """For who asks by hand."""
    if migrator.under_way:
        told = migrator.progress or {}
        raise JobError(
            "a change of the plan is under way",
            detail=f"The run is on its way to {told['plan']} by {told['by']}.",
            hint="Wait for its end: the progress of the run tells how far it is.",
        )


def _warming(track: Track) -> Warming:
    assert track.warming is not None
    return track.warming


def _change_of(track: Track) -> ChangePlan:
    """The change that a track is for."""
    told = _warming(track).change
    return ChangePlan(told["plan"], told["by"], told["before_batch"], told["reason"])


def _changed(added: Sequence[Segment], tasks: Sequence[TaskReport]) -> list[Update]:
    return [
        *map(AddSegment, added),
        *(ReleaseGroups(name, groups) for task in tasks for name, groups in task.released),
    ]
