"""The streams of a job file as streaming DataFrames, with the columns and types of their schemas."""

from __future__ import annotations

import os
import re

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from watersmeet.config import FILE_FORMATS, SourceConfig
from watersmeet.errors import JobError
from watersmeet.model.sql_names import sql_type
from watersmeet.runtime.file_formats import SPARK_OPTIONS
from watersmeet.runtime.local.sources import is_recursive, last_csv_header, partition_columns
from watersmeet.runtime.spark.declared_columns import as_declared
from watersmeet.runtime.spark.errors import DOES_NOT_FIT
from watersmeet.runtime.spark.sources import quoted
from watersmeet.state.addresses import for_spark, is_local, local_path

# The options of Spark's sources that limit a batch, by the names that they have here.
_LIMITS = {
    **{name: {"max_batch_bytes": "maxBytesPerTrigger"} for name in FILE_FORMATS},
    "kafka": {"max_batch_rows": "maxOffsetsPerTrigger"},
    "rate-micro-batch": {"max_batch_rows": "rowsPerBatch"},
}


_NARROW = (pa.int8(), pa.int16())


def read_stream(session: SparkSession, source: SourceConfig) -> DataFrame:
    """The stream that `source` describes, with the columns and the types of its schema."""
    if source.format in FILE_FORMATS:
        return _open_files(session, source)
    reader = session.readStream.format(source.format).options(**{**source_limits(source), **source.options})
    frame = reader.load(for_spark(source.path)) if source.path is not None else reader.load()
    missing = [name for name in source.schema.names if name not in frame.columns]
    if missing:
        raise JobError(
            f'stream "{source.name}" has no column "{missing[0]}"',
            detail=f"The {source.format} source gives {', '.join(frame.columns)}.",
        )
    return frame.select(*(as_declared(frame, field, source) for field in source.schema))


def _open_files(session: SparkSession, source: SourceConfig) -> DataFrame:
    """A stream of files, read with the meaning that they have on the local runtime."""
    assert source.path is not None, "the job file was checked"
    names = source.schema.names
    partitions: list[str] = []
    if is_local(source.path):
        partitions = partition_columns(source.name, source.path, source.schema, source.options)
    reader = session.readStream.format(source.format).options(**SPARK_OPTIONS[source.format])
    columns = [name for name in names if name not in partitions]
    if source.format == "csv":
        header = _header(source)
        # Spark takes the columns of a CSV file by position, so they are declared as the file has them; one whose header
        # differs is refused.
        columns = header or columns
        reader = reader.option("header", header is not None)
        reader = reader.option("emptyValue", source.options.get("nullValue", ""))  # empty text is NULL, quoted or not
    # Spark has the columns of partition folders last.
    narrow = [name for name in columns if source.format == "parquet" and source.schema.field(name).type in _NARROW]
    fields = [source.schema.field(name) for name in (*columns, *partitions)]
    declared = pa.schema([field.with_type(pa.int32()) if field.name in narrow else field for field in fields])
    reader = reader.schema(from_arrow_schema(declared)).options(**{**source_limits(source), **source.options})
    path = source.path
    if is_local(path) and os.path.isfile(local_path(path)):  # Spark streams folders alone
        folder, name = os.path.split(local_path(path))
        path, reader = folder, reader.option("pathGlobFilter", re.sub(r"([\\*?\[\]{}])", r"\\\1", name))
    frame = reader.load(for_spark(path))
    if not is_recursive(source.options):
        frame = _refuse_new_partitions(frame, source.path, columns)
    return frame.select(*(_narrowed(frame, source, name) if name in narrow else frame[quoted(name)] for name in names))


def _narrowed(frame: DataFrame, source: SourceConfig, name: str) -> Column:
    """A column of INT in its own type, which has fewer bits; a value that does not fit stops the query.

    Parquet has no integers of fewer than 32 bits, and Spark's reader cuts those off that are too many. Files that were
    looked at beforehand have none such.
    """
    column, kind = frame[quoted(name)], source.schema.field(name).type
    most, told = 2 ** (kind.bit_width - 1), f'column "{name}" of stream "{source.name}" {DOES_NOT_FIT}, '
    text = F.concat(F.lit(f"{told}{sql_type(kind)}: "), column.cast("string"))
    fits = column.isNull() | column.between(-most, most - 1)
    return F.when(fits, column.cast(from_arrow_type(kind))).otherwise(F.raise_error(text)).alias(name)


def source_limits(source: SourceConfig) -> dict[str, int]:
    """What `max_batch_rows` and `max_batch_bytes` are to Spark's source, which cuts its batches itself.

    Only what was asked for: the watermark moves between these batches, so that a default could make rows late.
    """
    known = _LIMITS.get(source.format, {})
    found = {}
    for name, value in (("max_batch_rows", source.batch.rows), ("max_batch_bytes", source.batch.bytes)):
        if not isinstance(value, int):
            continue
        if name not in known:
            raise JobError(
                f'{name} does not apply to stream "{source.name}"',
                detail=f"Spark's source {source.format} has no such limit."
                if known
                else f"It is not known which option of Spark's source {source.format} sets it.",
                hint=f"It has {', '.join(known)}." if known else "Set the option of the source that limits a batch.",
            )
        found[known[name]] = value
    if "maxBytesPerTrigger" in found and "maxFilesPerTrigger" in source.options:
        raise JobError(
            f'stream "{source.name}" has max_batch_bytes and maxFilesPerTrigger',
            detail="Spark's file source takes one of the two.",
            hint="Leave one of them out.",
        )
    return found


def _refuse_new_partitions(frame: DataFrame, path: str, columns: list[str]) -> DataFrame:
    """Stop at a file in a folder that says the value of one of `columns`.

    Spark looks for partition folders when a query starts. If they come later it mixes the columns up, without a word.
    """
    pattern = f"(?i)/({'|'.join(map(re.escape, columns))})=[^/]*/"
    if re.search(pattern, f"{path}/"):
        return frame  # the path is itself in such a folder, which says nothing about the files in it
    file = F.input_file_name()
    text = F.concat(F.lit("a file came in a partition folder, and there was none when the run started: "), file)
    is_new = file.contains("=") & file.rlike(pattern)
    return frame.where(F.when(is_new, F.raise_error(text).cast("boolean")).otherwise(F.lit(True)))


def _header(source: SourceConfig) -> list[str] | None:
    """The columns in the order of the header of the last file of a CSV source; None where it has none."""
    assert source.path is not None
    if is_local(source.path):
        return last_csv_header(source.name, source.path, source.schema, source.options)
    if "header" not in source.options:
        raise JobError(
            f'stream "{source.name}" does not say whether its CSV files have a header',
            detail="On Spark, files that are not on this machine are not looked at before the query starts.",
            hint="Add options = { header = true } or { header = false }.",
        )
    return None
