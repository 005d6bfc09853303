"""Scalar expressions as data: what the binder makes of SQL text and what `kernel/evaluate.py` computes.

Every node carries its Arrow type. A `Column` names the query input (alias) it comes from, so that the same expression
can be evaluated on any batch that holds the columns `"alias.name"`. Functions are named by the keys of the table in
`kernel/evaluate.py`; a `PythonCall` carries a function that the user registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    alias: str
    name: str
    type: pa.DataType

    @property
    def field_name(self) -> str:
        return f"{self.alias}.{self.name}"


@dataclass(frozen=True)
class Literal:
    value: Any
    type: pa.DataType


@dataclass(frozen=True)
class Cast:
    arg: Expr
    type: pa.DataType


@dataclass(frozen=True)
class Call:
    function: str
    args: tuple[Expr, ...]
    type: pa.DataType


@dataclass(frozen=True)
class PythonCall:
    """A registered vectorised predicate: Arrow arrays in, a boolean array out."""

    name: str
    function: Callable[..., Any]
    args: tuple[Expr, ...]
    type: pa.DataType


Expr = Column | Literal | Cast | Call | PythonCall


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Call() | PythonCall():
            return expr.args
        case Cast():
            return (expr.arg,)
    return ()


def columns_of(expr: Expr) -> Iterator[Column]:
    """Every column that `expr` reads, in order of appearance, repeats included."""
    if isinstance(expr, Column):
        yield expr
    for child in children(expr):
        yield from columns_of(child)


def aliases_of(expr: Expr) -> frozenset[str]:
    """The query inputs that `expr` reads."""
    return frozenset(column.alias for column in columns_of(expr))


def describe(expr: Expr) -> str:
    """`expr` as compact text, for explain and for naming states; equal expressions give equal text.

    >>> describe(Call("less", (Column("A", "v", pa.int64()), Literal(3, pa.int64())), pa.bool_()))
    'less(A.v, 3)'
    """
    match expr:
        case Column():
            return expr.field_name
        case Literal():
            return repr(expr.value)
        case Cast():
            return f"cast({describe(expr.arg)} as {expr.type})"
        case Call() | PythonCall():
            name = expr.function if isinstance(expr, Call) else expr.name
            return f"{name}({', '.join(map(describe, expr.args))})"
