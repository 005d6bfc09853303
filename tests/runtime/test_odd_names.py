"""Columns, streams and aliases may be called anything: no name of the engine's own gets in their way."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from strategies import counted

ROWS = 40
ODD = [
    "#k0", "##k0", "#k1", "#h", "#d", "@A", "@", "#", "A.x", ".", "x.y", "A.#k0", "a b", "a  b", "a`b", "it's",
    'say "x"', "SELECT", "*", "1", "ä", "😀", "a\nb", "a,b", "(a", "[a]", "#A+B", "", " ", "\\", "k0", "stream",
]  # fmt: skip


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def stream(column: str, step: int) -> pa.Table:
    """Rows with a key of text, values in the column of the odd name, and event times."""
    numbers = range(0, ROWS * step, step)
    data = {"k": [f"K{n % 7}" for n in numbers], "m": [n % 3 for n in numbers], "ts": list(numbers)}
    return pa.table({**data, column: pa.array([n * 10 for n in numbers])})


def in_python(window: int | None) -> dict[tuple[Any, ...], int]:
    left, right = stream("v", 1).to_pylist(), stream("v", 2).to_pylist()
    found: dict[tuple[Any, ...], int] = {}
    for a in left:
        for b in right:
            near = window is None or abs(a["ts"] - b["ts"]) < window
            if a["k"] == b["k"] and a["m"] + 1 == b["m"] + 1 and near:
                found[a["v"], b["v"]] = found.get((a["v"], b["v"]), 0) + 1
    return found


@pytest.mark.parametrize("column", ODD)
@pytest.mark.parametrize("window", [None, 9])
def test_a_column_may_have_any_name(column: str, window: int | None) -> None:
    name, clause = quoted(column), "" if window is None else f"[RANGE {window} MICROSECONDS]"
    query = wm.sql(
        f"SELECT A.{name} AS a, B.{name} AS b FROM A {clause}, B {clause} "
        f"WHERE upper(A.k) = upper(B.k) AND A.m + 1 = B.m + 1 AND A.{name} >= 0",
        A=stream(column, 1),
        B=stream(column, 2),
    )
    assert counted(query.run(batch_rows=20)) == in_python(window)


@pytest.mark.parametrize("alias", [name for name in ODD if name and "." not in name])
@pytest.mark.parametrize("window", [None, 9])
def test_an_alias_may_have_any_name_without_a_dot(alias: str, window: int | None) -> None:
    name, clause = quoted(alias), "" if window is None else f"[RANGE {window} MICROSECONDS]"
    query = wm.sql(
        f"SELECT {name}.v AS a, other.v AS b FROM left_one {name} {clause}, right_one other {clause} "
        f"WHERE upper({name}.k) = upper(other.k) AND {name}.m + 1 = other.m + 1",
        left_one=stream("v", 1),
        right_one=stream("v", 2),
    )
    assert counted(query.run(batch_rows=20)) == in_python(window)


def test_joins_of_odd_aliases_are_told_apart_where_results_are_traced() -> None:
    aliases = ["A+B", "C", "A", "B+C"]
    tables = ", ".join(f"{name} {quoted(alias)}" for name, alias in zip("stuv", aliases, strict=True))
    keys = " AND ".join(f"`A+B`.k = {quoted(alias)}.k" for alias in aliases[1:])
    values = ", ".join(f"{quoted(alias)}.v AS v{i}" for i, alias in enumerate(aliases))
    streams = {name: stream("v", step).slice(0, 9) for step, name in enumerate("stuv", 1)}
    query = wm.sql(f"SELECT {values} FROM {tables} WHERE {keys}", **streams)
    whole = query.run(plan="mjoin")
    assert whole.num_rows
    assert counted(query.run(plan="((A+B C) (A B+C))", batch_rows=3, memory="1KB")) == counted(whole)


def test_explain_shows_a_computed_key_as_it_was_written() -> None:
    text = "SELECT A.`#k0` AS a FROM A, B WHERE upper(A.k) = lower(B.k)"
    shown = wm.sql(text, A=stream("#k0", 1), B=stream("v", 1)).explain()
    assert "upper(A.k) = lower(B.k)" in shown
