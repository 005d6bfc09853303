"""Numbers as text, against rules that are spelt out in Python's decimals."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.kernel.number_text import decimals_as_doubles, write_decimals, write_floats


def as_java_writes_it(value: float, shortest: str) -> str:
    """`value`, whose shortest digits are given, as Double.toString has it."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    size = abs(Decimal(shortest))
    if size == 0:
        return f"{sign}0.0"
    if Decimal("0.001") <= size < 10**7:
        text = f"{size:f}"
        return sign + (text if "." in text else f"{text}.0")
    digits = "".join(map(str, size.as_tuple().digits)).rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{size.adjusted()}"


@given(st.lists(st.floats() | st.floats(-1e9, 1e9) | st.integers(-(10**9), 10**9).map(float), max_size=20))
@example([5e-324, 1.7976931348623157e308, 0.001, 0.0009999999999999998, 9999999.999999998, 1e7, -0.0, 100.0])
def test_doubles_are_written_as_java_writes_them(values: list[float]) -> None:
    expected = [as_java_writes_it(value, repr(value)) for value in values]
    assert write_floats(pa.array(values, pa.float64())).to_pylist() == expected


@given(st.lists(st.floats(width=32), max_size=20))
def test_floats_are_written_with_the_digits_of_their_width(values: list[float]) -> None:
    expected = [as_java_writes_it(value, str(np.float32(value))) for value in values]
    assert write_floats(pa.array(values, pa.float32())).to_pylist() == expected


@pytest.mark.parametrize(
    "kind", [pa.decimal128(10, 2), pa.decimal128(38, 20), pa.decimal128(7, 7), pa.decimal256(60, 9)]
)
@given(data=st.data())
def test_decimals_are_written_in_full_and_become_the_nearest_double(kind: pa.DataType, data: st.DataObject) -> None:
    limit = 10**kind.precision - 1
    unscaled = data.draw(st.lists(st.none() | st.integers(-limit, limit) | st.integers(-99, 99), max_size=20))
    texts = [None if n is None else f"{n}e{-kind.scale}" for n in unscaled]
    values = pa.array([None, *texts, None]).cast(kind).slice(1, len(texts))  # an offset, as in slices of segments
    written = write_decimals(values).to_pylist()
    assert [None if t is None else Decimal(t) for t in written] == [None if t is None else Decimal(t) for t in texts]
    assert all(t is None or (len(t.partition(".")[2]) == kind.scale and "E" not in t) for t in written)
    assert decimals_as_doubles(values).to_pylist() == [None if t is None else float(t) for t in texts]
