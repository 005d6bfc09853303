"""What the binder makes of queries with groups, and what it refuses about them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.errors import QueryError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.expressions import describe
from watersmeet.model.streams import Stream
from watersmeet.plan.query import Query

SCHEMA = "k BIGINT, i INT, d DECIMAL(10, 2), wide DECIMAL(34, 2), s STRING, f FLOAT, ts TIMESTAMP"
TAGS = pa.field("tags", pa.list_(pa.string()))
STREAMS = {name: Stream(name, parse_schema(SCHEMA).append(TAGS)) for name in "AB"}
AB = "FROM A [RANGE 10 SECONDS SLIDE 5 SECONDS], B [RANGE 20 SECONDS] WHERE A.k = B.k"
A = "FROM A [RANGE 10 SECONDS SLIDE 5 SECONDS]"


def bound(text: str) -> Query:
    return bind(text, STREAMS)


def groups(query: Query) -> list[str]:
    assert query.group_by is not None
    return [describe(expr) for expr in query.group_by.groups]


def aggregates(query: Query) -> list[str]:
    assert query.group_by is not None
    return [entry.text for entry in query.group_by.aggregates]


@pytest.mark.parametrize(
    ("aggregate", "kind"),
    [
        ("COUNT(*)", pa.int64()),
        ("COUNT(s)", pa.int64()),
        ("SUM(i)", pa.int64()),
        ("SUM(d)", pa.decimal128(20, 2)),
        ("SUM(wide)", pa.decimal128(38, 2)),
        ("SUM(f)", pa.float64()),
        ("SUM(1.5)", pa.decimal128(12, 1)),
        ("AVG(1.5 * A.i)", pa.decimal128(17, 5)),
        ("SUM(1.5e0)", pa.float64()),
        ("AVG(i)", pa.float64()),
        ("AVG(d)", pa.decimal128(14, 6)),
        ("AVG(wide)", pa.decimal128(38, 6)),
        ("MIN(s)", pa.string()),
        ("MAX(f)", pa.float32()),
        ("MAX(ts)", pa.timestamp("us", "UTC")),
        ("SUM(i) + COUNT(*)", pa.int64()),
        ("SUM(d) / 2", pa.float64()),
    ],
)
def test_types_are_those_of_spark(aggregate: str, kind: pa.DataType) -> None:
    assert bound(f"SELECT k, {aggregate} AS x {A} GROUP BY k").output_schema.field("x").type == kind


def test_the_boundary_is_the_last_column_unless_it_is_selected() -> None:
    assert bound(f"SELECT COUNT(*) AS n, A.k {AB} GROUP BY A.k").output_schema.names == ["n", "k", "window_end"]
    assert bound(f"SELECT Window_End, COUNT(*) AS n {AB}").output_schema.names == ["window_end", "n"]
    named = bound(f"SELECT k, window_end AS until {A} GROUP BY k, window_end")
    assert named.output_schema == pa.schema([("k", pa.int64()), ("until", pa.timestamp("us", "UTC"))])
    assert groups(named) == ["A.k"]


def test_without_windows_there_is_no_boundary() -> None:
    query = bound("SELECT k, COUNT(*) AS n FROM A GROUP BY k")
    assert query.output_schema.names == ["k", "n"]
    assert query.group_by is not None
    assert query.group_by.slide_us is None


def test_a_slide_is_given_once_for_all_windows() -> None:
    query = bound(f"SELECT COUNT(*) {AB}")
    assert query.group_by is not None
    assert query.group_by.slide_us == 5_000_000


@pytest.mark.parametrize("by", ["k % 3", "p", "1", "A.k % 3"])
def test_a_group_is_named_by_its_expression_its_alias_or_its_number(by: str) -> None:
    query = bound(f"SELECT k % 3 AS p, k % 3 + 1 AS q, MAX(i) FROM A GROUP BY {by}")
    assert groups(query) == ["modulo(A.k, 3)"]
    assert query.output_schema.names == ["p", "q", "MAX(i)"]


def test_equal_aggregates_are_one() -> None:
    query = bound("SELECT SUM(i), AVG(i), COUNT(i), SUM(i) * 2 AS twice FROM A HAVING COUNT(i) > 1 AND SUM(i) > 2")
    assert aggregates(query) == ["SUM(cast(A.i as int64))", "AVG(cast(A.i as int64))", "COUNT(A.i)"]
    assert query.group_by is not None
    assert [part.function for part in query.group_by.partials] == ["sum", "count", "count"]


def test_distinct_groups_by_all_that_is_selected() -> None:
    query = bound(f"SELECT DISTINCT A.k, A.s || B.s AS both, A.k AS again {AB}")
    assert groups(query) == ["A.k", "concat(A.s, B.s)"]
    assert aggregates(query) == []
    assert query.output_schema.names == ["k", "both", "again", "window_end"]


def test_what_is_distinct_may_have_expressions_over_the_boundary() -> None:
    query = bound(f"SELECT DISTINCT k, window_end - INTERVAL 5 SECONDS AS begin, CAST(window_end AS STRING) AS t {A}")
    assert groups(query) == ["A.k"]
    assert query.output_schema.names == ["k", "begin", "t", "window_end"]
    assert query.output_schema.field("t").type == pa.string()


REFUSED = [
    (f"SELECT A.i, COUNT(*) {AB} GROUP BY A.k", '"A.i" is neither in GROUP BY nor in an aggregate', "A.i"),
    (f"SELECT k + i {A} GROUP BY k", '"i" is neither in GROUP BY nor in an aggregate', "i"),
    (f"SELECT k {A} GROUP BY k HAVING i > 1", '"i" is neither in GROUP BY nor in an aggregate', "i"),
    (f"SELECT A.k {AB} HAVING A.k > 1", '"A.k" is neither in GROUP BY nor in an aggregate', "A.k"),
    (f"SELECT * {A} GROUP BY k", '"A.i" is neither in GROUP BY nor in an aggregate', "*"),
    (f"SELECT SUM(s) {A}", "SUM needs a number, not a value of type STRING", "s"),
    (f"SELECT AVG(ts) {A}", "AVG needs a number, not a value of type TIMESTAMP", "ts"),
    (f"SELECT MIN(tags) {A}", "MIN cannot order values of type", "tags"),
    (f"SELECT SUM(MAX(i)) {A}", "SUM of MAX is not supported", "MAX(i)"),
    (f"SELECT COUNT(DISTINCT i) {A}", "COUNT(DISTINCT ..) is not supported", "COUNT(DISTINCT i)"),
    (f"SELECT STDDEV(i) {A}", "aggregate function STDDEV is not supported", "STDDEV(i)"),
    (f"SELECT A.k {AB} AND SUM(A.i) > 1 GROUP BY A.k", "WHERE cannot have the aggregate SUM", "SUM(A.i)"),
    ("SELECT A.k FROM A JOIN B ON COUNT(*) = A.k GROUP BY A.k", "ON cannot have the aggregate COUNT", "COUNT(*)"),
    (f"SELECT k {A} GROUP BY SUM(i)", "GROUP BY cannot have the aggregate SUM", "SUM(i)"),
    (f"SELECT k {A} GROUP BY 2", "GROUP BY 2 names no entry of the select list", "2"),
    (f"SELECT k {A} GROUP BY tags", "cannot group by values of type", "tags"),
    (f"SELECT DISTINCT COUNT(*) {A}", "DISTINCT does not go with GROUP BY and aggregates", "DISTINCT"),
    (
        f"SELECT DISTINCT k, ts < window_end AS early {A}",
        "SELECT DISTINCT cannot have window_end together with columns",
        "ts < window_end",
    ),
    (f"SELECT MAX(window_end) {A}", "MAX cannot have window_end", "window_end"),
    (f"SELECT i AS window_end {A} GROUP BY i", 'two output columns are named "window_end"', "SELECT"),
    (
        "SELECT k FROM A [RANGE 10 SECONDS SLIDE 3 SECONDS] GROUP BY k",
        "a window must be a whole number of slides long",
        "[RANGE 10 SECONDS SLIDE 3 SECONDS]",
    ),
    ("SELECT k FROM A x [RANGE 10 SECONDS] GROUP BY k", "windows of a query with GROUP BY need a slide", "A x"),
    (
        "SELECT A.k FROM A [RANGE 4 SECONDS SLIDE 1 SECOND], B [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE A.k = B.k "
        "GROUP BY A.k",
        "a query has one slide",
        "[RANGE 4 SECONDS SLIDE 2 SECONDS]",
    ),
    (f"SELECT A.k {AB}", "SLIDE is for queries with GROUP BY", "[RANGE 10 SECONDS SLIDE 5 SECONDS]"),
    (
        "SELECT k FROM A [RANGE 1 DAY SLIDE 0 DAYS] GROUP BY k",
        "a window's slide must be a positive",
        "[RANGE 1 DAY SLIDE 0 DAYS]",
    ),
]


@pytest.mark.parametrize(("text", "primary", "piece"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_refuses_and_points_at_the_place(text: str, primary: str, piece: str) -> None:
    with pytest.raises(QueryError) as caught:
        bound(text)
    error = caught.value
    assert primary in error.primary
    assert error.span is not None
    assert text[error.span.start : error.span.end] == piece
