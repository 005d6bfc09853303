"""Filters pulled above joins and pushed down again while a query runs: what is looked at, kept, filtered and marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from strategies import counted
from watersmeet.errors import InputError, UserFunctionError
from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.matching import match_plans
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("n", pa.string()), ("ts", pa.int64())])
STREAMS = {name: Stream(name, SCHEMA, "ts") for name in "ABC"}
TEXT = "SELECT A.n AS a, B.n AS b, C.n AS c FROM A, B, C WHERE A.k = B.k AND B.v = C.v AND large(A.v)"


class Asked:
    """A Python predicate that remembers the values that it was asked about."""

    def __init__(self) -> None:
        self.values: list[int | None] = []

    def __call__(self, values: pa.Array) -> pa.Array:
        self.values += values.to_pylist()
        return pc.greater(values, 3)

    def pop(self) -> list[int | None]:
        values, self.values = sorted(self.values, key=str), []
        return values


class Moving:
    """A run in memory that rows are given to by hand: (key, value, name)."""

    def __init__(self, plan: str, text: str = TEXT) -> None:
        self.asked = Asked()
        self.query = bind(text, STREAMS, {"large": self.asked})
        laid_out = lay_out(self.query, choose_tree(self.query, plan))
        self._results = MemoryResults()
        self.run = LocalRun(laid_out, in_memory(self.query, laid_out.spec, Placement(2, 4)), self._results)
        self._now = 0

    def batch(self, **rows: Sequence[tuple[int, int, str]]) -> Counter[tuple[Any, ...]]:
        pulled = {}
        self._now += 1
        for name, entries in rows.items():
            found = [{"k": k, "v": v, "n": n, "ts": self._now} for k, v, n in entries]
            source = RowsSource(STREAMS[name], [pa.RecordBatch.from_pylist(found, schema=SCHEMA)])
            pulled[name] = source.pull(set())
        self.run.driver.run_batch({name: batch for name, batch in pulled.items() if batch is not None})
        return counted(pa.Table.from_batches(self._results.pop(), schema=self.query.output_schema))

    def change(self, plan: str) -> Mapping[str, Any]:
        return self.run.driver.migrate(plan, "moving-state", "asked for by hand")

    def rows(self, inputs: str) -> list[dict[str, Any]]:
        """What the state of some inputs holds."""
        found: list[dict[str, Any]] = []
        for segment in self.run.manifest.segments.values():
            if segment.state.startswith(f"{inputs}@"):
                for piece in self.run.checkpoint.segments.read(segment):
                    found += piece.rows.to_pylist()
        return [
            {"passed" if "#f" in name else name: value for name, value in row.items() if name not in ("#h",)}
            for row in sorted(found, key=str)
        ]


def test_a_filter_above_a_join_is_asked_once_about_each_row_that_joins() -> None:
    run = Moving("((A B)[A] C)")
    run.batch(C=[(0, 1, "c")], B=[(1, 1, "b1"), (1, 1, "b2"), (1, 1, "b3")])
    assert run.batch(A=[(1, 5, "a"), (1, 2, "small"), (7, 9, "alone")]) == {
        ("a", "b1", "c"): 1,
        ("a", "b2", "c"): 1,
        ("a", "b3", "c"): 1,
    }
    assert run.asked.pop() == [2, 5], "once, though each meets three rows, and not about the row that meets none"
    assert [row["A.n"] for row in run.rows("A+B")] == ["a", "a", "a"], "what fails is not kept above"
    assert {row["A.n"] for row in run.rows("A")} == {"a", "small", "alone"}


def test_a_filter_that_is_pushed_down_filters_the_state() -> None:
    run = Moving("((A B)[A] C)")
    run.batch(A=[(1, 5, "a"), (1, 2, "small"), (2, 9, "other")])
    told = run.change("((A B) C)")
    assert (told["from"], told["plan"]) == ("((A B)[A] C)", "((A B) C)")
    assert run.asked.pop() == [2, 5, 9]
    assert run.rows("A") == [{"A.k": 1, "A.n": "a"}, {"A.k": 2, "A.n": "other"}], "filtered, and projected"
    assert run.batch(B=[(1, 1, "b")], C=[(0, 1, "c")]) == {("a", "b", "c"): 1}
    assert run.asked.pop() == []


def test_rows_that_were_there_when_a_filter_is_pulled_up_have_passed_it() -> None:
    run = Moving("((A B) C)")
    run.batch(A=[(1, 5, "a"), (1, 2, "small")])
    assert run.asked.pop() == [2, 5]
    run.change("((A B)[A] C)")
    assert run.rows("A") == [{"A.k": 1, "A.n": "a", "A.v": None, "passed": True}], "its value was not held"
    assert run.batch(A=[(1, 8, "new"), (1, 1, "new small")], B=[(1, 1, "b")], C=[(0, 1, "c")]) == {
        ("a", "b", "c"): 1,
        ("new", "b", "c"): 1,
    }
    assert run.asked.pop() == [1, 8]
    run.change("((A B) C)[A]")
    assert run.asked.pop() == [], "A and B are joined anew, without the filter"
    run.change("(A (B C))")
    assert run.asked.pop() == [1, 8], "and nobody asks about the row that has passed"
    assert [row["A.n"] for row in run.rows("A")] == ["a", "new"]
    assert run.batch(B=[(1, 1, "b2")]) == {("a", "b2", "c"): 1, ("new", "b2", "c"): 1}


def test_only_the_state_of_the_filtered_input_is_made() -> None:
    query = bind(TEXT, STREAMS, {"large": Asked()})
    at_input, above, top = (
        lay_out(query, choose_tree(query, plan)) for plan in ("((A B) C)", "((A B)[A] C)", "((A B) C)[A]")
    )
    up, down = match_plans(at_input, above), match_plans(above, at_input)
    for matching in (up, down):
        assert [name.partition("@")[0] for name in matching.made] == ["A"]
        assert not matching.joins
    (port,) = up.ports
    assert [name for name, _ in port.stuffed] == ["A.v"]
    assert list(port.passed.values()) == [True]
    (port,) = down.ports
    assert (len(port.filters), port.stuffed, port.passed) == (1, (), {})
    assert [name.partition("@")[0] for name in match_plans(above, top).made] == ["A+B"]


# --- what a filter keeps out of the query stops no run ---------------------------------------------------------------

LARGE = 2**62


@pytest.mark.parametrize("plan", ["(A B)", "(A B)[A]"])
def test_a_key_is_not_computed_for_rows_that_a_filter_keeps_out(plan: str) -> None:
    streams = {
        "A": pa.table({"k": [1, LARGE], "ts": [1, 2]}),
        "B": pa.table({"k": [4, 5], "ts": [1, 2]}),
    }
    query = wm.sql("SELECT A.k FROM A, B WHERE A.k * 4 = B.k AND A.k < 100", **streams)
    assert query.run(plan=plan).to_pydict() == {"k": [1]}
    unfiltered = wm.sql("SELECT A.k FROM A, B WHERE A.k * 4 = B.k AND A.k > 0", **streams)
    with pytest.raises(InputError, match="cannot compute"):
        unfiltered.run(plan=plan)


@pytest.mark.parametrize("plan", ["(A B)", "(A B)[A]", "((A B) C)", "((A B) C)[A]", "(A B C)[A]"])
def test_a_predicate_is_not_computed_for_rows_that_a_filter_keeps_out(plan: str) -> None:
    def reciprocal(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.array([1 / value > 0 for value in values.to_pylist()], dtype=bool)

    streams = {
        "A": pa.table({"k": [1, 1], "v": [0, 2], "ts": [1, 2]}),
        "B": pa.table({"k": [1], "v": [LARGE], "ts": [1]}),
        "C": pa.table({"v": [LARGE], "ts": [1]}),
    }
    names = "A, B, C" if "C" in plan else "A, B"
    third = " AND B.v = C.v" if "C" in plan else ""

    def run(filtered: str) -> dict[str, list[Any]]:
        text = f"SELECT A.v FROM {names} WHERE A.k = B.k{third} AND reciprocal(A.v + 0 * B.k) AND {filtered}"
        used = {name: streams[name] for name in names.split(", ")}
        found: dict[str, list[Any]] = (
            wm.sql(text, functions={"reciprocal": reciprocal}, **used).run(plan=plan).to_pydict()
        )
        return found

    assert run("A.v > 0") == {"v": [2]}
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        run("A.v < 5")
