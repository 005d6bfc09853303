"""A physical plan as text and as JSON: what runs where, on which keys, with which states, and why in this shape.

The text is the tree from the join that emits results down to the streams. Each input of a join shows the order in
which its rows probe the others and the state that it keeps; an exchange stands where rows move to another stage. Pure:
reads the plan alone, and sizes of states and plans that were considered if they are given. What is particular to a kind
of stage comes from `kinds.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from watersmeet.draw.branches import Branch
from watersmeet.draw.kinds import ShownInput, ShownJoin, Sizes, all_joins, nodes_json, shown_joins
from watersmeet.draw.places import place_lines, places_json
from watersmeet.draw.rings import ring_notes
from watersmeet.draw.words import (
    column_text,
    counted,
    expression_text,
    filters_text,
    key_texts,
    output_text,
    stages_text,
    weighing_text,
    where_to,
    window_text,
)
from watersmeet.model.ids import OperatorName
from watersmeet.model.placement import Placement
from watersmeet.model.plain_json import plain
from watersmeet.model.quantities import count_text
from watersmeet.model.routing import groups_text
from watersmeet.model.statistics import Measured
from watersmeet.optimize.cost import price_text
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.count_windows import kept_by_rows_text, waits_text
from watersmeet.plan.pair_windows import kept_text
from watersmeet.plan.physical import FromInput, PhysicalPlan, Stage, State


class Considered(Protocol):
    """A plan that was considered: its name and tree, its estimated cost, and whether it keeps the limits."""

    @property
    def name(self) -> str: ...
    @property
    def plan(self) -> str: ...
    @property
    def cost(self) -> Any: ...
    @property
    def qualifies(self) -> bool: ...


def explain_text(
    plan: PhysicalPlan,
    reason: str,
    sizes: Sizes | None = None,
    considered: Sequence[Considered] = (),
    measured: Measured | None = None,
    placement: Placement | None = None,
    statistics: Statistics | None = None,
) -> str:
    """The plan for a reader: `reason` says why this tree, `sizes` what its states hold, `considered` what else.

    `measured` is what the run has seen of its streams, `placement` where its joins run, `statistics` what the plan was
    chosen by.
    """
    stages = counted(len(plan.stages), "stage")
    exchanges = counted(sum(len(stage.exchanges) for stage in plan.stages), "exchange")
    lines = [f"plan {plan.tree}: {stages}, {exchanges}", f"why: {reason}"]
    if len(plan.shapes) == 1:
        lines += ["", *_tree_lines(plan, sizes or {}, all_joins(plan))]
    else:
        for (tree, within), stage in zip(plan.shapes, plan.stages, strict=True):
            joins = {join.name: join for join in shown_joins(stage, plan)}
            lines += ["", f"groups {groups_text(within or ())} run {tree}:", *_tree_lines(plan, sizes or {}, joins)]
    waits = waits_text(plan.query)
    if plan.spec.pairs or waits:
        lines += ["", "how long rows are kept, after their event time and by the watermarks of the others:"]
        lines += [f"  {_kept_text(plan, alias)}" for alias in plan.query.aliases]
    lines += [] if waits is None else ["", waits]
    if notes := ring_notes(plan, statistics):
        lines += ["", *notes]
    if placement is not None:
        lines += ["", f"where ({counted(placement.slots, 'slot')}):"]
        lines += [f"  {line}" for line in place_lines(plan, placement)]
    if considered:
        lines += ["", "considered (estimates):"]
        width = max(len(entry.name) for entry in considered)
        for entry in considered:
            verdict = "" if entry.qualifies else ", beyond the limits"
            price = price_text(entry.cost.cpu, entry.cost.memory)
            lines.append(f"  {entry.name.ljust(width)}  {entry.plan}: {price}{verdict}")
    if measured is not None and measured.seconds > 0:
        lines += ["", "measured (of event time; recent batches weigh more):"]
        lines += [f"  {line}" for line in measured_lines(measured)]
    return "\n".join(lines) + "\n"


def _kept_text(plan: PhysicalPlan, alias: str) -> str:
    by_time = kept_text(plan.query, reach := plan.query.reach_with(plan.spec.pairs), alias)
    by_rows = kept_by_rows_text(plan.query, alias)
    if by_rows is None or reach.kept_for_us(alias) is None:
        return by_rows or by_time
    return f"{by_rows}; or sooner: {by_time}"


def _tree_lines(plan: PhysicalPlan, sizes: Sizes, joins: dict[OperatorName, ShownJoin]) -> list[str]:
    return list(_TextTree(plan, sizes, joins).draw().lines())


def measured_lines(measured: Measured) -> list[str]:
    """Rates and selectivities for a reader, one a line."""
    lines = [f"{alias}: {count_text(measured.rate(alias) or 0.0)} rows/s" for alias in measured.rows]
    for pair in measured.pairs:
        if pair.selectivity is not None:
            checked = (
                "" if pair.pass_share is None else f" (key {pair.key_share:.3g}, predicates {pair.pass_share:.3g})"
            )
            sides = f"{' '.join(pair.left)} with {' '.join(pair.right)}"
            lines.append(f"{sides}: selectivity {pair.selectivity:.3g}{checked}")
    lines += [
        f"{alias}: {seen.rows / seen.left:.3g} rows agree in all that matters to the groups, where they are combined"
        for alias, seen in measured.alike.items()
        if seen.left > 0
    ]
    lines += [
        f"{seen.alias}, filter {seen.filter}: passes {seen.share:.3g}, {seen.seconds / seen.rows * 1e6:.3g} us a row"
        for seen in measured.filters
        if seen.rows > 0
    ]
    lines += [
        f"predicate {seen.predicate}: passes {seen.share:.3g}, {seen.seconds / seen.rows * 1e9:.3g} ns a combination"
        for seen in measured.predicates
        if seen.rows > 0
    ]
    return lines


def explain_json(
    plan: PhysicalPlan,
    reason: str,
    sizes: Sizes | None = None,
    considered: Sequence[Considered] = (),
    measured: Measured | None = None,
    placement: Placement | None = None,
    statistics: Statistics | None = None,
) -> dict[str, Any]:
    """The plan as plain JSON data."""
    return {
        "query": plan.query.text,
        "plan": plan.tree,
        "why": reason,
        "inputs": [_input_json(plan, alias) for alias in plan.query.aliases],
        "spec": plan.spec.to_json(),
        "notes": [*ring_notes(plan, statistics), *filter(None, [waits_text(plan.query)])],
        "stages": [_stage_json(plan, stage, sizes or {}) for stage in plan.stages],
        "where": [] if placement is None else places_json(plan, placement),
        "considered": [
            {
                "name": entry.name,
                "plan": entry.plan,
                "cpu": entry.cost.cpu,
                "memory": entry.cost.memory,
                "qualifies": entry.qualifies,
            }
            for entry in considered
        ],
        "measured": {
            "rates": {} if measured is None else {alias: measured.rate(alias) for alias in measured.rows},
            "selectivities": [
                {"left": list(p.left), "right": list(p.right), "selectivity": p.selectivity, "key": p.key_share}
                for p in ([] if measured is None else measured.pairs)
            ],
            "alike": {} if measured is None else {alias: seen.share for alias, seen in measured.alike.items()},
            "filters": plain(() if measured is None else measured.filters),
            "predicates": plain(() if measured is None else measured.predicates),
        },
        "output": [{"name": c.name, "expression": output_text(plan.query, c.expr)} for c in plan.query.select],
    }


@dataclass(frozen=True)
class _TextTree:
    """Draws the joins of a plan as a tree of lines."""

    plan: PhysicalPlan
    sizes: Sizes
    joins: dict[OperatorName, ShownJoin]

    def draw(self) -> Branch:
        *_, last = self.joins.values()
        emits = f"emits {', '.join(column.name for column in self.plan.query.select)}"
        root = Branch([*_join_lines(last), emits])
        self._draw_inputs(root, last)
        return root

    def _draw_inputs(self, drawing: Branch, join: ShownJoin) -> None:
        for entry in join.inputs:
            kept = self._kept(entry)
            if isinstance(entry.source, FromInput):
                weighed = filter(None, [weighing_text(self.plan, entry.source.alias)])
                drawing.add([_leaf_line(self.plan, entry.source.alias), *weighed, *kept])
                continue
            below = self.joins[entry.source.name]
            first, *rest = _join_lines(below)
            if join.receives(below):
                way = where_to(self.plan, below.exchanges, "hashed on")
                head = f"exchange from stage {below.stages[-1]} to stage {join.stages[0]}, {way}"
                branch = drawing.add([head, *kept]).add([first, *rest])
            else:
                branch = drawing.add([first, *kept, *rest])
            self._draw_inputs(branch, below)

    def _kept(self, entry: ShownInput) -> list[str]:
        """What the input of a join probes and keeps."""
        lines = [f"probes {', then '.join(entry.probes)}"] if entry.probes else []
        return lines + [line for state in entry.states for line in _state_lines(self.plan, state, self.sizes)]


def _join_lines(join: ShownJoin) -> list[str]:
    head = f"{join.title}{join.how} ({stages_text(join.stages)})"
    checks, filters = (f"checks {text}" for text in join.checks), (f"then filters {text}" for text in join.filters)
    return [head, *checks, *filters, *join.notes]


def _leaf_line(plan: PhysicalPlan, alias: str) -> str:
    entry = plan.query.input(alias)
    name = alias if alias == entry.stream.name else f"{alias} (stream {entry.stream.name})"
    filters = filters_text(plan.filters_at(alias))
    return f"{name} {window_text(entry.window)}" + (f" where {filters}" if filters else "")


def _state_lines(plan: PhysicalPlan, state: State, sizes: Sizes) -> list[str]:
    lines = [f"state {state.name}: {', '.join(column_text(plan, name) for name, _ in state.fields)}"]
    if state.name in sizes:
        size = sizes[state.name]
        lines.append(f"holds {size['rows']:,} rows in {size['bytes']:,} bytes")
    return lines


def _input_json(plan: PhysicalPlan, alias: str) -> dict[str, Any]:
    entry, reach = plan.query.input(alias), plan.query.reach_with(plan.spec.pairs)
    kept_us = reach.kept_for_us(alias)
    return {
        "alias": alias,
        "stream": entry.stream.name,
        "window": window_text(entry.window),
        "kept_seconds": None if kept_us is None else max(0, kept_us) / 1e6,
        "kept": _kept_text(plan, alias),
        "filters": [expression_text(expr) for expr in entry.filters],
        "weighed": weighing_text(plan, alias) or None,
        "columns_read": list(plan.stream_columns(entry.stream.name)),
    }


def _stage_json(plan: PhysicalPlan, stage: Stage, sizes: Sizes) -> dict[str, Any]:
    return {
        "stage": stage.index,
        "wave": stage.wave,
        **({} if stage.within is None else {"groups": groups_text(stage.within)}),
        "nodes": nodes_json(stage, plan, sizes),
        "exchanges": [
            {
                "to_stage": plan.port_stage[exchange.port],
                "hashed_on": list(key_texts(plan, exchange.key)),
                "columns": [name for name, _ in exchange.fields],
            }
            for exchange in stage.exchanges
        ],
    }
