"""How many pairs of rows the rings of a plan compare in a second, by what is known of its streams.

Each row of an input is an origin: it meets all rows of the input that it visits first, what passes meets all rows of
the next one, and so on (seeds map, trap 16: a comparison is what costs, whether it is a match or not). Visits on a key
are not counted: hashes nominate few.
"""

from __future__ import annotations

from watersmeet.model.ids import OperatorName
from watersmeet.optimize.estimates import DEFAULT_MODEL, Estimates
from watersmeet.plan.hop import HopStage, RoutedNode
from watersmeet.plan.join_graph import JoinGraph
from watersmeet.plan.physical import PhysicalPlan


def rings_of(plan: PhysicalPlan) -> list[RoutedNode]:
    """The joins of a plan in which rows visit slices of time."""
    nodes = {stage.node.name: stage.node for stage in plan.stages if isinstance(stage, HopStage)}
    return [node for node in nodes.values() if any(not keys for entry in node.inputs for _, keys in entry.route)]


def comparisons(plan: PhysicalPlan, graph: JoinGraph) -> dict[OperatorName, float]:
    """For each ring of the plan, the pairs that it compares in a second."""
    estimates = Estimates(graph, DEFAULT_MODEL)  # sizes and rates are the same under every model
    return {node.name: _comparisons(node, estimates) for node in rings_of(plan)}


def _comparisons(node: RoutedNode, estimates: Estimates) -> float:
    masks = [sum(estimates.bit[alias] for alias in entry.states[0].aliases) for entry in node.inputs]
    total = 0.0
    for origin, entry in zip(masks, node.inputs, strict=True):
        bound = origin
        for other, keys in entry.route:
            arriving = estimates.rows(bound) * estimates.churn(origin)
            total += 0.0 if keys else arriving * estimates.rows(masks[other])
            bound |= masks[other]
    return total
