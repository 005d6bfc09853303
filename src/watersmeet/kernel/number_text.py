"""Numbers as text and back, digit for digit as Spark does it, where Arrow's own casts differ.

A DOUBLE or FLOAT is written as Java writes it: with the fewest digits that tell it from its neighbours, as `12.0` from
a thousandth up to ten million, and as `1.2E10` beyond. A DECIMAL is written with all digits of its scale and never
with an exponent. A DECIMAL becomes the nearest DOUBLE, where Arrow's cast is off by a bit for one value in eight.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# A whole number below 10**15 and a power of ten up to 10**22 are exact as DOUBLE, so their quotient is the nearest one.
_EXACT_DIGITS, _EXACT_SCALE = 15, 22
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7
_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_DIGITS = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e\+?(?P<exponent>-?\d+))?$"


def write_floats(values: pa.Array) -> pa.Array:
    """Floating-point numbers as text.

    >>> write_floats(pa.array([1.0, -0.0, 1e10, 0.00015, float("nan"), None])).to_pylist()
    ['1.0', '-0.0', '1.0E10', '1.5E-4', 'NaN', None]
    """
    text = values.cast(pa.string())
    size = pc.abs(values)
    low, high = (pa.scalar(limit, values.type) for limit in (_PLAIN_FROM, _PLAIN_BELOW))
    plain = pc.or_(pc.equal(size, pa.scalar(0, values.type)), pc.and_(pc.greater_equal(size, low), pc.less(size, high)))
    whole = pc.invert(pc.match_substring(text, "."))
    written = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    if pc.all(plain, min_count=0).as_py():
        return written
    written = pc.if_else(plain, written, _scientific(text))
    for ours, theirs in _NO_NUMBERS.items():
        written = pc.if_else(pc.equal(text, ours), theirs, written)
    return written


def _scientific(text: pa.Array) -> pa.Array:
    """Arrow's shortest text of numbers, `12500` or `1.25e+04`, as `1.25E4`; NULL for what has no digits."""
    sign, whole, part, exponent = pc.extract_regex(text, _DIGITS).flatten()
    all_digits = pc.binary_join_element_wise(whole, part, "")
    digits = pc.utf8_ltrim(all_digits, "0")
    zeros = pc.subtract(pc.utf8_length(all_digits), pc.utf8_length(digits))
    written = pc.if_else(pc.equal(exponent, ""), "0", exponent).cast(pa.int32())
    power = pc.subtract(pc.add(written, pc.utf8_length(whole)), pc.add(zeros, 1))
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, 1), "0")
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    first = pc.utf8_slice_codeunits(digits, 0, 1)
    mantissa = pc.binary_join_element_wise(pc.binary_join_element_wise(sign, first, ""), rest, ".")
    return pc.binary_join_element_wise(mantissa, power.cast(pa.string()), "E")


def write_decimals(values: pa.Array) -> pa.Array:
    """Decimals as text.

    >>> write_decimals(pa.array(["-0.00000001", "12.5"]).cast(pa.decimal128(20, 8))).to_pylist()
    ['-0.00000001', '12.50000000']
    """
    kind = values.type
    if kind.scale <= 6:  # Arrow turns to exponents where the first digit is later than the sixth after the point
        return values.cast(pa.string())
    unscaled = (pa.decimal128 if pa.types.is_decimal128(kind) else pa.decimal256)(kind.precision, 0)
    digits = pa.Array.from_buffers(unscaled, len(values), values.buffers(), offset=values.offset).cast(pa.string())
    negative = pc.starts_with(digits, "-")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), kind.scale + 1, "0")
    whole, part = pc.utf8_slice_codeunits(padded, 0, -kind.scale), pc.utf8_slice_codeunits(padded, -kind.scale)
    text = pc.binary_join_element_wise(whole, part, ".")
    return pc.if_else(negative, pc.binary_join_element_wise("-", text, ""), text)


def decimals_as_doubles(values: pa.Array) -> pa.Array:
    """The DOUBLE nearest to each decimal.

    >>> decimals_as_doubles(pa.array(["8994.32"]).cast(pa.decimal128(10, 2))).to_pylist()
    [8994.32]
    """
    kind = values.type
    if not pa.types.is_decimal128(kind) or kind.precision > _EXACT_DIGITS or not 0 <= kind.scale <= _EXACT_SCALE:
        return values.cast(pa.string()).cast(pa.float64())
    words = np.frombuffer(values.buffers()[1], dtype=np.int64).reshape(-1, 2)
    numbers = words[values.offset : values.offset + len(values), 0] / 10.0**kind.scale
    return pa.array(numbers, mask=pc.is_null(values).to_numpy(zero_copy_only=False) if values.null_count else None)
