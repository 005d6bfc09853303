"""Expressions against DuckDB, and the rules of ours that DuckDB does not share."""

from __future__ import annotations

import math
import struct
import warnings
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import InputError, QueryError, UserFunctionError
from watersmeet.kernel.evaluate import FUNCTIONS, evaluate, satisfied
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.expressions import Column, Expr, Literal, PythonCall
from watersmeet.model.streams import Stream

NAN, INF = math.nan, math.inf
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]  # as some divisions make it
SCHEMA = parse_schema(
    "i INT, j BIGINT, f DOUBLE, d DECIMAL(10, 2), s STRING, t STRING, p BOOLEAN, q BOOLEAN, day DATE, ts TIMESTAMP, "
    "u TIMESTAMP, n TIMESTAMP_NTZ"
)
ROWS: list[tuple[Any, ...]] = [
    (1, 10, 1.5, "1.25", "Ada", "ada", True, True, (2024, 1, 1), (2024, 1, 1, 0, 0), (2024, 1, 1, 0, 5), (2024, 1, 1)),
    (-7, 3, -2.5, "-9.99", " x y ", "%", True, False, (2023, 2, 28), (2024, 1, 2, 3, 4), (2023, 1, 1), (1999, 12, 31)),
    (0, 0, 0.0, "0.00", "", "x", False, True, (1969, 7, 20), (1969, 7, 20), (2024, 1, 2), (2024, 1, 1, 0, 0, 1)),
    (5, -2, 100.25, "10.05", "äöü", "a_c", None, True, (2024, 2, 29), (2024, 2, 29), None, (2024, 2, 29)),
    (None,) * 12,
    (None, 7, None, "3.50", "abc", None, None, False, None, (2024, 1, 1), (2024, 1, 1), None),
]


def _table() -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for row in ROWS:
        for field, value in zip(SCHEMA, row, strict=True):
            if value is not None and pa.types.is_decimal(field.type):
                value = Decimal(value)
            elif value is not None and pa.types.is_date(field.type):
                value = date(*value)
            elif value is not None and pa.types.is_timestamp(field.type):
                value = datetime(*value, tzinfo=UTC if field.type.tz else None)
            columns[field.name].append(value)
    return pa.table(columns, schema=SCHEMA)


TABLE = _table()
BATCH = pa.RecordBatch.from_arrays(
    [column.combine_chunks() for column in TABLE.columns], names=[f"A.{name}" for name in TABLE.schema.names]
)


def expression(text: str, schema: pa.Schema = SCHEMA) -> Expr:
    stream = Stream("S", schema.append(pa.field("time", pa.int64())), time="time")
    return bind(f"SELECT {text} AS x FROM S A, S B WHERE A.time = B.time", {"S": stream}).select[0].expr


def ours(text: str) -> list[Any]:
    expr = expression(text)
    result = evaluate(expr, BATCH)
    assert result.type == expr.type
    assert len(result) == BATCH.num_rows
    return list(result.to_pylist())


def duck(text: str) -> list[Any]:
    connection = duckdb.connect()
    connection.execute(
        "SET TimeZone = 'UTC'; SET ieee_floating_point_ops = false; SET error_on_division_by_zero = false"
    )
    connection.register("A", TABLE)
    return [row[0] for row in connection.execute(f"SELECT {text} FROM A").fetchall()]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        return left is not None and right is not None and math.isclose(left, right, rel_tol=1e-12)
    return bool(left == right) and (left is None) == (right is None)


