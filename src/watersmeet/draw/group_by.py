"""How a group-by is shown: above the joins that feed it, with its group columns and aggregates."""

from __future__ import annotations

from typing import Any

from watersmeet.draw.kinds import ShownInput, ShownJoin, Sizes, nodes_json, shown_joins, state_json
from watersmeet.draw.words import expression_text, grouped_text
from watersmeet.model.aggregates import GroupBy
from watersmeet.model.quantities import duration_text
from watersmeet.plan.group_by import GroupByStage
from watersmeet.plan.physical import PhysicalPlan


@shown_joins.register(GroupByStage)
def _(stage: GroupByStage, plan: PhysicalPlan) -> tuple[ShownJoin, ...]:
    group_by = stage.partials.group_by
    keys = _keys(group_by)
    return (
        ShownJoin(
            name=stage.name,
            label=stage.title,
            kind="group by",
            how=f" {', '.join(keys)}" if keys else ", one group",
            tree=plan.tree,
            stages=(stage.index,),
            keys=keys,
            checks=(),
            inputs=(ShownInput(stage.source, (stage.state,), ()),),
            exchanges=(),
            notes=_notes(group_by),
            streams=frozenset(plan.query.aliases),
        ),
    )


@nodes_json.register(GroupByStage)
def _(stage: GroupByStage, plan: PhysicalPlan, sizes: Sizes) -> list[dict[str, Any]]:
    group_by = stage.partials.group_by
    return [
        {
            "id": stage.title,
            "name": stage.name,
            "groups": list(_keys(group_by)),
            "aggregates": [entry.text for entry in group_by.aggregates],
            "having": None if group_by.having is None else grouped_text(group_by, group_by.having),
            "slide_us": group_by.slide_us,
            "inputs": [{"source": str(stage.source), "state": state_json(stage.state, sizes)}],
        }
    ]


def _keys(group_by: GroupBy) -> tuple[str, ...]:
    return tuple(map(expression_text, group_by.groups))


def _notes(group_by: GroupBy) -> tuple[str, ...]:
    """What is computed of each group, and when it is emitted."""
    found = []
    if group_by.aggregates:
        found.append(f"computes {', '.join(entry.text for entry in group_by.aggregates)}")
    if group_by.having is not None:
        found.append(f"having {grouped_text(group_by, group_by.having)}")
    if group_by.slide_us is None:
        found.append("emits the groups that a batch has changed")
    else:
        found.append(f"emits every {duration_text(group_by.slide_us)} of event time")
    return tuple(found)
