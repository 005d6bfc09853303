"""A physical plan as text and as JSON: what runs where, on which keys, with which states, and why in this shape.

The text is the tree from the node that emits results down to the streams. Each input of a node shows the order in
which its rows probe the others and the state that it keeps; an exchange stands where rows move to another stage. Pure:
reads the plan alone, and sizes of states and plans that were considered if they are given.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text
from rich.tree import Tree as Drawing

from watersmeet.model.expressions import Call, Expr, describe
from watersmeet.model.quantities import UNIT_MICROSECONDS, bytes_text, count_text, microseconds
from watersmeet.model.statistics import Measured
from watersmeet.model.streams import Range, Window
from watersmeet.plan.physical import AnyStage, Exchange, Node, PhysicalPlan, RoutedNode, RoutedStage, Stage, State
from watersmeet.plan.query import Query, QueryInput

Sizes = Mapping[str, Mapping[str, Any]]  # state name -> {"rows": .., "bytes": ..}, as in a batch event

_SIGNS = {"equal": "=", "not_equal": "<>", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_SIGNS |= {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "AND", "or": "OR"}


def explain_choice(query: Query, setting: str) -> str:
    """Why `plan = setting` gives the tree that `choose_tree` makes of it, as a sentence."""
    if setting == "left-deep":
        return "left-deep was asked for: two inputs at a time, in the order of the text"
    if setting == "mjoin":
        return "mjoin was asked for: one join over all inputs"
    return f"the tree {setting} was asked for"


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
) -> str:
    """The plan for a reader: `reason` says why this tree, `sizes` what its states hold, `considered` what else.

    `measured` is what the run has seen of its streams.
    """
    stages = counted(len(plan.stages), "stage")
    exchanges = counted(sum(len(stage.exchanges) for stage in plan.stages), "exchange")
    lines = [f"plan {plan.tree}: {stages}, {exchanges}", f"why: {reason}", ""]
    out = io.StringIO()
    # Wide, so that nothing is folded: a terminal folds long lines itself.
    Console(file=out, width=10_000, color_system=None).print(_draw_root(plan, sizes or {}))
    lines += [line.rstrip() for line in out.getvalue().rstrip("\n").split("\n")]
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


def price_text(cores: float, memory_bytes: float) -> str:
    """What a plan costs, for a reader.

    >>> price_text(0.0125, 3_400_000)
    'CPU 0.0125 cores, memory 3.2 MB'
    """
    return f"CPU {cores:.3g} cores, memory {bytes_text(memory_bytes)}"


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
    return lines


def explain_json(
    plan: PhysicalPlan,
    reason: str,
    sizes: Sizes | None = None,
    considered: Sequence[Considered] = (),
    measured: Measured | None = None,
) -> dict[str, Any]:
    """The plan as plain JSON data."""
    return {
        "query": plan.query.text,
        "plan": plan.tree,
        "why": reason,
        "inputs": [_input_json(plan, alias) for alias in plan.query.aliases],
        "stages": [_stage_json(plan, stage, sizes or {}) for stage in plan.stages],
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
        },
        "output": [{"name": c.name, "expression": expression_text(c.expr)} for c in plan.query.select],
    }


def expression_text(expr: Expr) -> str:
    """`expr` with the usual signs for comparison and arithmetic.

    >>> import pyarrow as pa
    >>> from watersmeet.model.expressions import Column, Literal
    >>> v = Column("A", "v", pa.int64())
    >>> expression_text(Call("less", (Call("add", (v, v), v.type), Literal(3, v.type)), pa.bool_()))
    '(A.v + A.v) < 3'
    """
    if not isinstance(expr, Call):
        return describe(expr)
    sign = _SIGNS.get(expr.function)
    if sign is None or len(expr.args) < 2:
        return f"{expr.function}({', '.join(map(expression_text, expr.args))})"
    return f" {sign} ".join(_operand(arg) for arg in expr.args)


def _operand(expr: Expr) -> str:
    text = expression_text(expr)
    return f"({text})" if isinstance(expr, Call) and expr.function in _SIGNS else text


def window_text(window: Window) -> str:
    """The window as the query language writes it.

    >>> from datetime import timedelta
    >>> window_text(Range(timedelta(minutes=30)))
    '[RANGE 30 MINUTES]'
    """
    if not isinstance(window, Range):
        return "[UNBOUNDED]"
    width = microseconds(window.width)
    unit, size = next((u, s) for u, s in reversed(UNIT_MICROSECONDS.items()) if width % s == 0)
    return f"[RANGE {counted(width // size, unit).upper()}]"


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "stage"), counted(2, "exchange")
    ('1 stage', '2 exchanges')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _draw_root(plan: PhysicalPlan, sizes: Sizes) -> Drawing:
    last = plan.stages[-1]
    node = last.node if isinstance(last, RoutedStage) else last.nodes[-1]
    root = Drawing(Text("\n".join(_node_lines(plan, last, node))))
    _draw_inputs(root, plan, last, node, sizes)
    return root


def _draw_inputs(drawing: Drawing, plan: PhysicalPlan, stage: AnyStage, node: Node | RoutedNode, sizes: Sizes) -> None:
    if isinstance(node, Node):
        inputs: list[tuple[str, tuple[State, ...]]] = [(entry.source, (entry.state,)) for entry in node.inputs]
    else:
        inputs = [(routed.source, routed.states) for routed in node.inputs]
    for index, (source, states) in enumerate(inputs):
        kept = [f"probes {_probes(plan, node, index)}", *(line for s in states for line in _state_lines(s, sizes))]
        found = find_node(plan, node, source)
        if found is None:
            drawing.add(Text("\n".join([_leaf_line(plan, source), *kept])))
            continue
        below, child = found
        if below is stage:
            lines = _node_lines(plan, stage, child)
            branch = drawing.add(Text("\n".join([lines[0], *kept, *lines[1:]])))
        else:
            entered = stage.index - stage.hop if isinstance(stage, RoutedStage) else stage.index
            hashed = " and on ".join(hashed_on(plan, exchange) for exchange in outgoing(below))
            head = f"exchange from stage {below.index} to stage {entered}, hashed on {hashed}"
            branch = drawing.add(Text("\n".join([head, *kept])))
            branch = branch.add(Text("\n".join(_node_lines(plan, below, child))))
        _draw_inputs(branch, plan, below, child, sizes)


def _node_lines(plan: PhysicalPlan, stage: AnyStage, node: Node | RoutedNode) -> list[str]:
    if isinstance(node, RoutedNode):
        first = stage.index - len(node.inputs) + 2
        lines = [f"{node.id} routed join, one stage a hop (stages {first} to {stage.index})"]
        lines += [f"checks {expression_text(expr)}" for expr in node.predicates]
    else:
        lines = [f"{node.id} join on {' and '.join(node_keys(plan, node))} (stage {stage.index})"]
        lines += [f"checks {expression_text(expr)}" for _, expr in node.predicates]
    is_root = isinstance(stage, RoutedStage) or node is stage.nodes[-1]
    if is_root and not outgoing(stage):
        lines.append(f"emits {', '.join(column.name for column in plan.query.select)}")
    return lines


def outgoing(stage: AnyStage) -> tuple[Exchange, ...]:
    """The exchanges that lead from the root of a stage to the next node."""
    return stage.probes[0].exchanges if isinstance(stage, RoutedStage) else stage.exchanges


def _leaf_line(plan: PhysicalPlan, alias: str) -> str:
    entry = plan.query.input(alias)
    name = alias if alias == entry.stream.name else f"{alias} (stream {entry.stream.name})"
    filters = filters_text(entry)
    return f"{name} {window_text(entry.window)}" + (f" where {filters}" if filters else "")


def filters_text(entry: QueryInput) -> str:
    """The filters of a query input as one condition; empty where it has none."""
    if len(entry.filters) > 1:
        return " AND ".join(map(_operand, entry.filters))
    return "".join(map(expression_text, entry.filters))


def _state_lines(state: State, sizes: Sizes) -> list[str]:
    lines = [f"state {state.name}: {', '.join(name for name, _ in state.fields)}"]
    if state.name in sizes:
        size = sizes[state.name]
        lines.append(f"holds {size['rows']:,} rows in {size['bytes']:,} bytes")
    return lines


def _probes(plan: PhysicalPlan, node: Node | RoutedNode, index: int) -> str:
    if isinstance(node, Node):
        return ", then ".join(node.inputs[other].source for other in node.orders[index])
    hops = [f"{node.inputs[other].source} on {classes_text(plan, names)}" for other, names in node.inputs[index].route]
    return ", then ".join(hops)


def classes_text(plan: PhysicalPlan, names: tuple[str, ...]) -> str:
    """Key classes as the equalities that they stand for."""
    keys = [key for key in plan.query.keys if key.name in names]
    return " and ".join(" = ".join(expression_text(term) for _, term in key.terms) for key in keys)


def find_node(plan: PhysicalPlan, node: Node | RoutedNode, source: str) -> tuple[AnyStage, Node | RoutedNode] | None:
    """The node that feeds an input of `node`, with the last of its stages; None when a query input does.

    An alias may be spelled like a node's id, so what stands below in the tree decides which of the two it is.
    """
    if source in plan.query.aliases and f" {source} " in f" {_top_level(node.tree)} ":
        return None
    below = [(s, n) for s in plan.stages for n in ([s.node] if isinstance(s, RoutedStage) else s.nodes)]
    return next((s, n) for s, n in reversed(below) if n.id == source)


def _top_level(tree: str) -> str:
    """What stands directly inside the outer parentheses of a tree, inner trees left out.

    >>> _top_level("((A B) C)")
    ' C'
    """
    depth = 0
    kept = []
    for char in tree:
        depth -= char == ")"
        if depth == 1 and char not in "()":
            kept.append(char)
        depth += char == "("
    return "".join(kept)


def node_keys(plan: PhysicalPlan, node: Node) -> list[str]:
    """Each key of the node as `A.k = B.k = C.k`."""
    columns = zip(*(entry.state.key_fields for entry in node.inputs), strict=True)
    return [" = ".join(key_text(plan, field) for field in fields) for fields in columns]


def hashed_on(plan: PhysicalPlan, exchange: Exchange) -> str:
    """The columns that an exchange is hashed on, as the user wrote them."""
    return ", ".join(key_text(plan, field) for field in exchange.key_fields)


def key_text(plan: PhysicalPlan, field: str) -> str:
    """A key column as the user wrote it: `A.#k0` stands for an expression of the query."""
    alias = field.partition(".")[0]
    keys = (key for key in plan.query.keys if alias in key.aliases)
    term = next((k.term(alias) for k in keys if plan.query.key_column(k, alias).field_name == field), None)
    return field if term is None else expression_text(term)


def _input_json(plan: PhysicalPlan, alias: str) -> dict[str, Any]:
    entry = plan.query.input(alias)
    return {
        "alias": alias,
        "stream": entry.stream.name,
        "window": window_text(entry.window),
        "filters": [expression_text(expr) for expr in entry.filters],
        "columns_read": list(plan.stream_columns(entry.stream.name)),
    }


def _stage_json(plan: PhysicalPlan, stage: AnyStage, sizes: Sizes) -> dict[str, Any]:
    exchanges = [
        {
            "to_stage": plan.port_stage[exchange.port],
            "hashed_on": [key_text(plan, field) for field in exchange.key_fields],
            "columns": [name for name, _ in exchange.fields],
        }
        for exchange in stage.exchanges
    ]
    if isinstance(stage, Stage):
        nodes = [_node_json(plan, node, sizes) for node in stage.nodes]
        return {"stage": stage.index, "nodes": nodes, "exchanges": exchanges}
    routed = {**_routed_json(plan, stage.node, sizes), "hop": stage.hop}
    return {"stage": stage.index, "nodes": [routed], "exchanges": exchanges}


def _routed_json(plan: PhysicalPlan, node: RoutedNode, sizes: Sizes) -> dict[str, Any]:
    return {
        "id": node.id,
        "tree": node.tree,
        "routed": True,
        "predicates": [expression_text(expr) for expr in node.predicates],
        "inputs": [
            {
                "source": entry.source,
                "route": [
                    {"input": node.inputs[other].source, "on": classes_text(plan, names)}
                    for other, names in entry.route
                ],
                "states": [_state_json(state, sizes) for state in entry.states],
            }
            for entry in node.inputs
        ],
    }


def _node_json(plan: PhysicalPlan, node: Node, sizes: Sizes) -> dict[str, Any]:
    return {
        "id": node.id,
        "tree": node.tree,
        "keys": node_keys(plan, node),
        "predicates": [expression_text(expr) for _, expr in node.predicates],
        "inputs": [
            {
                "source": entry.source,
                "probes": [node.inputs[other].source for other in node.orders[index]],
                "state": _state_json(entry.state, sizes),
            }
            for index, entry in enumerate(node.inputs)
        ],
    }


def _state_json(state: State, sizes: Sizes) -> dict[str, Any]:
    return {
        "name": state.name,
        "columns": {name: str(kind) for name, kind in state.fields},
        **sizes.get(state.name, {}),
    }