@pytest.mark.parametrize(
    "text",
    [
        "A.i + A.j", "A.i - A.j", "A.i * A.j", "A.i / A.j", "A.i % A.j", "A.f % 2", "A.f / A.i", "-A.i", "-A.d",
        "A.d + A.i", "A.d - 1.5", "A.d % 0.7", "A.i % 1.5", "A.j % -2.5", "A.d % A.d", "A.d % A.i", "A.d = 0.5 + 0.75",
        "A.d BETWEEN 1.2 + 0.05 AND 2 * 1.5", "A.f < 0.5 * 3", "A.i * 0.1", "A.d IN (0.75 + 0.5, 1e1)",
        "GREATEST(A.i, 1.5)", "A.d * A.d", "A.d + A.f", "A.d * 2", "A.i + 1.5", "A.j + NULL", "-NULL", "7 % A.j",
        "7 % 0", "A.i = A.j", "A.i <> A.j",
        "A.i != 1", "A.i < A.j", "A.d >= 1.25", "A.d > A.i", "A.f <= A.d", "A.s > A.t",
        "A.p AND A.q", "A.p OR A.q", "NOT A.p", "A.p AND NULL", "A.q OR NULL", "A.p = A.q", "(A.p OR A.q) AND A.i > 0",
        "A.i IS NULL", "A.i IS NOT NULL", "A.p IS TRUE", "A.p IS NOT FALSE", "NULL IS NULL",
        "A.i IN (1, 5)", "A.i IN (1, NULL)", "A.i NOT IN (1, 5)", "A.i IN (A.j, 5)", "A.s IN ('Ada', A.t)",
        "A.d IN (1.25, 3)", "NULL IN (1, 2)", "1 IN (2, 1)",
        "A.i BETWEEN -7 AND 1", "A.i NOT BETWEEN A.j AND 5", "A.day BETWEEN '2024-01-01' AND '2024-12-31'",
        "A.s LIKE 'A%'", "A.s LIKE '%b_'", "A.s NOT LIKE '%y%'", "A.s ILIKE 'ADA'", "A.s LIKE ''", "A.s LIKE NULL",
        "CASE WHEN A.p THEN A.i WHEN A.q THEN 99 ELSE A.f END", "CASE A.i WHEN 1 THEN 'one' WHEN 5 THEN 'five' END",
        "CASE WHEN NULL THEN 1 ELSE 2 END", "IF(A.p, A.d, 1.5)", "NULLIF(A.i, 5)", "NULLIF(A.i, A.j)",
        "CAST(A.i AS DOUBLE)", "CAST(A.i AS STRING)", "CAST(A.i AS DECIMAL(5, 1))", "CAST(A.d AS DECIMAL(5, 1))",
        "CAST(A.p AS INT)", "CAST(A.i AS BOOLEAN)", "CAST('12' AS INT)", "CAST('2.345' AS DECIMAL(5, 2))",
        "CAST(A.day AS STRING)", "CAST(A.p AS STRING)", "CAST(A.ts AS DATE)", "CAST(NULL AS INT)",
        "COALESCE(A.i, A.j)", "COALESCE(A.i, A.d, 0)", "COALESCE(A.s, 'none')", "COALESCE(A.u, A.ts)",
        "ABS(A.i)", "ABS(A.d)", "ABS(A.f)", "ROUND(A.f)", "ROUND(A.d, 1)", "ROUND(A.d)", "ROUND(A.f, 1)", "FLOOR(A.f)",
        "CEIL(A.f)", "FLOOR(A.d)", "CEIL(A.d)", "FLOOR(A.i)", "SQRT(ABS(A.i))", "POWER(A.i, 2)", "EXP(A.i)",
        "LN(ABS(A.i) + 1)",
        "LOWER(A.s)", "UPPER(A.s)", "LENGTH(A.s)", "TRIM(A.s)", "LTRIM(A.s)", "RTRIM(A.s)", "A.s || A.t", "A.s || '!'",
        "SUBSTRING(A.s, 2)", "SUBSTRING(A.s, 1, 2)", "SUBSTRING(A.s, 2, 100)", "SUBSTRING(A.s, -2)",
        "SUBSTRING(A.s, -2, 1)", "SUBSTRING(A.s, -2, 2)", "SUBSTRING(A.s, 1, 0)",
        "LEAST(A.i, A.j)", "GREATEST(A.i, A.j, 4)", "LEAST(A.s, A.t)", "GREATEST(A.ts, A.u)", "LEAST(A.d, A.i)",
        "A.ts + INTERVAL 5 MINUTES", "A.ts - INTERVAL '1' DAY", "A.u - A.ts", "A.u - A.ts < INTERVAL 1 HOUR",
        "A.ts < '2024-01-01 10:00:00'", "A.day < DATE '2024-01-01'", "A.ts > TIMESTAMP '2024-01-01 00:00:00'",
        "A.day = A.ts", "A.n > A.day", "A.n = A.ts", "INTERVAL 90 SECONDS > INTERVAL 1 MINUTE", "A.day = '2024-02-29'",
        "1", "'x'", "TRUE", "1.5", "1 + 2 * 3",
    ],
)  # fmt: skip
def test_agrees_with_duckdb(text: str) -> None:
    spoken = text.replace("CAST(A.i AS STRING)", "CAST(A.i AS VARCHAR)").replace("TIMESTAMP '", "TIMESTAMPTZ '")
    mine, theirs = ours(text), duck(spoken)
    assert len(mine) == len(theirs)
    assert all(map(same, mine, theirs)), f"{mine}\n{theirs}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("A.i / 0", [None] * 6, id="division by zero is NULL"),
        pytest.param("A.f % 0", [None] * 6, id="modulo zero is NULL"),
        pytest.param("CONCAT(A.s, A.t)", ["Adaada", " x y %", "x", "äöüa_c", None, None], id="concat keeps NULL"),
        pytest.param("LN(A.i)", [0.0, None, None, math.log(5), None, None], id="no logarithm of zero or less"),
        pytest.param("CAST(A.f AS INT)", [1, -2, 0, 100, None, None], id="a cast to integer cuts off"),
        pytest.param("SUBSTRING(A.s, 0, 2)", ["Ad", " x", "", "äö", None, "ab"], id="start 0 is start 1"),
        pytest.param("TRIM(BOTH 'Aa' FROM A.s)", ["d", " x y ", "", "äöü", None, "bc"], id="trim takes characters"),
        pytest.param("CAST(' 12 ' AS INT)", [12] * 6, id="text is trimmed before it is read"),
        pytest.param("A.day + INTERVAL 1 HOUR = A.ts", [False, False, False, False, None, None], id="date and hour"),
        pytest.param("A.i IS FALSE OR TRUE", None, id="IS FALSE needs a condition"),
    ],
)
def test_rules_of_our_own(text: str, expected: list[Any] | None) -> None:
    if expected is None:
        with pytest.raises(QueryError, match="IS needs a condition"):
            expression(text)
    else:
        assert ours(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST(1.0 AS STRING)", "1.0"),
        ("CAST(-0e0 AS STRING)", "-0.0"),
        ("CAST(1e10 AS STRING)", "1.0E10"),
        ("CAST(12345678.9e0 AS STRING)", "1.23456789E7"),
        ("CAST(9999999.5 AS STRING)", "9999999.5"),
        ("CAST(0.001 AS STRING)", "0.001"),
        ("CAST(1.5e-4 AS STRING)", "1.5E-4"),
        ("CAST(0.00015 AS STRING)", "0.00015"),
        ("CAST(1.10 AS STRING)", "1.10"),
        ("CAST(CAST('NaN' AS DOUBLE) AS STRING)", "NaN"),
        ("CAST(CAST('-Infinity' AS DOUBLE) AS STRING)", "-Infinity"),
        ("CAST(CAST(0.1 AS FLOAT) AS STRING)", "0.1"),
        ("CAST(CAST('1e-10' AS DECIMAL(20, 10)) AS STRING)", "0.0000000001"),
        ("CAST(CAST(0 AS DECIMAL(20, 10)) AS STRING)", "0.0000000000"),
        ("CAST(CAST('-12.5' AS DECIMAL(20, 10)) AS STRING)", "-12.5000000000"),
        ("CAST(TIMESTAMP '2024-01-01 00:00:00' AS STRING)", "2024-01-01 00:00:00"),
        ("CAST(TIMESTAMP '2024-01-01 10:20:30.250' AS STRING)", "2024-01-01 10:20:30.25"),
        ("CAST(TIMESTAMP_NTZ '2024-01-01 00:00:00.000100' AS STRING)", "2024-01-01 00:00:00.0001"),
        ("TIMESTAMP_NTZ '2024-01-02 03:04:05+02:00'", datetime(2024, 1, 2, 3, 4, 5)),
        ("TIMESTAMP '2024-01-02 03:04:05+02:00'", datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("CAST(1.005e0 AS DECIMAL(10, 2))", Decimal("1.01")),
        ("CAST(1e-300 AS DECIMAL(10, 2))", Decimal("0.00")),
        ("CAST(-1e25 AS DECIMAL(38, 2))", Decimal("-10000000000000000000000000.00")),
        ("CAST(CAST(0.1 AS FLOAT) AS DECIMAL(38, 10))", Decimal("0.1000000015")),
        ("CAST(CAST('-0.05' AS DECIMAL(10, 2)) AS FLOAT)", float(np.float32(-0.05))),
        ("CAST(CAST('8994.32' AS DECIMAL(10, 2)) AS DOUBLE)", 8994.32),
        ("CAST('8994.32' AS DECIMAL(10, 2)) = 8994.32e0", True),
        ("CAST(CAST('0.50' AS DECIMAL(10, 2)) AS BOOLEAN)", True),
        ("CAST(CAST('0.00' AS DECIMAL(10, 2)) AS BOOLEAN)", False),
        ("CAST('+5' AS INT)", 5),
        ("CAST(' Yes ' AS BOOLEAN)", True),
        ("CAST('f' AS BOOLEAN)", False),
        ("9223372036854775808", Decimal(2**63)),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807 < 9223372036854775808", True),
        ("-9223372036854775807 > -9223372036854775808", True),
        ("5. / 2", 2.5),
        ("-99999999999999999999999999999999999999", Decimal("-" + "9" * 38)),
        (
            "CAST(1 AS DECIMAL(1, 0)) * -0.1234567890123456789012345678901234567",
            Decimal("-0.123456789012345678901234567890123457"),
        ),
        ("ROUND(1.005e0, 2)", 1.01),
        ("ROUND(-2.675e0, 2)", -2.68),
        ("ROUND(1e300, 2)", 1e300),
        ("ROUND(CAST('Infinity' AS DOUBLE), 2)", INF),
        ("ROUND(1.5e0, 400)", 1.5),
        ("ROUND(1.5e0, -400)", 0.0),
        ("ROUND(1.5BD, -2)", Decimal(0)),
        ("ROUND(99.5BD, -2)", Decimal(100)),
        ("ROUND(99.5BD, -100)", Decimal(0)),
        ("ROUND(123, -25)", 0),
        ("0.06 - 0.01", Decimal("0.05")),
        ("0.06 - 0.01 = 0.05", True),
        ("0.1 + 0.2 IN (1.5, 0.3)", True),
        ("0.07 BETWEEN 0.06 - 0.01 AND 0.06 + 0.01", True),
        ("1e-1 + 0.2 = 0.3", False),
        ("-7.5 % 2", Decimal("-1.5")),
        ("7 % -1.5", Decimal("1.0")),
        ("99999999999999999999999999999999999999 % 0.7", Decimal("0.3")),
        ("1.5 % 0.0", None),
        ("1.5 % NULL", None),
        ("ROUND(2.5)", Decimal(3)),
        ("NULLIF(NULL, NULL)", None),
        ("'it''s' = \"it's\"", True),
        ("'ab' RLIKE '^a.$'", True),
        ("'ab' NOT RLIKE 'c'", True),
        ("CAST(12 AS STRING) RLIKE '\\\\d+'", True),
        ("'a' RLIKE NULL", None),
        ("REGEXP_LIKE('ab', 'b')", True),
        ("'a%b' LIKE 'a\\%b'", True),
        ("'axb' LIKE 'a\\%b'", False),
        ("'a\\\\b' LIKE 'a\\\\\\\\b'", True),
    ],
)
def test_casts_and_literals_are_as_in_spark(text: str, expected: Any) -> None:
    (answer, *_) = ours(text)
    assert answer == expected
    assert str(answer) == str(expected)  # -0.0 is not 0.0, and 1 not 1.0


