"""Which inputs of a query can be weighed, and as what: a GROUP BY that is pushed below the joins.

An aggregate over one input is kept with that input's rows, if its argument can be computed of every row that there may
be: a row that joins with nothing must stop no run, wherever the group-by stands. Columns of all other arguments are
carried up as they are, and so are group columns, keys, and what predicates and filters read: rows that differ in one of
them are not combined.

A filter that stands above a join reads columns that are carried, so that all rows which were combined pass it, or none.

Not weighed, because the event time of each row matters there: inputs of a ring, queries with windows for pairs of
streams, and windows of any other kind than [RANGE].
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import pyarrow as pa

from watersmeet.model.aggregates import Partial
from watersmeet.model.expressions import Call, Cast, Column, Expr, Literal, aliases_of, children, columns_of, describe
from watersmeet.model.streams import Range, Unbounded
from watersmeet.model.weights import Likeness, Weighing
from watersmeet.plan.query import Query, QueryInput

# Functions that give a value, or NULL, for all values of their arguments.
_COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "least", "greatest", "nullif")
_TOTAL = frozenset([*_COMPARE, "and", "or", "not", "is_null", "is_not_null", "case", "coalesce"])
_OF_FLOATS = frozenset(["add", "subtract", "multiply", "divide", "negate"])
_OF_DECIMALS = frozenset(["add_decimal", "subtract_decimal", "multiply_decimal"])
_MOST_DIGITS = 38
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # of integers with so many bits


def why_not_weighed(query: Query, alias: str) -> str | None:
    """What speaks against weighing an input, as a sentence; None if nothing does."""
    if query.group_by is None:
        return "Only rows of a query with GROUP BY or DISTINCT can be put together."
    if len(query.aliases) == 1:
        return "There is one stream, and nothing to join: its rows are grouped as they come."
    if len(query.parts) > 1:
        return "No equality joins all inputs, so that rows lie in slices of event time, which each row has its own of."
    if query.pair_windows:
        return "Windows for pairs of streams compare the event time of each row."
    other = next((entry for entry in query.inputs if not isinstance(entry.window, Range | Unbounded)), None)
    if other is not None:
        return f"The window of {other.alias} needs the event time of each row."
    for column in _read(query, alias):
        if pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type) or pa.types.is_null(column.type):
            return f"Values of {column.field_name}, of type {column.type}, are not compared with each other."
    return None


def weighing_of(query: Query, alias: str, combined: bool) -> Weighing:
    """How the rows of an input are weighed, which nothing speaks against."""
    group_by = query.group_by
    assert group_by is not None
    slide_us = group_by.slide_us
    entry = query.input(alias)
    weight = _column(entry, "n" if slide_us is None else f"n{slide_us}", pa.int64())
    parts = tuple(
        (_column(entry, f"{part.function}{_digest(part)}", part.type), part)
        for part in group_by.partials
        if part.arg is not None and aliases_of(part.arg) == {alias} and cannot_fail(part.arg)
    )
    return Weighing(alias, weight, parts, slide_us, combined)


def weighings_of(query: Query, weighed: Mapping[str, bool]) -> dict[str, Weighing]:
    """The same for several inputs, each with whether its rows are combined."""
    return {alias: weighing_of(query, alias, combined) for alias, combined in weighed.items()}


def carried_up(query: Query, weighings: Iterable[Weighing]) -> frozenset[Column]:
    """The columns of joined rows that a query with groups reads, where some inputs are weighed."""
    group_by, weighings = query.group_by, list(weighings)
    assert group_by is not None
    found = {column for expr in group_by.groups for column in columns_of(expr)}
    for part in group_by.partials:
        kept = next((column for each in weighings if (column := each.column_of(part)) is not None), None)
        if kept is not None:
            found.add(kept)
        elif part.arg is not None:
            found.update(columns_of(part.arg))
    return frozenset(found | {each.weight for each in weighings})


def likeness_of(query: Query, alias: str, fields: Iterable[str]) -> Likeness | None:
    """What rows of an input with these columns would have to agree in to be combined; None where they cannot be."""
    if why_not_weighed(query, alias) is not None:
        return None
    weighing = weighing_of(query, alias, combined=True)
    kept = {part for _, part in weighing.parts}
    assert query.group_by is not None
    exprs: list[Expr] = [*query.group_by.groups, *query.predicates]
    exprs += [part.arg for part in query.group_by.partials if part.arg is not None and part not in kept]
    exprs += [term for key in query.keys for _, term in key.terms]
    told_apart = {column.field_name for expr in exprs for column in columns_of(expr)}
    added_up = {column.field_name for part in kept if part.arg is not None for column in columns_of(part.arg)}
    added_up |= {column.field_name for column in weighing.columns}
    return Likeness(tuple(name for name in fields if name not in added_up - told_apart), weighing.slide_us)


def cannot_fail(expr: Expr) -> bool:
    """Whether an expression has a value for every row; not whether it is NULL.

    >>> v, d = Column("A", "v", pa.int64()), Column("A", "d", pa.float64())
    >>> cannot_fail(v), cannot_fail(Call("add", (v, v), pa.int64())), cannot_fail(Call("add", (d, d), pa.float64()))
    (True, False, True)
    """
    if not all(map(cannot_fail, children(expr))):
        return False
    match expr:
        case Column() | Literal():
            return True
        case Cast():
            return _fits(expr.arg.type, expr.type)
        case Call():
            if not all(arg.type == expr.type for arg in expr.args) and expr.function in _OF_FLOATS:
                return False
            is_float = expr.function in _OF_FLOATS and pa.types.is_floating(expr.type)
            is_decimal = expr.function in _OF_DECIMALS and expr.type.precision < _MOST_DIGITS  # of which none was cut
            return expr.function in _TOTAL or is_float or is_decimal
    return False


def _fits(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of a type is one of another."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if kind == target or (pa.types.is_floating(target) and is_number):
        return True
    if pa.types.is_integer(target):
        return bool(pa.types.is_integer(kind) and kind.bit_width <= target.bit_width)
    if pa.types.is_decimal(target) and pa.types.is_integer(kind):
        return bool(target.precision - target.scale >= _DIGITS[kind.bit_width])
    if pa.types.is_decimal(target) and pa.types.is_decimal(kind):
        whole = target.precision - target.scale >= kind.precision - kind.scale
        return bool(whole and target.scale >= kind.scale)
    return False


def _read(query: Query, alias: str) -> list[Column]:
    """What the query reads of an input beside its filters."""
    exprs: list[Expr] = [*query.joined, *query.predicates, *(term for key in query.keys for _, term in key.terms)]
    return [column for expr in exprs for column in columns_of(expr) if column.alias == alias]


def _column(entry: QueryInput, name: str, kind: pa.DataType) -> Column:
    return Column(entry.alias, entry.free_name(f"#w{name}"), kind)


def _digest(part: Partial) -> str:
    assert part.arg is not None
    content = f"{describe(part.arg)} {part.arg.type} {part.type}"
    return hashlib.sha256(content.encode()).hexdigest()[:8]
