"""Ask the policies, and carry out what they decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet import faults
from watersmeet.adapt.decisions.change_plan import ChangePlan
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.decisions.effects import Effects
from watersmeet.adapt.decisions.work import Work
from watersmeet.run.change import abandon
from watersmeet.run.steps import Ask, SetOut, Taken, take, with_work
from watersmeet.runtime.cutting import count_cut
from watersmeet.runtime.watermarks import watermarks_us
from watersmeet.state.shapes import plan_of
from watersmeet.state.updates import Learn

if TYPE_CHECKING:
    from watersmeet.run.session import Session


@take.register(Ask)
def _(step: Ask, session: Session[Any]) -> Taken:
    marks = watermarks_us(session.plan, session.manifest)
    effects = session.controller.ask(
        step.moment, session.manifest, session.learned, marks, session.clock.utc_us(), step.within
    )
    work = carry_out(session, effects)
    if changes := effects.work_of(ChangePlan):
        return Taken((SetOut(changes[0]), step))
    if effects.work_of(CutGroup) or effects.placed:
        return Taken((step,))
    if step.then is not None:
        return Taken((with_work(step.then, work),))
    assert not work, "no tasks follow that could do this work"
    return Taken()


def carry_out(session: Session[Any], effects: Effects) -> Work:
    """Commit what was decided; return the work that is left for tasks."""
    cuts = effects.work_of(CutGroup)
    if cuts and session.manifest.warming_up is not None:
        abandon(session, "groups are cut")
    if effects.learned is not None:  # goes with the next commit, whatever that is for
        session.learn(effects.learned)
    segments = session.checkpoint.segments
    counted = [count_cut(cut, session.plan, session.manifest, segments) for cut in cuts]
    changes = [update for update in effects.updates if not isinstance(update, Learn)]
    if updates := [*changes, *counted]:
        faults.reach("before-spill")
        session.commit(updates)
        faults.reach("after-spill")
        session.learn(session.manifest.learned)
    if counted and len(session.manifest.shapes) > 1:  # groups have other numbers
        session.run_plan(plan_of(session.plan.query, session.manifest))
    session.tell(*effects.shown)
    return Work.of(effects.work)
