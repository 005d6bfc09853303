"""Schemas in the types that the engine uses."""

from __future__ import annotations

import pyarrow as pa


def normal_type(kind: pa.DataType) -> pa.DataType:
    """The type that the engine uses for values of `kind`.

    >>> normal_type(pa.timestamp("ns")), normal_type(pa.dictionary(pa.int8(), pa.string()))
    (TimestampType(timestamp[us]), DataType(string))
    >>> normal_type(pa.list_(pa.binary_view()))
    ListType(list<item: binary>)
    """
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return normal_type(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_decimal(kind):
        return _normal_decimal(kind)
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
    return _without_views(kind)


def _normal_decimal(kind: pa.DataType) -> pa.DataType:
    """A decimal of 128 bits and no negative scale, where 38 digits are enough."""
    precision, scale = kind.precision - min(0, kind.scale), max(0, kind.scale)
    return pa.decimal128(precision, scale) if precision <= 38 else kind


def _without_views(kind: pa.DataType) -> pa.DataType:
    """`kind` with plain text and bytes in place of views, of which Arrow cannot take rows; in nested types, too."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = _without_views(kind.key_type), _without_views(kind.item_type)
        return kind if (key, item) == (kind.key_type, kind.item_type) else pa.map_(key, item)
    for is_kind, make in _LISTS:
        if is_kind(kind):
            return make(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)), kind.list_size)
    return kind


_LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)


def normal_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, normal_type(field.type)) for field in schema])
