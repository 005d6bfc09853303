"""Arrow types as JSON and back, for what a checkpoint says of its streams. Pure; every type comes back as it was.

A type without parameters is its name. Any other is an object with its name and its parameters, and types inside of it
are written likewise. An extension type is kept as Arrow writes it down in a schema, which is data and is not executed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

TypeJson = str | dict[str, Any]

_PLAIN: dict[str, pa.DataType] = {
    str(kind): kind
    for kind in (
        *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.date32(), pa.date64(), pa.month_day_nano_interval()),
    )
}
_UNITS: dict[str, Callable[[str], pa.DataType]] = {"time32": pa.time32, "time64": pa.time64, "duration": pa.duration}
_DECIMALS: dict[str, Callable[[int, int], pa.DataType]] = {
    "decimal32": pa.decimal32,
    "decimal64": pa.decimal64,
    "decimal128": pa.decimal128,
    "decimal256": pa.decimal256,
}
_LISTS: dict[str, tuple[Callable[[pa.DataType], bool], Callable[[pa.Field], pa.DataType]]] = {
    "list": (pa.types.is_list, pa.list_),
    "large_list": (pa.types.is_large_list, pa.large_list),
    "list_view": (pa.types.is_list_view, pa.list_view),
    "large_list_view": (pa.types.is_large_list_view, pa.large_list_view),
}


def type_to_json(kind: pa.DataType) -> TypeJson:
    """
    >>> type_to_json(pa.int64()), type_to_json(pa.timestamp("us", "UTC"))
    ('int64', {'type': 'timestamp', 'unit': 'us', 'zone': 'UTC'})
    >>> type_to_json(pa.list_(pa.float32(), 64))
    {'type': 'fixed_size_list', 'item': {'type': 'float', 'nullable': True}, 'size': 64}
    """
    if isinstance(kind, pa.BaseExtensionType):
        return {"type": "arrow", "schema": base64.b64encode(pa.schema([("", kind)]).serialize()).decode()}
    if str(kind) in _PLAIN:
        return str(kind)
    for name, (is_kind, _) in _LISTS.items():
        if is_kind(kind):
            return {"type": name, "item": _item_to_json(kind.value_field)}
    if pa.types.is_fixed_size_list(kind):
        return {"type": "fixed_size_list", "item": _item_to_json(kind.value_field), "size": kind.list_size}
    if pa.types.is_decimal(kind):
        return {"type": f"decimal{kind.bit_width}", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        return {"type": "timestamp", "unit": kind.unit, "zone": kind.tz}
    if pa.types.is_time(kind):
        return {"type": f"time{kind.bit_width}", "unit": kind.unit}
    if pa.types.is_duration(kind):
        return {"type": "duration", "unit": kind.unit}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed_size_binary", "bytes": kind.byte_width}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field_to_json(field) for field in kind]}
    if pa.types.is_map(kind):
        key, item = type_to_json(kind.key_type), _item_to_json(kind.item_field)
        return {"type": "map", "key": key, "item": item, "sorted": kind.keys_sorted}
    if pa.types.is_dictionary(kind):
        index, value = type_to_json(kind.index_type), type_to_json(kind.value_type)
        return {"type": "dictionary", "index": index, "value": value, "ordered": kind.ordered}
    if pa.types.is_run_end_encoded(kind):
        ends, value = type_to_json(kind.run_end_type), type_to_json(kind.value_type)
        return {"type": "run_end_encoded", "ends": ends, "value": value}
    assert pa.types.is_union(kind), kind
    fields = [_field_to_json(kind.field(place)) for place in range(kind.num_fields)]
    return {"type": "union", "mode": kind.mode, "fields": fields, "codes": list(kind.type_codes)}


def type_from_json(data: TypeJson) -> pa.DataType:
    """
    >>> type_from_json("int64"), type_from_json({"type": "decimal128", "precision": 10, "scale": 2})
    (DataType(int64), Decimal128Type(decimal128(10, 2)))
    """
    if isinstance(data, str):
        return _PLAIN[data]
    name = data["type"]
    if name in _LISTS:
        return _LISTS[name][1](_item_from_json(data["item"]))
    if name in _DECIMALS:
        return _DECIMALS[name](data["precision"], data["scale"])
    if name in _UNITS:
        return _UNITS[name](data["unit"])
    match name:
        case "fixed_size_list":
            return pa.list_(_item_from_json(data["item"]), data["size"])
        case "timestamp":
            return pa.timestamp(data["unit"], data["zone"])
        case "fixed_size_binary":
            return pa.binary(data["bytes"])
        case "struct":
            return pa.struct(list(map(_field_from_json, data["fields"])))
        case "map":
            return pa.map_(type_from_json(data["key"]), _item_from_json(data["item"], "value"), data["sorted"])
        case "dictionary":
            return pa.dictionary(type_from_json(data["index"]), type_from_json(data["value"]), data["ordered"])
        case "run_end_encoded":
            return pa.run_end_encoded(type_from_json(data["ends"]), type_from_json(data["value"]))
        case "union":
            return pa.union(list(map(_field_from_json, data["fields"])), data["mode"], data["codes"])
        case "arrow":
            return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["schema"]))).field(0).type
    raise ValueError(f'there is no type "{name}"')


def _item_to_json(field: pa.Field) -> dict[str, Any]:
    """The field of a list or map, whose name says nothing: Arrow and Spark have different ones."""
    return {"type": type_to_json(field.type), "nullable": field.nullable}


def _item_from_json(data: Mapping[str, Any], name: str = "item") -> pa.Field:
    return pa.field(name, type_from_json(data["type"]), data["nullable"])


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": type_to_json(field.type), "nullable": field.nullable}


def _field_from_json(data: Mapping[str, Any]) -> pa.Field:
    return pa.field(data["name"], type_from_json(data["type"]), data["nullable"])
