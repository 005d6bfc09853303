"""How parts of a plan are written for people: expressions with their signs, windows, keys, numbers of things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from watersmeet.model.aggregates import GROUPED, GroupBy, aggregate_column, group_column
from watersmeet.model.expressions import Call, Cast, Column, Expr, Literal, PythonCall, describe
from watersmeet.model.keys import ByHash, BySlice, ByTimeSlot, Key
from watersmeet.model.quantities import duration_text, microseconds
from watersmeet.model.streams import Range, Rows, Window
from watersmeet.plan.count_windows import count_condition_text
from watersmeet.plan.physical import Exchange, PhysicalPlan, is_time_field
from watersmeet.plan.query import Query

_SIGNS = {"equal": "=", "not_equal": "<>", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
_SIGNS |= {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "AND", "or": "OR"}


def expression_text(expr: Expr) -> str:
    """`expr` with the usual signs for comparison and arithmetic.

    >>> import pyarrow as pa
    >>> from watersmeet.model.expressions import Column, Literal
    >>> v = Column("A", "v", pa.int64())
    >>> expression_text(Call("less", (Call("add", (v, v), v.type), Literal(3, v.type)), pa.bool_()))
    '(A.v + A.v) < 3'
    """
    if isinstance(expr, Literal) and isinstance(expr.value, timedelta):
        return f"INTERVAL {duration_text(microseconds(expr.value)).upper()}"
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
    if isinstance(window, Rows):
        return f"[ROWS {window.count}]"
    if not isinstance(window, Range):
        return "[UNBOUNDED]"
    return f"[RANGE {duration_text(microseconds(window.width)).upper()}]"


class _Plain(str):
    """Text that stands for itself in an expression."""

    __repr__ = str.__str__


def output_text(query: Query, expr: Expr) -> str:
    """What a column of the results is."""
    return expression_text(expr) if query.group_by is None else grouped_text(query.group_by, expr)


def grouped_text(group_by: GroupBy, expr: Expr) -> str:
    """An expression over groups, with what its columns stand for."""
    names = {group_column(place, entry): entry for place, entry in enumerate(group_by.groups)}
    texts = {aggregate_column(place, entry): entry.text for place, entry in enumerate(group_by.aggregates)}

    def spelled(part: Expr) -> Expr:
        if isinstance(part, Column) and part.alias == GROUPED:
            return names.get(part) or Literal(_Plain(texts.get(part, part.name)), part.type)
        if isinstance(part, Call | PythonCall):
            return replace(part, args=tuple(map(spelled, part.args)))
        return replace(part, arg=spelled(part.arg)) if isinstance(part, Cast) else part

    return expression_text(spelled(expr))


def weighing_text(plan: PhysicalPlan, alias: str) -> str:
    """What becomes of the rows of an input that is weighed; nothing where it is not."""
    leaf = next(leaf for leaf in plan.leaves if leaf.alias == alias)
    weighing = leaf.state.weighing
    if weighing is None:
        return ""
    made = {column.field_name for column in weighing.columns}
    names = [name for name, _ in leaf.state.fields if name not in made and not is_time_field(name)]
    if weighing.slide_us is not None:
        names.append(f"{duration_text(weighing.slide_us)} of event time")
    kept = ", ".join(["their number", *(part.text for _, part in weighing.parts)])
    if not weighing.combined:
        return f"each row has a weight, and may stand for several with {kept}"
    return f"rows are combined that agree in {', '.join(names)}, with {kept}"


def check_text(query: Query, expr: Expr) -> str:
    """What a join checks: a predicate of the query, or a window of rows."""
    return count_condition_text(query, expr) or expression_text(expr)


def filters_text(filters: Sequence[Expr]) -> str:
    """Filters as one condition; empty where there are none."""
    if len(filters) > 1:
        return " AND ".join(map(_operand, filters))
    return "".join(map(expression_text, filters))


def slices_text(width_us: int) -> str:
    """Slices of event time by their width.

    >>> slices_text(39062), slices_text(1_000_000)
    ('slices of 39.062 ms', 'slices of 1000 ms')
    """
    return f"slices of {width_us / 1000:g} ms"


def segments_text(segment_us: int) -> str:
    """Segments of a master's event time by their length.

    >>> segments_text(10_000_000)
    'segments of 10 s'
    """
    return f"segments of {segment_us / 1e6:g} s"


def visit_text(plan: PhysicalPlan, name: str, classes: tuple[str, ...]) -> str:
    """What rows visit, and on which equalities; without any, by time."""
    return f"{name} on {classes_text(plan, classes)}" if classes else f"all of {name} in time"


def classes_text(plan: PhysicalPlan, names: tuple[str, ...]) -> str:
    """Key classes as the equalities that they stand for."""
    keys = [key for key in plan.query.keys if key.name in names]
    return " and ".join(" = ".join(expression_text(term) for _, term in key.terms) for key in keys)


def key_text(plan: PhysicalPlan, key: Key) -> str:
    """Return how rows are placed, for people."""
    return ", ".join(key_texts(plan, key))


def key_texts(plan: PhysicalPlan, key: Key) -> tuple[str, ...]:
    """Return the same, with a text for each column of a hash."""
    match key:
        case BySlice(width_us, copies):
            return (slices_text(width_us) + (f", {copies} copies" if copies > 1 else ""),)
        case ByTimeSlot(width_us):
            return (segments_text(width_us),)
        case ByHash(columns):
            return tuple(_column_text(plan, field) for field in columns)


def _column_text(plan: PhysicalPlan, field: str) -> str:
    """Return a key column as the user wrote it: `A.#k0` stands for an expression of the query."""
    alias, _, name = field.partition(".")
    if alias == GROUPED and name.isdigit() and plan.query.group_by is not None:
        return expression_text(plan.query.group_by.groups[int(name)])
    keys = (key for key in plan.query.keys if alias in key.aliases)
    term = next((k.term(alias) for k in keys if plan.query.key_column(k, alias).field_name == field), None)
    return field if term is None else expression_text(term)


def column_text(plan: PhysicalPlan, field: str) -> str:
    """A column of a state as the user wrote it: `A.#p12ab34cd` stands for what was prepared of a row."""
    prepared = (each for each in plan.query.prepared if each.column.field_name == field)
    return next(map(describe, prepared), field)


def where_to(plan: PhysicalPlan, exchanges: tuple[Exchange, ...], on: str = "on") -> str:
    """By what rows go on: `on` the columns that they are hashed on, as the user wrote them, or by time."""
    ways = [_way(plan, exchange, "on" if place else on) for place, exchange in enumerate(exchanges)]
    return " and ".join(dict.fromkeys(ways))


def _way(plan: PhysicalPlan, exchange: Exchange, on: str) -> str:
    if exchange.reach is not None:
        return "to all slots in reach"
    key = key_text(plan, exchange.key) or "nothing"
    return f"{on} {key}" if isinstance(exchange.key, ByHash) else f"in {key}"


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "stage"), counted(2, "exchange")
    ('1 stage', '2 exchanges')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def stages_text(stages: tuple[int, ...]) -> str:
    """The stages that a join runs in.

    >>> stages_text((3,)), stages_text((3, 4, 5))
    ('stage 3', 'stages 3 to 5')
    """
    return f"stage {stages[0]}" if len(stages) == 1 else f"stages {stages[0]} to {stages[-1]}"
