"""The first steps of a change of the plan: make its spec, see what it can take over, and set out by a road."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from watersmeet.adapt.decisions.change_plan import BeginMigration, ChangePlan, record_change
from watersmeet.adapt.decisions.outcome import Waiting
from watersmeet.adapt.policies.migrate import check_road
from watersmeet.adapt.policies.migrate.balancing import choose_balance
from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.road import Road, TakeOver
from watersmeet.errors import JobError, RingError
from watersmeet.model.routing import Groups, count_groups
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.layout.shapes import check_groups, common_key
from watersmeet.plan.tree import still_weighed
from watersmeet.run.change import (
    Pace,
    Target,
    abandon,
    arrived,
    held_and_coming_bytes,
    progress,
    record_abandoned,
    standing_of,
)
from watersmeet.run.migrate import groups_of, take_over
from watersmeet.run.steps import Leave, Needed, SetOut, Taken, Unite, take
from watersmeet.settings.words import AUTO
from watersmeet.state.manifest import WARMS_UP, Track
from watersmeet.state.shapes import shapes_of
from watersmeet.state.updates import SetTracks

if TYPE_CHECKING:
    from watersmeet.run.session import Session


@take.register(SetOut)
def _(step: SetOut, session: Session[Any]) -> Taken:
    change, manifest, query = step.change, session.manifest, session.plan.query
    if manifest.warming_up is not None:
        if step.asked is None:
            return _abandoned(session, change, "another change of the plan is under way")
        abandon(session, "the settings name another plan")
        manifest = session.manifest
    if step.asked is not None:
        plan, why = step.asked.plan, step.asked.why
    else:
        try:
            spec, why = change.spec, change.reason
            if spec is None:
                spec, why = session.make_spec(change.plan, manifest, session.controller.watched)
        except RingError as error:
            return _abandoned(session, change, error.primary)
        # Rows that were combined cannot be told apart again: their weights stay.
        spec = replace(spec, tree=still_weighed(spec.tree, manifest.answering.spec.tree))
        plan = lay_out_spec(query, spec)
    shapes = [shape.plan for shape in shapes_of(query, manifest)]
    within = change.within
    if within is not None:
        try:
            check_groups(within, [*shapes, plan], manifest.placement)
        except JobError as error:  # they were right when they were asked for, and are not any more
            return _abandoned(session, change, error.primary)
        within = None if count_groups(within) == groups_of(session, plan) else within
    setting = manifest.answering.asked if step.asked is None else step.asked.setting
    leave = Leave(change, Track(plan.spec, why, asked=setting, within=within), plan, step.needed)
    if within is None and len(shapes) > 1 and common_key([*shapes, plan]) is None:
        return Taken((Unite(f"{change.reason}: {plan.tree} has other groups", change.origin), leave))
    return Taken((leave,))


@take.register(Unite)
def _(step: Unite, session: Session[Any]) -> Taken:
    first, road = session.manifest.answering, MovingState()
    plan = lay_out_spec(session.plan.query, first.spec)
    change = ChangePlan(
        str(first.spec.tree), road.name, session.manifest.last_batch + 1, step.reason, origin=step.origin
    )
    needed = Needed(
        "groups that differ in the shape of their plan could not be made to have one",
        "See that there is room on the disk.",
    )
    return Taken((Leave(change, replace(first, within=None), plan, needed, road),))


@take.register(Leave)
def _(step: Leave, session: Session[Any]) -> Taken:
    manifest, changing, change = session.manifest, session.changing, step.change
    within = step.track.within
    changing.target = Target.of(step.plan, within, session.plan.query, manifest)
    road = step.by or _road(session, change, within)
    former = " and ".join(part.former.tree for part in changing.target.parts)
    told = {**change.to_json(), "asked": change.plan, "by": road.name, "from": former, "plan": step.plan.tree}
    track = replace(
        step.track,
        role=WARMS_UP,
        since_batch=manifest.last_batch + 1,
        warming=replace(road.begin(arrived(manifest)), change=told),
    )
    changing.pace = Pace(left=0, batch=manifest.last_batch, usual=session.rhythm.usual)
    if isinstance(road.next(standing_of(session, track)), TakeOver):
        return Taken(take_over(session, track, step.needed))
    begun = {**told, "decision": BeginMigration.__name__}
    session.commit([SetTracks((*manifest.shapes, track)), record_change(begun)])
    return Taken(outcome=Waiting(recorded=session.tell_last()))


def check_change(session: Session[Any], change: ChangePlan) -> None:
    """Refuse a change that somebody asks for by hand and that cannot be made."""
    if session.manifest.warming_up is not None:
        under_way = progress(session) or {}
        raise JobError(
            "a change of the plan is under way",
            detail=f"The run is on its way to {under_way['plan']} by {under_way['by']}.",
            hint="Wait for its end: the progress of the run tells how far it is.",
        )
    query, manifest = session.plan.query, session.manifest
    check_road(change.by, query)
    spec, _ = session.make_spec(change.plan, manifest, session.controller.watched)
    if change.within is not None:
        shapes = [shape.plan for shape in shapes_of(query, manifest)]
        check_groups(change.within, [*shapes, lay_out_spec(query, spec)], manifest.placement)


def _abandoned(session: Session[Any], change: ChangePlan, why: str) -> Taken:
    return Taken(outcome=record_abandoned(session, change, why))


def _road(session: Session[Any], change: ChangePlan, within: Groups | None) -> Road:
    """Return the way to the plan; the cheaper one if the change is of some groups and nobody has named a way."""
    query = session.plan.query
    if within is None or change.by != AUTO:
        return check_road(change.by, query)
    by = session.controller.settings.balance.by
    return choose_balance(query, *held_and_coming_bytes(session)) if by == AUTO else check_road(by, query)
