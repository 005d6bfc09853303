"""Bring a run to the query, the plan and the groups that it was started with, before it does anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet import faults
from watersmeet.adapt.decisions.change_plan import ChangePlan
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.model.origin import BySettings, origin_to_json
from watersmeet.run.change import abandon
from watersmeet.run.ending import Ending
from watersmeet.run.steps import Ask, ChangeAsAsked, Needed, Regroup, SetOut, Settle, Step, Taken, Tidy, Unite, take
from watersmeet.runtime.regrouping import regroup
from watersmeet.state import updates
from watersmeet.state.segment_files import FileSegments, file_name

if TYPE_CHECKING:
    from watersmeet.run.session import Session


@take.register(ChangeAsAsked)
def _(step: ChangeAsAsked, session: Session[Any]) -> Taken:
    start, session.start = session.start, None
    if start is None:
        return Taken()
    then: list[Step] = []
    if (asked := start.change) is not None:
        manifest = session.manifest
        before, origin = manifest.last_batch + 1, BySettings()
        change = ChangePlan(asked.asked, MovingState.name, before, asked.reason, origin=origin)
        needed = Needed(
            "the state could not be made to serve the query that this run has",
            "See that there is room on the disk, or go back to the former query.",
        )
        same_query = manifest.query.digest == asked.identity.digest
        then.append(SetOut(change, asked, None if same_query else needed))
    return Taken((*then, Regroup(start.groups)))


@take.register(Regroup)
def _(step: Regroup, session: Session[Any]) -> Taken:
    before, why = session.manifest.placement.groups, "the number of groups is changed"
    if step.groups == before:
        return Taken()
    if not step.settled:
        if session.manifest.warming_up is not None:
            abandon(session, why)
        unite = (Unite(why, BySettings()),) if len(session.manifest.shapes) > 1 else ()
        return Taken((*unite, Settle(Ending.OPEN), Regroup(step.groups, settled=True)))
    faults.reach("before-regroup")
    segments = session.checkpoint.segments
    update, written = regroup(session.plan, session.manifest, segments, step.groups)
    if written and isinstance(segments, FileSegments):
        session.checkpoint.sync_first({segments.folder: [file_name(segment.file) for segment in written]})
    told = {
        "decision": updates.Regroup.__name__,
        "from_groups": before,
        "to_groups": step.groups,
        "before_batch": session.manifest.last_batch + 1,
        "files": len(update.segments),
        "files_written": len(written),
        "reason": "the settings say so",
        "origin": origin_to_json(BySettings()),
    }
    session.commit([update, updates.RecordDecision(told)])
    faults.reach("after-regroup")
    session.tell_last()
    # What is in memory now may be too much.
    return Taken((Ask(Moment.AFTER_BATCH), Tidy()))
