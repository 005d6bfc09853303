"""How a run makes the specs of plans that come up while it goes on."""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.optimize.choose import choose_plan
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec, spec_of, way_of
from watersmeet.state.manifest import Manifest

# The spec of a plan that a setting names, by what a manifest has measured, with lineage or not; and the reason for it.
MakeSpec = Callable[[str, Manifest, bool], tuple[PlanSpec, str]]


def by_standard_costs(query: Query) -> MakeSpec:
    """Make specs for a run whose machine has not been measured."""

    def make_spec(plan: str, manifest: Manifest, lineage: bool) -> tuple[PlanSpec, str]:
        chosen = choose_plan(query, plan, Statistics(measured=manifest.measured))
        ring = way_of(manifest.answering.spec)
        return spec_of(query, chosen.tree, chosen.orders, lineage, ring), chosen.reason

    return make_spec
