"""Conversion of Arrow values between types, with the meaning of Spark's CAST in ANSI mode.

Numbers become integers by cutting off the fraction, and decimals of a smaller scale by rounding half away from zero.
What does not fit raises pa.ArrowInvalid; nothing wraps round and nothing becomes NULL. Text is trimmed before it is
read. A timestamp without a zone is read as UTC. Text that holds a zone offset is not read as a timestamp.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Value = Any  # pa.Array or pa.Scalar: a literal stays a scalar until an array is needed


def cast(value: Value, target: pa.DataType) -> Value:
    """`value` as `target`.

    >>> cast(pa.array([1.9, -1.9, None]), pa.int64()).to_pylist()
    [1, -1, None]
    """
    source = value.type
    if source == target:
        return value
    if pa.types.is_dictionary(source):
        return cast(value.cast(source.value_type), target)
    if pa.types.is_null(source):
        return value.cast(target)
    if pa.types.is_string(source) and not pa.types.is_string(target) and not pa.types.is_binary(target):
        value = pc.utf8_trim_whitespace(value)
    if pa.types.is_decimal(target):
        return _to_decimal(value, target)
    if pa.types.is_boolean(target) and not pa.types.is_string(source):
        return pc.not_equal(value, pa.scalar(0, pa.int64()).cast(source))
    if pa.types.is_integer(target) and (pa.types.is_floating(source) or pa.types.is_decimal(source)):
        return pc.trunc(value).cast(target)
    if pa.types.is_floating(target):
        return value.cast(target, safe=False)  # safe would refuse integers above 2**53, which SQL rounds
    if pa.types.is_timestamp(target) and pa.types.is_string(source):
        return value.cast(pa.timestamp(target.unit)).cast(target)
    if pa.types.is_timestamp(source) and (pa.types.is_date(target) or pa.types.is_string(target)):
        return value.cast(pa.timestamp(source.unit)).cast(target)  # the wall clock of UTC
    return value.cast(target)


def _to_decimal(value: Value, target: pa.DataType) -> Value:
    source = value.type
    if pa.types.is_boolean(source):
        return _to_decimal(value.cast(pa.int8()), target)
    if pa.types.is_integer(source):
        # Arrow wants room for every 64-bit integer before it looks at the values: go through 256 bits.
        return value.cast(pa.decimal256(min(76, 20 + target.scale), target.scale)).cast(target)
    if pa.types.is_string(source):
        return _to_decimal(value.cast(pa.decimal256(76, 38)), target)
    if pa.types.is_decimal(source) and source.scale > target.scale:
        wide = value.cast(pa.decimal256(min(76, source.precision + 1), source.scale))
        return pc.round(wide, target.scale, "half_towards_infinity").cast(target)
    return value.cast(target)
