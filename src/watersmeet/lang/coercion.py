"""Which types go together, and what comes of it.

Integers widen to the wider one; an integer or a decimal with a decimal makes the decimal that holds both exactly; any
number with a FLOAT or DOUBLE makes DOUBLE; a DATE with a TIMESTAMP makes that TIMESTAMP; timestamps of different zones
or units make the finest unit in UTC. Text goes with text alone: a string never turns into a number by itself.

A literal with a point (`1.5`) is a decimal with the digits that it is written with, as in Spark; one with an exponent
(`1e3`) is a DOUBLE. A whole number that is too large for a BIGINT is a decimal. Next to a decimal, a literal without a
point is one, too. A string literal next to a date or timestamp is read as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce

import pyarrow as pa

from watersmeet.model.expressions import Cast, Expr, Literal

MOST_DIGITS = 38  # of a DECIMAL
_KEPT_SCALE = 6  # digits after the point that stay where there are too many before it

_UNITS = ("s", "ms", "us", "ns")
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}  # as in Spark, where a BIGINT has one to spare
_DIGITS |= {pa.uint8(): 3, pa.uint16(): 5, pa.uint32(): 10, pa.uint64(): 20}


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def is_comparable(kind: pa.DataType) -> bool:
    # Arrow's other intervals have months, which are of no fixed length.
    return not (pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType) or pa.types.is_interval(kind))


def is_key(kind: pa.DataType) -> bool:
    """Whether values of this type can be hashed as join keys."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_time(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type in which expressions handle `kind`: dictionaries and large or view layouts become the plain one."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if is_text(kind):
        return pa.string()
    if is_bytes(kind):
        return pa.binary()
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind


def plain(expr: Expr) -> Expr:
    """`expr`, cast to its plain type where it has another."""
    return coerce(expr, plain_type(expr.type))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that holds both, or None where they do not go together.

    >>> common_type(pa.int32(), pa.int64()), common_type(pa.int64(), pa.decimal128(10, 2))
    (DataType(int64), Decimal128Type(decimal128(22, 2)))
    >>> common_type(pa.string(), pa.int64()) is None
    True
    """
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if pa.types.is_date(left) and is_moment(right):
        return right
    if pa.types.is_date(right) and is_moment(left):
        return left
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        return pa.timestamp(max(left.unit, right.unit, key=_UNITS.index), tz="UTC" if left.tz or right.tz else None)
    if pa.types.is_duration(left) and pa.types.is_duration(right):
        return pa.duration(max(left.unit, right.unit, key=_UNITS.index))
    return None


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
            return max(left, right, key=lambda kind: kind.bit_width)
        unsigned, signed = (left, right) if pa.types.is_unsigned_integer(left) else (right, left)
        if unsigned != pa.uint64():
            doubled = {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}[unsigned.bit_width]
            return max(doubled, signed, key=lambda kind: kind.bit_width)
    left, right = as_decimal_type(left), as_decimal_type(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal_type(whole + scale, scale)


def decimal_type(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(min(76, precision), scale)


def product_type(precision: int, scale: int) -> pa.DataType:
    """What holds a product of so many digits, as in Spark: digits after the point make room, until there are six.

    >>> product_type(13, 3), product_type(49, 20), product_type(60, 4)
    (Decimal128Type(decimal128(13, 3)), Decimal128Type(decimal128(38, 9)), Decimal128Type(decimal128(38, 4)))
    """
    if precision <= MOST_DIGITS:
        return pa.decimal128(precision, scale)
    kept = max(MOST_DIGITS - (precision - scale), min(scale, _KEPT_SCALE))
    return pa.decimal128(MOST_DIGITS, kept)


def result_type(kind: pa.DataType) -> pa.DataType:
    """The type of a value that is one of several of type `kind`: as in Spark, a DECIMAL of at most 38 digits.

    >>> result_type(pa.decimal256(39, 1)), result_type(pa.int64())
    (Decimal128Type(decimal128(38, 1)), DataType(int64))
    """
    return pa.decimal128(MOST_DIGITS, kind.scale) if pa.types.is_decimal256(kind) else kind


def as_decimal_type(kind: pa.DataType) -> pa.DataType:
    return pa.decimal128(_DIGITS[kind], 0) if pa.types.is_integer(kind) else kind


def common_type_of(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    def both(left: pa.DataType | None, right: pa.DataType) -> pa.DataType | None:
        return None if left is None else common_type(left, right)

    return reduce(both, kinds, pa.null())


def narrow_literals(exprs: Sequence[Expr]) -> list[Expr]:
    """`exprs` that are about to be combined; beside a decimal, whole-number literals are decimals of their own digits.

    >>> price = Literal(Decimal("9.99"), pa.decimal128(10, 2))
    >>> narrow_literals([price, Literal(5, pa.int64())])[1].type
    Decimal128Type(decimal128(1, 0))
    """
    if any(pa.types.is_decimal(expr.type) for expr in exprs):
        return [_tight_decimal(expr) for expr in exprs]
    return list(exprs)


def _tight_decimal(expr: Expr) -> Expr:
    # 10 beside a DECIMAL(10, 2) needs two digits, not the 20 of a BIGINT: the column then needs no cast.
    if not isinstance(expr, Literal) or not pa.types.is_integer(expr.type) or expr.value is None:
        return expr
    return Literal(Decimal(expr.value), pa.decimal128(len(str(abs(expr.value))), 0))


def coerce(expr: Expr, target: pa.DataType) -> Expr:
    """`expr` as `target`; a literal is converted at once where that loses nothing."""
    if expr.type == target:
        return expr
    if isinstance(expr, Literal):
        if expr.value is None:
            return Literal(None, target)
        if pa.types.is_floating(target) and is_number(expr.type):
            return Literal(float(expr.value), target)
        if pa.types.is_decimal(target) and is_number(expr.type):
            return Literal(Decimal(expr.value), target)
        if pa.types.is_integer(target) and pa.types.is_integer(expr.type):
            return Literal(expr.value, target)
        if is_moment(target) and is_text(expr.type):
            return Literal(read_moment(expr.value, target), target)
    return Cast(expr, target)


def read_moment(text: str, target: pa.DataType) -> date | datetime:
    """The date or timestamp that `text` says; ValueError if it says none.

    An instant is in UTC where the text names no zone; a timestamp without a zone is the time as it is written. Digits
    past the microseconds are cut off, as in Spark, unless the target has nanoseconds and would tell the difference.
    """
    if pa.types.is_date(target):
        return date.fromisoformat(text.strip())
    moment = datetime.fromisoformat(text.strip())
    if target.unit == "ns" and re.search(r"\.\d{6}\d*[1-9]", text):
        raise ValueError("literals have microseconds")
    if not target.tz:
        return moment.replace(tzinfo=None)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
