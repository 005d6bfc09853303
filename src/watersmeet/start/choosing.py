"""The plan that settings ask for: the spec of a new plan, and whether a run that resumes is to change to another."""

from __future__ import annotations

from watersmeet.errors import JobError
from watersmeet.optimize.choose import ChosenPlan, choose_plan
from watersmeet.optimize.estimates import CostModel
from watersmeet.optimize.query_graph import known_rates
from watersmeet.optimize.strategies import is_strategy
from watersmeet.plan.query import Query
from watersmeet.plan.ring_ways import ATR, AUTO, RingWay
from watersmeet.plan.spec import PlanSpec, going_on, spec_of, way_of
from watersmeet.plan.tree import choose_tree, still_weighed
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.plan import PlanSettings
from watersmeet.state.manifest import Manifest


def choose_spec(query: Query, settings: PlanSettings, lineage: bool, model: CostModel) -> tuple[PlanSpec, ChosenPlan]:
    """The spec of the plan that the settings ask for, and why it is that one."""
    chosen = choose_plan(query, settings.plan, settings.statistics, settings.limits, model)
    rates = known_rates(query, chosen.statistics)
    return spec_of(query, chosen.tree, chosen.orders, lineage, settings.ring, rates), chosen


def asked_plan(query: Query, settings: PlanSettings, manifest: Manifest) -> str | None:
    """The plan that a run with the query of its checkpoint is to change to first; None: it keeps its own.

    A setting that names one plan asks for it, unless the run had the same setting before: then a forced step, or
    somebody by hand, changed the plan since, and it stays as it is. A setting that names how rings are spread asks for
    the present plan, spread in that way.
    """
    track, coming = manifest.answering, manifest.warming_up or manifest.answering
    if not is_strategy(settings.plan):
        tree = still_weighed(choose_tree(query, settings.plan), track.spec.tree)
        trees = [other.spec.tree for other in manifest.tracks if other.within is None]  # one of them may be on its way
        if tree not in trees and settings.plan != track.asked:
            return settings.plan
    is_spread_so = going_on(settings.ring, coming.spec) == way_of(coming.spec)
    return None if is_spread_so or way_of(coming.spec).name == AUTO else str(coming.spec.tree)


def refuse_budget(query: Query, memory: AdaptSettings, ring: RingWay) -> None:
    """Refuse to keep a ring inside a budget: all new rows meet all rows in slices of time, so no slice can go cold.

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
