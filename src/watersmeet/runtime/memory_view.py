"""The manifest and the plan as the view that memory policies decide by."""

from __future__ import annotations

import numpy as np

from watersmeet.adapt.view import ColdView, GroupView, MemoryView, OperatorView
from watersmeet.model.distinct import keys_by_group
from watersmeet.model.group_figures import GroupFigures
from watersmeet.model.segments import Segment
from watersmeet.model.upkeep import find_upkeep
from watersmeet.plan.physical import Node, PhysicalPlan
from watersmeet.state.manifest import Manifest

ROW_BYTES = 32.0  # of an input that has no row yet


def view_memory(
    plan: PhysicalPlan, manifest: Manifest, budget_bytes: int | None, upkeep: str, seconds: float
) -> MemoryView:
    """Sizes from the segments, earnings from the figures; a batch takes `seconds`."""
    operators = _operators(plan, manifest)
    groups: list[GroupView] = []
    cold: list[ColdView] = []
    for node in plan.operators.values():
        held = [segment for segment in manifest.segments.values() if segment.state in node.states]
        figures = manifest.figures.get(node.id) or GroupFigures.nothing(len(node.inputs), manifest.routing.groups)
        groups += _live_groups(node, manifest, held, figures, upkeep)
        cold += _cold_groups(node, held)
    return MemoryView(
        batch=max(0, manifest.last_batch),
        budget_bytes=budget_bytes,
        active_bytes=manifest.active_bytes,
        seconds=max(seconds, 1e-6),
        arrivals_total=sum(sum(group.arrivals) for group in groups),
        operators=tuple(operators),
        groups=tuple(groups),
        cold=tuple(cold),
    )


def _operators(plan: PhysicalPlan, manifest: Manifest) -> list[OperatorView]:
    sizes: dict[str, tuple[int, int]] = {}
    for segment in manifest.segments.values():
        rows, size = sizes.get(segment.state, (0, 0))
        sizes[segment.state] = rows + segment.live_rows, size + segment.live_bytes
    parents = {
        below.id: node.id
        for node in plan.operators.values()
        for entry in node.inputs
        for below in plan.operators.values()
        if below.aliases == frozenset(entry.state.aliases) and len(entry.state.aliases) > 1
    }
    level: dict[str, int] = {}
    for operator in plan.operators:  # each after those that feed it
        below = [level[child] for child, parent in parents.items() if parent == operator]
        level[operator] = 1 + max(below, default=-1)

    def depth(operator: str) -> int:
        return 1 + depth(parents[operator]) if operator in parents else 0

    return [
        OperatorView(
            id=node.id,
            depth=depth(node.id),
            level=level[node.id],
            inputs=tuple(entry.source for entry in node.inputs),
            row_bytes=tuple(
                size / rows if rows else ROW_BYTES
                for rows, size in (sizes.get(entry.state.name, (0, 0)) for entry in node.inputs)
            ),
            spillable=True,
        )
        for node in plan.operators.values()
    ]


def _live_groups(
    node: Node, manifest: Manifest, held: list[Segment], figures: GroupFigures, upkeep: str
) -> list[GroupView]:
    total = manifest.routing.groups
    method = find_upkeep(upkeep)
    rows = np.zeros((len(node.inputs), total), dtype=np.int64)
    size = np.zeros((len(node.inputs), total))
    active = [segment for segment in held if segment.tier == "active"]
    keys = keys_by_group(active)
    place = {state: index for index, state in enumerate(node.states)}
    for segment in active:
        row_bytes = segment.bytes / max(1, segment.rows)
        for group, count in segment.rows_by_group.items():
            rows[place[segment.state], group] += count
            size[place[segment.state], group] += count * row_bytes

    def recent(kept: tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]) -> list[float]:
        values: list[float] = method.value(kept).tolist() if kept else [0.0] * total
        return values

    arrivals = [recent(kept) for kept in figures.arrivals]
    local, traced = recent(figures.recent_local), recent(figures.recent_global)
    return [
        GroupView(
            operator=node.id,
            group=group,
            slot=manifest.routing.owners[group],
            rows=tuple(rows[:, group].tolist()),
            bytes=tuple(int(value) for value in size[:, group]),
            unique=keys.get(group, 0.0),
            last_use=float(figures.last_use[group]),
            local_output=float(figures.local_output[group]),
            global_output=float(figures.global_output[group]),
            inter_bytes=float(figures.inter_bytes[group]),
            arrivals=tuple(entry[group] for entry in arrivals),
            recent_local=local[group],
            recent_global=traced[group],
        )
        for group in range(total)
        if rows[:, group].any() or any(entry[group] for entry in arrivals) or local[group]
    ]


def _cold_groups(node: Node, held: list[Segment]) -> list[ColdView]:
    place = {state: index for index, state in enumerate(node.states)}
    rows: dict[int, dict[int, list[int]]] = {}
    size: dict[int, float] = {}
    cold = [segment for segment in held if segment.tier == "cold"]
    keys = keys_by_group(cold)
    for segment in cold:
        row_bytes = segment.bytes / max(1, segment.rows)
        for group, count in segment.rows_by_group.items():
            generation = rows.setdefault(group, {}).setdefault(segment.generation, [0] * len(node.inputs))
            generation[place[segment.state]] += count
            size[group] = size.get(group, 0.0) + count * row_bytes
    return [
        ColdView(
            operator=node.id,
            group=group,
            generations=tuple(tuple(counts) for _, counts in sorted(generations.items())),
            bytes=int(size[group]),
            unique=keys.get(group, 0.0),
        )
        for group, generations in sorted(rows.items())
    ]
