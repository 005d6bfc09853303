"""Hashes of keys: held in place by tests/golden/hashes.txt, equal for equal values, and whatever the array's layout."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.hashing import hash_keys, integers, mix

TIMESTAMP = pa.timestamp("us", tz="UTC")
INTEGERS = [0, 1, -1, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63)]
TEXTS = ["", "a", "b", "ab", "ba", "aa", "\x00", "\x00\x00", "ä", "a\u0308", "日本語", "🙂", "x" * 300]
TIMES = [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12, 30, 0, 1)]
TABLE: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), INTEGERS),
    (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31)]),
    (pa.int8(), [0, 1, -1, 127, -128]),
    (pa.bool_(), [False, True]),
    (pa.date32(), [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]),
    (TIMESTAMP, [moment.replace(tzinfo=UTC) for moment in TIMES]),
    (pa.timestamp("us"), TIMES),
    (pa.duration("us"), [timedelta(0), timedelta(microseconds=-1), timedelta(days=100_000)]),
    (pa.time64("us"), [time(0), time(23, 59, 59, 999_999)]),
    (pa.time32("s"), [time(0), time(23, 59, 59)]),
    (pa.string(), TEXTS),
    (pa.binary(), [b"", b"a", b"\x00", b"\xff\xfe"]),
    (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("1.00"), Decimal("-1.00"), Decimal("12345678.90")]),
    (pa.decimal128(38, 0), [Decimal(0), Decimal(2**64), Decimal(-(2**64)), Decimal("9" * 38)]),
]
COMPOSITES = [
    [pa.array([1, 2, 1]), pa.array([2, 1, 1])],
    [pa.array(["a", "", "ab"]), pa.array(["b", "ab", ""])],
    [pa.array([1]), pa.array(["a"]), pa.array([date(2024, 1, 1)])],
]


def test_hashes_stay_as_they_are(golden: Callable[[str, str], None]) -> None:
    lines = []
    for kind, values in TABLE:
        hashed = hash_keys([pa.array(values, kind)])
        lines += [f"{kind} {value!r}: {h:016x}" for value, h in zip(values, hashed.tolist(), strict=True)]
    for columns in COMPOSITES:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        lines += [f"{row!r}: {h:016x}" for row, h in zip(rows, hash_keys(columns).tolist(), strict=True)]
    golden("hashes", "\n".join(lines) + "\n")


@pytest.mark.parametrize(("kind", "values"), TABLE, ids=[str(kind) for kind, _ in TABLE])
def test_different_values_have_different_hashes(kind: pa.DataType, values: list[Any]) -> None:
    assert len(set(hash_keys([pa.array(values, kind)]).tolist())) == len(values)


@pytest.mark.parametrize(("kind", "values"), TABLE, ids=[str(kind) for kind, _ in TABLE])
def test_slices_hash_as_the_whole(kind: pa.DataType, values: list[Any]) -> None:
    whole = pa.array(values, kind)
    expected = hash_keys([whole])
    for start in range(len(values) + 1):
        for end in range(start, len(values) + 1):
            piece = whole.slice(start, end - start)
            np.testing.assert_array_equal(hash_keys([piece]), expected[start:end])
    for i in range(len(values)):  # a slice of a slice
        np.testing.assert_array_equal(hash_keys([whole.slice(i).slice(0, 1)]), expected[i : i + 1])


@pytest.mark.parametrize("kind", [kind for kind, _ in TABLE], ids=str)
def test_no_rows_give_no_hashes(kind: pa.DataType) -> None:
    assert hash_keys([pa.array([], kind)]).tolist() == []
    assert hash_keys([pa.array([], kind), pa.array([], pa.string())]).dtype == np.uint64


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32()], ids=str)
def test_the_width_of_an_integer_does_not_matter(kind: pa.DataType) -> None:
    values = [-128, -1, 0, 1, 127]
    np.testing.assert_array_equal(hash_keys([pa.array(values, kind)]), hash_keys([pa.array(values, pa.int64())]))


def test_the_precision_of_a_decimal_does_not_matter() -> None:
    values = [Decimal("-1.50"), Decimal("0.00"), Decimal("99.25")]
    hashed = [hash_keys([pa.array(values, pa.decimal128(p, 2))]).tolist() for p in (4, 18, 38)]
    assert hashed[0] == hashed[1] == hashed[2]


def test_the_zone_of_a_timestamp_does_not_matter() -> None:
    aware = pa.array([moment.replace(tzinfo=UTC) for moment in TIMES], pa.timestamp("us", tz="Europe/Berlin"))
    assert hash_keys([aware]).tolist() == hash_keys([pa.array(TIMES, pa.timestamp("us"))]).tolist()


def test_large_strings_hash_as_strings() -> None:
    assert hash_keys([pa.array(TEXTS, pa.large_string())]).tolist() == hash_keys([pa.array(TEXTS)]).tolist()


def test_the_order_of_key_columns_matters() -> None:
    ones, twos = pa.array([1]), pa.array([2])
    assert hash_keys([ones, twos]).tolist() != hash_keys([twos, ones]).tolist()


def test_parts_of_a_composite_do_not_run_together() -> None:
    assert len(set(hash_keys([pa.array(["a", "ab", ""]), pa.array(["bc", "c", "abc"])]).tolist())) == 3


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True))
def test_integers_never_collide(values: list[int]) -> None:
    assert len(set(hash_keys([pa.array(values, pa.int64())]).tolist())) == len(values)


@given(st.lists(st.text(max_size=12)))
def test_equal_texts_have_equal_hashes_and_others_do_not(values: list[str]) -> None:
    hashed = hash_keys([pa.array(values, pa.string())]).tolist()
    assert len(set(zip(values, hashed, strict=True))) == len(set(values)) == len(set(hashed))


def test_hashing_changes_nothing_that_it_is_given() -> None:
    values = np.array([1, 2, 3], dtype=np.uint64)
    mix(values)
    column = pa.array([1, 2, 3])
    hash_keys([column])
    assert values.tolist() == [1, 2, 3] == column.to_pylist()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([True, False]), [1, 0]),
        (pa.array([date(1969, 12, 31)]), [-1]),
        (pa.array([timedelta(microseconds=-5)], pa.duration("us")), [-5]),
        (pa.array([-(2**63), 2**63 - 1]), [-(2**63), 2**63 - 1]),
        (pa.array([1, 2, 3], pa.int16()).slice(1), [2, 3]),
        (pa.array([], pa.int32()), []),
    ],
    ids=["booleans", "a day before 1970", "a negative duration", "extremes", "a slice", "nothing"],
)
def test_integers_of(column: pa.Array, expected: list[int]) -> None:
    assert integers(column).tolist() == expected


def test_integers_of_nulls_are_anything_but_there() -> None:
    result = integers(pa.array([1, None, 3]))
    assert (len(result), result[0], result[2]) == (3, 1, 3)
