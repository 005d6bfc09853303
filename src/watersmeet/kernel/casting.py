"""Conversion of Arrow values between types, with the meaning of Spark's CAST in ANSI mode.

Numbers become integers by cutting off the fraction, and decimals of a smaller scale by rounding half away from zero.
What does not fit raises pa.ArrowInvalid; nothing wraps round and nothing becomes NULL, also not NaN as a decimal. Text
is trimmed before it is read. A timestamp without a zone is read as UTC. Text that holds a zone offset is not read as a
timestamp. How numbers are written is in `kernel/number_text.py`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.number_text import decimals_as_doubles, write_decimals, write_floats

Value = Any  # pa.Array or pa.Scalar: a literal stays a scalar until an array is needed

_TRUE, _FALSE = r"^(?i:t|true|y|yes|1)$", r"^(?i:f|false|n|no|0)$"


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
    if isinstance(value, pa.Scalar):
        return cast(pa.repeat(value, 1), target)[0]
    if pa.types.is_string(source) and not pa.types.is_binary(target):
        return _read(pc.utf8_trim_whitespace(value), target)
    if pa.types.is_string(target):
        return _write(value)
    if pa.types.is_decimal(target):
        return _to_decimal(value, target)
    if pa.types.is_boolean(target):
        return pc.not_equal(value, pa.scalar(0, source))
    if pa.types.is_integer(target) and (pa.types.is_floating(source) or pa.types.is_decimal(source)):
        return pc.trunc(value).cast(target)
    if pa.types.is_floating(target):
        return _to_floating(value, target)
    if pa.types.is_timestamp(source) and pa.types.is_date(target):
        return value.cast(pa.timestamp(source.unit)).cast(target)  # the wall clock of UTC
    return value.cast(target)


def _read(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Trimmed text as `target`."""
    if pa.types.is_decimal(target):
        return _to_decimal(text.cast(pa.decimal256(76, 38)), target)
    if pa.types.is_boolean(target):
        text = pc.replace_substring_regex(pc.replace_substring_regex(text, _TRUE, "true"), _FALSE, "false")
    if pa.types.is_integer(target):
        # Arrow would read 0x1F, and not +5.
        text = pc.replace_substring_regex(text, r"^([+-]?0)([xX])", r"\1 \2")
        text = pc.replace_substring_regex(text, r"^\+(\d)", r"\1")
    if pa.types.is_timestamp(target):
        return text.cast(pa.timestamp(target.unit)).cast(target)
    return text.cast(target)


def _write(value: pa.Array) -> pa.Array:
    """`value` as text."""
    source = value.type
    if pa.types.is_floating(source):
        return write_floats(value)
    if pa.types.is_decimal(source):
        return write_decimals(value)
    if pa.types.is_timestamp(source):
        text = value.cast(pa.timestamp(source.unit)).cast(pa.string())  # the wall clock of UTC
        return text if source.unit == "s" else pc.replace_substring_regex(text, r"\.?0+$", "")
    return value.cast(pa.string())


def _to_floating(value: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(value.type):
        if target == pa.float64():
            return decimals_as_doubles(value)
        return value.cast(pa.string()).cast(target)
    return value.cast(target, safe=False)  # safe would refuse integers above 2**53, which SQL rounds


def _to_decimal(value: pa.Array, target: pa.DataType) -> pa.Array:
    source = value.type
    if pa.types.is_boolean(source):
        return _to_decimal(value.cast(pa.int8()), target)
    if pa.types.is_integer(source):
        # Arrow wants room for every 64-bit integer before it looks at the values: go through 256 bits.
        return value.cast(pa.decimal256(min(76, 20 + target.scale), target.scale)).cast(target)
    if pa.types.is_floating(source) and target.scale <= 20:
        # By the digits that it is written with: 1.005 is 1.01 with two of them, and 1.00 by its binary value. Digits
        # past the 38th, of numbers too small to matter, do not fit the type on the way.
        value = value.cast(pa.float64())
        tiny = pc.less(pc.abs(value), pa.scalar(1e-21))
        return _read(pc.if_else(tiny, pa.scalar(0.0), value).cast(pa.string()), target)
    if pa.types.is_decimal(source) and source.scale > target.scale:
        wide = value.cast(pa.decimal256(min(76, source.precision + 1), source.scale))
        return pc.round(wide, target.scale, "half_towards_infinity").cast(target)
    return value.cast(target)
