"""The plan of a run: the spec that its checkpoint holds, or a choice made now."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from watersmeet.errors import JobError
from watersmeet.optimize.choose import ChosenPlan, choose_plan, show_considered
from watersmeet.optimize.estimates import CostModel
from watersmeet.optimize.query_graph import Statistics, known_rates, model_for
from watersmeet.optimize.reconsider import Planning
from watersmeet.optimize.strategies import STRATEGIES
from watersmeet.plan.query import Query
from watersmeet.plan.ring_ways import ATR, AUTO, RingWay
from watersmeet.plan.spec import PlanSpec, going_on, spec_of, way_of
from watersmeet.plan.tree import choose_tree, still_weighed
from watersmeet.runtime.machine_costs import machine_costs
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.words import OFF
from watersmeet.state.manifest import Manifest


def refuse_budget(query: Query, memory: AdaptSettings, ring: RingWay) -> None:
    """Refuse to keep a ring inside a budget: rows in slices of time are met by all that comes, so none can go cold.

    Segments of a master can, as groups on a key do.
    """
    if len(query.parts) > 1 and memory.spills and ring.name != ATR:
        first, *others = (", ".join(alias for alias in query.aliases if alias in part) for part in query.parts)
        raise JobError(
            "a memory budget cannot be kept where no equality joins the inputs",
            detail=f"Nothing connects {first} with {' or '.join(others)}, so their rows are joined in slices of time, "
            "of which none can be spilled: each new row is compared with all of them.",
            hint="Leave out memory and slot_memory, and limit what is kept by windows ([RANGE n UNIT]); or set "
            'ring = "atr", which keeps copies of rows, and can spill them.',
        )


def silent_note(text: str) -> None:
    """Tell nobody."""


def choose_spec(
    query: Query, settings: PlanSettings, lineage: bool, note: Callable[[str], None] = silent_note
) -> tuple[PlanSpec, ChosenPlan]:
    """The plan for a run that begins. `note` is told when something takes a moment."""
    if settings.plan in dict(STRATEGIES):
        statistics, model = settings.statistics or Statistics(), machine_model(query, note)
        chosen = choose_plan(query, settings.plan, statistics, settings.limits, model)
    else:
        chosen = choose_plan(query, settings.plan, settings.statistics, settings.limits)
    rates = known_rates(query, chosen.statistics)
    return spec_of(query, chosen.tree, chosen.orders, lineage, settings.ring, rates), chosen


def recorded_spec(
    query: Query, settings: PlanSettings, manifest: Manifest, note: Callable[[str], None] = silent_note
) -> tuple[PlanSpec, ChosenPlan]:
    """The plan of a run that goes on: that of its checkpoint. `asked_plan` says whether settings ask for another."""
    spec = manifest.answering.spec
    if settings.plan in dict(STRATEGIES):
        known = replace(settings.statistics or Statistics(), measured=manifest.measured)
        considered = show_considered(query, spec.tree, known, settings.limits, machine_model(query, note))
        return spec, ChosenPlan(spec.tree, {}, "the checkpoint was made with this plan", considered, known)
    reason = manifest.answering.reason or "the checkpoint was made with this plan"
    return spec, ChosenPlan(spec.tree, {}, reason, (), settings.statistics or Statistics())


def asked_plan(query: Query, settings: PlanSettings, manifest: Manifest) -> str | None:
    """The plan that a run which goes on is to change to before it does anything else; None: it keeps its own.

    A setting that names one plan asks for it, unless it is the setting that the run has had: then the plan was changed
    since, by a forced step or by hand, and stays as it is. One that names how rings are spread asks for the plan that
    there is in that way.
    """
    track, coming = manifest.answering, manifest.warming_up or manifest.answering
    if settings.plan not in dict(STRATEGIES):
        tree = still_weighed(choose_tree(query, settings.plan), track.spec.tree)
        trees = [other.spec.tree for other in manifest.tracks if other.within is None]  # one of them may be on its way
        if tree not in trees and settings.plan != track.asked:
            return settings.plan
    is_spread_so = going_on(settings.ring, coming.spec) == way_of(coming.spec)
    return None if is_spread_so or way_of(coming.spec).name == AUTO else str(coming.spec.tree)


@dataclass(frozen=True)
class Planner:
    """Makes specs for a run that is under way."""

    query: Query
    settings: PlanSettings = PlanSettings()  # noqa: RUF009 - frozen

    def spec(self, plan: str, manifest: Manifest, lineage: bool) -> tuple[PlanSpec, str]:
        """The spec of a plan as a setting names it, by what was measured up to now, and why it is that one."""
        known = replace(self.settings.statistics or Statistics(), measured=manifest.measured)
        ring = going_on(self.settings.ring, manifest.answering.spec)
        spec, chosen = choose_spec(self.query, replace(self.settings, plan=plan, statistics=known, ring=ring), lineage)
        return spec, chosen.reason


def planning_of(query: Query, settings: PlanSettings, memory: AdaptSettings) -> Planning:
    """What plans are compared by while a query runs, if they are."""
    if memory.replan.trigger == OFF:
        return Planning()
    model = machine_model(query)
    return Planning(
        settings.statistics or Statistics(), settings.limits, model, time.thread_time
    )  # what others do meanwhile is no part of it


def machine_model(query: Query, note: Callable[[str], None] = silent_note) -> CostModel:
    """What steps of work take on this machine, and the predicates of this query."""
    # Two inputs leave nothing to choose; their one plan can be priced with what is known already.
    return model_for(query, machine_costs(note, measure=len(query.aliases) > 2))
