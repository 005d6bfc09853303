"""How many bytes each value of a column takes beyond a fixed width: what a copy of some rows would need.

Arrow addresses the text of an array with 32 bits, so that no array holds 2 GiB of it, however few rows it has.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.kernel.rows import Int64Array


def widths(column: pa.Array) -> Int64Array | None:
    """The bytes of text, or of list entries, of each row; None for single values of one width.

    >>> widths(pa.array(["ab", None, "c"])), widths(pa.array([1, 2]))
    (array([2, 0, 1]), None)
    >>> widths(pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)))
    array([8, 8])
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return widths(column.storage)
    if _is_text(kind):
        return np.diff(_offsets(column))
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and (each := _fixed_width(kind.value_type)):
        return np.diff(_offsets(column)) * each
    if pa.types.is_fixed_size_list(kind) and (each := _fixed_width(kind.value_type)):
        return np.full(len(column), kind.list_size * each, dtype=np.int64)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        entries = column.values if not pa.types.is_map(kind) else _entries(column)
        return np.diff(_up_to(entries)[_offsets(column)])
    if pa.types.is_fixed_size_list(kind):
        start = column.offset * kind.list_size
        return np.diff(_up_to(column.values)[start : start + len(column) * kind.list_size + 1 : kind.list_size])
    if pa.types.is_struct(kind):
        parts = [each for each in map(widths, column.flatten()) if each is not None]
        return np.sum(parts, axis=0, dtype=np.int64) if parts else None
    if pa.types.is_nested(kind):  # views of lists share their entries: take them all to be as wide as the average
        return np.full(len(column), -(-column.nbytes // max(1, len(column))), dtype=np.int64)
    return None


def _fixed_width(kind: pa.DataType) -> int:
    """The bytes of a value; 0 where values differ."""
    return max(1, kind.bit_width // 8) if pa.types.is_primitive(kind) else 0


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _offsets(column: pa.Array) -> Int64Array:
    """Where each value begins, and after the last one where it ends."""
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    kind = np.int64 if wide or pa.types.is_large_list(column.type) else np.int32
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(buffer, dtype=kind)[column.offset : column.offset + len(column) + 1].astype(np.int64)


def _entries(column: pa.Array) -> pa.Array:
    """The entries of a map, before its offset is applied, as structs."""
    return pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])


def _up_to(entries: pa.Array) -> Int64Array:
    """The bytes of all entries before each one, and of all of them."""
    fixed = entries.type.byte_width if pa.types.is_fixed_size_binary(entries.type) else 16
    own = widths(entries)
    each = np.full(len(entries), fixed, dtype=np.int64) if own is None else own + fixed
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(each)])
