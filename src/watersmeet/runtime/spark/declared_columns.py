"""Columns of a source with types of its own, as the schema of the stream declares them; never with other values."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, BinaryType, DataType, DateType, StringType, TimestampNTZType, TimestampType

from watersmeet.config import SourceConfig
from watersmeet.errors import InputError
from watersmeet.model.conform import misfit
from watersmeet.model.keeps_values import keeps_values
from watersmeet.model.sql_names import sql_type
from watersmeet.runtime.spark.sources import quoted
from watersmeet.runtime.spark.versions import arrow_type_in_utc


def as_declared(frame: DataFrame, field: pa.Field, source: SourceConfig) -> Column:
    """The column of `frame` that is called as `field`, in the type of `field`."""
    column, kind = frame[quoted(field.name)], frame.schema[field.name].dataType
    target = from_arrow_type(field.type)
    if kind == target or _is_text(kind, target):
        return column  # a collation stays: where it matters, it is refused
    if isinstance(kind, BinaryType) and isinstance(target, StringType):
        return F.validate_utf8(column.cast(target)).alias(field.name)  # such as the values of Kafka
    found = arrow_type_in_utc(kind)
    origin = f"the {source.format} source"
    if found is None:
        raise InputError(
            f'column "{field.name}" of stream "{source.name}" does not fit its schema in {origin}',
            detail=f"The schema says {sql_type(field.type)} and the data is {kind.simpleString().upper()}.",
            hint="Correct the schema of the stream, or leave the column out.",
        )
    zones_differ = isinstance(kind, ArrayType) and "timestamp" in target.simpleString()  # as Spark casts lists of them
    if not keeps_values(found, field.type) or (zones_differ and kind.simpleString() != target.simpleString()):
        raise misfit(source.name, field, found, origin)
    return _in_utc(column, kind, target).alias(field.name)


def _is_text(kind: DataType, target: DataType) -> bool:
    return isinstance(kind, StringType) and isinstance(target, StringType)


def _in_utc(column: Column, kind: DataType, target: DataType) -> Column:
    """A cast that keeps values. Between times with and without a zone, Spark's own goes by the zone of the session."""
    if isinstance(target, TimestampType) and isinstance(kind, (DateType, TimestampNTZType)):
        return F.concat(column.cast("timestamp_ntz").cast("string"), F.lit("Z")).cast(target)
    if isinstance(target, TimestampNTZType) and isinstance(kind, TimestampType):
        return F.timestamp_add("MICROSECOND", F.unix_micros(column), F.lit("1970-01-01").cast(target))
    return column.cast(target)
