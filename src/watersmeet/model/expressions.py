"""Scalar expressions as data: what the binder makes of SQL text and what `kernel/evaluate.py` computes.

Every node carries its Arrow type. A `Column` names the query input (alias) it comes from, so that the same expression
can be evaluated on any batch that holds the columns `"alias.name"`. Functions are named by the keys of the table in
`kernel/evaluate.py`; a `PythonCall` carries a function that the user registered, and a `PrepareCall` one that
is applied to an argument of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from watersmeet.errors import Place


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
    """A registered vectorised predicate: Arrow arrays in, a boolean array out.

    With `skips_null` it is not asked about rows in which an argument is NULL, which give NULL.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Expr, ...]
    type: pa.DataType
    cost: float | None = None  # seconds for each row, if declared
    symmetric: bool = False  # of two arguments, which may change places
    skips_null: bool = False
    place: Place | None = field(default=None, compare=False)  # in the text of the query


@dataclass(frozen=True)
class PrepareCall:
    """What is prepared of an argument of a predicate: an Arrow array in, one of as many values out."""

    predicate: str
    name: str  # that it is known by
    function: Callable[..., Any]
    arg: Expr
    type: pa.DataType
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Prepared:
    """The column of an input's rows that has what `call` gave when they entered."""

    column: Column
    call: PrepareCall

    @property
    def type(self) -> pa.DataType:
        return self.column.type


Expr = Column | Literal | Cast | Call | PythonCall | PrepareCall | Prepared


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Call() | PythonCall():
            return expr.args
        case Cast() | PrepareCall():
            return (expr.arg,)
    return ()


def replace_children(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`expr` with each of its children changed; `expr` itself if none was."""
    match expr:
        case Call() | PythonCall():
            args = tuple(map(change, expr.args))
            changed = any(new is not old for new, old in zip(args, expr.args, strict=True))
            return replace(expr, args=args) if changed else expr
        case Cast() | PrepareCall():
            arg = change(expr.arg)
            return expr if arg is expr.arg else replace(expr, arg=arg)
    return expr


def python_calls(expr: Expr) -> Iterator[PythonCall]:
    """Every call of a registered function in `expr`."""
    if isinstance(expr, PythonCall):
        yield expr
    for child in children(expr):
        yield from python_calls(child)


def columns_of(expr: Expr) -> Iterator[Column]:
    """Every column that `expr` reads, in order of appearance, repeats included."""
    if isinstance(expr, Column):
        yield expr
    if isinstance(expr, Prepared):
        yield expr.column
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
        case PrepareCall():
            return f"{expr.name}({describe(expr.arg)})"
        case Prepared():
            return describe(expr.call)
        case Call() | PythonCall():
            name = expr.function if isinstance(expr, Call) else expr.name
            return f"{name}({', '.join(map(describe, expr.args))})"
