"""Refuses columns of streaming DataFrames that would come out as something else, or compare otherwise than in Spark.

Rows travel as Arrow data. Some types of Spark have none there that reads back as the same, and text loses its
collation: it may be selected and given to registered functions, and what comes out has none; but to compare, group or
compute with it would be to do so byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, VariantType

from watersmeet.errors import JobError
from watersmeet.model.expressions import Column, Expr, PrepareCall, PythonCall, children
from watersmeet.plan.query import Query
from watersmeet.runtime.spark.versions import arrow_type_in_utc

_BINARY = "UTF8_BINARY"  # the collation of plain text


def refuse_types(name: str, frame: DataFrame) -> None:
    """Refuse a stream with a column of a type that nothing here reads back as the same."""
    for field in frame.schema:
        if arrow_type_in_utc(field.dataType) is None or any(isinstance(k, VariantType) for k in _parts(field.dataType)):
            raise JobError(
                f'column "{field.name}" of stream "{name}" is of type {field.dataType.simpleString().upper()}, '
                "which is not supported",
                detail="It would not come out as the same type.",
                hint=f'Convert it, as in {name}.withColumn("{field.name}", F.col("{field.name}").cast("string")), '
                f'or leave it out: {name}.drop("{field.name}").',
            )


def refuse_collations(query: Query, frames: Mapping[str, DataFrame]) -> None:
    """Refuse a query that does more with a column that has a collation than to select it."""
    streams = {entry.alias: entry.stream.name for entry in query.inputs}
    found = {
        (name, field.name): collation
        for name in set(streams.values())
        for field in frames[name].schema
        for collation in _collations(field.dataType)
    }
    for column in _computed_with(query):
        place = streams[column.alias], column.name
        if place in found:
            (stream, name), plain = place, f'F.collate("{column.name}", "{_BINARY}")'
            raise JobError(
                f'column "{name}" of stream "{stream}" has the collation {found[place]}',
                detail="The query would compare it byte by byte. A column with a collation can be selected, and given "
                "to registered functions.",
                hint=f'Take a plain one: {stream}.withColumn("{name}", {plain}), with F.lower in it if case should not '
                "count.",
            )


def _computed_with(query: Query) -> Iterator[Column]:
    """The columns whose values the query compares, groups or computes with."""
    exprs: list[Expr] = [*query.predicates]
    exprs += [expr for entry in query.inputs for expr in entry.filters]
    exprs += [expr for key in query.keys for _, expr in key.terms]
    if query.group_by is not None:
        exprs += query.group_by.read
    else:
        exprs += [column.expr for column in query.select if not isinstance(column.expr, Column)]
    for expr in exprs:
        yield from _columns(expr)


def _columns(expr: Expr) -> Iterator[Column]:
    """The columns that `expr` reads, but for those that a registered function is given."""
    if isinstance(expr, Column):
        yield expr
    if not isinstance(expr, PythonCall | PrepareCall):
        for child in children(expr):
            yield from _columns(child)


def _collations(kind: DataType) -> Iterator[str]:
    for part in _parts(kind):
        collation: Any = getattr(part, "collation", _BINARY)
        if isinstance(part, StringType) and collation != _BINARY:
            yield collation


def _parts(kind: DataType) -> Iterator[DataType]:
    """A type and all that it consists of."""
    yield kind
    if isinstance(kind, ArrayType):
        yield from _parts(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _parts(kind.keyType)
        yield from _parts(kind.valueType)
    elif isinstance(kind, StructType):
        for field in kind:
            yield from _parts(field.dataType)
