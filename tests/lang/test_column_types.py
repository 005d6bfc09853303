"""Columns of every Arrow type in joins, comparisons and groups: they work as in DuckDB, or are refused when bound."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import QueryError

TIMES = pa.array(range(5), pa.int64())
COLUMNS: dict[str, pa.Array] = {
    "interval": pa.array([timedelta(microseconds=n) for n in (5, -7, 5, 10**15)] + [None], pa.duration("us")),
    "interval in seconds": pa.array([timedelta(seconds=n) for n in (5, -7, 5, 0)] + [None], pa.duration("s")),
    "time": pa.array([time(1), time(2), time(1), time(23, 59, 59, 999_999), None], pa.time64("us")),
    "time in seconds": pa.array([time(1), time(2), time(1), time(23), None], pa.time32("s")),
    "binary of one length": pa.array([b"ab", b"cd", b"ab", b"\0\0", None], pa.binary(2)),
    "binary": pa.array([b"a", b"", b"a", b"\0", None]),
    "view": pa.array(["a", "", "a", "ä", None], pa.string_view()),
    "dictionary": pa.array(["a", "", "a", "ä", None]).dictionary_encode(),
    "boolean": pa.array([True, False, True, True, None]),
    "double": pa.array([0.0, -0.0, 1.5, float("nan"), None]),
    "decimal": pa.array([Decimal("1.5"), Decimal(-2), Decimal("1.5"), Decimal(0), None], pa.decimal128(38, 10)),
    "date": pa.array([date(2024, 1, 1), date(1969, 1, 1), date(2024, 1, 1), date(1970, 1, 1), None]),
    "timestamp": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 4 + [None], pa.timestamp("us", tz="UTC")),
    "unsigned": pa.array([1, 2, 1, 2**64 - 1, None], pa.uint64()),
}
MONTHS = pa.array([(1, 2, 3), None], pa.month_day_nano_interval())


def table(column: pa.Array) -> pa.Table:
    return pa.table({"v": column, "k": pa.repeat(1, len(column)), "ts": TIMES.slice(0, len(column))})


def judged(text: str, rows: pa.Table) -> Counter[Any]:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("rows", rows)
        database.execute("CREATE TABLE a AS SELECT * FROM rows; CREATE TABLE b AS SELECT * FROM rows")
        return Counter(database.execute(text).fetchall())


def answered(text: str, rows: pa.Table, **options: Any) -> Counter[Any]:
    found = wm.sql(text, streams={"a": rows, "b": rows}).run(**options)
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("condition", ["a.v = b.v", "a.k = b.k AND a.v = b.v", "a.k = b.k AND a.v < b.v"])
def test_rows_meet_by_any_comparable_type(kind: str, condition: str) -> None:
    rows = table(COLUMNS[kind])
    text = f"SELECT a.ts, b.ts AS other FROM a, b WHERE {condition}"
    assert answered(text, rows) == answered(text, rows, batch_rows=2) == judged(text, rows)


@pytest.mark.parametrize("kind", COLUMNS)
def test_rows_are_grouped_by_any_comparable_type(kind: str) -> None:
    rows = table(COLUMNS[kind])
    text = "SELECT COUNT(*) AS n, COUNT(v) AS m, MIN(ts) AS first FROM a GROUP BY v"
    one = wm.sql(text, streams={"a": rows}).run(output_mode="update")
    assert Counter(zip(*(column.to_pylist() for column in one.columns), strict=True)) == judged(text, rows)


@pytest.mark.parametrize("kind", ["interval", "time", "binary of one length", "decimal", "date"])
def test_an_equality_of_these_is_a_key(kind: str) -> None:
    rows = table(COLUMNS[kind])
    query = wm.sql("SELECT a.ts FROM a, b WHERE a.v = b.v", streams={"a": rows, "b": rows})
    assert len(query.query.keys) == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM a, b WHERE a.v = b.v",
        "SELECT a.k FROM a, b WHERE a.k = b.k AND a.v < b.v",
        "SELECT a.k FROM a, b WHERE a.k = b.k AND a.v IN (b.v)",
        "SELECT NULLIF(a.v, b.v) AS x FROM a, b WHERE a.k = b.k",
        "SELECT GREATEST(a.v, b.v) AS x FROM a, b WHERE a.k = b.k",
        "SELECT CASE a.v WHEN b.v THEN 1 END AS x FROM a, b WHERE a.k = b.k",
        "SELECT v, COUNT(*) AS n FROM a GROUP BY v",
        "SELECT DISTINCT v FROM a",
        "SELECT MIN(v) AS x FROM a",
    ],
)
@pytest.mark.parametrize("column", [MONTHS, pa.array([[1], None])], ids=["months", "lists"])
def test_what_cannot_be_compared_is_refused_when_it_is_bound(text: str, column: pa.Array) -> None:
    rows = table(column)
    with pytest.raises(QueryError, match=r"INTERVAL of months|ARRAY"):
        wm.sql(text, streams={"a": rows, "b": rows} if ", b" in text else {"a": rows})


def test_what_cannot_be_compared_can_be_selected() -> None:
    rows = table(MONTHS)
    found = wm.sql("SELECT a.v FROM a, b WHERE a.k = b.k AND b.ts = 0", streams={"a": rows, "b": rows}).run()
    assert sorted(found.column("v").to_pylist(), key=str) == sorted(MONTHS.to_pylist(), key=str)
