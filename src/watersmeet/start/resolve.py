"""Decides what a run begins with. Pure: reads no file, no clock, and measures nothing.

`resolve` is given the query, the settings, the newest version of the checkpoint, if there is one, and what joins cost
on this machine. The commands that show a plan and the runs that begin both call it, each with the same arguments, so
they cannot differ. It raises what a run is refused for, in the words that the run ends with.

It does not look at sources, at the sink or at who holds the checkpoint: a run may still be refused for these.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.adapt.policies.check_forced import check_steps
from watersmeet.errors import CheckpointError
from watersmeet.model.placement import Placement
from watersmeet.optimize.choose import STANDARD, ChosenPlan, show_considered
from watersmeet.optimize.estimates import CostConstants, CostModel
from watersmeet.optimize.query_graph import Statistics, model_for
from watersmeet.optimize.strategies import is_strategy
from watersmeet.plan.changed_query import missing_columns
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import going_on, tree_for, way_of
from watersmeet.plan.tree import still_weighed
from watersmeet.settings.run import RunSettings
from watersmeet.start.choosing import asked_plan, choose_spec, refuse_budget
from watersmeet.start.former_query import Served, serve
from watersmeet.start.placing import (
    first_placement,
    placement_after_change,
    placement_with_slots,
    regrouped,
)
from watersmeet.start.start_plan import PlanChange, StartPlan
from watersmeet.state.first_manifest import first_manifest
from watersmeet.state.manifest import Manifest, Track
from watersmeet.state.shapes import plan_of


def resolve(
    query: Query, settings: RunSettings, manifest: Manifest | None = None, costs: CostConstants = STANDARD
) -> StartPlan:
    """What a run of `query` begins with: a new one, or one that resumes from `manifest`."""
    model = model_for(query, costs)
    return _of_new_run(query, settings, model) if manifest is None else _of_resumed(query, settings, manifest, model)


def _of_new_run(query: Query, settings: RunSettings, model: CostModel) -> StartPlan:
    refuse_budget(query, settings.memory, settings.plan.ring)
    spec, chosen = choose_spec(query, settings.plan, settings.memory.watched, model)
    plan = lay_out_spec(query, spec)
    placement = first_placement(plan, settings, chosen.statistics, model)
    first = first_manifest(
        query, spec, placement, chosen.reason, name="", retention=settings.retention, asked=settings.plan.plan
    )
    check_steps(settings.memory, plan, first)
    return StartPlan(settings, first, True, query, plan, plan, placement, placement, chosen)


def _of_resumed(query: Query, settings: RunSettings, manifest: Manifest, model: CostModel) -> StartPlan:
    refuse_budget(query, settings.memory, going_on(settings.plan.ring, manifest.answering.spec))
    served = serve(manifest, query)
    known = replace(settings.plan.statistics or Statistics(), measured=manifest.measured)
    former = plan_of(served.former, manifest)
    found = _find_change(served, settings, manifest, known, model)
    if found is None:
        change, chosen = None, _recorded(served.query, settings, manifest, known, model)
        # Other groups have one shape.
        united = settings.groups != manifest.placement.groups and len(manifest.shapes) > 1
        plan = lay_out_spec(served.query, manifest.answering.spec) if united else former
    else:
        change, chosen = found
        plan = change.plan
        if served.changes:
            _refuse_missing(former, plan, manifest)
    claimed = placement = placement_with_slots(manifest.placement, plan, settings, known, model)
    if change is not None:
        placement = placement_after_change(claimed, former, plan, settings.memory.balance, manifest.measured)
    placement = regrouped(placement, settings.groups)
    notes = _check_steps(settings, manifest, plan, placement, change is not None)
    return StartPlan(
        settings=settings,
        manifest=manifest,
        is_new=False,
        query=served.query,
        former=former,
        plan=plan,
        claimed=claimed,
        placement=placement,
        chosen=chosen,
        change=change,
        query_changes=served.changes,
        notes=notes,
    )


def _find_change(
    served: Served, settings: RunSettings, manifest: Manifest, known: Statistics, model: CostModel
) -> tuple[PlanChange, ChosenPlan] | None:
    """The plan to change to, if it is not that of the checkpoint. A query that was changed keeps its tree, unless the
    settings name another."""
    query, former, setting = served.query, manifest.answering.spec, settings.plan.plan
    ring = going_on(settings.plan.ring, former)
    keeps_tree = False
    if served.changes:
        keeps_tree, reason = is_strategy(setting), "the query was changed"
        asked = str(tree_for(query, former)) if keeps_tree else setting
    else:
        wanted = asked_plan(query, settings.plan, manifest)
        if wanted is None:
            return None
        rings = "" if way_of(former) == ring else f": rings by {ring}"
        asked, reason = wanted, f"the settings say so{rings}"
    planning = replace(settings.plan, plan=asked, statistics=known, ring=ring)
    spec, chosen = choose_spec(query, planning, settings.memory.watched, model)
    # Rows that were combined cannot be told apart again. What they weigh goes on with them.
    spec = replace(spec, tree=still_weighed(spec.tree, former.tree))
    why = reason if keeps_tree else chosen.reason
    change = PlanChange(asked, setting, reason, why, lay_out_spec(query, spec), served.identity)
    return change, replace(chosen, tree=spec.tree, reason=why)


def _recorded(
    query: Query, settings: RunSettings, manifest: Manifest, known: Statistics, model: CostModel
) -> ChosenPlan:
    """Why a run keeps the plan of its checkpoint, and what else there would be by now."""
    tree, made_with = manifest.answering.spec.tree, "the checkpoint was made with this plan"
    if is_strategy(settings.plan.plan):
        considered = show_considered(query, tree, known, settings.plan.limits, model)
        return ChosenPlan(tree, {}, made_with, considered, known)
    reason = manifest.answering.reason or made_with
    return ChosenPlan(tree, {}, reason, (), settings.plan.statistics or Statistics())


def _refuse_missing(former: PhysicalPlan, plan: PhysicalPlan, manifest: Manifest) -> None:
    """Refuse a changed query that needs columns which the state does not hold."""
    missing = missing_columns(former, plan)
    if missing and manifest.segments:
        raise CheckpointError(
            "the checkpoint does not hold all that the query needs now",
            detail=f"Of the rows that it keeps it has no {', '.join(missing)}.",
            hint="Use another checkpoint folder, or leave these out.",
        )


def _check_steps(
    settings: RunSettings, manifest: Manifest, plan: PhysicalPlan, placement: Placement, changes_plan: bool
) -> tuple[str, ...]:
    """Refuse forced steps that cannot be taken. A run that resumes with the settings that it had passes over those
    that do not fit what it has changed to; they are returned as sentences."""
    before, then = manifest.placement, replace(manifest, placement=placement)
    if changes_plan:  # it has that plan by the next batch
        then = replace(then, tracks=(Track(plan.spec, since_batch=manifest.last_batch + 1),))
    elif placement.groups != before.groups:
        then = replace(then, tracks=(replace(manifest.answering, within=None),))
    same = not changes_plan and (settings.slots, settings.groups) == (before.asked_slots, before.groups)
    notes: list[str] = []
    check_steps(settings.memory, plan, then, notes.append if same else None)
    return tuple(notes)
