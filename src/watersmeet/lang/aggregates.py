"""Binds what a query groups by: GROUP BY, HAVING, aggregates in the select list, and SELECT DISTINCT.

What stands in the select list and in HAVING of such a query is an expression over groups: over group columns, over
aggregates, and over `window_end`, the boundary that a row of the result is of, where the query has windows. That column
is there even if it is not selected, as the last one. An expression is a group column where it is the same as one of
GROUP BY, which may also name an entry of the select list by its alias or its number.

SELECT DISTINCT is a group-by of all that is selected, without aggregates.

SUM of integers gives BIGINT, of DECIMAL(p, s) gives DECIMAL(p + 10, s), of others DOUBLE; AVG of DECIMAL(p, s) gives
DECIMAL(p + 4, s + 4), of others DOUBLE; each with at most 38 digits, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn

import pyarrow as pa
from sqlglot import TokenType, exp

from watersmeet.errors import Span
from watersmeet.lang.coercion import coerce, is_comparable
from watersmeet.lang.scalars import AGGREGATES, ScalarBinder
from watersmeet.lang.scope import ScopeInput, match_name
from watersmeet.lang.source import Source
from watersmeet.model.aggregates import (
    AVG,
    COUNT,
    MAX,
    MIN,
    SUM,
    WINDOW_END,
    Aggregate,
    GroupBy,
    aggregate_column,
    end_column,
    group_column,
)
from watersmeet.model.expressions import Column, Expr
from watersmeet.model.quantities import microseconds
from watersmeet.model.sql_names import sql_type
from watersmeet.model.streams import Range
from watersmeet.model.time_units import microseconds_in, unit_name
from watersmeet.plan.query import OutputColumn

_FUNCTIONS: dict[type[exp.Expr], str] = {exp.Count: COUNT, exp.Sum: SUM, exp.Min: MIN, exp.Max: MAX, exp.Avg: AVG}
_PLACES = "Aggregates stand in the select list and in HAVING."
_MOST_DIGITS = 38
_LONGEST_SLIDE = timedelta(days=1_000_000)


def is_grouped(select: exp.Select) -> bool:
    """Whether a query has groups, and is not about single rows."""
    clauses = ("group", "having", "distinct")
    return any(select.args.get(clause) for clause in clauses) or any(map(_has_aggregate, select.expressions))


def grouped_at(select: exp.Select, source: Source) -> Span | None:
    """Where a query says that it has groups: GROUP BY, DISTINCT, HAVING, or else its first aggregate."""
    for clause in (TokenType.GROUP_BY, TokenType.DISTINCT, TokenType.HAVING):
        if (found := source.find((clause,))) is not None:
            return found
    first = next(filter(None, map(_find_aggregate, select.expressions)), None)
    return None if first is None else source.span(first)


def refuse_aggregates(node: exp.Expr, what: str, source: Source) -> None:
    """Refuse an aggregate in a condition on rows."""
    if (found := _find_aggregate(node)) is not None:
        name = _name(found)
        source.refuse(
            f"{what} cannot have the aggregate {name}",
            found,
            detail=f"{what} is about rows, before they are grouped. {_PLACES}",
            hint=f"Write a condition on groups in HAVING, such as HAVING {name}(..) > 10.",
        )


def _has_aggregate(node: exp.Expr) -> bool:
    return _find_aggregate(node) is not None


def _find_aggregate(node: exp.Expr) -> exp.Expr | None:
    return next((found for found in node.find_all(exp.AggFunc) if not isinstance(found.parent, exp.Window)), None)


def _name(node: exp.Expr) -> str:
    return str(node.sql_name()) if isinstance(node, exp.Func) else node.key.upper()


@dataclass(frozen=True)
class Grouping:
    """What is found out about the groups of a query while it is bound."""

    windowed: bool
    time_type: pa.DataType
    time_unit: str
    groups: list[Expr] = field(default_factory=list)
    aggregates: list[Aggregate] = field(default_factory=list)

    def group(self, expr: Expr) -> Column:
        """The column of a group that this is, which is one more if it was none before."""
        if expr not in self.groups:
            self.groups.append(expr)
        return group_column(self.groups.index(expr), expr)

    def aggregate(self, aggregate: Aggregate) -> Column:
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return aggregate_column(self.aggregates.index(aggregate), aggregate)

    def is_end(self, node: exp.Expr) -> bool:
        """Whether it names the boundary of a window."""
        named = isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() == WINDOW_END
        return self.windowed and named


@dataclass(frozen=True)
class GroupedBinder(ScalarBinder):
    """Binds expressions over groups. `rows` binds those over the rows that are grouped."""

    rows: ScalarBinder
    grouping: Grouping

    def _bind(self, node: exp.Expr) -> Expr:
        if self.grouping.is_end(node):
            return end_column(self.grouping.time_type)
        if type(node) in _FUNCTIONS:
            return self._aggregate(_FUNCTIONS[type(node)], node)
        if (found := self._as_group(node)) is not None:
            return found
        if isinstance(node, exp.Column):
            self._refuse_column(self.source.slice(self.source.span(node)), node)
        return super()._bind(node)

    def _as_group(self, node: exp.Expr) -> Column | None:
        """The group column that an expression is."""
        if _has_aggregate(node) or any(map(self.grouping.is_end, node.find_all(exp.Column))):
            return None
        if not isinstance(node, exp.Column) and node.find(exp.Column) is None:
            return None
        expr = self.rows.value(node)
        return self.grouping.group(expr) if expr in self.grouping.groups else None

    def selected(self, column: Column, at: Span) -> Expr:
        if column not in self.grouping.groups:
            self._refuse_column(column.field_name, at)
        return self.grouping.group(column)

    def own_name(self, node: exp.Expr) -> str | None:
        if self.grouping.is_end(node):
            return WINDOW_END
        return None if _has_aggregate(node) else self.rows.own_name(node)

    def _refuse_column(self, name: str, at: exp.Expr | Span) -> NoReturn:
        self.source.refuse(
            f'"{name}" is neither in GROUP BY nor in an aggregate',
            at,
            detail="A result stands for all rows of a group, of which this may have many values.",
            hint=f"Add it to GROUP BY, or write MIN({name}), for example.",
        )

    def _aggregate(self, function: str, node: exp.Expr) -> Expr:
        name, arg = function.upper(), node.this
        if isinstance(arg, exp.Distinct):
            self.source.refuse(f"{name}(DISTINCT ..) is not supported", node, detail=f"{AGGREGATES}.")
        if node.expressions or arg is None:
            self.source.refuse(f"{name} takes one argument", node, detail=f"{AGGREGATES}.")
        if isinstance(arg, exp.Star) and function == COUNT:
            return self.grouping.aggregate(Aggregate(COUNT, None, pa.int64()))
        if (inner := _find_aggregate(arg)) is not None:
            self.source.refuse(
                f"{name} of {_name(inner)} is not supported",
                inner,
                detail="An aggregate is over rows, and cannot have another one in it.",
            )
        if any(map(self.grouping.is_end, arg.find_all(exp.Column))):
            self.source.refuse(f"{name} cannot have {WINDOW_END}", arg, detail="Rows are in many windows.")
        expr, kind = self._typed(function, arg)
        return self.grouping.aggregate(Aggregate(function, expr, kind))

    def _typed(self, function: str, node: exp.Expr) -> tuple[Expr, pa.DataType]:
        """The argument of an aggregate, and the type of what comes of it."""
        name = function.upper()
        if function in (SUM, AVG):
            expr = self.rows.number(node, name)
            if pa.types.is_decimal256(expr.type):
                self.source.refuse(
                    f"{name} cannot add up values of type {sql_type(expr.type)}",
                    node,
                    detail=f"A DECIMAL that is added up has at most {_MOST_DIGITS} digits.",
                    hint="Cast it to DOUBLE, or to a DECIMAL with fewer digits.",
                )
            return expr, _sum_type(expr.type) if function == SUM else _average_type(expr.type)
        expr = self.rows.value(node)
        if pa.types.is_null(expr.type):
            expr = coerce(expr, pa.int64())
        if function == COUNT:
            return expr, pa.int64()
        if not is_comparable(expr.type) or pa.types.is_duration(expr.type):
            self.source.refuse(f"{name} cannot order values of type {sql_type(expr.type)}", node)
        return expr, expr.type


@dataclass(frozen=True)
class DistinctBinder(ScalarBinder):
    """Binds the select list of SELECT DISTINCT: everything in it is a group column, or of the boundary alone."""

    grouping: Grouping

    def value(self, node: exp.Expr) -> Expr:
        columns = list(node.find_all(exp.Column))
        ends = [column for column in columns if self.grouping.is_end(column)]
        if not ends:
            return self.grouping.group(_groupable(super().value(node), node, self.source))
        if len(ends) < len(columns):
            self.source.refuse(
                f"SELECT DISTINCT cannot have {WINDOW_END} together with columns",
                node,
                detail="Rows are told apart by their columns, before it is known at which boundaries they count.",
                hint=f"Select {WINDOW_END} by itself, or write GROUP BY with the columns.",
            )
        return GroupedBinder(self.scope, self.functions, self, self.grouping).value(node)

    def selected(self, column: Column, at: Span) -> Expr:
        return self.grouping.group(_groupable(column, at, self.source))

    def own_name(self, node: exp.Expr) -> str | None:
        return WINDOW_END if self.grouping.is_end(node) else super().own_name(node)


def grouped_binder(select: exp.Select, rows: ScalarBinder) -> GroupedBinder | DistinctBinder:
    """What the select list of a query with groups is bound with; GROUP BY is bound on the way."""
    source, inputs = rows.source, rows.scope.inputs
    timed = inputs[0].stream
    windowed = any(isinstance(entry.window, Range) for entry in inputs)
    grouping = Grouping(windowed, timed.schema.field(timed.time).type, timed.time_column.unit)
    if (distinct := select.args.get("distinct")) is not None:
        _check_distinct(select, distinct, source)
        return DistinctBinder(rows.scope, rows.functions, grouping)
    for node in _group_items(select, grouping, rows):
        refuse_aggregates(node, "GROUP BY", source)
        grouping.group(_groupable(rows.value(node), node, source))
    return GroupedBinder(rows.scope, rows.functions, rows, grouping)


def bind_groups(
    select: exp.Select, binder: GroupedBinder | DistinctBinder, outputs: tuple[OutputColumn, ...]
) -> tuple[GroupBy, tuple[OutputColumn, ...]]:
    """The group-by of a query whose select list is bound, and all its outputs."""
    grouping, having = binder.grouping, select.args.get("having")
    condition = binder.condition(having.this, "HAVING") if having is not None else None
    slide = _slide(binder.scope.inputs, binder.source)
    end = end_column(grouping.time_type)
    if slide is not None and all(column.expr != end for column in outputs):
        if any(column.name.lower() == WINDOW_END for column in outputs):
            binder.source.refuse(
                f'two output columns are named "{WINDOW_END}"',
                binder.source.find((TokenType.SELECT,)),
                detail=f"A query with windows and groups has the column {WINDOW_END}: the boundary that a row is of.",
                hint=f"Rename the other one, or select {WINDOW_END} by another name.",
            )
        outputs = (*outputs, OutputColumn(WINDOW_END, end))
    micros = None if slide is None else microseconds(slide)
    if micros is not None and (micros / microseconds_in(grouping.time_unit)).denominator != 1:
        binder.source.refuse(
            f"the slide is no whole number of {unit_name(grouping.time_unit)}",
            binder.source.find((TokenType.SELECT,)),
            detail=f"It is {slide}, and {WINDOW_END} is in {unit_name(grouping.time_unit)}, as the event times are.",
            hint="Use a longer slide, or event times of a finer unit.",
        )
    groups, aggregates = tuple(grouping.groups), tuple(grouping.aggregates)
    return GroupBy(groups, aggregates, condition, micros, grouping.time_type, grouping.time_unit), outputs


def refuse_slides(inputs: Sequence[ScopeInput], source: Source) -> None:
    """Refuse a slide where nothing is grouped."""
    for entry in inputs:
        if entry.slide is not None:
            source.refuse(
                "SLIDE is for queries with GROUP BY",
                entry.slide.span,
                detail="It says how often groups are emitted. Joined rows are emitted as they come.",
                hint="Leave SLIDE out, or group the results.",
            )


def _slide(inputs: Sequence[ScopeInput], source: Source) -> timedelta | None:
    """The slide of a query with groups: one for all its windows, each a whole multiple of it; None without windows."""
    windowed = [entry for entry in inputs if isinstance(entry.window, Range)]
    if not windowed:
        return None
    named = [entry.slide for entry in windowed if entry.slide is not None]
    if not named:
        source.refuse(
            "windows of a query with GROUP BY need a slide",
            windowed[0].table,
            detail="It says how often groups are emitted, and each window is a whole number of slides long.",
            hint="For example [RANGE 30 MINUTES SLIDE 5 MINUTES].",
        )
    for other in named[1:]:
        if other.slide != named[0].slide:
            source.refuse(
                "a query has one slide",
                other.span,
                detail=f"It is {named[0].slide} in the first window that has one, and {other.slide} here.",
            )
    slide = named[0].slide
    if slide > _LONGEST_SLIDE:
        source.refuse(f"a slide can be at most {_LONGEST_SLIDE.days} days long", named[0].span)
    for entry in windowed:
        assert isinstance(entry.window, Range)
        if entry.window.width % slide:
            source.refuse(
                "a window must be a whole number of slides long",
                named[0].span if entry.slide is None else entry.slide.span,
                detail=f"The window of {entry.alias} is {entry.window.width} long, and the slide {slide}.",
                hint="Take a slide that divides all windows of the query.",
            )
    return slide


def _group_items(select: exp.Select, grouping: Grouping, rows: ScalarBinder) -> Iterator[exp.Expr]:
    """What GROUP BY names, with entries of the select list in place of their numbers and aliases."""
    group = select.args.get("group")
    if group is None:
        return
    source = rows.source
    if any(value for arg, value in group.args.items() if arg != "expressions"):
        at = source.find((TokenType.GROUP_BY,))
        source.refuse("GROUP BY takes expressions only", at, detail="Without ALL, ROLLUP, CUBE and GROUPING SETS.")
    aliased = {node.alias.lower(): node.this for node in select.expressions if isinstance(node, exp.Alias)}
    known = [name for entry in rows.scope.inputs for name in entry.stream.schema.names]
    for node in group.expressions:
        if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
            source.refuse(f"{node.key.upper()} is not supported", node, detail="GROUP BY takes expressions.")
        if grouping.is_end(node):
            continue  # what a boundary is of is grouped by it anyway
        if isinstance(node, exp.Literal) and not node.is_string:
            yield _numbered(node, select, source)
        elif isinstance(node, exp.Column) and len(node.parts) == 1 and not match_name(node.this, known):
            yield aliased.get(node.name.lower(), node)
        else:
            yield node


def _numbered(node: exp.Literal, select: exp.Select, source: Source) -> exp.Expr:
    """The entry of the select list that a number in GROUP BY means."""
    items = select.expressions
    number = int(node.this) if node.this.isdigit() else 0
    if not 1 <= number <= len(items):
        source.refuse(
            f"GROUP BY {node.this} names no entry of the select list",
            node,
            detail=f"It has {len(items)}, counted from 1.",
        )
    found: exp.Expr = items[number - 1].unalias()
    return found


def _check_distinct(select: exp.Select, distinct: exp.Expr, source: Source) -> None:
    at = source.find((TokenType.DISTINCT,))
    if distinct.args.get("on"):
        source.refuse("DISTINCT ON is not supported", at)
    if select.args.get("group") or select.args.get("having") or any(map(_has_aggregate, select.expressions)):
        source.refuse(
            "DISTINCT does not go with GROUP BY and aggregates",
            at,
            detail="It is a GROUP BY of all that is selected.",
            hint="Leave DISTINCT out: there is one result for each group.",
        )


def _groupable(expr: Expr, at: exp.Expr | Span, source: Source) -> Expr:
    if pa.types.is_null(expr.type):
        return coerce(expr, pa.string())
    if not is_comparable(expr.type):
        source.refuse(f"cannot group by values of type {sql_type(expr.type)}", at)
    return expr


def _sum_type(kind: pa.DataType) -> pa.DataType:
    """
    >>> _sum_type(pa.decimal128(10, 2)), _sum_type(pa.float32())
    (Decimal128Type(decimal128(20, 2)), DataType(double))
    """
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(_MOST_DIGITS, kind.precision + 10), kind.scale)
    return pa.int64() if pa.types.is_integer(kind) else pa.float64()


def _average_type(kind: pa.DataType) -> pa.DataType:
    """
    >>> _average_type(pa.decimal128(10, 2)), _average_type(pa.int64())
    (Decimal128Type(decimal128(14, 6)), DataType(double))
    """
    if not pa.types.is_decimal(kind):
        return pa.float64()
    return pa.decimal128(min(_MOST_DIGITS, kind.precision + 4), min(_MOST_DIGITS, kind.scale + 4))
