"""What a group owes: results between its generations that have not been emitted yet.

A group of an operator is a list of generations, each complete in itself. With rows in more than one of them it owes
what they make together, until a merge emits that and unites them. Read off the manifest; nothing else keeps account.
"""

from __future__ import annotations

from collections import deque

from watersmeet.model.routing import GroupRange, union_ranges
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.state.manifest import Manifest

# What was worked out for the last manifests: a batch asks several times for the same one.
_known: deque[tuple[PhysicalPlan, Manifest, dict[str, dict[int, int]]]] = deque(maxlen=4)


def owed(plan: PhysicalPlan, manifest: Manifest) -> dict[str, dict[int, int]]:
    """The groups that owe results, with the oldest time that one of these can have.

    A result owed has rows of two generations or more, so it is no older than the second oldest of these begins.
    """
    if not manifest.closed:
        return {}
    for known_plan, known, found in tuple(_known):
        if known is manifest and known_plan is plan:
            return found
    result = _work_out(plan, manifest)
    _known.append((plan, manifest, result))
    return result


def _work_out(plan: PhysicalPlan, manifest: Manifest) -> dict[str, dict[int, int]]:
    result: dict[str, dict[int, int]] = {}
    for operator, node in plan.operators.items():
        closed = manifest.closed.get(operator)
        if not closed:
            continue
        begins: dict[int, dict[int, int]] = {group: {} for group in closed}  # by group and generation
        for segment in manifest.segments.values():
            if segment.state in node.states:
                for group in segment.rows_by_group.keys() & begins.keys():
                    number = closed[group] if segment.tier == "active" else segment.generation
                    times = begins[group]
                    times[number] = min(times.get(number, segment.min_time), segment.min_time)
        groups = {group: sorted(times.values())[1] for group, times in begins.items() if len(times) > 1}
        if groups:
            result[operator] = dict(sorted(groups.items()))
    return result


def holds(plan: PhysicalPlan, manifest: Manifest) -> dict[str, int]:
    """For each operator that owes results, a time that none of them is older than."""
    return {operator: min(groups.values()) for operator, groups in owed(plan, manifest).items()}


def closed_groups(manifest: Manifest, operator: str) -> tuple[GroupRange, ...]:
    """The groups of an operator that have a closed generation: whatever comes later is owed results with it."""
    return union_ranges((group, group + 1) for group in manifest.closed.get(operator, {}))
