"""A start for people: as text, as JSON and as a picture. Commands and the Python API show the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from watersmeet.draw.explain import explain_json, explain_text
from watersmeet.draw.picture import draw_plan
from watersmeet.optimize.flows import estimate_source, flows
from watersmeet.optimize.query_graph import graph_of
from watersmeet.plan.layout import lay_out_spec
from watersmeet.start.start_plan import StartPlan


def start_text(start: StartPlan) -> str:
    """The plan and the placement by the first batch, and what changes before it."""
    chosen = start.chosen
    text = explain_text(
        start.plan,
        chosen.reason,
        None,
        chosen.alternatives,
        chosen.statistics.measured,
        start.placement,
        chosen.statistics,
    )
    changes = list(_change_lines(start))
    return "\n".join([text, "before the first batch:", *(f"  {line}" for line in changes), ""]) if changes else text


def start_json(start: StartPlan) -> dict[str, Any]:
    chosen = start.chosen
    plan = explain_json(
        start.plan,
        chosen.reason,
        None,
        chosen.alternatives,
        chosen.statistics.measured,
        start.placement,
        chosen.statistics,
    )
    notes = [*plan["notes"], *start.notes]
    return {**plan, "notes": notes, "placement": start.placement.to_json(), "change": start.change_json()}


def start_picture(start: StartPlan) -> str:
    """The plan as SVG, with estimated rates and sizes; of several shapes, the first one."""
    chosen = start.chosen
    graph = graph_of(start.query, chosen.statistics)
    plan = lay_out_spec(start.query, start.plan.spec) if len(start.plan.shapes) > 1 else start.plan
    return draw_plan(plan, flows(chosen.tree, graph), chosen.reason, estimate_source(graph, chosen.statistics))


def _change_lines(start: StartPlan) -> Iterator[str]:
    yield from start.sentences()
    change = start.change_json()
    if change is None:
        return
    if change["reason"] is not None:
        before, after = change["from"], change["to"]
        what = f"the plan is changed from {before} to {after}" if before != after else f"the plan stays {after}"
        yield f"{what}: {change['reason']}"
    for name in ("slots", "groups"):
        before, after = change[name]
        if before != after:
            yield f"{name}: {before} become {after}"
