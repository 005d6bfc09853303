"""The 64-bit hash of a join key: what groups, slots and the order of segments are made of.

Invariant: the hash of a value depends on the value alone. It is the same on every machine, in every version and for
every width of integer, because segments written by an earlier version are sorted by it; `tests/golden/hashes.txt`
holds it in place. Integers, booleans, dates, times, timestamps and intervals hash one-to-one (splitmix64's finaliser is
a bijection), so a single such key never collides; others may, and their keys are compared after every probe.

Strings are hashed by their bytes: each byte is mixed with its position, and the sum is mixed with the length. No loop
over rows: the cost is a few array passes over the bytes, of so many at a time that the arrays, each eight times as
large, stay small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

UInt64Array = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

_NULL = np.uint64(0x6A09E667F3BCC909)

# Bytes of text that are hashed at once.
TEXT_AT_ONCE = 4 << 20


def mix(values: UInt64Array) -> UInt64Array:
    """splitmix64's finaliser, a bijection on 64 bits.

    >>> mix(np.array([0, 1], dtype=np.uint64))
    array([16294208416658607535, 10451216379200822465], dtype=uint64)
    """
    z = values + _GOLDEN
    z ^= z >> np.uint64(30)
    z *= _MIX_1
    z ^= z >> np.uint64(27)
    z *= _MIX_2
    z ^= z >> np.uint64(31)
    return z


def hash_keys(columns: Sequence[pa.Array]) -> UInt64Array:
    """The hash of each row of the key `columns`, which hold no NULL.

    >>> hash_keys([pa.array([0, 1])]) == hash_keys([pa.array([0, 1], pa.int16())])
    array([ True,  True])
    """
    first, *rest = columns
    with np.errstate(over="ignore"):
        result = _hash_column(first)
        for column in rest:
            result = mix(result * _MIX_1 + _hash_column(column))
    return result


def hash_groups(columns: Sequence[pa.Array], rows: int) -> UInt64Array:
    """The hash of each of so many rows by the columns that they are grouped by. NULL is a value, equal to itself.

    Numbers with a point must have one NaN and one zero.

    >>> hash_groups([pa.array([1, None, None])], 3)[1:]
    array([7192185014346937746, 7192185014346937746], dtype=uint64)
    """
    result = np.zeros(rows, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            values = _hash_column(_as_key(column))
            if column.null_count:
                values = np.where(column.is_valid().to_numpy(zero_copy_only=False), values, _NULL)
            result = mix(result * _MIX_1 + values)
    return result


def _as_key(column: pa.Array) -> pa.Array:
    """A column of a type that can be grouped by and is no key of joins, as one of a type that is."""
    kind = column.type
    if pa.types.is_floating(kind):
        return column.cast(pa.float64()).view(pa.int64())
    if pa.types.is_decimal256(kind):
        return column.cast(pa.string())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    return column


def _hash_column(column: pa.Array) -> UInt64Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _hash_bytes(column)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _hash_bytes(column)
    if pa.types.is_decimal(kind):
        return _hash_decimals(column)
    return mix(integers(column).view(np.uint64))


def integers(column: pa.Array) -> npt.NDArray[np.int64]:
    """A column of integers, booleans, dates, times or intervals as 64-bit integers; NULLs come out as anything."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        column = column.view(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, 0)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _hash_decimals(column: pa.Array) -> UInt64Array:
    column = column.cast(pa.decimal128(38, column.type.scale))
    words = np.frombuffer(column.buffers()[1], dtype=np.uint64)
    pairs = words.reshape(-1, 2)[column.offset : column.offset + len(column)]
    return mix(mix(pairs[:, 0].copy()) + pairs[:, 1])


def _hash_bytes(column: pa.Array) -> UInt64Array:
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets_buffer, data = column.buffers()
    if not len(column):
        return np.empty(0, dtype=np.uint64)
    all_offsets = np.frombuffer(offsets_buffer, dtype=np.int64 if wide else np.int32)
    offsets = all_offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
    text = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    parts = []
    low = 0
    while low < len(column):
        high = max(low + 1, int(np.searchsorted(offsets, offsets[low] + TEXT_AT_ONCE, side="right")) - 1)
        parts.append(_hash_stretch(offsets[low : high + 1], text))
        low = high
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _hash_stretch(offsets: npt.NDArray[np.int64], text: npt.NDArray[np.uint8]) -> UInt64Array:
    """The hashes of the values between `offsets`."""
    lengths = np.diff(offsets)
    starts = offsets[:-1] - offsets[0]
    sums = np.zeros(len(lengths), dtype=np.uint64)
    total = int(offsets[-1] - offsets[0])
    if total:
        letters = text[offsets[0] : offsets[-1]].astype(np.uint64)
        position = np.arange(total, dtype=np.int64) - np.repeat(starts, lengths)
        words = mix(letters | (position.astype(np.uint64) << np.uint64(8)))
        filled = lengths > 0
        # reduceat gives an empty stretch the value of its successor, so only the filled ones take part.
        sums[filled] = np.add.reduceat(words, starts[filled])
    return mix(sums + lengths.astype(np.uint64))
