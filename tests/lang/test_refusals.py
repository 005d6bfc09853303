"""Query text that is refused: the primary line, and the piece of text that the error underlines."""

from __future__ import annotations

import pytest

from watersmeet.errors import QueryError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream

SCHEMAS = {
    "A": "k BIGINT, name STRING, price DECIMAL(38, 20), f DOUBLE, flag BOOLEAN, day DATE, ts TIMESTAMP",
    "B": "k BIGINT, name STRING, f DOUBLE, flag BOOLEAN, ts BIGINT",
    "bids": "auction BIGINT, price BIGINT, ts TIMESTAMP",
}
STREAMS = {name: Stream(name, parse_schema(schema)) for name, schema in SCHEMAS.items()}
AB = "FROM A, B WHERE A.k = B.k"

REFUSED: list[tuple[str, str, str]] = [
    # text, primary line (a fragment), the underlined piece
    (f"SELECT A.k {AB} ORDER BY A.k", "ORDER BY is not supported", "ORDER BY"),
    (f"SELECT A.k {AB} LIMIT 5", "LIMIT is not supported", "LIMIT"),
    (f"SELECT A.k {AB} UNION ALL SELECT 1", "UNION is not supported", "UNION"),
    (f"WITH x AS (SELECT 1) SELECT A.k {AB}", "WITH is not supported", "WITH"),
    ("INSERT INTO A VALUES (1)", "a query must be a SELECT", "INSERT"),
    ("EXPLAIN SELECT 1", "a query must be a SELECT", "EXPLAIN"),
    (f"SELECT sum(A.k) OVER (PARTITION BY A.k) {AB}", "window functions", "sum(A.k) OVER (PARTITION BY A.k)"),
    # joins
    ("SELECT A.k FROM A LEFT OUTER JOIN B ON A.k = B.k", "LEFT OUTER JOIN is not supported", "LEFT OUTER JOIN"),
    ("SELECT A.k FROM A FULL JOIN B ON A.k = B.k", "FULL JOIN is not supported", "FULL JOIN"),
    ("SELECT A.k FROM A left semi join B ON A.k = B.k", "LEFT SEMI JOIN is not supported", "left semi join"),
    ("SELECT A.k FROM A LEFT ANTI JOIN B ON A.k = B.k", "LEFT ANTI JOIN is not supported", "LEFT ANTI JOIN"),
    ("SELECT A.k FROM A NATURAL JOIN B", "NATURAL JOIN is not supported", "NATURAL JOIN"),
    ("SELECT A.k FROM A JOIN B USING (k, name)", "USING is not supported", "USING (k, name)"),
    ("SELECT k FROM A", "a join needs two streams or more", "A"),
    # windows
    ("SELECT A.k FROM A [ROWS 0], B WHERE A.k = B.k", "the rows of a window are a whole number from 1", "[ROWS 0]"),
    ("SELECT A.k FROM A [rows -3], B WHERE A.k = B.k", "the rows of a window are a whole number from 1", "[rows -3]"),
    ("SELECT A.k FROM A [ROWS 1.5], B WHERE A.k = B.k", "the rows of a window are a whole number from 1", "[ROWS 1.5]"),
    ("SELECT A.k FROM A [ROWS], B WHERE A.k = B.k", "the rows of a window are a whole number from 1", "[ROWS]"),
    ("SELECT A.k FROM A [ROWS 5 SECONDS], B", "the rows of a window are a whole number from 1", "[ROWS 5 SECONDS]"),
    (f"SELECT A.k FROM A [ROWS {10**12 + 1}], B", "the rows of a window are a whole number", f"[ROWS {10**12 + 1}]"),
    ("SELECT A.k FROM A [ROWS 5], B [ROWS 2] WHERE A.k < B.k", "[ROWS n] needs equalities that connect", "[ROWS 5]"),
    ("SELECT COUNT(*) FROM A, B [ROWS 2] WHERE A.k = B.k", "does not go together with GROUP BY", "[ROWS 2]"),
    ("SELECT DISTINCT A.k FROM A, B x [ROWS 2] WHERE A.k = x.k", "does not go together with GROUP BY", "[ROWS 2]"),
    ("SELECT A.k FROM A [ROWS 3]", "a join needs two streams or more", "A"),
    ("SELECT A.k FROM A x [RANGE 5 MINUTS], B", 'unknown unit "MINUTS" in a window', "MINUTS"),
    ("SELECT A.k FROM A [RANGE 5], B", 'cannot read window "[RANGE 5]"', "[RANGE 5]"),
    ("SELECT A.k FROM A [LAST 5 MINUTES], B", "cannot read window", "[LAST 5 MINUTES]"),
    ("SELECT A.k FROM A [RANGE 0 SECONDS], B", "must be a positive whole number", "[RANGE 0 SECONDS]"),
    ("SELECT A.k FROM A [RANGE 5 SECONDS", "window has no closing bracket", "[RANGE 5 SECONDS"),
    ("SELECT A.k FROM A [UNBOUNDED] x [UNBOUNDED], B", "a stream can have one window", "[UNBOUNDED]"),
    # subqueries
    ("SELECT x.k FROM (SELECT * FROM A) x, B", "subqueries are not supported", "(SELECT * FROM A) x"),
    (f"SELECT A.k {AB} AND A.k IN (SELECT 1)", "subqueries are not supported", "A.k IN (SELECT 1)"),
    (f"SELECT A.k {AB} AND EXISTS (SELECT 1)", "subqueries are not supported", "EXISTS (SELECT 1)"),
    (f"SELECT (SELECT 1) {AB}", "subqueries are not supported", "(SELECT 1)"),
    # names
    ("SELECT 1 FROM A, bid WHERE A.k = bid.k", 'unknown stream "bid"', "bid"),
    ("SELECT bids.prise FROM A, bids WHERE A.k = auction", 'stream "bids" has no column "prise"', "bids.prise"),
    (f"SELECT nme {AB}", 'no stream of this query has a column "nme"', "nme"),
    (f"SELECT name {AB}", 'column "name" is ambiguous', "name"),
    (f"SELECT z.k {AB}", 'unknown alias "z"', "z"),
    (f"SELECT A.`K` {AB}", 'stream "A" has no column "K"', "A.`K`"),
    (f"SELECT A.k.x {AB}", 'cannot read "A.k.x" as a column', "A.k.x"),
    (f"SELECT lowr(A.name) {AB}", 'unknown function "lowr"', "lowr(A.name)"),
    (f"SELECT year(A.ts) {AB}", 'unknown function "year"', "year(A.ts)"),
    ("SELECT 1 FROM A, a WHERE A.k = a.k", 'two inputs are named "A"', "a"),
    (f"SELECT A.k, B.k {AB}", 'two output columns are named "k"', "B.k"),
    (f"SELECT A.*, B.f AS F {AB}", 'two output columns are named "F"', "B.f AS F"),
    # types
    (f"SELECT A.k {AB} AND A.name < 5", "cannot compare STRING with BIGINT", "A.name < 5"),
    ("SELECT A.k FROM A, B WHERE A.k = B.name", "cannot compare BIGINT with STRING", "A.k = B.name"),
    (f"SELECT A.k {AB} AND A.ts - A.day < 5", "cannot compare INTERVAL with BIGINT", "A.ts - A.day < 5"),
    (f"SELECT A.name + 1 {AB}", "cannot compute STRING + BIGINT", "A.name + 1"),
    (f"SELECT A.price % A.price {AB}", "cannot compute DECIMAL(38, 20) % DECIMAL(38, 20)", "A.price % A.price"),
    (f"SELECT -A.name {AB}", "cannot negate a value of type STRING", "-A.name"),
    (f"SELECT A.k {AB} AND A.k + B.k", "AND needs a condition, not a value of type BIGINT", "A.k + B.k"),
    ("SELECT A.k FROM A, B WHERE A.k", "WHERE needs a condition", "A.k"),
    ("SELECT A.k FROM A JOIN B ON A.k + 1", "ON needs a condition", "A.k + 1"),
    (f"SELECT A.k {AB} AND NOT A.name", "NOT needs a condition", "A.name"),
    (f"SELECT upper(A.k) {AB}", "UPPER needs text, not a value of type BIGINT", "A.k"),
    (f"SELECT sqrt(A.name) {AB}", "SQRT needs a number, not a value of type STRING", "A.name"),
    (f"SELECT coalesce(A.k, A.name) {AB}", "COALESCE mixes BIGINT with STRING", "A.name"),
    (f"SELECT A.k {AB} AND A.k IN (1, 'x')", "IN mixes BIGINT with STRING", "'x'"),
    (f"SELECT A.k {AB} AND A.ts < 'yesterday'", '"yesterday" is not a TIMESTAMP', "'yesterday'"),
    (f"SELECT DATE '2024-13-01' AS d {AB}", '"2024-13-01" is not a DATE', "DATE '2024-13-01'"),
    (f"SELECT INTERVAL 5 MONTHS AS i {AB}", "intervals of months are not supported", "MONTHS"),
    (f"SELECT CAST(A.ts AS INT) {AB}", "cannot cast TIMESTAMP to INT", "CAST(A.ts AS INT)"),
    (f"SELECT TRY_CAST(A.k AS INT) {AB}", 'unknown function "TRY_CAST"', "TRY_CAST(A.k AS INT)"),
    (f"SELECT A.k {AB} AND A.name LIKE B.name", "the pattern of LIKE must be a string literal", "B.name"),
    (f"SELECT A.k {AB} AND A.name RLIKE B.name", "the pattern of RLIKE must be a string literal", "B.name"),
    (f"SELECT A.k {AB} AND A.name RLIKE '(a'", '"(a" is not a regular expression', "'(a'"),
    (f"SELECT A.k {AB} AND A.name LIKE 'a\\\\'", "the pattern of LIKE has a backslash", "'a\\\\'"),
    (f"SELECT A.k {AB} AND A.name ILIKE 'a\\\\q'", "the pattern of ILIKE has a backslash", "'a\\\\q'"),
    (f"SELECT 1e400 AS x {AB}", '"1e400" is too large for a DOUBLE', "1e400"),
    # operators are called by their text, and not by a function that they begin with
    (
        f"SELECT CAST(A.k AS STRING) LIKE ANY ('1', '2') AS x {AB}",
        "\"ANY ('1', '2')\" is not supported here",
        "ANY ('1', '2')",
    ),
    (f"SELECT upper(A.name) COLLATE x {AB}", "COLLATE is not supported", "upper(A.name)"),
    (f"SELECT CURRENT_DATE AS x {AB}", '"CURRENT_DATE" is not supported here', "CURRENT_DATE"),
    (f"SELECT lower(A.name)[0] AS x {AB}", '"lower(A.name)[0]" is not supported here', "lower(A.name)[0]"),
    (f"SELECT A.k & 1 {AB}", '"A.k & 1" is not supported here', "A.k & 1"),
    (f"SELECT A.k {AB} AND A.f <=> B.f", '"A.f <=> B.f" is not supported here', "A.f <=> B.f"),
    # text that cannot be read
    ("SELECT A.k FROM A, B WHERE A.k = = B.k", 'cannot read the query at "="', "="),
    (f"SELECT A.k\n{AB}\n  SELECT", 'cannot read the query at "SELECT"', "SELECT"),
    (f"SELECT A.k {AB} AND A.name = 'x", "' is opened and never closed", "'x"),
    (f"SELECT A.k,, B.k {AB}", "cannot read the select list", ","),
    (f"SELECT A.k {AB}; SELECT 2", "more than one statement", "SELECT 2"),
    (f"SELECT * EXCEPT (k) {AB}", "* takes no EXCEPT", "* EXCEPT (k)"),
]


