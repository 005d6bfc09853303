"""Exact arithmetic on columns of whole numbers and decimals: as 64-bit integers of their last digit where these do.

What does not fit 64 bits on the way is worked out number by number. That is rare: a sum of values that has so many
digits, or a decimal of more than 38.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.rows import Int64Array

EXACT = Context(prec=120)  # digits: more than any quotient or product of ours is rounded from
_MOST = (1 << 63) - 1


def digits(column: pa.Array) -> Int64Array | None:
    """Decimals as whole numbers of their last digit, 0 for NULL; None where 64 bits do not hold them all."""
    if not pa.types.is_decimal128(column.type):
        return None
    words = np.frombuffer(column.buffers()[1], dtype=np.int64).reshape(-1, 2)
    low, high = words[column.offset : column.offset + len(column)].T
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    return low if bool(np.all(high == low >> 63)) else None


def decimals(whole: Int64Array, kind: pa.DataType, missing: npt.NDArray[np.bool_]) -> pa.Array:
    """Whole numbers of their last digit as decimals."""
    words = np.stack([whole, whole >> 63], axis=1)
    valid = pa.array(~missing).buffers()[1] if missing.any() else None
    return pa.Array.from_buffers(kind, len(whole), [valid, pa.py_buffer(np.ascontiguousarray(words))])


def multiplied(column: pa.Array, factors: Sequence[Int64Array]) -> pa.Array:
    """A column, of integers, decimals or DOUBLE, times whole numbers above zero, in its own type; NULL stays NULL.

    Raises pa.ArrowInvalid where a product does not fit.

    >>> multiplied(pa.array([2, 3]), [np.array([10, 20]), np.array([1, 2])]).to_pylist()
    [20, 120]
    """
    if not factors or not len(column):
        return column
    if pa.types.is_floating(column.type):
        values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
        for factor in factors:
            values = values * factor
        return pa.array(values, mask=_missing(column) if column.null_count else None)
    is_integer = pa.types.is_integer(column.type)
    whole = column.to_numpy() if is_integer else digits(column)
    if whole is None or _bound(whole) * math.prod(map(_bound, factors)) > _MOST:
        return _one_by_one(column, factors)
    for factor in factors:
        whole = whole * factor
    return pa.array(whole) if is_integer else decimals(whole, column.type, _missing(column))


def _missing(column: pa.Array) -> npt.NDArray[np.bool_]:
    missing: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return missing


def _bound(values: Int64Array) -> int:
    return max(-int(values.min()), int(values.max()))


def _one_by_one(column: pa.Array, factors: Sequence[Int64Array]) -> pa.Array:
    products: list[int | Decimal | None] = []
    for value, *others in zip(column.to_pylist(), *(factor.tolist() for factor in factors), strict=True):
        times = math.prod(others)
        if isinstance(value, Decimal):
            products.append(EXACT.multiply(value, Decimal(times)))
        else:
            products.append(None if value is None else value * times)
    try:
        return pa.array(products, type=column.type)
    except OverflowError as error:
        raise pa.ArrowInvalid(str(error)) from error
