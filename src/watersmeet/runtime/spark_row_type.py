"""The type of a row as Spark writes it in the footer of a Parquet file, for columns that Parquet has no type for.

Parquet keeps a span of time as a BIGINT, and NULLs of no type as an INT. Arrow says in the footer what it was, and
reads it back as that; so does Spark, in JSON of its own. Result files have both, so that each reads what the query
says.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

_KEY = b"org.apache.spark.sql.parquet.row.metadata"
_NAMES: dict[pa.DataType, str] = {
    pa.null(): "void",
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.duration("us"): "interval day to second",
}


def with_spark_row_type(schema: pa.Schema) -> pa.Schema:
    """The schema with Spark's description of it, where Spark needs one to read what was written."""
    if not any(_is_hidden(field.type) for field in schema):
        return schema
    return schema.with_metadata({**(schema.metadata or {}), _KEY: json.dumps(_struct(schema)).encode()})


def _is_hidden(kind: pa.DataType) -> bool:
    """Whether Parquet has another type for it."""
    if pa.types.is_duration(kind) or pa.types.is_null(kind):
        return True
    return any(_is_hidden(kind.field(i).type) for i in range(kind.num_fields))


def _struct(fields: Any) -> dict[str, Any]:
    written = [
        {"name": field.name, "type": _spark_type(field.type), "nullable": field.nullable, "metadata": {}}
        for field in fields
    ]
    return {"type": "struct", "fields": written}


def _spark_type(kind: pa.DataType) -> Any:
    """
    >>> _spark_type(pa.list_(pa.duration("us")))
    {'type': 'array', 'elementType': 'interval day to second', 'containsNull': True}
    """
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "timestamp"
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        key, value = _spark_type(kind.key_type), _spark_type(kind.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return {"type": "array", "elementType": _spark_type(kind.value_type), "containsNull": True}
    return _NAMES[kind]
