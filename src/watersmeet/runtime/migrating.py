"""Takes a run from one plan to another, by the steps that a road says; the driver has one, and commits for it.

A change is the life of a second track, which is silent: until the switch the old one answers, for all rows. The new one
takes in the rows that the old one keeps (`seeding.py`), in as many steps as its road likes. What it makes lies among
the segments of the checkpoint, cold, since no batch probes it. Each step is a commit, so a run that dies goes on where
it was. The switch is one commit too:

- First all that is owed is emitted. Then every group of the old plan has one generation, and each of its states holds
  all that it should: so does each state that the new plan takes over, and each that was made from these.
- So no result among the rows of a group is missing, in any group of any join of the new plan: they are one generation
  there as well, the live one. What is too much for the budget is spilled at once, as ever.

Where all inputs share a key, a change may be of some groups alone, and groups may have had shapes of their own before.
A group has all rows that can join with each other, so all of the above holds of groups as it does of the whole: what
they owe is emitted, what they hold is matched, dropped or made, and they switch. What the new plan takes, it takes from
each of the shapes that the groups had: each is a *part* of the change.

What goes wrong with the disk or with a segment meanwhile ends the change, not the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from watersmeet import faults
from watersmeet.adapt.decisions import BeginMigration, ChangePlan, MigrationAbandoned, record_change, to_json
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.migrate import check_road, find_road
from watersmeet.adapt.policies.migrate.balancing import choose_balance
from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.road import FULL, Advance, Road, Standing, TakeOver, Wait
from watersmeet.errors import InternalError, JobError, ResourceError, RingError
from watersmeet.model.ids import LIVE, StateName
from watersmeet.model.origin import Origin, origin_from_json
from watersmeet.model.routing import Groups, count_groups, groups_text
from watersmeet.model.segments import Segment, ranges_from_json
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.layout.shapes import check_groups, common_key
from watersmeet.plan.matching import Matching, match_plans
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.plan.tree import still_weighed
from watersmeet.runtime.context import watermarks_us
from watersmeet.runtime.reports import TaskReport
from watersmeet.runtime.seeding import Seeding
from watersmeet.settings.words import AUTO
from watersmeet.start.placing import placement_after_change
from watersmeet.start.start_plan import PlanChange
from watersmeet.state.expiry import expire_made, horizon_us
from watersmeet.state.identity import identify
from watersmeet.state.manifest import ANSWERS, WARMS_UP, Manifest, Track, Warming
from watersmeet.state.shapes import plan_of, shapes_of, shared_out, with_shape
from watersmeet.state.updates import (
    AddSegment,
    ReleaseGroups,
    SetPlacement,
    SetTracks,
    StatePart,
    SwitchPlan,
    Update,
)

if TYPE_CHECKING:
    from watersmeet.runtime.driver import Driver

Decided = Mapping[str, Any]


class Part(NamedTuple):
    """Groups that had one shape, None for all, and what the plan that is to take over has in common with that."""

    former: PhysicalPlan
    matching: Matching
    within: Groups | None

    def states(self, names: Iterable[StateName]) -> list[StatePart]:
        """These states, in these groups."""
        return [(name, self.within) for name in names]


class Target(NamedTuple):
    """The plan that is to take over, and what it takes from those that answer."""

    plan: PhysicalPlan
    parts: tuple[Part, ...]

    @property
    def at_once(self) -> bool:
        return any(part.matching.at_once for part in self.parts)

    def count(self, states: Callable[[Matching], tuple[StateName, ...]]) -> int:
        """How many of the states there are, whatever groups they are of."""
        return len({state for part in self.parts for state in states(part.matching)})


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
            self._head_for(lay_out_spec(driver.plan.query, track.spec), track.within)
        self._pace = Pace()

    def _head_for(self, plan: PhysicalPlan, within: Groups | None) -> None:
        former = shared_out(shapes_of(self._driver.plan.query, self._manifest), within)
        parts = tuple(Part(shape.plan, match_plans(shape.plan, plan), shape.within) for shape in former)
        self._target = Target(plan, parts)

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
            "groups": None if track.within is None else groups_text(track.within),
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

    def begin(self, change: ChangePlan, asked: PlanChange | None = None) -> Decided:
        """Set out for another plan; where there is nothing to wait for, it is there at once. The decision.

        `asked` has the plan that the run was started with, which may be of another query.
        """
        driver = self._driver
        if self.under_way:
            if asked is None:
                return self._record(self._abandoned(change, "another change of the plan is under way"))
            self.abandon("the settings name another plan")
        if asked is not None:
            plan, why = asked.plan, asked.why
        else:
            try:
                spec, why = driver.make_spec(change.plan, self._manifest, driver.controller.watched)
            except RingError as error:
                return self._record(self._abandoned(change, error.primary))
            # Rows that were combined cannot be told apart again. What they weigh goes on with them.
            spec = replace(spec, tree=still_weighed(spec.tree, self._manifest.answering.spec.tree))
            plan = lay_out_spec(driver.plan.query, spec)
        shapes = shapes_of(driver.plan.query, self._manifest)
        within = change.within
        if within is not None:
            try:
                check_groups(within, [*(shape.plan for shape in shapes), plan], self._manifest.placement)
            except JobError as error:  # it was right when it was asked for, and is not any more
                return self._record(self._abandoned(change, error.primary))
            within = None if count_groups(within) == self._groups_of(plan) else within
        elif len(shapes) > 1 and common_key([*(shape.plan for shape in shapes), plan]) is None:
            self.unite(f"{change.reason}: {plan.tree} has other groups", change.origin)
        self._head_for(plan, within)
        setting = self._manifest.answering.asked if asked is None else asked.setting
        return self._set_out(Track(plan.spec, why, asked=setting, within=within), change, self._road(change, within))

    def _set_out(self, track: Track, change: ChangePlan, road: Road) -> Decided:
        """Take the first step to what is headed for."""
        driver, (plan, parts) = self._driver, self._heading
        former = " and ".join(part.former.tree for part in parts)
        told = {**to_json(change), "asked": change.plan, "by": road.name, "from": former, "plan": plan.tree}
        track = replace(
            track,
            role=WARMS_UP,
            since_batch=self._manifest.last_batch + 1,
            warming=replace(road.begin(self._now), change=told),
        )
        self._pace = Pace(left=0, batch=self._manifest.last_batch, usual=driver.rhythm.usual)
        if isinstance(road.next(self._standing(track)), TakeOver):
            return self._tried(self._take_over, track)
        begun = {**told, "decision": BeginMigration.__name__}
        driver.commit([SetTracks((*self._manifest.shapes, track)), record_change(begun)])
        return driver.tell_decision()

    def unite(self, reason: str, origin: Origin) -> None:
        """Have all groups run one shape, the first of those that there are, before the next batch."""
        first, query = self._manifest.answering, self._driver.plan.query
        before = self._manifest.last_batch + 1
        change = ChangePlan(str(first.spec.tree), MovingState.name, before, reason, origin=origin)
        self._head_for(lay_out_spec(query, first.spec), None)
        self._set_out(replace(first, within=None), change, MovingState())
        if len(self._manifest.shapes) > 1:
            raise ResourceError(
                "groups that differ in the shape of their plan could not be made to have one",
                detail=str(self._manifest.decisions[-1]["reason"]),
                hint="See that there is room on the disk.",
            )

    def check(self, change: ChangePlan) -> None:
        """Refuse a change that somebody asks for by hand and that cannot be."""
        refuse_while_under_way(self)
        driver = self._driver
        check_road(change.by, driver.plan.query)
        spec, _ = driver.make_spec(change.plan, self._manifest, driver.controller.watched)
        if change.within is not None:
            shapes = [shape.plan for shape in shapes_of(driver.plan.query, self._manifest)]
            check_groups(change.within, [*shapes, lay_out_spec(driver.plan.query, spec)], self._manifest.placement)

    def _groups_of(self, plan: PhysicalPlan) -> int:
        """How many groups the only partitioning of a plan has."""
        key = common_key([plan])
        assert key is not None
        return self._manifest.placement.of(key).groups

    def _road(self, change: ChangePlan, within: Groups | None) -> Road:
        """The way to the plan; where it is for some groups alone and nobody has said, the one that costs less."""
        query = self._driver.plan.query
        if within is None or change.by != AUTO:
            return check_road(change.by, query)
        by = self._driver.controller.settings.balance.by
        return choose_balance(query, *self._held_and_coming_bytes()) if by == AUTO else check_road(by, query)

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
        dropped: list[Update] = [
            ReleaseGroups(segment.id, segment.groups)
            for part in self._heading.parts
            for state in part.matching.made
            for segment in self._held(state, part)
        ]
        return self._record(
            self._abandoned(_change_of(track), why, _warming(track).change["asked"]),
            SetTracks(self._manifest.shapes),
            *dropped,
        )

    def _abandoned(self, change: ChangePlan, why: str, asked: str | None = None) -> dict[str, Any]:
        """The decision, of a plan that was asked for by this name."""
        reason, name = f"{change.reason}: {why}", asked or change.plan
        batch, origin = change.before_batch, change.origin
        return to_json(MigrationAbandoned(change.plan, change.by, batch, reason, change.within, name, origin=origin))

    def _record(self, decision: Mapping[str, Any], *updates: Update) -> Decided:
        self._driver.commit([*updates, record_change(decision)])
        return self._driver.tell_decision()

    def _tried(self, take: Any, track: Track, *arguments: Any) -> Decided:
        """Take a step; what the machine does not allow ends the change. After the switch that is the run's affair."""
        answering = self._manifest.shapes
        try:
            decided: Decided = take(track, *arguments)
            return decided
        except ResourceError as error:
            if self._manifest.shapes != answering:
                raise
            self._driver.checkpoint.drop_attempt()
            if self.under_way:
                return self.abandon(error.primary)
            return self._record(self._abandoned(_change_of(track), error.primary, _warming(track).change["asked"]))

    @property
    def _heading(self) -> Target:
        assert self._target is not None
        return self._target

    def _advance(self, track: Track, step: Advance) -> Decided:
        driver, seen, (plan, parts) = self._driver, _warming(track), self._heading
        started = driver.clock.now()
        seedings = self._seedings(seen, step.upto, step.cursor)
        rows = sum(seeding.rows for seeding in seedings)
        faults.reach("before-advance")
        tasks = self._make(seedings)
        if step.cursor is None:
            come = replace(seen, done=step.upto)
        else:
            over = step.cursor >= FULL
            come = replace(seen, start=step.upto, cursor=step.cursor, done=step.upto if over else seen.done)
        seconds = driver.clock.now() - started
        if rows and seconds > 0:
            self._pace.rows_a_second = rows / seconds
        come = replace(come, rows=seen.rows + rows, seconds=seen.seconds + seconds)
        made = [replace(segment, tier="cold", generation=LIVE) for task in tasks for segment in task.added]
        marks = watermarks_us(driver.plan, self._manifest)
        driver.commit(
            [*_changed(made, tasks), SetTracks((*self._manifest.shapes, replace(track, warming=come)))],
            lambda after: [
                update for part in parts for update in expire_made(plan, part.matching.made, after, marks, part.within)
            ],
        )
        faults.reach("after-advance")
        self._drop_scratch(tasks)
        driver.tidy()
        return {}

    def _take_over(self, track: Track) -> Decided:
        driver, seen, started = self._driver, _warming(track), self._driver.clock.now()
        faults.reach("before-migration")
        under_way, placement = self.under_way, self._manifest.placement
        driver.drain(ended=False, within=track.within)
        if under_way and not self.under_way:
            return self._manifest.decisions[-1]  # something that was decided on the way has put an end to it
        if self._manifest.placement.cuts != placement.cuts:
            if track.within is not None:
                return self._record(self._abandoned(_change_of(track), "groups are cut", seen.change["asked"]))
            self._head_for(self._heading.plan, None)  # shapes that groups had are of other numbers now
        if driver.controller.owes(self._manifest, track.within):
            raise InternalError("results are owed after all of them were to be emitted")
        former, target = driver.plan, self._heading
        seedings = self._seedings(seen, self._now)
        tasks = self._make(seedings)
        added = [segment for task in tasks for segment in task.added]
        since = self._manifest.last_batch + 1
        answers = replace(track, role=ANSWERS, since_batch=since, warming=None)
        groups = 0 if track.within is None else self._groups_of(target.plan)
        tracks = with_shape(self._manifest.shapes, answers, groups)
        plan = plan_of(target.plan.query, replace(self._manifest, tracks=tracks))
        told = {
            **seen.change,
            "states_kept": target.count(lambda matching: matching.kept),
            "states_made": target.count(lambda matching: matching.made),
            "rows": seen.rows + sum(seeding.rows for seeding in seedings),
            "batches": since - track.since_batch,
            "seconds": round(seen.seconds + driver.clock.now() - started, 6),
        }
        switch = SwitchPlan(
            tracks,
            tuple(found for part in target.parts for found in part.states(part.matching.dropped)),
            tuple(found for part in target.parts for found in part.states(_reopened(part))),
            tuple(sorted(plan.operators.keys() & former.operators.keys())),
            None if plan.query is former.query else identify(plan.query),
            track.within,
        )
        if plan.query is not former.query:
            driver.deliver_pending(at_end=True)  # results of the two have other columns, and are not gathered
        faults.reach("before-switch")
        driver.commit([*_changed(added, tasks), switch, *self._placed(former, plan), record_change(told)])
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
        placed = placement_after_change(placement, former, plan, balance, self._manifest.measured)
        return [] if placed == placement else [SetPlacement(placed)]

    def _seedings(self, seen: Warming, upto: int, cursor: int | None = None) -> list[Seeding]:
        """What a step takes in, of each part."""
        plan, parts = self._heading
        return [Seeding(plan, self._manifest, part.matching, seen, upto, cursor, part.within) for part in parts]

    def _make(self, seedings: Sequence[Seeding]) -> list[TaskReport]:
        needed = [seeding for seeding in seedings if seeding.matching.made and seeding.rows]
        return [task for seeding in needed for task in self._driver.executor.make_states(seeding)]

    def _held(self, state: StateName, part: Part) -> list[Segment]:
        """What there is of a state in the groups of a part."""
        held = list(self._manifest.segments.of_state(state))
        if part.within is None:
            return held
        return [found for segment in held if (found := segment.only(part.within)).groups]

    def _drop_scratch(self, tasks: Sequence[TaskReport]) -> None:
        self._driver.checkpoint.drop_later(scratch=[name for task in tasks for name in task.scratch])

    # --- what roads see ----------------------------------------------------------------------------------------------

    def _standing(self, track: Track, silent_seconds: float | None = None) -> Standing:
        seen, pace, (old_rows, new_rows) = _warming(track), self._pace, self._rows(track)
        rhythm, now = self._driver.rhythm, self._driver.clock.now()
        batch_seconds = max(rhythm.long or 0.0, self._driver.batch_seconds)
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
            self._heading.at_once,
        )

    def _rows(self, track: Track) -> tuple[int, int]:
        """Rows that are still needed: of the round under way, or that are done without, and those since."""
        seen, old_rows, new_rows = _warming(track), 0, 0
        low = -1 if seen.skips else seen.done
        for part, state in self._sources():
            until = self._horizon_us(state)
            for segment in self._held(state.name, part):
                if segment.delivery > max(seen.start, seen.done):
                    new_rows += segment.live_rows
                elif low < segment.delivery <= seen.start and (until is None or segment.max_expiry_us > until):
                    old_rows += segment.live_rows
        return old_rows, new_rows

    def _held_and_coming_bytes(self) -> tuple[float, float]:
        """What the parts that miss something hold of what it is made from, and what a window brings them."""
        query, measured = self._driver.plan.query, self._manifest.measured
        held = coming = 0.0
        for part, state in self._sources():
            if not part.matching.made:
                continue
            parts = self._held(state.name, part)
            held_bytes, rows = sum(found.live_bytes for found in parts), sum(found.live_rows for found in parts)
            held += held_bytes
            width = query.reach.kept_for_us(state.aliases[0])
            if len(state.aliases) == 1 and rows and width is not None:
                everywhere = sum(found.live_rows for found in self._manifest.segments.of_state(state.name))
                rate = (measured.rate(state.aliases[0]) or 0.0) * rows / everywhere
                coming += rate * max(0, width) / 1e6 * held_bytes / rows
        return held, coming

    def _sources(self) -> Iterator[tuple[Part, State]]:
        """The states of the answering plan that the new one takes rows from, in the groups of each part."""
        for part in self._heading.parts:
            fed = (port.source.name for port in part.matching.ports)
            for name in dict.fromkeys((*part.matching.kept, *fed)):
                yield part, part.former.states[name]

    def _horizon_us(self, state: State) -> int | None:
        plan = self._driver.plan
        return horizon_us(plan, state, watermarks_us(plan, self._manifest), {})

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
    within = told.get("within")  # as it was asked for, which may have been by naming all groups
    return ChangePlan(
        told["plan"],
        told["by"],
        told["before_batch"],
        told["reason"],
        within=None if within is None else ranges_from_json(within),
        origin=origin_from_json(told["origin"]),
    )


def _reopened(part: Part) -> tuple[StateName, ...]:
    """The states whose rows are of the live generations from now on: those that are made, or of another join."""
    of_joins, same = part.former.operators_of, part.matching.operators
    return (
        *(state for state in part.matching.kept if not set(of_joins.get(state, ())) & same),
        *part.matching.made,
    )


def _changed(added: Sequence[Segment], tasks: Sequence[TaskReport]) -> list[Update]:
    return [
        *map(AddSegment, added),
        *(ReleaseGroups(name, groups) for task in tasks for name, groups in task.released),
    ]
