"""Which conditions are windows for a pair of inputs, and what they amount to."""

from __future__ import annotations

import pytest

from watersmeet.errors import QueryError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.plan.query import Query

SCHEMAS = {
    "A": "k BIGINT, other TIMESTAMP, ts TIMESTAMP",
    "B": "k BIGINT, other TIMESTAMP, ts TIMESTAMP",
    "N": "k BIGINT, other TIMESTAMP, ts TIMESTAMP_NTZ",
    "X": "k BIGINT, n INT, f DOUBLE, ts BIGINT",
    "Y": "k BIGINT, n INT, f DOUBLE, ts BIGINT",
}
STREAMS = {name: Stream(name, parse_schema(schema)) for name, schema in SCHEMAS.items()}
MINUTE = 60_000_000


def where(condition: str, tables: str = "A, B") -> Query:
    first, second = (table.split()[0] for table in tables.split(", ")[:2])
    keys = f"{first}.k = {second}.k" + ("" if tables.count(",") == 1 else f" AND {second}.k = C.k")
    return bind(f"SELECT {first}.k FROM {tables} WHERE {keys} AND {condition}", STREAMS)


def bounds(query: Query) -> dict[str, int]:
    """By pair, such as AB: how much later B can be than A."""
    return {f"{bound.first}{bound.second}": bound.most_us for bound in query.pair_bounds}


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("ABS(A.ts - B.ts) < INTERVAL 5 MINUTES", {"AB": 5 * MINUTE - 1, "BA": 5 * MINUTE - 1}),
        ("ABS(B.ts - A.ts) <= INTERVAL '5' MINUTE", {"AB": 5 * MINUTE, "BA": 5 * MINUTE}),
        ("INTERVAL 5 MINUTES > abs(A.ts - B.ts)", {"AB": 5 * MINUTE - 1, "BA": 5 * MINUTE - 1}),
        (
            "ABS(A.ts - B.ts - INTERVAL 1 MINUTE) < INTERVAL 5 MINUTES",
            {"AB": 4 * MINUTE - 1, "BA": 6 * MINUTE - 1},
        ),
        ("A.ts BETWEEN B.ts - INTERVAL 1 HOUR AND B.ts + INTERVAL 1 MINUTE", {"AB": 60 * MINUTE, "BA": MINUTE}),
        ("A.ts BETWEEN B.ts AND INTERVAL 1 MINUTE + B.ts", {"AB": 0, "BA": MINUTE}),
        ("A.ts >= B.ts", {"AB": 0}),
        ("A.ts > B.ts", {"AB": -1}),
        ("A.ts < B.ts + INTERVAL 5 MINUTES", {"BA": 5 * MINUTE - 1}),
        ("A.ts + INTERVAL 1 MINUTE <= B.ts - INTERVAL 1 MINUTE", {"BA": -2 * MINUTE}),
        ("A.ts - B.ts <= INTERVAL -5 MINUTES", {"BA": -5 * MINUTE}),
        ("-(A.ts - B.ts) < INTERVAL 5 MINUTES", {"AB": 5 * MINUTE - 1}),
        ("A.ts - INTERVAL 1 MINUTE = B.ts", {"AB": -MINUTE, "BA": MINUTE}),
        ("CAST(A.ts AS TIMESTAMP_NTZ) >= CAST(B.ts AS TIMESTAMP_NTZ)", {"AB": 0}),
        ("A.other < B.ts", {}),
        ("A.ts < B.other", {}),
        ("A.ts BETWEEN B.ts AND B.other", {"AB": 0}),
        ("(A.ts < B.ts OR A.k > 5)", {}),
        ("NOT A.ts < B.ts", {}),
        ("A.ts <> B.ts", {}),
        ("A.ts - B.ts < A.other - B.other", {}),
        ("ABS(A.ts - B.ts) > INTERVAL 5 MINUTES", {}),
        ("A.ts > TIMESTAMP '2024-01-01 00:00:00'", {}),
        ("CAST(A.ts AS DATE) < CAST(B.ts AS DATE)", {}),
        ("CASE WHEN A.k > 1 THEN A.ts ELSE B.ts END < B.ts", {}),
    ],
)
def test_timestamps(condition: str, found: dict[str, int]) -> None:
    assert bounds(where(condition)) == found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("ABS(X.ts - Y.ts) < 10", {"XY": 9, "YX": 9}),
        ("X.ts BETWEEN Y.ts - 7 AND Y.ts + 2 * 6", {"XY": 7, "YX": 12}),
        ("X.ts - Y.ts + 5 <= 12 - 3", {"YX": 4}),
        ("-5 < X.ts - Y.ts", {"XY": 4}),
        ("X.ts + 0 > Y.ts - -3", {"XY": -4}),
        ("2 * X.ts < Y.ts + X.ts", {}),
        ("X.ts + X.ts < Y.ts + X.ts + 3", {"YX": 2}),
        ("X.ts < Y.ts + 1.5", {}),
        ("X.ts / 1000 < Y.ts / 1000", {}),
        ("X.ts < Y.ts + X.n", {}),
        ("X.f < Y.ts", {}),
        ("X.ts - 9223372036854775807 - 9223372036854775807 <= Y.ts", {"YX": 2 * 9223372036854775807}),
        ("X.ts - 9223372036854775807 * 2 <= Y.ts", {}),
    ],
)
def test_numbers(condition: str, found: dict[str, int]) -> None:
    assert bounds(where(condition, "X, Y")) == found