@pytest.mark.parametrize("text", ["CAST('0x1F' AS INT)", "CAST('-0X1F' AS BIGINT)", "CAST('maybe' AS BOOLEAN)"])
def test_text_that_spark_does_not_read_is_not_read(text: str) -> None:
    with pytest.raises(InputError, match="cannot compute"):
        ours(text)


def test_infinity_has_a_remainder_without_a_warning() -> None:
    batch = pa.record_batch({"A.f": [INF, 5.5]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = evaluate(expression("A.f % 2"), batch).to_pylist()
    assert repr(answer) == "[nan, 1.5]"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A.j + 1", [2**63 - 1]),
        ("A.j * A.j", [2**40]),
        ("-A.j", [-(2**63)]),
        ("ABS(A.j)", [-(2**63)]),
        ("CAST(A.j AS INT)", [2**31]),
        ("CAST(A.j AS DECIMAL(3, 1))", [100]),
    ],
)
def test_what_does_not_fit_is_an_error_and_never_wraps(text: str, values: list[int]) -> None:
    with pytest.raises(InputError, match="cannot compute"):
        evaluate(expression(text), pa.record_batch({"A.j": values}))


def test_text_that_is_no_number_is_an_error_that_shows_it() -> None:
    with pytest.raises(InputError, match="'12x'"):
        evaluate(expression("CAST(A.s AS INT)"), pa.record_batch({"A.s": ["12x"]}))


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        (
            "A.d * A.d",
            ["1.5", "-0.001", "3000000000000000"],
            ["2.250000", "0.000001", "9000000000000000000000000000000.000000"],
        ),
        (
            "A.d * 0.5",
            ["3.000000000000000001", "-0.000000000000000001"],
            ["1.50000000000000000", "0.00000000000000000"],
        ),
        ("A.d * 1.000000000000000001", ["1.5"], ["1.5000000000000000"]),
        ("A.d * 0.1 * 0.1 * 0.1 * 0.1 * 0.1 * 0.1 * 0.1", ["12345678"], ["1.23456780000"]),
    ],
)
def test_products_of_more_than_38_digits_have_the_scale_that_spark_gives_them(
    text: str, values: list[str], expected: list[str]
) -> None:
    kind = pa.decimal128(38, 18)
    expr = expression(text, pa.schema([("d", kind)]))
    found = evaluate(expr, pa.record_batch({"A.d": pa.array(list(map(Decimal, values)), kind)})).to_pylist()
    assert found == list(map(Decimal, expected))
    assert expr.type.scale == -int(Decimal(expected[0]).as_tuple().exponent)


