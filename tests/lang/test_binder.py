"""What the binder makes of query text that is right."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from watersmeet.errors import QueryError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.expressions import Literal, PythonCall, describe
from watersmeet.model.streams import Range, Stream, Unbounded
from watersmeet.plan.query import Query

SCHEMAS = {
    "A": "k BIGINT, i INT, d DECIMAL(10, 2), s STRING, day DATE, f DOUBLE, flag BOOLEAN, ts TIMESTAMP",
    "B": "k BIGINT, i INT, d DECIMAL(12, 3), s STRING, at TIMESTAMP_NTZ, f DOUBLE, flag BOOLEAN, ts TIMESTAMP",
    "C": "k BIGINT, n SMALLINT, name STRING, Mixed INT, ts BIGINT",
}
STREAMS = {name: Stream(name, parse_schema(schema)) for name, schema in SCHEMAS.items()}


def bound(text: str, **functions: object) -> Query:
    return bind(text, STREAMS, functions)  # type: ignore[arg-type]


def keys(query: Query) -> list[str]:
    return [" = ".join(describe(term) for _, term in key.terms) for key in query.keys]


def filters(query: Query) -> dict[str, list[str]]:
    return {entry.alias: [describe(each) for each in entry.filters] for entry in query.inputs if entry.filters}


def predicates(query: Query) -> list[str]:
    return [describe(each) for each in query.predicates]


def where(condition: str, tables: str = "A, B") -> Query:
    return bound(f"SELECT A.k FROM {tables} WHERE {condition}")


def test_the_query_of_the_design_page() -> None:
    text = """SELECT o.k, c.name, p.d
    FROM A o [RANGE 30 MINUTES], C c [UNBOUNDED], B p [RANGE 2 hours]
    WHERE o.i = c.k AND p.i = o.k AND o.d > 10"""
    query = bound(text)
    assert query.text == text
    assert [(entry.alias, entry.stream.name, entry.window) for entry in query.inputs] == [
        ("o", "A", Range(timedelta(minutes=30))),
        ("c", "C", Unbounded()),
        ("p", "B", Range(timedelta(hours=2))),
    ]
    assert keys(query) == ["cast(o.i as int64) = c.k", "o.k = cast(p.i as int64)"]
    assert [(key.name, key.type) for key in query.keys] == [("k0", pa.int64()), ("k1", pa.int64())]
    assert filters(query) == {"o": ["greater(o.d, Decimal('10'))"]}
    assert query.predicates == ()
    assert query.output_schema == pa.schema([("k", pa.int64()), ("name", pa.string()), ("d", pa.decimal128(12, 3))])


@pytest.mark.parametrize(
    ("table", "alias", "window"),
    [
        ("A [RANGE 5 SECOND]", "A", Range(timedelta(seconds=5))),
        ("A x [range 5 milliseconds]", "x", Range(timedelta(milliseconds=5))),
        ("A [RANGE 1 DAY] AS x", "x", Range(timedelta(days=1))),
        ("A [RANGE 1.5 Hours] x", "x", Range(timedelta(minutes=90))),
        ("A AS x [RANGE 7 MICROSECONDS]", "x", Range(timedelta(microseconds=7))),
        ("A[UNBOUNDED]", "A", Unbounded()),
        ("A", "A", Unbounded()),
        ("a `my x`", "my x", Unbounded()),
    ],
)
def test_a_window_stands_before_or_after_the_alias(table: str, alias: str, window: object) -> None:
    for text in (f"SELECT * FROM {table}, B q WHERE day = q.at", f"SELECT * FROM B q JOIN {table} ON day = q.at"):
        entry = bound(text).input(alias)
        assert (entry.window, entry.stream.name) == (window, "A")


def test_comma_and_join_mean_the_same() -> None:
    comma = bound("SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.i = C.n AND A.f < B.f")
    join = bound("SELECT A.k FROM A JOIN B ON A.k = B.k INNER JOIN C ON (B.i = C.n AND (A.f < B.f))")
    nested = bound("SELECT A.k FROM A JOIN B JOIN C ON B.i = C.n ON A.k = B.k AND A.f < B.f")
    assert (comma.inputs, comma.keys, comma.predicates) == (join.inputs, join.keys, join.predicates)
    assert nested.inputs == comma.inputs
    assert sorted(keys(nested)) == sorted(keys(comma))
    assert predicates(nested) == ["less(A.f, B.f)"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param("A.k = B.k AND A.i = B.i", ["A.k = B.k", "A.i = B.i"], id="several columns are several classes"),
        pytest.param("A.k = B.i", ["A.k = cast(B.i as int64)"], id="integers widen"),
        pytest.param(
            "A.i = B.d",
            ["cast(A.i as decimal128(13, 3)) = cast(B.d as decimal128(13, 3))"],
            id="an integer beside a decimal is one",
        ),
        pytest.param("A.d = B.d", ["cast(A.d as decimal128(12, 3)) = B.d"], id="decimals take the larger scale"),
        pytest.param(
            "A.day = B.ts", ["cast(A.day as timestamp[us, tz=UTC]) = B.ts"], id="a date beside a timestamp is one"
        ),
        pytest.param("A.ts = B.at", ["A.ts = cast(B.at as timestamp[us, tz=UTC])"], id="a zone wins over none"),
        pytest.param("lower(A.s) = B.s", ["lower(A.s) = B.s"], id="expressions of one input are terms"),
        pytest.param("B.k = A.k + 1", ["add(A.k, 1) = B.k"], id="arithmetic on one input is a term"),
        pytest.param("CAST(A.i AS BIGINT) = B.i", ["A.i = B.i"], id="a cast that loses nothing is left out"),
    ],
)
def test_equalities_become_keys(condition: str, expected: list[str]) -> None:
    query = where(condition)
    assert keys(query) == expected
    assert query.predicates == ()
    for key in query.keys:
        assert {term.type for _, term in key.terms} == {key.type}


def test_equalities_are_closed_under_transitivity_through_different_types() -> None:
    query = where("A.k = B.i AND C.n = B.i", "A, B, C")
    assert keys(query) == ["A.k = cast(B.i as int64) = cast(C.n as int64)"]
    assert query.keys[0].aliases == {"A", "B", "C"}


def test_two_classes_unite_when_a_later_equality_links_them() -> None:
    query = bound("SELECT x.k FROM A x, A y, A z, A w WHERE x.k = y.k AND z.k = w.k AND y.k = z.k")
    assert keys(query) == ["x.k = y.k = z.k = w.k"]


def test_two_terms_of_one_input_make_a_filter_and_one_stays() -> None:
    query = where("A.k = B.k AND A.i = B.k")
    assert keys(query) == ["A.k = B.k"]
    assert filters(query) == {"A": ["equal(A.k, cast(A.i as int64))"]}


def test_decimals_too_wide_for_one_key_stay_a_predicate() -> None:
    wide = Stream("W", parse_schema("k BIGINT, big DECIMAL(38, 0), fine DECIMAL(38, 30), ts TIMESTAMP"))
    query = bind("SELECT x.k FROM W x, W y WHERE x.k = y.k AND x.big = y.fine", {"W": wide})
    assert keys(query) == ["x.k = y.k"]
    assert len(query.predicates) == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param("A.f = B.f", ["equal(A.f, B.f)"], id="doubles are no keys"),
        pytest.param("A.flag = B.flag", ["equal(A.flag, B.flag)"], id="booleans are no keys"),
        pytest.param("A.i < B.i", ["less(A.i, B.i)"], id="inequality"),
        pytest.param(
            "A.i BETWEEN B.i - 5 AND B.i + 5",
            [
                "greater_equal(cast(A.i as int64), subtract(cast(B.i as int64), 5))",
                "less_equal(cast(A.i as int64), add(cast(B.i as int64), 5))",
            ],
            id="a band is two predicates",
        ),
        pytest.param("A.i + B.i = 5", ["equal(add(cast(A.i as int64), cast(B.i as int64)), 5)"], id="both on one side"),
        pytest.param(
            "A.ts - B.ts < INTERVAL 5 MINUTES",
            ["less(subtract(A.ts, B.ts), datetime.timedelta(seconds=300))"],
            id="a difference of timestamps",
        ),
        pytest.param(
            "(A.i = 1 OR B.i = 1)", ["or(equal(cast(A.i as int64), 1), equal(cast(B.i as int64), 1))"], id="or"
        ),
    ],
)
def test_other_conditions_over_two_inputs_stay_predicates(condition: str, expected: list[str]) -> None:
    query = where(f"A.k = B.k AND {condition}")
    assert keys(query) == ["A.k = B.k"]
    assert predicates(query) == expected
    assert filters(query) == {}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("A.k = 5", {"A": ["equal(A.k, 5)"]}),
        ("B.i IS NOT NULL", {"B": ["is_not_null(B.i)"]}),
        ("(A.f > 1 AND (B.f > 1.5))", {"A": ["greater(A.f, 1.0)"], "B": ["greater(B.f, 1.5)"]}),
        ("A.k = A.i", {"A": ["equal(A.k, cast(A.i as int64))"]}),
        ("A.d > 1.5", {"A": ["greater(A.d, Decimal('1.5'))"]}),
        ("A.d > -1.5", {"A": ["greater(A.d, Decimal('-1.5'))"]}),
        ("A.day < '2024-12-31'", {"A": ["less(A.day, datetime.date(2024, 12, 31))"]}),
        ("B.at >= '2024-01-01 10:00:00'", {"B": ["greater_equal(B.at, datetime.datetime(2024, 1, 1, 10, 0))"]}),
        ("1 = 1 AND TRUE", {}),
        ("1 = 2", {"A": ["equal(1, 2)"]}),
        ("NULL", {"A": ["None"]}),
        ("A.s NOT LIKE 'x%'", {"A": ["not(like(A.s, 'x%'))"]}),
    ],
)
def test_conditions_on_one_input_or_none_become_filters(condition: str, expected: dict[str, list[str]]) -> None:
    query = where(f"A.k = B.k AND {condition}")
    assert filters(query) == expected
    assert query.predicates == ()


def test_a_self_join_has_two_inputs_of_one_stream() -> None:
    query = bound("SELECT x.k, y.i FROM A x [RANGE 1 MINUTE], A y WHERE x.k = y.i")
    assert [(entry.alias, entry.stream) for entry in query.inputs] == [("x", STREAMS["A"]), ("y", STREAMS["A"])]
    assert keys(query) == ["x.k = cast(y.i as int64)"]


def test_names_are_matched_in_any_case_when_that_is_unambiguous() -> None:
    query = bound("SELECT mixed, x.NAME, `Mixed` + 1 AS one FROM c X, a WHERE X.K = a.K")
    assert [(column.name, describe(column.expr)) for column in query.select] == [
        ("Mixed", "X.Mixed"),
        ("name", "X.name"),
        ("one", "add(cast(X.Mixed as int64), 1)"),
    ]


def test_an_exact_match_wins_over_one_in_another_case() -> None:
    stream = Stream("S", pa.schema([("v", pa.int64()), ("V", pa.string()), ("ts", pa.int64())]))
    query = bind("SELECT x.v AS low, x.V AS up FROM S x, S y WHERE x.v = y.v", {"S": stream})
    assert [column.expr.type for column in query.select] == [pa.int64(), pa.string()]


def test_star_names_shared_columns_by_alias_and_the_others_plainly() -> None:
    query = bound("SELECT * FROM A, C x WHERE A.k = x.k")
    of_a, of_x = ["A_k", "i", "d", "s", "day", "f", "flag", "A_ts"], ["x_k", "n", "name", "Mixed", "x_ts"]
    assert query.output_schema.names == of_a + of_x
    stars = bound("SELECT A.*, x.* FROM A, C x WHERE A.k = x.k")
    assert stars.select == query.select


def test_the_star_of_one_input_keeps_plain_names() -> None:
    query = bound("SELECT x.*, A.k AS other FROM A, C x WHERE A.k = x.k")
    assert query.output_schema.names == ["k", "n", "name", "Mixed", "ts", "other"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT /*+ BROADCAST(A) */ A.k, A.i + 1 FROM A, B WHERE A.k = B.k",
        "SELECT /*+ BROADCAST(A), COALESCE(3) */ /*+ NO_SUCH('it', x.y) */ A.k, A.i + 1 FROM A, B WHERE A.k = B.k",
        "SELECT A.k, /*+ MERGE(B) */ A.i + 1 FROM A JOIN /*+ SHUFFLE_HASH(B) */ B ON A.k = B.k /*+ */",
        "/*+ it's */ SELECT A.k, A.i + 1 FROM A, B WHERE A.k = B.k",
    ],
)
def test_hints_are_comments(text: str) -> None:
    query = bound(text)
    assert query.output_schema.names == ["k", "A.i + 1"]
    assert len(query.keys) == 1


def test_errors_beside_hints_point_at_the_place() -> None:
    text = "SELECT /*+ BROADCAST(A) */ A.zz FROM A, B WHERE A.k = B.k"
    with pytest.raises(QueryError) as caught:
        bound(text)
    assert caught.value.span is not None
    assert text[caught.value.span.start : caught.value.span.end] == "A.zz"


def test_a_time_with_more_digits_than_a_literal_holds_is_refused_beside_nanoseconds() -> None:
    fine = Stream("S", pa.schema([("t", pa.timestamp("ns")), ("u", pa.timestamp("us")), ("ts", pa.int64())]), "ts")
    with pytest.raises(QueryError, match="is not a TIMESTAMP_NTZ"):
        bind("SELECT a.ts FROM S a, S b WHERE a.ts = b.ts AND a.t = '2024-01-01 00:00:00.123456789'", {"S": fine})
    bind("SELECT a.ts FROM S a, S b WHERE a.ts = b.ts AND a.u = '2024-01-01 00:00:00.123456789'", {"S": fine})


def test_expressions_without_a_name_are_named_by_their_text() -> None:
    query = bound("SELECT A.i +\n 1, CAST(A.i AS STRING), 1.5, upper( A.s ) u FROM A, B WHERE A.k = B.k")
    assert query.output_schema.names == ["A.i + 1", "CAST(A.i AS STRING)", "1.5", "u"]
    assert query.output_schema.types == [pa.int64(), pa.string(), pa.decimal128(2, 1), pa.string()]


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("A.i + A.i", pa.int64()),
        ("A.i / 2", pa.float64()),
        ("A.d / 2", pa.float64()),
        ("A.d + 1", pa.decimal128(11, 2)),
        ("A.d * A.d", pa.decimal128(21, 4)),
        ("A.d * 1.5", pa.decimal128(13, 3)),
        ("A.f * 1.5", pa.float64()),
        ("A.i * 1.5", pa.decimal128(13, 1)),
        ("A.k * 1.5", pa.decimal128(23, 1)),
        ("A.f + 1.5", pa.float64()),
        ("1e3", pa.float64()),
        ("1.5D", pa.float64()),
        ("1.5BD", pa.decimal128(2, 1)),
        ("1e2BD", pa.decimal128(3, 0)),
        ("0.06", pa.decimal128(2, 2)),
        ("-0.06", pa.decimal128(2, 2)),
        ("00.50", pa.decimal128(2, 2)),
        ("1.", pa.decimal128(1, 0)),
        ("0.06 - 0.01", pa.decimal128(3, 2)),
        ("0.06 * 0.5", pa.decimal128(4, 3)),
        ("0.06 / 0.5", pa.float64()),
        ("A.k % 1.5", pa.decimal128(2, 1)),
        ("A.d % 0.03", pa.decimal128(2, 2)),
        ("COALESCE(A.d, 0)", pa.decimal128(10, 2)),
        ("COALESCE(A.f, 0.0)", pa.float64()),
        ("COALESCE(CAST(A.k AS DECIMAL(38, 0)), 0.5)", pa.decimal128(38, 1)),
        ("CASE WHEN A.flag THEN CAST(A.k AS DECIMAL(38, 0)) ELSE 0.5 END", pa.decimal128(38, 1)),
        ("LEAST(CAST(A.k AS DECIMAL(38, 0)), 0.5)", pa.decimal128(38, 1)),
        ("GREATEST(A.i, 1.5)", pa.decimal128(11, 1)),
        ("SQRT(2.25)", pa.float64()),
        ("FLOOR(1.5)", pa.decimal128(2, 0)),
        ("A.d + A.f", pa.float64()),
        ("A.ts + INTERVAL '5' MINUTE", pa.timestamp("us", tz="UTC")),
        ("A.ts - A.ts", pa.duration("us")),
        ("A.day - INTERVAL 1 DAY", pa.timestamp("us", tz="UTC")),
        ("floor(A.f)", pa.int64()),
        ("round(A.d, 1)", pa.decimal128(10, 1)),
        ("coalesce(A.i, A.d)", pa.decimal128(12, 2)),
        ("CASE WHEN A.flag THEN A.i ELSE 1.5 END", pa.decimal128(11, 1)),
        ("length(A.s)", pa.int64()),
        ("DATE '2024-01-01'", pa.date32()),
        ("A.k = 1 AND NULL", pa.bool_()),
    ],
)
def test_result_types(expression: str, kind: pa.DataType) -> None:
    assert bound(f"SELECT {expression} AS x FROM A, B WHERE A.k = B.k").output_schema.field("x").type == kind


def test_registered_functions_become_python_calls_even_under_a_name_that_sql_knows() -> None:
    def near(*_: object) -> None: ...

    query = bound(
        "SELECT A.k FROM A, B WHERE A.k = B.k AND Near(A.f, B.f, 1.5) AND levenshtein(A.s)", near=near, levenshtein=near
    )
    [call] = query.predicates
    assert isinstance(call, PythonCall)
    assert (call.name, call.function, call.type) == ("near", near, pa.bool_())
    assert [arg.type for arg in call.args] == [pa.float64()] * 3
    assert filters(query) == {"A": ["levenshtein(A.s)"]}


def test_dictionary_and_large_layouts_join_as_plain_text_and_are_output_as_they_are() -> None:
    coded = pa.dictionary(pa.int32(), pa.string())
    one = Stream("P", pa.schema([("s", coded), ("ts", pa.int64())]))
    two = Stream("Q", pa.schema([("s", pa.large_string()), ("ts", pa.int64())]))
    query = bind("SELECT P.s FROM P, Q WHERE P.s = Q.s", {"P": one, "Q": two})
    assert query.keys[0].type == pa.string()
    assert query.output_schema.field("s").type == coded


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it''s'", "it's"),
        ("''''", "'"),
        ('"say ""hi"""', 'say "hi"'),
        ("'a\"\"b'", 'a""b'),
        ("\"it''s\"", "it''s"),
        ("'it\\'s'", "it's"),
        ("'a  b'", "a  b"),
        ("'-- no comment'", "-- no comment"),
        ("'a\\\\'", "a\\"),
    ],
)
def test_a_quote_in_a_string_is_doubled_or_escaped(literal: str, value: str) -> None:
    expr = bound(f"SELECT {literal} AS x FROM A, B WHERE A.k = B.k").select[0].expr
    assert expr == Literal(value, pa.string())
