"""Batches made to fit the schema of their stream, or refused; no value is changed for that."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import InputError
from watersmeet.model.keeps_values import keeps_values
from watersmeet.model.schema import normal_type
from watersmeet.model.sql_names import sql_type


def conform(batch: pa.RecordBatch, schema: pa.Schema, stream: str, origin: str = "its data") -> pa.RecordBatch:
    """The columns of `schema` out of `batch`, in the types of `schema`; raises `InputError` if they do not fit."""
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise InputError(
                f'stream "{stream}" has no column "{field.name}" in {origin}',
                detail=f"The columns there are {', '.join(batch.schema.names) or 'none'}.",
                hint="Correct the schema of the stream, or the data.",
            )
        column = batch.column(index)
        if column.type != field.type:
            column = _cast(column, field, stream, origin)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))


def misfit(stream: str, field: pa.Field, found: pa.DataType, origin: str) -> InputError:
    """The error for a column of type `found` whose values may not fit in `field` of the schema of `stream`."""
    declared, name = sql_type(field.type), sql_type(normal_type(found))
    if pa.types.is_struct(found) or pa.types.is_map(found) or pa.types.is_duration(found) or pa.types.is_time(found):
        hint = "Correct the schema of the stream, or the data."
    elif pa.types.is_nested(found):
        hint = f"Declare the column as {name}, or write the data as {declared}."
    else:
        hint = f"Declare the column as {name}, and convert it in the query: CAST({field.name} AS {declared})."
    return InputError(
        f'column "{field.name}" of stream "{stream}" does not fit its schema in {origin}',
        detail=f"The schema says {declared} and the data is {name}, whose values would be changed or lost.",
        hint=hint,
    )


def _cast(column: pa.Array, field: pa.Field, stream: str, origin: str) -> pa.Array:
    found = column.type
    if not keeps_values(found, field.type):
        raise misfit(stream, field, found, origin)
    if pa.types.is_dictionary(found):
        column = column.dictionary_decode()
    elif pa.types.is_run_end_encoded(found):
        column = pc.run_end_decode(column)
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f'column "{field.name}" of stream "{stream}" does not fit its schema in {origin}',
            detail=f"The schema says {sql_type(field.type)}, the data is {found}: {str(error).rstrip('.')}.",
            hint="Correct the schema of the stream, or the data.",
        ) from None