def test_a_product_that_does_not_fit_is_an_error() -> None:
    kind = pa.decimal128(38, 18)
    rows = pa.record_batch({"A.d": pa.array([Decimal(10) ** 19], kind)})
    with pytest.raises(InputError, match="does not fit"):
        evaluate(expression("A.d * A.d", pa.schema([("d", kind)])), rows)


def test_decimals_past_38_digits_are_computed_exactly_or_refused() -> None:
    schema = pa.schema([("d", pa.decimal128(38, 2))])
    add = expression("A.d + 1", schema)
    big, below = Decimal("9" * 36), Decimal("9" * 35 + "8")
    fits = pa.record_batch({"A.d": pa.array([Decimal("1.25"), below, None], pa.decimal128(38, 2))})
    assert evaluate(add, fits).to_pylist() == [Decimal("2.25"), big, None]
    with pytest.raises(InputError, match="does not fit"):
        evaluate(add, pa.record_batch({"A.d": pa.array([big], pa.decimal128(38, 2))}))


FLOATS = [None, -INF, -1.5, -0.0, 0.0, 1.5, INF, NAN, OTHER_NAN]
PAIRS = [(x, y) for x in FLOATS for y in FLOATS]


def order(x: float) -> float:
    """Spark's order of floating-point numbers: NaN is one value, larger than any other, and zero is zero."""
    return 2.0 if math.isnan(x) else math.atan(x)


