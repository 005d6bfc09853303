"""Keys of every type, and of two types that go together: rows join exactly where their values are equal."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm

NAN = float("nan")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
CASES: list[tuple[str, pa.DataType, list[Any], pa.DataType, list[Any]]] = [
    ("integers", pa.int8(), [0, -1, 127, None], pa.int64(), [0, -1, 127, 2**32, LARGEST, None]),
    ("ends of BIGINT", pa.int64(), [LARGEST, SMALLEST, 0], pa.int64(), [SMALLEST, LARGEST, LARGEST - 1]),
    ("unsigned", pa.uint64(), [0, 2**64 - 1, 2**63], pa.int64(), [0, LARGEST, SMALLEST, -1]),
    ("integer and decimal", pa.int64(), [0, 5, -5, LARGEST], pa.decimal128(21, 2), ["5.00", "5.01", "-5", "0", None]),
    (
        "scales",
        pa.decimal128(10, 1),
        ["0.1", "-0.1", "0", "99.9"],
        pa.decimal128(12, 4),
        ["0.1", "0.1001", "0", "-0.1"],
    ),
    (
        "text",
        pa.string(),
        ["", "a", "a\0", "A", "ä", "a ", None],
        pa.string(),
        ["", "a", "a\0\0", "a\0", "ä", "a ", "😀"],
    ),
    ("text and view", pa.string_view(), ["x" * 50, "", None], pa.large_string(), ["x" * 50, "", "x" * 49]),
    ("bytes", pa.binary(), [b"", b"\0", b"\xff", None], pa.binary(1), [b"\0", b"\xff", b"a"]),
    (
        "dates",
        pa.date32(),
        [date(1969, 12, 31), date(2024, 1, 1), None],
        pa.date64(),
        [date(2024, 1, 1), date(1969, 12, 31)],
    ),
    (
        "date and instant",
        pa.date32(),
        [date(2024, 1, 1), date(1969, 12, 31), None],
        pa.timestamp("us", "UTC"),
        [datetime(2024, 1, 1, tzinfo=UTC), NOON, datetime(1969, 12, 31, tzinfo=UTC)],
    ),
    (
        "instants of two zones and units",
        pa.timestamp("s", "UTC"),
        [NOON, NOON + timedelta(seconds=1), None],
        pa.timestamp("ns", "Europe/Berlin"),
        [NOON.astimezone(timezone(timedelta(hours=5))), NOON - timedelta(hours=1), NOON + timedelta(seconds=1)],
    ),
]


def table(kind: pa.DataType, values: list[Any]) -> pa.Table:
    if pa.types.is_decimal(kind):
        values = [None if value is None else Decimal(value) for value in values]
    return pa.table({"v": pa.array(values * 2, kind), "n": range(2 * len(values)), "ts": [0] * (2 * len(values))})


def plain(value: Any) -> Any:
    """A value that Python compares as SQL does."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value


def pairs(left: pa.Table, right: pa.Table, same: Any) -> list[tuple[int, int]]:
    lefts, rights = left.column("v").to_pylist(), right.column("v").to_pylist()
    return [
        (i, j)
        for i, x in enumerate(lefts)
        for j, y in enumerate(rights)
        if x is not None and y is not None and same(plain(x), plain(y))
    ]


@pytest.mark.parametrize(("left", "right"), [(c[1:3], c[3:5]) for c in CASES], ids=[c[0] for c in CASES])
@pytest.mark.parametrize("further", ["", " AND A.ts = B.ts"], ids=["alone", "with another"])
def test_keys_join_where_they_are_equal(left: Any, right: Any, further: str) -> None:
    a, b = table(*left), table(*right)
    expected = pairs(a, b, lambda x, y: x == y)
    assert expected
    for one, other in ((a, b), (b, a)):
        answer = wm.sql(f"SELECT A.n, B.n AS m FROM A, B WHERE A.v = B.v{further}", A=one, B=other).run(batch_rows=3)
        found = sorted(zip(answer.column("n").to_pylist(), answer.column("m").to_pylist(), strict=True))
        assert found == sorted(expected if one is a else [(j, i) for i, j in expected])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_floating_point_numbers_meet_where_they_are_equal(kind: pa.DataType) -> None:
    a, b = table(kind, [0.0, -0.0, NAN, 1.5, None]), table(pa.float64(), [-0.0, NAN, -NAN, 1.5, None])
    expected = pairs(a, b, lambda x, y: x == y or (x != x and y != y))
    answer = wm.sql("SELECT A.n, B.n AS m FROM A, B WHERE A.ts = B.ts AND A.v = B.v", A=a, B=b).run(batch_rows=3)
    found = sorted(zip(answer.column("n").to_pylist(), answer.column("m").to_pylist(), strict=True))
    assert found == sorted(expected)


def test_a_decimal_meets_the_double_of_the_same_digits() -> None:
    digits = [f"{n / 100:.2f}" for n in range(0, 1_000_000, 997)]
    a = table(pa.decimal128(10, 2), digits)
    b = table(pa.float64(), [float(text) for text in digits])
    answer = wm.sql("SELECT A.n FROM A, B WHERE A.n = B.n AND A.v = B.v", A=a, B=b).run()
    assert answer.num_rows == a.num_rows
