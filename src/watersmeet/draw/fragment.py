"""How a fragment is shown: each of its joins with the keys that all its inputs share."""

from __future__ import annotations

from typing import Any

from watersmeet.draw.kinds import ShownInput, ShownJoin, Sizes, nodes_json, shown_joins, state_json
from watersmeet.draw.rings import master_of
from watersmeet.draw.words import check_text, expression_text, key_text, key_texts
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.physical import Node, PhysicalPlan


@shown_joins.register(FragmentStage)
def _(stage: FragmentStage, plan: PhysicalPlan) -> tuple[ShownJoin, ...]:
    return tuple(_shown(stage, plan, node) for node in stage.nodes)


def _shown(stage: FragmentStage, plan: PhysicalPlan, node: Node) -> ShownJoin:
    keys = _keys(stage, plan, node)
    return ShownJoin(
        name=node.name,
        label=node.label,
        kind="join" if keys else "ring",
        how=f" on {' and '.join(keys)}" if keys else _alignment(plan, node),
        tree=node.tree,
        stages=(stage.index,),
        keys=keys,
        checks=_checks(plan, node),
        inputs=tuple(
            ShownInput(entry.source, (entry.state,), _probes(node, place)) for place, entry in enumerate(node.inputs)
        ),
        exchanges=stage.exchanges if node is stage.root else (),
        filters=_filters(node),
    )


@nodes_json.register(FragmentStage)
def _(stage: FragmentStage, plan: PhysicalPlan, sizes: Sizes) -> list[dict[str, Any]]:
    return [
        {
            "id": node.label,
            "name": node.name,
            "tree": node.tree,
            "keys": list(_keys(stage, plan, node)),
            **({} if stage.keys else {"ring": True, "master": str(master_of(node).source)}),
            "predicates": list(_checks(plan, node)),
            "filters": list(_filters(node)),
            "inputs": [
                {
                    "source": str(entry.source),
                    "probes": list(_probes(node, place)),
                    "state": state_json(entry.state, sizes),
                }
                for place, entry in enumerate(node.inputs)
            ],
        }
        for node in stage.nodes
    ]


def _keys(stage: FragmentStage, plan: PhysicalPlan, node: Node) -> tuple[str, ...]:
    """Each key of the join as `A.k = B.k = C.k`; none where it has segments of a master."""
    if not stage.keys:
        return ()
    columns = zip(*(key_texts(plan, entry.state.key) for entry in node.inputs), strict=True)
    return tuple(map(" = ".join, columns))


def _alignment(plan: PhysicalPlan, node: Node) -> str:
    master = master_of(node)
    return f", aligned with {master.source} in {key_text(plan, master.state.key)}"


def _checks(plan: PhysicalPlan, node: Node) -> tuple[str, ...]:
    return tuple(check_text(plan.query, expr) for _, expr in node.predicates)


def _filters(node: Node) -> tuple[str, ...]:
    return tuple(expression_text(entry.expr) for entry in node.filters)


def _probes(node: Node, place: int) -> tuple[str, ...]:
    return tuple(str(node.inputs[other].source) for other in node.orders[place])
