"""Calls of registered functions: what they are given, what may come back, and what is said of anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from watersmeet.errors import QueryError, UserFunctionError

TEXT = "SELECT A.k\nFROM A, B WHERE A.k = B.k AND good(A.v, B.v)"
A = pa.table({"k": [1, 1, 2], "v": [1.0, 2.0, None], "ts": [0, 1, 2]})
B = pa.table({"k": [1, 2], "v": [1.0, 2.0], "ts": [0, 1]})


def run(good: Any) -> list[int]:
    found: list[int] = wm.sql(TEXT, A=A, B=B, functions={"good": good}).run(slots=1).column("k").to_pylist()
    return found


@pytest.mark.parametrize(
    "result",
    [
        lambda a, b: pc.equal(a, b),
        lambda a, b: pa.chunked_array([pc.equal(a, b)]),
        lambda a, b: np.equal(a.to_numpy(), b.to_numpy()),
    ],
    ids=["arrow", "chunks", "numpy"],
)
def test_what_may_come_back(result: Any) -> None:
    assert run(wm.predicate(result)) == [1]


def test_a_plain_function_gets_null_and_may_say_null_there() -> None:
    seen: list[int] = []

    def good(a: pa.Array, b: pa.Array) -> pa.Array:
        seen.append(a.null_count)
        return pc.equal(a, b)

    assert run(good) == [1]
    assert sum(seen) == 1
    assert sorted(run(lambda a, b: pc.is_null(a))) == [2]


def test_a_declared_one_is_not_asked_about_null() -> None:
    def good(a: pa.Array, b: pa.Array) -> pa.Array:
        assert not a.null_count
        assert len(a)
        return pa.array([True] * len(a))

    assert sorted(run(wm.predicate(good))) == [1, 1]
    text = "SELECT A.k FROM A, B WHERE A.k = B.k AND NOT good(A.v, B.v)"
    assert wm.sql(text, A=A, B=B, functions={"good": wm.predicate(good)}).run().num_rows == 0


def assert_points_at_the_call(error: UserFunctionError) -> None:
    assert error.span is not None
    assert error.text[error.span.start : error.span.end] == "good(A.v, B.v)"
    shown, marked = str(error).split("\n")[1:3]
    assert shown[marked.index("^") : marked.rindex("^") + 1] == "good(A.v, B.v)"


def explode(a: pa.Array, b: pa.Array) -> Any:
    raise ZeroDivisionError("by zero")


def leave(a: pa.Array, b: pa.Array) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("result", "primary", "detail"),
    [
        (explode, "raised ZeroDivisionError: by zero", "It was raised in"),
        (leave, "raised SystemExit: 3", "It was raised in"),
        (lambda a, b: True, "gave no boolean array", "It gave a bool;"),
        (lambda a, b: None, "gave no boolean array", "It gave a NoneType;"),
        (lambda a, b: a, "gave no boolean array", "It gave an Arrow array of double;"),
        (lambda a, b: a.to_numpy() > 0.5, None, None),
        (lambda a, b: a.to_numpy(), "gave no boolean array", "It gave a numpy array of float64 with 1 dimension;"),
        (lambda a, b: np.ones((len(a), 1), bool), "gave no boolean array", "of bool with 2 dimensions;"),
        (lambda a, b: pa.array([True] * 7), "gave 7 values for 2 rows", "one for each row."),
        (
            lambda a, b: pc.if_else(pc.equal(a, 2.0), None, True),
            "gave NULL for 1 of 2 rows that have no NULL among their arguments",
            "It gave an Arrow array of bool;",
        ),
        (
            lambda a, b: np.ma.masked_array(np.ones(len(a), bool), a.to_numpy() == 2.0),
            "gave NULL for 1 of 2 rows that have no NULL among their arguments",
            "It gave a numpy array of bool with 1 dimension;",
        ),
    ],
)
@pytest.mark.parametrize("declare", [lambda f: f, wm.predicate], ids=["plain", "declared"])
def test_what_may_not(declare: Any, result: Any, primary: str | None, detail: str | None) -> None:
    text = TEXT.replace("B.v)", "B.v) AND A.v IS NOT NULL")
    query = wm.sql(text, A=A, B=B, functions={"good": declare(result)})
    if primary is None:
        assert query.run(slots=1).num_rows == 2
        return
    with pytest.raises(UserFunctionError) as caught:
        query.run(slots=1)
    error = caught.value
    assert error.exit_code == 2
    assert error.primary == f'registered function "good" {primary}'
    assert detail in (error.detail or "")
    assert error.hint == "Correct the function, and start the run again."
    assert_points_at_the_call(error)


def prepared(prepare: Any, kind: Any = None) -> list[int]:
    compare = wm.predicate(lambda a, b: pc.equal(a, b), prepare=prepare, prepared_type=kind)
    return run(compare)


@pytest.mark.parametrize(
    ("prepare", "kind"),
    [
        (lambda v: pc.negate(v), None),
        (lambda v: pc.negate(v), pa.float32()),
        (lambda v: -v.to_numpy(), "FLOAT"),
        (lambda v: pa.chunked_array([v]), "DOUBLE"),
        (lambda v: np.array([str(x) for x in v.to_pylist()], dtype=object), "STRING"),
        (lambda v: pa.array([str(x).encode() for x in v.to_pylist()]), pa.binary()),
    ],
)
def test_what_may_be_prepared(prepare: Any, kind: Any) -> None:
    assert prepared(prepare, kind) == [1]


def test_rows_of_two_dimensions_are_lists_of_fixed_size() -> None:
    def both(v: pa.Array) -> Any:
        return np.stack([v.to_numpy(), -v.to_numpy()], axis=1)

    def same(a: pa.Array, b: pa.Array) -> Any:
        assert a.type == pa.list_(pa.float64(), 2)
        left, right = (np.asarray(each.flatten()).reshape(len(each), each.type.list_size) for each in (a, b))
        return (left == right).all(axis=1)

    assert run(wm.predicate(same, prepare=both)) == [1]


def test_a_preparation_may_find_nothing_to_compare() -> None:
    assert prepared(lambda v: pc.if_else(pc.equal(v, 1.0), None, v), pa.float64()) == []


@pytest.mark.parametrize(
    ("prepare", "primary", "detail"),
    [
        (lambda v: v[:1].to_pylist()[0] / 0, "raised ZeroDivisionError: float division by zero", "It was raised in"),
        (lambda v: 3, "gave no array", "It gave a int;"),
        (lambda v: v[:0], "gave 0 values for", "a value for each row"),
        (lambda v: pa.array(["x"] * len(v)), "gave no values of type double", "an Arrow array of string"),
        (
            lambda v: np.zeros((len(v), 2)),
            "gave no values of type double",
            "a numpy array of float64 with 2 dimensions",
        ),
        (lambda v: np.array([{}] * len(v)), "gave no values of type double", "a numpy array of object"),
    ],
)
def test_what_may_not_be_prepared(prepare: Any, primary: str, detail: str) -> None:
    with pytest.raises(UserFunctionError) as caught:
        prepared(prepare, pa.float64())
    error = caught.value
    assert error.primary.startswith(f'prepare function "<lambda>" of registered function "good" {primary}')
    assert detail in (error.detail or "")
    assert_points_at_the_call(error)


def test_a_constant_is_prepared_once() -> None:
    seen: list[list[float]] = []

    def note(v: pa.Array) -> pa.Array:
        seen.append(v.to_pylist())
        return v

    same = wm.predicate(lambda a, b: pc.equal(a, b), prepare=[None, note], prepared_type=pa.float64())
    text = "SELECT A.k FROM A, B WHERE A.k = B.k AND same(A.v, 2.0)"
    assert wm.sql(text, A=A, B=B, functions={"same": same}).run().column("k").to_pylist() == [1]
    assert seen == [[2.0]]


def test_what_is_masked_is_null() -> None:
    assert prepared(lambda v: np.ma.masked_array(v.to_numpy(), v.to_numpy() == 1.0)) == []
    pairs = prepared(lambda v: np.ma.masked_array(v.to_numpy(), v.to_numpy() == 2.0), "DOUBLE")
    assert pairs == [1]


def test_a_function_may_fill_the_same_memory_each_time() -> None:
    numbers, truths = np.zeros(100), np.zeros(100, dtype=bool)

    def prepare(v: pa.Array) -> Any:
        return np.negative(v.to_numpy(), out=numbers[: len(v)])

    def same(a: pa.Array, b: pa.Array) -> Any:
        return np.equal(a.to_numpy(), b.to_numpy(), out=truths[: len(a)])

    others = pa.table({"k": [1, 2], "v": [7.0, 8.0], "ts": [0, 1]})
    query = wm.sql(TEXT, A=A, B=others, functions={"good": wm.predicate(same, prepare=prepare, prepared_type="DOUBLE")})
    assert query.run(slots=1).num_rows == 0
    assert run(wm.predicate(same, prepare=prepare, prepared_type="DOUBLE")) == [1]


def test_what_is_no_function_is_refused_where_it_is_called() -> None:
    with pytest.raises(QueryError, match='"good" is registered and is no function') as caught:
        run(7)
    assert "is a int" in (caught.value.detail or "")
