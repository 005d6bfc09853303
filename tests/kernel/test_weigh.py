"""Weighed rows: times as boundaries, rows that agree combined, and what joined rows stand for."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.kernel.rows import int_column
from watersmeet.kernel.weigh import boundary_times, combine_alike, count_left, weigh
from watersmeet.kernel.whole_numbers import multiplied
from watersmeet.kernel.window import LONG_AGO, NEVER
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.plan.weighing import likeness_of, weighing_of

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("d", pa.float64()), ("ts", pa.int64())])
QUERY = bind(
    "SELECT A.k, COUNT(*) AS n, SUM(A.v) AS s, AVG(A.d) AS m, MAX(A.v) AS x, SUM(A.v + B.v) AS both "
    "FROM A [RANGE 10 MICROSECONDS SLIDE 5 MICROSECONDS], B [RANGE 5 MICROSECONDS] WHERE A.k = B.k GROUP BY A.k",
    {name: Stream(name, SCHEMA) for name in "AB"},
)


@settings(max_examples=300, deadline=None)
@given(st.integers(-30, 30), st.integers(1, 7), st.integers(1, 4))
def test_a_boundary_is_all_that_matters_of_a_time(time: int, slide: int, slides: int) -> None:
    place = int(boundary_times(np.array([time]), slide)[0])
    width = slide * slides
    assert place >= time, "nothing becomes older than a watermark"
    for boundary in range(-60 // slide * slide, 90, slide):
        assert (time <= boundary < time + width) == (place <= boundary < place + width)


def test_times_at_the_ends_of_64_bits() -> None:
    times = np.array([LONG_AGO, LONG_AGO + 1, NEVER - 1, NEVER])
    for slide in (1, 3, 10**6, NEVER):
        found = boundary_times(times, slide)
        assert (found >= times).all()
        assert (boundary_times(found, slide) == found).all()


def rows_of_a() -> pa.RecordBatch:
    return pa.record_batch(
        {
            "@A": pa.array([1, 5, 6, 2, 3], pa.int64()),
            "A.k": pa.array([1, 1, 1, 1, 2], pa.int64()),
            "A.v": pa.array([3, 3, 3, None, 4], pa.int64()),
            "A.d": pa.array([0.5, 1.5, 2.5, None, 3.5]),
        }
    )


def test_rows_that_agree_are_one() -> None:
    weighing = weighing_of(QUERY, "A", combined=True)
    assert [part.text for _, part in weighing.parts] == ["SUM(A.v)", "SUM(A.d)", "COUNT(A.d)", "MAX(A.v)"]
    fields = (("@A", pa.int64()), ("A.k", pa.int64()), ("A.v", pa.int64()))
    fields += tuple((column.field_name, column.type) for column in weighing.columns)
    rows = weigh(rows_of_a(), weighing, fields)
    # A.v stays, for SUM(A.v + B.v): rows agree in time, key and value.
    found = sorted(map(tuple, (row.values() for row in rows.to_pylist())), key=repr)
    assert found == sorted(
        [
            (5, 1, 3, 2, Decimal(6), 2.0, 2, 3),
            (10, 1, 3, 1, Decimal(3), 2.5, 1, 3),
            (5, 1, None, 1, None, None, 0, None),
            (5, 2, 4, 1, Decimal(4), 3.5, 1, 4),
        ],
        key=repr,
    )
    assert combine_alike(rows, weighing).num_rows == 4
    single = weigh(rows_of_a(), weighing_of(QUERY, "A", combined=False), fields)
    assert single.num_rows == 5
    assert int_column(combine_alike(single, weighing), weighing.weight.field_name).tolist().count(2) == 1


def test_how_many_rows_would_be_left() -> None:
    likeness = likeness_of(QUERY, "A", ["@A", "A.d", "A.k", "A.v"])
    assert likeness is not None
    assert likeness.fields == ("@A", "A.k", "A.v"), "A.d is only added up"
    assert count_left(rows_of_a(), likeness) == 4


BIG = 10**18


@pytest.mark.parametrize(
    "column, factors, expected",
    [
        (pa.array([1, -2]), [[3, 4], [5, 6]], [15, -48]),
        (pa.array([0.5, None]), [[3, 4]], [1.5, None]),
        (pa.array([Decimal(7), None], pa.decimal128(38, 0)), [[3, 4], [2, 2]], [Decimal(42), None]),
        (pa.array([Decimal("-0.25")], pa.decimal128(38, 2)), [[3]], [Decimal("-0.75")]),
        (pa.array([Decimal(BIG), None], pa.decimal128(38, 0)), [[BIG, 1]], [Decimal(BIG * BIG), None]),
        (pa.array([Decimal(BIG), Decimal(0)], pa.decimal256(76, 0)), [[BIG, 1]], [Decimal(BIG * BIG), Decimal(0)]),
        (pa.array([BIG, 0]), [[1, BIG], [9, BIG]], [9 * BIG, 0]),
        (pa.array([3]), [], [3]),
    ],
)
def test_products_are_exact(column: pa.Array, factors: list[list[int]], expected: list[object]) -> None:
    found = multiplied(column, [np.array(factor) for factor in factors])
    assert found.to_pylist() == expected
    assert found.type == column.type


@pytest.mark.parametrize("column", [pa.array([BIG]), pa.array([Decimal(10**37)], pa.decimal128(38, 0))])
def test_a_product_that_does_not_fit_is_an_error(column: pa.Array) -> None:
    with pytest.raises(pa.ArrowInvalid):
        multiplied(column, [np.array([100])])
