"""Declared predicates: what may be said of one, how calls of it are bound, and what a checkpoint knows it by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import CheckpointError, JobError, QueryError
from watersmeet.lang.binder import bind
from watersmeet.model.expressions import Prepared, PythonCall, describe
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.query import Query
from watersmeet.plan.tree import choose_tree
from watersmeet.state.identity import identify, refuse_other_query

SCHEMA = pa.schema(
    [("k", pa.int64()), ("j", pa.int64()), ("img", pa.binary()), ("x", pa.float64()), ("ts", pa.int64())]
)
STREAMS = {name: Stream(name, SCHEMA, "ts") for name in "ABC"}
HISTOGRAM = pa.list_(pa.float32(), 4)
WHERE = "A.k = B.k AND similar(A.img, B.img)"


def similar(a: pa.Array, b: pa.Array) -> Any:
    raise AssertionError("nobody asks")


def histogram(column: pa.Array) -> Any:
    return np.zeros((len(column), 4), dtype=np.float32)


def outline(column: pa.Array) -> Any:
    return pa.array([1] * len(column), pa.int16())


def bound(where: str = WHERE, select: str = "A.k", froms: str = "A, B", **functions: Any) -> Query:
    return bind(f"SELECT {select} FROM {froms} WHERE {where}", STREAMS, functions)


def prepared_of(query: Query) -> list[tuple[str, str, str]]:
    return [(each.column.alias, describe(each), str(each.type)) for each in query.prepared]


def test_a_declared_predicate_is_a_function_too() -> None:
    @wm.predicate(cost=2e-7, symmetric=True)
    def near(a: pa.Array, b: pa.Array) -> pa.Array:
        return pa.array([True])

    assert isinstance(near, wm.Predicate)
    assert (near.cost, near.symmetric, near.prepare) == (2e-7, True, None)
    assert near(pa.array([1]), pa.array([2])).to_pylist() == [True]
    (call,) = bound("A.k = B.k AND near(A.x, B.x)", near=near).predicates
    assert isinstance(call, PythonCall)
    assert (call.cost, call.symmetric, call.skips_null) == (2e-7, True, True)
    text, span = call.place or ("", None)
    assert span is not None
    assert text[span.start : span.end] == "near(A.x, B.x)"


@pytest.mark.parametrize(
    ("settings", "primary"),
    [
        ({"cost": 0}, 'cost of predicate "similar" is 0'),
        ({"cost": float("nan")}, 'cost of predicate "similar" is nan'),
        ({"cost": "2e-7"}, "cost of predicate \"similar\" is '2e-7'"),
        ({"prepared_type": HISTOGRAM}, 'predicate "similar" has prepared_type without prepare'),
        ({"prepare": "histogram"}, 'prepare of predicate "similar" is not understood'),
        ({"prepare": histogram, "prepared_type": [HISTOGRAM]}, 'prepare of predicate "similar" is not understood'),
        ({"prepare": 3}, 'prepare of predicate "similar" is not understood'),
        ({"prepare": [histogram, 3]}, 'prepare of predicate "similar" is not understood'),
        ({"prepare": {"c": histogram}}, 'predicate "similar" has no parameter "c"'),
        ({"prepare": histogram, "prepared_type": "IMAGE"}, 'prepared_type of predicate "similar" is unknown: "IMAGE"'),
        (
            {"prepare": [histogram, outline], "symmetric": True},
            'predicate "similar" is symmetric, and its arguments are prepared in different ways',
        ),
    ],
)
def test_what_cannot_be_declared(settings: dict[str, Any], primary: str) -> None:
    with pytest.raises(JobError) as caught:
        wm.predicate(similar, **settings)
    assert caught.value.primary == primary


def test_a_function_whose_parameters_have_no_names_takes_no_dict() -> None:
    with pytest.raises(JobError, match='the parameters of predicate "max" have no names'):
        wm.predicate(max, prepare={"a": histogram})


def test_the_names_of_functions_are_text() -> None:
    with pytest.raises(JobError, match="functions has the name 5, which is no text"):
        wm.sql("SELECT A.x FROM A, B WHERE A.x < B.x", functions={5: similar})  # type: ignore[dict-item]


def test_only_functions_are_predicates() -> None:
    with pytest.raises(JobError, match="predicate takes a function, not a int"):
        wm.predicate(3)  # type: ignore[call-overload]
    with pytest.raises(JobError, match="predicate was given what it has made"):
        wm.predicate(wm.predicate(similar))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"prepare": histogram, "prepared_type": HISTOGRAM}, [("A", "histogram"), ("B", "histogram")]),
        ({"prepare": histogram}, [("A", "histogram"), ("B", "histogram")]),
        ({"prepare": [None, histogram], "prepared_type": HISTOGRAM}, [("B", "histogram")]),
        ({"prepare": {"a": histogram, "b": outline}}, [("A", "histogram"), ("B", "outline")]),
        (
            {"prepare": {"a": histogram, "b": outline}, "prepared_type": {"a": HISTOGRAM, "b": "SMALLINT"}},
            [("A", "histogram"), ("B", "outline")],
        ),
    ],
)
def test_what_is_prepared_of_which_argument(settings: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    query = bound(similar=wm.predicate(similar, **settings))
    types = {"histogram": "fixed_size_list<item: float>[4]", "outline": "int16"}
    assert prepared_of(query) == [(alias, f"{name}({alias}.img)", types[name]) for alias, name in expected]


def test_what_is_prepared_is_carried_instead_of_what_it_was_made_of() -> None:
    declared = wm.predicate(similar, prepare=histogram)
    query = bound(similar=declared)
    (call,) = query.predicates
    assert isinstance(call, PythonCall)
    assert all(isinstance(arg, Prepared) for arg in call.args)
    assert describe(call) == "similar(histogram(A.img), histogram(B.img))"
    plan = lay_out(query, choose_tree(query, "mjoin"))
    names = {name for leaf in plan.leaves for name, _ in leaf.state.fields}
    assert names == {"A.k", "B.k", *(each.column.field_name for each in query.prepared)}
    assert [[name for name, _ in leaf.computed] for leaf in plan.leaves] == [
        [each.column.field_name] for each in query.prepared
    ]
    assert plan.stream_columns("A") == ("k", "img", "ts"), "the raw column is read, and goes no further"
    wanted = bound(select="A.img", similar=declared)
    leaf = lay_out(wanted, choose_tree(wanted, "mjoin")).leaves[0]
    assert "A.img" in dict(leaf.state.fields)


def test_one_column_for_what_several_predicates_prepare_alike() -> None:
    where = f"{WHERE} AND brighter(B.img, A.img) AND B.j = C.j AND similar(B.img, C.img)"
    functions = {name: wm.predicate(similar, prepare=histogram) for name in ("similar", "brighter")}
    query = bound(where, froms="A, B, C", **functions)
    assert [(alias, text) for alias, text, _ in prepared_of(query)] == [
        ("A", "histogram(A.img)"),
        ("B", "histogram(B.img)"),
        ("C", "histogram(C.img)"),
    ]


def test_two_functions_of_one_name_are_told_apart() -> None:
    other = {"prepare": lambda column: pa.array([1.0] * len(column)), "prepared_type": pa.float64()}
    one = {"prepare": lambda column: pa.array([2.0] * len(column)), "prepared_type": pa.float64()}
    functions = {"similar": wm.predicate(similar, **one), "near": wm.predicate(similar, **other)}
    query = bound(f"{WHERE} AND near(A.img, B.img)", **functions)
    assert [text for _, text, _ in prepared_of(query)] == [
        "<lambda>(A.img)",
        "<lambda>(B.img)",
        "<lambda>#2(A.img)",
        "<lambda>#2(B.img)",
    ]
    assert len({each.column for each in query.prepared}) == 4


def test_filters_and_what_reads_two_inputs_are_prepared_where_they_are_asked() -> None:
    declared = wm.predicate(similar, prepare=outline)
    assert bound("A.k = B.k AND similar(A.img, 'x')", similar=declared).prepared == ()
    both = bound("A.k = B.k AND similar(A.x + B.x, A.x)", similar=declared)
    assert [text for _, text, _ in prepared_of(both)] == ["outline(A.x)"]
    chosen = bound("A.k = B.k", select="similar(A.img, B.img) AS s", similar=declared)
    assert len(chosen.prepared) == 2


def test_a_column_of_the_user_may_have_any_name() -> None:
    declared = wm.predicate(similar, prepare=histogram)
    taken = bound(similar=declared).prepared[0].column.name
    streams = {**STREAMS, "A": Stream("A", SCHEMA.append(pa.field(taken, pa.int64())), "ts")}
    query = bind(f"SELECT A.`{taken}` FROM A, B WHERE {WHERE}", streams, {"similar": declared})
    assert query.prepared[0].column.name == f"#{taken}"


@pytest.mark.parametrize(
    ("where", "declared", "primary", "at"),
    [
        (
            "A.k = B.k AND similar(A.x, B.x, 3)",
            wm.predicate(similar, symmetric=True),
            '"similar" is declared as symmetric, and takes two arguments, not 3',
            "similar(A.x, B.x, 3)",
        ),
        (
            "A.k = B.k AND similar(A.x)",
            wm.predicate(similar, prepare=[outline, outline]),
            '"similar" has 1 arguments here',
            "similar(A.x)",
        ),
        (
            WHERE,
            wm.predicate(similar, prepare=lambda column: column[0]),
            'what "<lambda>" prepares for "similar" has no known type',
            "similar(A.img, B.img)",
        ),
    ],
)
def test_calls_that_are_refused(where: str, declared: wm.Predicate, primary: str, at: str) -> None:
    with pytest.raises(QueryError) as caught:
        bound(where, similar=declared)
    error = caught.value
    assert error.primary == primary
    assert error.span is not None
    assert error.text[error.span.start : error.span.end] == at


def test_what_is_prepared_is_part_of_what_a_query_is_known_by() -> None:
    plain = identify(bound(similar=similar))
    declared = identify(bound(similar=wm.predicate(similar, cost=1e-6, symmetric=True)))
    assert plain == declared, "what is said of it makes no other query"
    former = bound(similar=wm.predicate(similar, prepare=histogram))
    renamed = bound(similar=wm.predicate(similar, prepare=outline))
    retyped = bound(similar=wm.predicate(similar, prepare=histogram, prepared_type=pa.list_(pa.float64(), 4)))
    assert len({identify(query).digest for query in (former, renamed, retyped)} | {plain.digest}) == 4
    names = [{state.name for state in lay_out(q, choose_tree(q, "mjoin")).states.values()} for q in (former, renamed)]
    assert not names[0] & names[1], "nor are its states"
    with pytest.raises(CheckpointError) as caught:
        refuse_other_query(identify(former), identify(renamed))
    assert caught.value.detail == (
        "It keeps histogram(A.img) as fixed_size_list<item: float>[4] and histogram(B.img) as "
        "fixed_size_list<item: float>[4] of rows, and this run needs outline(A.img) as int16 and "
        "outline(B.img) as int16."
    )


def test_a_number_that_is_the_same_for_all_rows_comes_as_a_double() -> None:
    (call,) = bound("A.k = B.k AND similar(0.1, -0.5 * 0.1) AND A.x < B.x", similar=similar).inputs[0].filters
    assert isinstance(call, PythonCall)
    assert [arg.type for arg in call.args] == [pa.float64(), pa.float64()]