def null_or(rule: Any) -> Any:
    return lambda x, y: None if x is None or y is None else rule(order(x), order(y))


def pick(choose: Any) -> Any:
    return lambda x, y: choose((z for z in (x, y) if z is not None), key=order, default=None)


def in_both(x: Any, y: Any) -> Any:
    equal = null_or(lambda a, b: a == b)(x, y)
    return True if equal or x == 1.5 else None if x is None or y is None else False


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("A.x = A.y", null_or(lambda a, b: a == b)),
        ("A.x <> A.y", null_or(lambda a, b: a != b)),
        ("A.x < A.y", null_or(lambda a, b: a < b)),
        ("A.x <= A.y", null_or(lambda a, b: a <= b)),
        ("A.x > A.y", null_or(lambda a, b: a > b)),
        ("A.x >= A.y", null_or(lambda a, b: a >= b)),
        ("A.x BETWEEN A.y AND A.y", null_or(lambda a, b: a == b)),
        ("LEAST(A.x, A.y)", pick(min)),
        ("GREATEST(A.x, A.y)", pick(max)),
        ("NULLIF(A.x, A.y)", lambda x, y: None if null_or(lambda a, b: a == b)(x, y) else x),
        ("CASE A.x WHEN A.y THEN TRUE ELSE FALSE END", lambda x, y: null_or(lambda a, b: a == b)(x, y) or False),
        ("A.x IN (1.5, A.y)", in_both),
    ],
)
def test_floating_point_numbers_are_compared_as_in_spark(text: str, rule: Any, kind: pa.DataType) -> None:
    lefts, rights = zip(*PAIRS, strict=True)
    batch = pa.record_batch({"A.x": pa.array(lefts, kind), "A.y": pa.array(rights, kind)})
    answer = evaluate(expression(text, batch.rename_columns(["x", "y"]).schema), batch).to_pylist()
    expected = [rule(x, y) for x, y in PAIRS]
    assert [repr(each).lstrip("-") if each == 0 else repr(each) for each in answer] == [
        repr(each).lstrip("-") if each == 0 else repr(each) for each in expected
    ]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize(
    ("items", "found"),
    [
        ("0.0", [-0.0, 0.0]),
        ("-0e0", [-0.0, 0.0]),
        ("0", [-0.0, 0.0]),
        ("CAST('NaN' AS DOUBLE)", [NAN, NAN]),
        ("CAST('NaN' AS DOUBLE), 1.5, 0.0", [-0.0, 0.0, 1.5, NAN, NAN]),
        ("CAST('Infinity' AS DOUBLE)", [INF]),
    ],
)
def test_in_a_list_of_literals_finds_what_equals(items: str, found: list[float], kind: pa.DataType) -> None:
    batch = pa.record_batch({"A.x": pa.array(FLOATS, kind)})
    schema = pa.schema([("x", kind)])
    for text, holds in ((f"A.x IN ({items})", True), (f"A.x NOT IN ({items})", False)):
        answer = evaluate(expression(text, schema), batch).to_pylist()
        assert [repr(x) for x, yes in zip(FLOATS, answer, strict=True) if yes is holds] == [repr(x) for x in found]
        assert answer[0] is None
    with_null = evaluate(expression(f"A.x IN ({items}, NULL)", schema), batch).to_pylist()
    assert [True if yes else None for yes in with_null] == with_null