def test_a_timestamp_without_a_zone_is_read_as_utc() -> None:
    assert bounds(where("A.ts <= N.ts", "A, N")) == {"NA": 0}


def test_a_window_stays_a_predicate_and_an_equality_a_key() -> None:
    query = where("ABS(A.ts - B.ts) < INTERVAL 5 MINUTES AND A.ts = B.ts")
    assert len(query.predicates) == 1
    assert len(query.keys) == 2


def test_windows_of_aliases_are_of_the_aliases() -> None:
    query = bind("SELECT p.k FROM A p, A q WHERE p.k = q.k AND p.ts BETWEEN q.ts AND q.ts + INTERVAL 1 MINUTE", STREAMS)
    assert bounds(query) == {"pq": 0, "qp": MINUTE}


def test_windows_close_over_all_pairs_with_those_of_single_inputs() -> None:
    query = where("ABS(A.ts - B.ts) <= INTERVAL 1 MINUTE", "A, B, N C [RANGE 10 SECONDS]")
    assert query.reach.most_us("C", "A") == MINUTE // 6 - 1
    assert query.reach.most_us("A", "C") is None
    query = where("ABS(A.ts - B.ts) <= INTERVAL 1 MINUTE AND C.ts <= B.ts", "A, B, N C")
    assert query.reach.most_us("A", "C") == MINUTE


@pytest.mark.parametrize(
    ("tables", "condition", "piece", "told"),
    [
        ("A, B", "A.ts > B.ts AND B.ts > A.ts", "A.ts > B.ts", "A.ts < B.ts and B.ts < A.ts"),
        ("A, B", "ABS(A.ts - B.ts) < INTERVAL 0 SECONDS", "ABS(A.ts - B.ts) < INTERVAL 0 SECONDS", "A.ts < B.ts"),
        (
            "A [RANGE 5 MINUTES], B",
            "B.ts >= A.ts + INTERVAL 5 MINUTES",
            "B.ts >= A.ts + INTERVAL 5 MINUTES",
            "[RANGE 5 MINUTES] of A",
        ),
        (
            "A, B, N C",
            "A.ts < B.ts AND B.ts < C.ts AND C.ts <= A.ts + INTERVAL 1 MICROSECOND",
            "A.ts < B.ts",
            "C.ts <= A.ts + 1 microsecond",
        ),
    ],
)
def test_windows_that_leave_no_result_are_refused(tables: str, condition: str, piece: str, told: str) -> None:
    with pytest.raises(QueryError, match="leave no result") as raised:
        where(condition, tables)
    error = raised.value
    assert error.text[error.span.start : error.span.end] == piece
    assert told in (error.detail or "")
