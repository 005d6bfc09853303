"""The SQL names of Arrow types, as messages and schemas have them."""

from __future__ import annotations

import pyarrow as pa

_SQL: dict[pa.DataType, str] = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.string_view(): "STRING",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
    pa.binary(): "BINARY",
    pa.large_binary(): "BINARY",
    pa.binary_view(): "BINARY",
    pa.null(): "NULL",
}


def sql_type(kind: pa.DataType) -> str:
    """The SQL name of an Arrow type, for messages.

    >>> sql_type(pa.int64()), sql_type(pa.decimal128(10, 2)), sql_type(pa.timestamp("ns"))
    ('BIGINT', 'DECIMAL(10, 2)', 'TIMESTAMP_NTZ')
    >>> sql_type(pa.list_(pa.float32())), sql_type(pa.list_(pa.float32(), 64))
    ('ARRAY<FLOAT>', 'FLOAT[64]')
    """
    if pa.types.is_dictionary(kind):
        return sql_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if pa.types.is_duration(kind):
        return "INTERVAL"
    if pa.types.is_interval(kind):
        return "INTERVAL of months"
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_fixed_size_list(kind):
        return f"{sql_type(kind.value_type)}[{kind.list_size}]"
    return _SQL.get(kind) or str(kind).upper()
