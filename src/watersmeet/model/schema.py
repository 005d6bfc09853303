"""Schemas as the engine wants them, and batches made to fit one."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.errors import InputError


def normal_type(kind: pa.DataType) -> pa.DataType:
    """The type that the engine uses for values of `kind`.

    >>> normal_type(pa.timestamp("ns")), normal_type(pa.dictionary(pa.int8(), pa.string()))
    (TimestampType(timestamp[us]), DataType(string))
    """
    if pa.types.is_dictionary(kind):
        return normal_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if pa.types.is_unsigned_integer(kind):
        return pa.int64()
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind


def normal_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, normal_type(field.type)) for field in schema])


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
            try:
                column = _cast(column, field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InputError(
                    f'column "{field.name}" of stream "{stream}" does not fit its schema in {origin}',
                    detail=f"The schema says {field.type}, the data is {column.type}: {str(error).rstrip('.')}.",
                    hint="Correct the schema of the stream, or the data.",
                ) from None
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A safe cast; a number never turns into text or text into a number behind the user's back."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    texts = [
        pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t) for t in (column.type, kind)
    ]
    if texts[0] != texts[1] and not pa.types.is_null(column.type):
        raise pa.ArrowInvalid(f"{column.type} is not {kind}")
    if pa.types.is_timestamp(column.type) and pa.types.is_integer(kind):
        raise pa.ArrowInvalid(f"{column.type} is not {kind}")
    return column.cast(kind)