def test_every_function_of_the_table_can_be_reached_from_text() -> None:
    texts = ["A.e * A.e", "A.i % 2", "NOT (A.i IS NULL)", "A.s ILIKE 'x'", "A.s RLIKE 'x'", "NULLIF(A.i, 1)"]
    wide = pa.schema(
        [
            ("d", pa.decimal128(38, 2)),
            ("e", pa.decimal128(37, 2)),
            ("s", pa.string()),
            ("f", pa.float64()),
            ("i", pa.int64()),
        ]
    )
    texts += [f"A.d {sign} A.d" for sign in ("+", "-", "/")] + ["A.f + 1", "A.f - 1", "A.f * 2", "-A.f"]
    texts += [f"A.i {sign} 1" for sign in ("=", "<>", "<", "<=", ">", ">=")]
    texts += ["A.i = 1 AND A.i = 2", "A.i = 1 OR A.i = 2", "NOT A.i = 1", "A.i IS NULL", "A.i IN (1)", "A.s LIKE 'x'"]
    texts += ["IF(A.i = 1, 1, 2)", "COALESCE(A.i, 1)", "LEAST(A.i, 1)", "GREATEST(A.i, 1)", "ABS(A.i)", "ROUND(A.f)"]
    texts += [
        "FLOOR(A.f)",
        "CEIL(A.f)",
        "SQRT(A.f)",
        "POWER(A.f, 2)",
        "EXP(A.f)",
        "LN(A.f)",
        "LOWER(A.s)",
        "UPPER(A.s)",
    ]
    texts += ["LENGTH(A.s)", "TRIM(A.s)", "LTRIM(A.s)", "RTRIM(A.s)", "A.s || A.s", "SUBSTRING(A.s, 1)"]
    reached = {getattr(expression(text, wide), "function", None) for text in texts}
    assert reached - {None} == set(FUNCTIONS)


