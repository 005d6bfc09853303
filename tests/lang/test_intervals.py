"""Interval literals: the spellings that are read, judged by DuckDB where it has them, and where refusals point."""

from __future__ import annotations

from datetime import timedelta

import duckdb
import pyarrow as pa
import pytest

from watersmeet.errors import QueryError
from watersmeet.lang.binder import bind
from watersmeet.model.expressions import Call, Expr, Literal
from watersmeet.model.streams import Stream

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
STREAMS = {name: Stream(name, SCHEMA, "ts") for name in "AB"}


def bound(text: str) -> Expr:
    return bind(f"SELECT {text} AS x FROM A, B WHERE A.k = B.k", STREAMS).select[0].expr


def interval(text: str) -> timedelta:
    expr = bound(text)
    assert isinstance(expr, Literal)
    assert expr.type == pa.duration("us")
    assert isinstance(expr.value, timedelta)
    return expr.value


@pytest.mark.parametrize(
    "text",
    [
        "INTERVAL 5 MINUTES",
        "INTERVAL 5 minute",
        "INTERVAL '5' MINUTES",
        "INTERVAL ' -5 ' MINUTES",
        "INTERVAL 1.5 SECONDS",
        "INTERVAL '1 day'",
        "INTERVAL '3 days 2 hours'",
        "INTERVAL '1 day 12:00:00'",
        "INTERVAL '1 day 12:00'",
        "INTERVAL '-1 day 12:00:00'",
        "INTERVAL '1 day -12:00:00'",
        "INTERVAL '12:34:56.789'",
        "INTERVAL '100:00:00'",
        "INTERVAL '2 hours ago'",
        "INTERVAL '1 week'",
        "INTERVAL 2 WEEKS",
        "INTERVAL '1 day 3 milliseconds 4 microseconds'",
        "INTERVAL '  1   DAY  '",
    ],
)
def test_agrees_with_duckdb(text: str) -> None:
    with duckdb.connect() as database:
        rows = database.execute(f"SELECT (TIMESTAMP '2000-01-01' + {text}) - TIMESTAMP '2000-01-01'").fetchall()
    assert rows == [(interval(text),)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INTERVAL 1 DAY 2 HOURS", timedelta(days=1, hours=2)),
        ("INTERVAL '1' DAY '2' HOURS", timedelta(days=1, hours=2)),
        ("INTERVAL 1 DAY -2 HOURS", timedelta(hours=22)),
        ("INTERVAL 1 DAY - 2 HOURS + 3 MINUTES", timedelta(hours=22, minutes=3)),
        ("INTERVAL -5 MINUTES", timedelta(minutes=-5)),
        ("INTERVAL -'5' MINUTES", timedelta(minutes=-5)),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("INTERVAL '-1 02:03:04' DAY TO SECOND", -timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("INTERVAL -'1 02' DAY TO HOUR", -timedelta(days=1, hours=2)),
        ("INTERVAL '1 02:03' DAY TO MINUTE", timedelta(days=1, hours=2, minutes=3)),
        ("INTERVAL '30:20' HOUR TO MINUTE", timedelta(hours=30, minutes=20)),
        ("INTERVAL '30:20:10' HOUR TO SECOND", timedelta(hours=30, minutes=20, seconds=10)),
        ("INTERVAL '90:01.25' MINUTE TO SECOND", timedelta(minutes=90, seconds=1.25)),
        ("INTERVAL '1 day 2 hours 3 minutes ago'", -timedelta(days=1, hours=2, minutes=3)),
        ("INTERVAL 106751991 DAYS", timedelta(days=106751991)),
    ],
)
def test_spellings_that_duckdb_has_not(text: str, expected: timedelta) -> None:
    assert interval(text) == expected


def test_what_follows_an_interval_and_is_no_part_of_it() -> None:
    for text in ("INTERVAL 1 DAY - A.ts", "INTERVAL '1 day' + 3", "INTERVAL 1 DAY - 2"):
        with pytest.raises(QueryError, match="cannot compute INTERVAL"):
            bound(text)
    expr = bound("A.ts - INTERVAL 1 DAY - INTERVAL 2 HOURS")
    assert isinstance(expr, Call)
    assert expr.function == "subtract"
    assert bind("SELECT INTERVAL '1 day' each FROM A, B WHERE A.k = B.k", STREAMS).output_schema.names == ["each"]


@pytest.mark.parametrize(
    ("text", "at", "primary"),
    [
        ("INTERVAL '1 day oops'", "oops", 'cannot read "oops" in the interval'),
        ("INTERVAL 'oops'", "oops", 'cannot read "oops" in the interval'),
        ("INTERVAL ''", "''", "the interval is empty"),
        ("INTERVAL '1 day 5'", "5", 'cannot read "5" in the interval'),
        ("INTERVAL '1 day ago 2 hours'", "2 hours", 'cannot read "2 hours" in the interval'),
        ("INTERVAL 'ago'", "ago", 'cannot read "ago" in the interval'),
        ("INTERVAL '1 dya'", "dya", 'unknown unit "dya" in an interval'),
        ("INTERVAL '1 day 12:60:00'", "12:60:00", "an interval has fewer than 60 minutes beside larger units"),
        ("INTERVAL '12:00:00.5.5'", "12:00:00.5.5", 'cannot read "12:00:00.5.5" in the interval'),
        ("INTERVAL '1 month'", "month", "intervals of months are not supported"),
        ("INTERVAL 1 YEAR", "YEAR", "intervals of years are not supported"),
        ("INTERVAL '1-2' YEAR TO MONTH", "YEAR", "intervals of years are not supported"),
        ("INTERVAL 5 FORTNIGHTS", "FORTNIGHTS", 'unknown unit "FORTNIGHTS" in an interval'),
        ("INTERVAL 5 + A.v", "5", "the interval has no unit"),
        ("INTERVAL '5'", "5", 'cannot read "5" in the interval'),
        ("INTERVAL 'five' DAYS", "'five'", '"five" is not a number'),
        ("INTERVAL '1 1' DAYS", "'1 1'", '"1 1" is not a number'),
        ("INTERVAL '1 24:00:00' DAY TO SECOND", "'1 24:00:00' DAY TO SECOND", "an interval has fewer than 24 hours"),
        ("INTERVAL '1:2' DAY TO SECOND", "'1:2' DAY TO SECOND", 'cannot read "1:2" as an interval of DAY TO SECOND'),
        ("INTERVAL '1' SECOND TO DAY", "'1' SECOND TO DAY", 'cannot read "1" as an interval of SECOND TO DAY'),
        ("INTERVAL 0.5 MICROSECONDS", "0.5 MICROSECONDS", "an interval must be a whole number of microseconds"),
        ("INTERVAL 106751992 DAYS", "106751992 DAYS", "the interval is too long"),
        ("INTERVAL 2147483647 DAYS * 2", "2147483647 DAYS", "the interval is too long"),
        ("INTERVAL 100000000 DAYS 100000000 DAYS", "100000000 DAYS 100000000 DAYS", "the interval is too long"),
        ("INTERVAL A.v DAYS", "INTERVAL A.v DAYS", "cannot read the interval"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_stands(text: str, at: str, primary: str) -> None:
    with pytest.raises(QueryError) as caught:
        bound(text)
    error = caught.value
    assert error.primary.startswith(primary)
    assert error.span is not None
    query = f"SELECT {text} AS x FROM A, B WHERE A.k = B.k"
    assert query[error.span.start : error.span.end] == at
