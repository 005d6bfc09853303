"""The manifest and the plan as the view that memory policies decide by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from watersmeet.adapt.view import ColdView, GroupView, MemoryView, OperatorView
from watersmeet.model.group_figures import Floats, GroupFigures
from watersmeet.model.ids import LIVE, OperatorName
from watersmeet.model.routing import Groups, expand_ranges, has_group
from watersmeet.model.smoothing import Smoothing, find_smoothing
from watersmeet.plan.physical import FromOperator, Node, PhysicalPlan, State
from watersmeet.plan.tree import joins_of
from watersmeet.state.ledger import Ledger, Ledgers
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_table import EMPTY

ROW_BYTES = 32.0  # of an input that has no row yet

Horizons = Mapping[OperatorName, int]  # up to when rows of all inputs may expire unseen, in microseconds


def view_memory(
    plan: PhysicalPlan,
    manifest: Manifest,
    ledgers: Ledgers,
    budget_bytes: int | None,
    smoothing: str,
    seconds: float,
    horizons_us: Horizons | None = None,
    within: Groups | None = None,
) -> MemoryView:
    """Sizes from the segments, earnings from the figures; a batch takes `seconds`. Of groups `within`, if any."""
    method = find_smoothing(smoothing)
    known = ledgers.at(manifest)
    groups = [view for node in plan.operators.values() for view in _live_groups(node, manifest, known, method)]
    passed = horizons_us or {}
    cold = [view for node in plan.operators.values() for view in _cold_groups(node, manifest, known, passed)]
    if within is not None:
        groups = [view for view in groups if has_group(within, view.group)]
        cold = [view for view in cold if has_group(within, view.group)]
    return MemoryView(
        batch=max(0, manifest.last_batch),
        budget_bytes=budget_bytes,
        active_bytes=manifest.active_bytes,
        seconds=max(seconds, 1e-6),
        arrivals_total=sum(sum(group.arrivals) for group in groups),
        operators=tuple(_operators(plan, manifest)),
        groups=tuple(groups),
        cold=tuple(cold),
    )


def _operators(plan: PhysicalPlan, manifest: Manifest) -> Iterator[OperatorView]:
    level: dict[OperatorName, int] = {}
    for node in plan.operators.values():  # each after those that feed it
        level[node.name] = 1 + max((level[n] for n in level if plan.operators[n].aliases < node.aliases), default=-1)
    for node in plan.operators.values():
        yield OperatorView(
            id=node.name,
            depth=sum(node.aliases < above for above in _joins_beside(plan, node)),
            level=level[node.name],
            inputs=tuple(e.source.name if isinstance(e.source, FromOperator) else e.source.alias for e in node.inputs),
            row_bytes=tuple(_row_bytes(manifest, entry.state) for entry in node.inputs),
            spillable=True,
            label=node.label,
        )


def _joins_beside(plan: PhysicalPlan, node: Node) -> list[frozenset[str]]:
    """What the joins of a shape that has this one are over."""
    for stage in plan.stages:
        if stage.within is not None and node in stage.operators:
            return [join.aliases for join in stage.operators]
    return [join.aliases for join in joins_of(plan.spec.tree)]


def _row_bytes(manifest: Manifest, state: State) -> float:
    active, cold = manifest.segments.active(state.name), manifest.segments.cold(state.name)
    # The newest generation tells as much as all of them.
    bucket = active if active.rows or not cold else cold[max(cold)]
    return bucket.bytes / bucket.rows if bucket.rows else ROW_BYTES


def _live_groups(
    node: Node, manifest: Manifest, ledgers: Mapping[OperatorName, Ledger], method: Smoothing
) -> Iterator[GroupView]:
    routing = manifest.placement.of(node.partitioning)
    total = routing.groups
    figures = manifest.figures.get(node.name) or GroupFigures.nothing(len(node.inputs), total)
    within = ledgers[node.name].within
    held = [manifest.segments.active(state).by_group(total, within) for state in node.states]
    rows = np.stack([entry.rows for entry in held])
    size = np.stack([entry.bytes for entry in held])
    keys = ledgers[node.name].keys.distinct
    own = np.array(expand_ranges(((0, total),) if within is None else within), dtype=np.int64)

    def recent(kept: tuple[Floats, ...]) -> Floats:
        return np.asarray(method.value(kept)) if kept else np.zeros(total)

    arrivals = np.stack([recent(kept) for kept in figures.arrivals])
    local, traced = recent(figures.recent_local), recent(figures.recent_global)
    # What rows earned that have gone says nothing of those that are there.
    there = rows.sum(axis=0)
    share = np.minimum(1.0, np.divide(there, figures.came, out=np.ones(total), where=figures.came > 0))
    shown = rows.any(axis=0) | arrivals.any(axis=0) | (local > 0)
    for group in own[shown[own]].tolist():
        yield GroupView(
            operator=node.name,
            group=group,
            slot=routing.owners[group],
            rows=tuple(rows[:, group].tolist()),
            bytes=tuple(int(value) for value in size[:, group]),
            unique=float(keys[group]),
            last_use=float(figures.last_use[group]),
            local_output=float(figures.local_output[group] * share[group]),
            global_output=float(figures.global_output[group] * share[group]),
            inter_bytes=float(figures.inter_bytes[group] * share[group]),
            arrivals=tuple(arrivals[:, group].tolist()),
            recent_local=float(local[group]),
            recent_global=float(traced[group]),
        )


def _cold_groups(
    node: Node, manifest: Manifest, ledgers: Mapping[OperatorName, Ledger], horizons_us: Horizons
) -> Iterator[ColdView]:
    ledger = ledgers[node.name]
    if not ledger.closed:
        return
    live = [manifest.segments.cold(state).get(LIVE, EMPTY) for state in node.states]
    cooled = [bucket.by_group(ledger.groups, ledger.within) for bucket in live]
    cooled_rows = np.stack([entry.rows for entry in cooled])
    cooled_bytes = sum((entry.bytes for entry in cooled), np.zeros(ledger.groups))
    until = horizons_us.get(node.name)
    passed, overdue = np.zeros(ledger.groups, dtype=bool), np.zeros(ledger.groups, dtype=bool)
    if until is not None:
        widest = max((0, *(width for entry in node.inputs for _, width in entry.state.stays)))
        passed, overdue = ledger.passed(until), ledger.passed(until - widest)
    keys, since = ledger.keys.distinct, ledger.owed_since_us
    largest = np.max([generation.rows.sum(axis=0) for generation in ledger.closed.values()], axis=0)
    for group in np.flatnonzero(ledger.closed_groups).tolist():
        yield ColdView(
            operator=node.name,
            group=group,
            generations=int(ledger.count[group]),
            rows_by_input=tuple(ledger.rows[:, group].tolist()),
            within=float(ledger.products[group]),
            bytes=int(ledger.bytes[group]),
            unique=float(keys[group]),
            largest_rows=int(largest[group]),
            passed=bool(passed[group]),
            overdue=bool(overdue[group]),
            owed_since_us=int(since[group]),
            cooled=tuple(cooled_rows[:, group].tolist()),
            cooled_bytes=int(cooled_bytes[group]),
        )