def test_literals_alone_are_spread_over_the_rows() -> None:
    batch = pa.record_batch({"A.i": pa.array([], pa.int32())})
    assert evaluate(Literal(5, pa.int64()), batch).to_pylist() == []
    assert evaluate(Literal("x", pa.string()), BATCH).to_pylist() == ["x"] * 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("A.p", [True, True, False, False, False, False], id="NULL does not hold"),
        pytest.param("TRUE", [True] * 6, id="a constant that holds"),
        pytest.param("NULL = 1", [False] * 6, id="a constant that does not"),
    ],
)
def test_satisfied(text: str, expected: list[bool]) -> None:
    mask = satisfied(expression(text), BATCH)
    assert mask.tolist() == expected
    assert mask.dtype == np.bool_


NUMBERS = pa.record_batch({"A.i": pa.array([1, 2, None], pa.int64())})


def call(function: Any) -> PythonCall:
    return PythonCall("odd", function, (Column("A", "i", pa.int64()), Literal(1, pa.int64())), pa.bool_())


@pytest.mark.parametrize(
    "function",
    [
        lambda x, one: pa.array([True, False, None]),
        lambda x, one: pa.chunked_array([[True], [False, None]]),
        lambda x, one: np.array([True, False, False]),
    ],
    ids=["arrow", "chunked", "numpy"],
)
def test_a_registered_function_gives_booleans(function: Any) -> None:
    assert satisfied(call(function), NUMBERS).tolist() == [True, False, False]


def test_a_registered_function_gets_arrays_of_the_batch_length() -> None:
    seen: list[Any] = []
    evaluate(call(lambda *args: seen.extend(args) or np.zeros(3, dtype=bool)), NUMBERS)
    assert [array.to_pylist() for array in seen] == [[1, 2, None], [1, 1, 1]]


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        (None, "NoneType"),
        (True, "bool"),
        ([True, False, True], "list"),
        (np.array([1, 0, 1]), "int64"),
        (pa.array([1, 0, 1]), "int64"),
        (pa.array([True]), "1 values for 3 rows"),
    ],
)
def test_a_registered_function_that_gives_anything_else_is_named(result: Any, complaint: str) -> None:
    with pytest.raises(UserFunctionError, match='registered function "odd"') as caught:
        evaluate(call(lambda *_: result), NUMBERS)
    assert complaint in str(caught.value)


small = st.one_of(st.none(), st.integers(-50, 50))


@given(st.lists(st.tuples(small, small), min_size=1, max_size=20))
def test_integer_operators_follow_sql(pairs: list[tuple[int | None, int | None]]) -> None:
    lefts, rights = zip(*pairs, strict=True)
    batch = pa.record_batch({"A.i": pa.array(lefts, pa.int32()), "A.j": pa.array(rights, pa.int64())})
    rules: dict[str, Any] = {
        "A.i + A.j": lambda x, y: x + y,
        "A.i - A.j": lambda x, y: x - y,
        "A.i * A.j": lambda x, y: x * y,
        "A.i / A.j": lambda x, y: x / y if y else None,
        "A.i % A.j": lambda x, y: int(math.fmod(x, y)) if y else None,
        "A.i < A.j": lambda x, y: x < y,
        "NULLIF(A.i, A.j)": lambda x, y: None if x == y else x,
    }
    for text, rule in rules.items():
        expected = [None if x is None or y is None else rule(x, y) for x, y in pairs]
        if text.startswith("NULLIF"):
            expected = [x if x is None or y is None else rule(x, y) for x, y in pairs]
        assert evaluate(expression(text), batch).to_pylist() == expected, text


@given(st.lists(st.tuples(*[st.sampled_from([True, False, None])] * 2), min_size=1, max_size=9))
def test_logic_has_three_values(pairs: list[tuple[bool | None, bool | None]]) -> None:
    lefts, rights = zip(*pairs, strict=True)
    batch = pa.record_batch({"A.p": pa.array(lefts, pa.bool_()), "A.q": pa.array(rights, pa.bool_())})
    conjunction = [False if False in pair else None if None in pair else True for pair in pairs]
    disjunction = [True if True in pair else None if None in pair else False for pair in pairs]
    assert evaluate(expression("A.p AND A.q"), batch).to_pylist() == conjunction
    assert evaluate(expression("A.p OR A.q"), batch).to_pylist() == disjunction
    # De Morgan's law holds for NULL, too.
    assert evaluate(expression("NOT (NOT A.p OR NOT A.q)"), batch).to_pylist() == conjunction
