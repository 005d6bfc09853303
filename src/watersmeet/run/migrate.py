"""The steps of a change under way: take rows in, and take over.

Each of the two is an attempt: if a disk is full or a segment is broken, the change ends and the run continues. After
the switch such an error is the run's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from watersmeet import faults
from watersmeet.adapt.decisions.change_plan import after_change, record_change
from watersmeet.adapt.decisions.outcome import Done
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.migrate import find_road
from watersmeet.adapt.policies.migrate.road import FULL, Advance, TakeOver, Wait
from watersmeet.errors import InternalError, ResourceError
from watersmeet.model.ids import LIVE, StateName
from watersmeet.model.segments import Segment
from watersmeet.plan.layout.shapes import common_key
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.run.change import (
    Part,
    Target,
    abandon,
    abandon_track,
    arrived,
    rows_of,
    standing_of,
    warming_of,
)
from watersmeet.run.ending import Ending
from watersmeet.run.steps import (
    Ask,
    Migrate,
    Needed,
    Settle,
    Step,
    Switch,
    TakeIn,
    Taken,
    Tidy,
    deliver_all,
    take,
)
from watersmeet.runtime.reports import TaskReport
from watersmeet.runtime.seeding import Seeding
from watersmeet.runtime.watermarks import watermarks_us
from watersmeet.start.placing import placement_after_change
from watersmeet.state.expiry import expire_made
from watersmeet.state.identity import identify
from watersmeet.state.manifest import ANSWERS, Track
from watersmeet.state.shapes import plan_of, with_shape
from watersmeet.state.updates import (
    AddSegment,
    ReleaseGroups,
    SetPlacement,
    SetTracks,
    SwitchPlan,
    Update,
)

if TYPE_CHECKING:
    from watersmeet.run.session import Session


@take.register(Migrate)
def _(step: Migrate, session: Session[Any]) -> Taken:
    track, changing = session.manifest.warming_up, session.changing
    if track is None:
        return Taken()
    seen = warming_of(track)
    changing.pace.notice(session.manifest.last_batch, rows_of(session, track)[1], seen.rows)
    batch_next = step.silent_seconds is None
    again = (step,) if batch_next else ()  # between two steps rows may come, if no batch is next
    match find_road(seen.by).next(standing_of(session, track, step.silent_seconds)):
        case Wait(what):
            changing.waits_for = what
            changing.pace.left = rows_of(session, track)[1]
            return Taken()
        case Advance() as advance:
            changing.waits_for = ""
            return Taken((TakeIn(track, advance), *again), worked=True)
        case TakeOver():
            changing.waits_for = ""
            return Taken((*take_over(session, track), *again), worked=True)


def take_over(session: Session[Any], track: Track, needed: Needed | None = None) -> tuple[Step, ...]:
    """Return the steps by which a track comes to answer."""
    faults.reach("before-migration")
    manifest = session.manifest
    under_way = manifest.warming_up is not None
    switch = Switch(track, session.clock.now(), manifest.shapes, manifest.placement.cuts, under_way, needed)
    return Settle(Ending.OPEN, track.within), switch


@take.register(TakeIn)
def _(step: TakeIn, session: Session[Any]) -> Taken:
    changing, track, advance = session.changing, step.track, step.step
    seen, target, started = warming_of(track), changing.heading, session.clock.now()
    seedings = target.seedings(session.manifest, seen, advance.upto, advance.cursor)
    rows = sum(seeding.rows for seeding in seedings)
    faults.reach("before-advance")
    tasks = _make(session, seedings)
    if advance.cursor is None:
        come = replace(seen, done=advance.upto)
    else:
        over = advance.cursor >= FULL
        come = replace(seen, start=advance.upto, cursor=advance.cursor, done=advance.upto if over else seen.done)
    seconds = session.clock.now() - started
    if rows and seconds > 0:
        changing.pace.rows_a_second = rows / seconds
    come = replace(come, rows=seen.rows + rows, seconds=seen.seconds + seconds)
    made = [replace(segment, tier="cold", generation=LIVE) for task in tasks for segment in task.added]
    marks, advanced = watermarks_us(session.plan, session.manifest), replace(track, warming=come)
    session.commit(
        [*_changed(made, tasks), SetTracks((*session.manifest.shapes, advanced))],
        lambda after: [
            update
            for part in target.parts
            for update in expire_made(target.plan, part.matching.made, after, marks, part.within)
        ],
    )
    faults.reach("after-advance")
    _drop_scratch(session, tasks)
    changing.pace.left = rows_of(session, advanced)[1]
    session.tidy()  # a part of the attempt
    return Taken()


@take.register(Switch)
def _(step: Switch, session: Session[Any]) -> Taken:
    """Make what is still missing, and commit that the new track answers."""
    track, changing = step.track, session.changing
    if step.under_way and session.manifest.warming_up is None:
        return Taken()  # a decision on the way has put an end to the change
    if session.manifest.placement.cuts != step.cuts:
        if track.within is not None:
            return Taken(outcome=abandon_track(session, track, "groups are cut"))
        # shapes that groups had are of other numbers now
        changing.target = Target.of(changing.heading.plan, None, session.plan.query, session.manifest)
    if session.controller.owes(session.manifest, track.within):
        raise InternalError("results are owed after all of them were to be emitted")
    former, target, manifest, seen = session.plan, changing.heading, session.manifest, warming_of(track)
    new_query = target.plan.query is not former.query
    # Results of the two have other columns: they are not gathered, nor delivered, as one.
    if new_query and session.deliveries.pending(manifest.undelivered):
        return Taken((*deliver_all(at_once=True), step))
    seedings = target.seedings(manifest, seen, arrived(manifest))
    tasks = _make(session, seedings)
    added = [segment for task in tasks for segment in task.added]
    since = manifest.last_batch + 1
    answers = replace(track, role=ANSWERS, since_batch=since, warming=None)
    groups = 0 if track.within is None else groups_of(session, target.plan)
    tracks = with_shape(manifest.shapes, answers, groups)
    plan = plan_of(target.plan.query, replace(manifest, tracks=tracks))
    told = {
        **seen.change,
        "states_kept": target.count(lambda matching: matching.kept),
        "states_made": target.count(lambda matching: matching.made),
        "rows": seen.rows + sum(seeding.rows for seeding in seedings),
        "batches": since - track.since_batch,
        "seconds": round(seen.seconds + session.clock.now() - step.started, 6),
    }
    switch = SwitchPlan(
        tracks,
        tuple(found for part in target.parts for found in part.states(part.matching.dropped)),
        tuple(found for part in target.parts for found in part.states(_reopened(part))),
        tuple(sorted(plan.operators.keys() & former.operators.keys())),
        identify(plan.query) if new_query else None,
        track.within,
    )
    faults.reach("before-switch")
    session.commit([*_changed(added, tasks), switch, *_placed(session, former, plan), record_change(told)])
    faults.reach("after-switch")
    _drop_scratch(session, tasks)
    changing.target = None
    decided = session.tell_last()
    session.learned = after_change(session.learned, told, since)
    session.run_plan(plan)
    # What is in memory now may be too much.
    return Taken((Ask(Moment.AFTER_BATCH), Tidy()), outcome=Done(decided))


def fail(step: TakeIn | Switch, session: Session[Any], error: ResourceError) -> Taken | None:
    """End an attempt that the machine does not allow; None if it has succeeded, so that the error is the run's own."""
    manifest = session.manifest
    if isinstance(step, Switch) and manifest.shapes != step.answering:
        return None
    session.checkpoint.drop_attempt()
    if manifest.warming_up is not None:
        outcome = abandon(session, error.primary)
    else:
        outcome = abandon_track(session, step.track, error.primary)
    if isinstance(step, Switch) and step.needed is not None:
        raise ResourceError(step.needed.primary, detail=outcome.reason, hint=step.needed.hint) from error
    return Taken(outcome=outcome)


def _placed(session: Session[Any], former: PhysicalPlan, plan: PhysicalPlan) -> list[Update]:
    """Place operators on keys that the former plan did not have; the others stay."""
    balance, placement = session.controller.settings.balance, session.manifest.placement
    placed = placement_after_change(placement, former, plan, balance, session.manifest.measured)
    return [] if placed == placement else [SetPlacement(placed)]


def groups_of(session: Session[Any], plan: PhysicalPlan) -> int:
    """Return how many groups the only partitioning of a plan has."""
    key = common_key([plan])
    assert key is not None
    return session.manifest.placement.of(key).groups


def _make(session: Session[Any], seedings: Sequence[Seeding]) -> list[TaskReport]:
    needed = [seeding for seeding in seedings if seeding.matching.made and seeding.rows]
    return [task for seeding in needed for task in session.executor.make_states(seeding)]


def _reopened(part: Part) -> tuple[StateName, ...]:
    """Return the states whose rows are of live generations from now on: those that are made, or of another join."""
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


def _drop_scratch(session: Session[Any], tasks: Sequence[TaskReport]) -> None:
    session.checkpoint.drop_later(scratch=[name for task in tasks for name in task.scratch])