def refusal(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        bind(text, STREAMS, {"near": lambda *_: None})
    return caught.value


@pytest.mark.parametrize(("text", "primary", "piece"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_refuses_and_points_at_the_place(text: str, primary: str, piece: str) -> None:
    error = refusal(text)
    assert primary in error.primary
    assert error.span is not None
    assert error.text == text
    assert text[error.span.start : error.span.end] == piece
    assert not error.primary.endswith(".")


def test_every_refusal_says_what_is_supported_or_what_to_do() -> None:
    silent = [text for text, _, _ in REFUSED if not (error := refusal(text)).detail and not error.hint]
    assert silent == [
        f"SELECT CAST(A.ts AS INT) {AB}",
        f"SELECT A.k {AB} AND A.name LIKE B.name",
        f"SELECT A.k {AB} AND A.name RLIKE B.name",
        f"SELECT A.k {AB} AND A.name = 'x",
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT 1 FROM A, bid WHERE A.k = 1", 'Did you mean "bids"?'),
        ("SELECT bids.prise FROM A, bids WHERE A.k = auction", 'Did you mean "price"?'),
        (f"SELECT lowr(A.name) {AB}", 'Did you mean "LOWER"?'),
        (f"SELECT A.k {AB} AND nera(A.k)", 'Did you mean "near"?'),
        ("SELECT A.k FROM A x [RANGE 5 MINUTS], B", 'Did you mean "MINUTES"?'),
    ],
)
def test_a_near_name_is_offered(text: str, hint: str) -> None:
    assert refusal(text).hint == hint


def test_another_name_is_offered_for_what_has_one_already() -> None:
    assert refusal(f"SELECT A.k, B.k + 1 AS k {AB}").hint == "Rename one, such as B.k + 1 AS x."


def test_an_ambiguous_column_lists_its_candidates() -> None:
    assert refusal(f"SELECT name {AB}").detail == "It may be A.name or B.name."


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing"])
def test_empty_text_is_refused(text: str) -> None:
    assert refusal(text).primary == "the query is empty"


def test_the_second_line_is_underlined_where_the_error_is() -> None:
    rendered = refusal("SELECT A.k\nFROM A, B\nWHERE A.k = B.kk").render().split("\n")
    assert rendered[1:3] == ["  line 3: WHERE A.k = B.kk", " " * 22 + "^^^^"]
