"""How parts of a plan are written for people: expressions with their signs, windows, keys, numbers of things."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.model.expressions import Call, Expr, describe
from watersmeet.model.quantities import UNIT_MICROSECONDS, microseconds
from watersmeet.model.streams import Range, Window
from watersmeet.plan.physical import Exchange, PhysicalPlan

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


def filters_text(filters: Sequence[Expr]) -> str:
    """Filters as one condition; empty where there are none."""
    if len(filters) > 1:
        return " AND ".join(map(_operand, filters))
    return "".join(map(expression_text, filters))


def classes_text(plan: PhysicalPlan, names: tuple[str, ...]) -> str:
    """Key classes as the equalities that they stand for."""
    keys = [key for key in plan.query.keys if key.name in names]
    return " and ".join(" = ".join(expression_text(term) for _, term in key.terms) for key in keys)


def key_text(plan: PhysicalPlan, field: str) -> str:
    """A key column as the user wrote it: `A.#k0` stands for an expression of the query."""
    alias = field.partition(".")[0]
    keys = (key for key in plan.query.keys if alias in key.aliases)
    term = next((k.term(alias) for k in keys if plan.query.key_column(k, alias).field_name == field), None)
    return field if term is None else expression_text(term)


def hashed_on(plan: PhysicalPlan, exchanges: tuple[Exchange, ...]) -> str:
    """The columns that rows are hashed on where they go, as the user wrote them."""
    return " and on ".join(", ".join(key_text(plan, field) for field in exchange.key_fields) for exchange in exchanges)


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
