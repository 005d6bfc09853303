"""What joins cost on this machine, for a start and for a run that is under way; and specs of plans that it comes to.

The machine is measured where a plan is to be chosen of several, and nowhere else: it takes a second or two, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from watersmeet.optimize.choose import STANDARD
from watersmeet.optimize.estimates import CostConstants, CostModel
from watersmeet.optimize.query_graph import Statistics, model_for
from watersmeet.optimize.reconsider import Planning
from watersmeet.optimize.strategies import is_strategy
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec, going_on
from watersmeet.runtime.machine_costs import machine_costs
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.run import RunSettings
from watersmeet.start.choosing import choose_spec
from watersmeet.state.manifest import Manifest

Note = Callable[[str], None]
StartCosts = Callable[[Query, RunSettings, Manifest | None, Note], CostConstants]


def silent_note(text: str) -> None:
    """Tell nobody."""


def stored_costs(query: Query, settings: RunSettings, manifest: Manifest | None, note: Note) -> CostConstants:
    """What joins cost on this machine as far as it was measured before, else on the machine of the library's makers."""
    return machine_costs(note, measure=False)


def measured_costs(query: Query, settings: RunSettings, manifest: Manifest | None, note: Note) -> CostConstants:
    """The same, measured now if a new run is to choose among plans. A run that resumes keeps the plan it has."""
    chooses = manifest is None and is_strategy(settings.plan.plan) and _has_choice(query)
    return machine_costs(note, measure=chooses)


def _has_choice(query: Query) -> bool:
    """Whether there are several plans; the one plan of two inputs can be priced with what is known already."""
    return len(query.aliases) > 2


@dataclass(frozen=True)
class Planner:
    """Makes specs for a run that is under way."""

    query: Query
    settings: PlanSettings = PlanSettings()  # noqa: RUF009 - frozen
    note: Note = silent_note

    def spec(self, plan: str, manifest: Manifest, lineage: bool) -> tuple[PlanSpec, str]:
        """The spec of a plan as a setting names it, by what was measured up to now, and why it is that one."""
        known = replace(self.settings.statistics or Statistics(), measured=manifest.measured)
        ring = going_on(self.settings.ring, manifest.answering.spec)
        costs = machine_costs(self.note, measure=is_strategy(plan) and _has_choice(self.query))
        model = model_for(self.query, costs)
        settings = replace(self.settings, plan=plan, statistics=known, ring=ring)
        spec, chosen = choose_spec(self.query, settings, lineage, model)
        return spec, chosen.reason


def planning_of(query: Query, settings: RunSettings, note: Note = silent_note) -> Planning:
    """What plans are compared by while a query runs, if they are.

    A machine that was not measured is, once a change would pay by the costs of another one: a run that keeps its plan
    may be done sooner than that.
    """
    if not settings.memory.replan.is_on:
        return Planning()

    def measure() -> CostModel:
        return model_for(query, machine_costs(note))

    statistics, stored = settings.plan.statistics or Statistics(), machine_costs(note, measure=False)
    is_known = stored is not STANDARD or not _has_choice(query)
    return Planning(
        statistics,
        settings.plan.limits,
        model_for(query, stored),
        time.thread_time,  # what others do meanwhile is no part of the time that a search takes
        None if is_known else measure,
    )
