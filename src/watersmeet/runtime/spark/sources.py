"""Streaming DataFrames in: one DataFrame that holds the rows of all streams, and the way back to each stream's batches.

Streams differ in schema and a union does not. So columns are shared by type: the union has as many columns of each
type as the stream with most of them needs, and a stream's columns take those of their types in order. Nothing is
padded where streams look alike. Only the columns that the query reads are carried, or all of them where late rows are
kept, which are written whole. What `withWatermark` says of a DataFrame is read from it here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType, TimestampType

from watersmeet.errors import JobError
from watersmeet.model.conform import conform
from watersmeet.model.schema import normal_schema
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.runtime.spark.versions import arrow_schema_in_utc

STREAM_FIELD = "stream"
_WATERMARK = "spark.watermarkDelayMs"  # where Spark keeps a delay, in the metadata of the column


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The schema of a DataFrame as the engine sees it."""
    # Instants are UTC inside, whatever zone the session shows them in; Arrow's type must name one.
    return normal_schema(arrow_schema_in_utc(frame.schema))


@dataclass(frozen=True)
class EventTime:
    """What `withWatermark` has said of a DataFrame: the column, and how far out of order its rows may come."""

    column: str
    delay: timedelta


def event_time(name: str, frame: DataFrame, asked: str | None, delay_given: bool) -> EventTime | None:
    """What `withWatermark` says of stream `name`, whose user names `asked` as its event-time column, if any.

    None where it says nothing, or the user has said everything. Raises where the two do not go together.
    """
    marked = {field.name: field for field in frame.schema if _WATERMARK in field.metadata}
    if not marked or (asked is not None and delay_given):
        return None
    if asked is not None and asked not in marked:
        raise JobError(
            f'stream "{name}" has its watermark on another column than its event time',
            detail=f'withWatermark names {_listed(marked)}, and time names "{asked}".',
            hint=f'Leave out time, or give lateness for "{name}" too: then withWatermark is passed over.',
        )
    if asked is None and len(marked) > 1:
        raise JobError(
            f'stream "{name}" has {len(marked)} columns with a watermark',
            detail=f"They are {_listed(marked)}.",
            hint=f'Name the one to go by: time={{"{name}": "{min(marked)}"}}.',
        )
    field = marked[asked or min(marked)]
    if not isinstance(field.dataType, (TimestampType, TimestampNTZType)):
        raise JobError(
            f'the watermark of stream "{name}" is on column "{field.name}" of type {field.dataType.simpleString()}',
            detail="Event time is a TIMESTAMP.",
            hint="Call withWatermark on a column of timestamps and keep it, or give time and lateness.",
        )
    return EventTime(field.name, timedelta(milliseconds=field.metadata[_WATERMARK]))


def _listed(names: Iterable[str]) -> str:
    return " and ".join(f'"{name}"' for name in names)


@dataclass(frozen=True)
class UnionLayout:
    """Where each stream's columns are in the union."""

    streams: tuple[str, ...]
    columns: Mapping[str, tuple[tuple[str, str], ...]]  # stream -> (its column, the union's column)
    schemas: Mapping[str, pa.Schema]

    def narrow(self, wanted: Mapping[str, str]) -> UnionLayout:
        """Of each stream the `wanted` column alone."""
        columns = {
            name: tuple((mine, theirs) for mine, theirs in pairs if mine == wanted[name])
            for name, pairs in self.columns.items()
        }
        schemas = {name: pa.schema([schema.field(wanted[name])]) for name, schema in self.schemas.items()}
        return UnionLayout(self.streams, columns, schemas)

    @property
    def fields(self) -> list[str]:
        """The columns of the union that it reads."""
        return [STREAM_FIELD, *dict.fromkeys(theirs for pairs in self.columns.values() for _, theirs in pairs)]

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each stream in a batch of the union, under their own names and types."""
        numbers = batch.column(STREAM_FIELD).to_numpy()
        if not len(numbers):
            return
        low, high = int(numbers.min()), int(numbers.max())
        for number in range(low, high + 1):
            rows = batch if low == high else batch.take(pa.array(np.flatnonzero(numbers == number)))
            if rows.num_rows:
                name = self.streams[number]
                pairs = self.columns[name]
                arrays = [rows.column(theirs) for _, theirs in pairs]
                own = pa.RecordBatch.from_arrays(arrays, names=[mine for mine, _ in pairs])
                yield name, conform(own, self.schemas[name], name)


def unite(
    plan: PhysicalPlan, frames: Mapping[str, DataFrame], wanted: Mapping[str, tuple[str, ...]]
) -> tuple[DataFrame, UnionLayout]:
    """The union of the `wanted` columns of the plan's streams, and its layout."""
    types: dict[str, int] = {}
    placed: dict[str, list[tuple[str, str]]] = {}
    kinds: dict[str, Any] = {}
    for name, columns in wanted.items():
        if not frames[name].isStreaming:
            raise JobError(
                f'stream "{name}" is not a streaming DataFrame',
                hint="Read it with spark.readStream instead of spark.read.",
            )
        used: dict[str, int] = {}
        placed[name] = []
        for column in columns:
            kind = frames[name].schema[column].dataType
            text = kind.simpleString()
            number = used.get(text, 0)
            used[text] = number + 1
            field = f"c{types.setdefault(text, len(types))}_{number}"
            kinds[field] = kind
            placed[name].append((column, field))
    parts = []
    for number, name in enumerate(plan.streams):
        own = {field: column for column, field in placed[name]}
        selected = [F.lit(number).cast("tinyint").alias(STREAM_FIELD)]
        for field, kind in kinds.items():
            source = frames[name][quoted(own[field])] if field in own else F.lit(None).cast(kind)
            selected.append(source.alias(field))
        parts.append(frames[name].select(*selected))
    schemas = {entry.stream.name: entry.stream.schema for entry in plan.query.inputs}
    layout = UnionLayout(
        plan.streams,
        {name: tuple(pairs) for name, pairs in placed.items()},
        {name: pa.schema([schemas[name].field(column) for column in columns]) for name, columns in wanted.items()},
    )
    return reduce(DataFrame.union, parts), layout


def quoted(name: str) -> str:
    """The name of a column in SQL."""
    return f"`{name.replace('`', '``')}`"
