"""The step of a node: each combination with at least one new row comes out exactly once, whatever the chunks."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_steps import Row, plan_of, rows_of, step
from watersmeet.kernel.combine import chunks
from watersmeet.kernel.hashing import hash_keys
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.step import join_step
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import Node
from watersmeet.plan.tree import choose_tree

THREE = "SELECT A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k"


def values(chunks: list[pa.RecordBatch], *names: str) -> Counter[Row]:
    return Counter(row for chunk in chunks for row in zip(*(chunk.column(n).to_pylist() for n in names), strict=True))


V = ("A.v", "B.v", "C.v")


@pytest.mark.parametrize(
    ("new", "kept", "expected"),
    [
        ({}, {}, []),
        ({}, {"A": [[(1, 1, 0)]], "B": [[(1, 2, 0)]], "C": [[(1, 3, 0)]]}, []),
        ({"A": [(1, 1, 0)]}, {"B": [[(1, 2, 0)]], "C": [[(1, 3, 0)]]}, [(1, 2, 3)]),
        ({"A": [(1, 1, 0)], "B": [(1, 2, 0)], "C": [(1, 3, 0)]}, {}, [(1, 2, 3)]),
        ({"A": [(1, 1, 0)], "C": [(1, 3, 0)]}, {"B": [[(1, 2, 0)], [(1, 4, 0)]]}, [(1, 2, 3), (1, 4, 3)]),
        ({"A": [(1, 1, 0)], "B": [(2, 2, 0)], "C": [(3, 3, 0)]}, {}, []),
        ({"A": [(1, 1, 0)]}, {"A": [[(1, 9, 0)]], "B": [[(1, 2, 0)]], "C": [[(1, 3, 0)]]}, [(1, 2, 3)]),
        ({"A": [(None, 1, 0)], "B": [(None, 2, 0)], "C": [(None, 3, 0)]}, {}, []),
        ({"B": [(1, 2, 0), (1, 2, 0)]}, {"A": [[(1, 1, 0)]], "C": [[], [(1, 3, 0)]]}, [(1, 2, 3), (1, 2, 3)]),
        (
            {"A": [(-(2**63), 1, 0), (2**63 - 1, 2, 0)], "B": [(2**63 - 1, 3, 0)], "C": [(2**63 - 1, 4, 0)]},
            {},
            [(2, 3, 4)],
        ),
    ],
    ids=[
        "nothing",
        "no new rows give no results, whatever is kept",
        "one new row meets kept rows",
        "new rows meet each other once",
        "new rows of two inputs meet kept rows of the third in two segments",
        "no key in common",
        "kept rows of the new row's own input are not its partners",
        "all NULL keys",
        "equal rows count as often as they come, empty segments are passed over",
        "keys at the ends of 64 bits",
    ],
)
def test_join_step(new: dict[str, list[Row]], kept: dict[str, list[list[Row]]], expected: list[Row]) -> None:
    assert values(step(plan_of(THREE), new, kept), *V) == Counter(expected)


rows = st.lists(st.tuples(st.sampled_from([0, 1, 2, None]), st.integers(0, 9), st.integers(-5, 5)), max_size=4)


@given(
    st.fixed_dictionaries(dict.fromkeys("ABC", rows)),
    st.fixed_dictionaries(dict.fromkeys("ABC", st.lists(rows, max_size=2))),
    st.sampled_from([1, 2, 3, 1000]),
    st.booleans(),
)
def test_the_new_rows_add_what_the_whole_has_more(
    new: dict[str, list[Row]], kept: dict[str, list[list[Row]]], chunk_rows: int, collide: bool
) -> None:
    def colliding(columns: Sequence[pa.Array]) -> Any:
        return hash_keys(columns) % np.uint64(2)

    with (
        mock.patch("watersmeet.kernel.prepare.hash_keys", colliding if collide else hash_keys),
        mock.patch("watersmeet.plan.layout.fragment.has_exact_hash", lambda types: not collide),
    ):
        found = values(step(plan_of(THREE), new, kept, chunk_rows=chunk_rows), *V)
    before = {alias: [row for segment in kept[alias] for row in segment] for alias in "ABC"}
    after = {alias: before[alias] + new[alias] for alias in "ABC"}
    assert found == whole(after) - whole(before)


def whole(of: dict[str, list[Row]]) -> Counter[Row]:
    return Counter(
        (a[1], b[1], c[1])
        for a, b, c in itertools.product(*(of[alias] for alias in "ABC"))
        if a[0] is not None and a[0] == b[0] == c[0]
    )


def test_chunks_stay_near_their_size_unless_one_row_has_more_partners() -> None:
    plan = plan_of("SELECT A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k")
    new = {"A": [(1, i, 0) for i in range(10)], "B": [(1, i, 0) for i in range(7)]}
    chunks = step(plan, new, chunk_rows=20)
    assert sum(chunk.num_rows for chunk in chunks) == 70
    assert max(chunk.num_rows for chunk in chunks) <= 20
    assert max(chunk.num_rows for chunk in step(plan, new, chunk_rows=1)) <= 10


@pytest.mark.parametrize(
    ("counts", "size", "stretches"),
    [
        ([], 5, []),
        ([1, 1, 1], 2, [(0, 2), (2, 3)]),
        ([9, 1], 2, [(0, 1), (1, 2)]),
        ([0, 0, 3, 0], 3, [(0, 4)]),
        ([2, 2, 2], 4, [(0, 2), (2, 3)]),
    ],
    ids=["nothing", "even", "one too large", "rows without partners", "exactly full"],
)
def test_stretches(counts: list[int], size: int, stretches: list[tuple[int, int]]) -> None:
    assert list(chunks(np.array(counts, dtype=np.int64), size)) == stretches


@pytest.mark.parametrize(
    ("a", "b", "joins"),
    [(0, 9, True), (0, 10, False), (9, 0, True), (100, 0, True), (-5, 4, True), (-5, 5, False)],
    ids=[
        "inside",
        "at its end: outside",
        "the windowed row is the newest",
        "an unbounded row may be as old as it likes",
        "inside, across zero",
        "outside, across zero",
    ],
)
def test_windows(a: int, b: int, joins: bool) -> None:
    plan = plan_of("SELECT A.v AS a, B.v AS b FROM A [RANGE 10 MICROSECONDS], B WHERE A.k = B.k")
    assert values(step(plan, {"A": [(1, 1, a)]}, {"B": [[(1, 1, b)]]}), "A.v").total() == joins
    assert values(step(plan, {"B": [(1, 1, b)]}, {"A": [[(1, 1, a)]]}), "A.v").total() == joins
    assert values(step(plan, {"A": [(1, 1, a)], "B": [(1, 1, b)]}), "A.v").total() == joins


def test_predicates_are_checked_as_soon_as_their_inputs_are_there() -> None:
    plan = plan_of(THREE + " AND A.v < B.v AND A.v + B.v + C.v > 10")
    new = {"A": [(1, 1, 0), (1, 5, 0)], "B": [(1, 2, 0), (1, 6, 0)], "C": [(1, 0, 0), (1, 7, 0), (1, None, 0)]}
    assert values(step(plan, new), *V) == Counter([(1, 6, 7), (5, 6, 0), (5, 6, 7)])  # 1+2+7 is not > 10


def test_keys_of_one_hash_are_told_apart() -> None:
    schema = "k STRING, v BIGINT, ts BIGINT"
    with mock.patch("watersmeet.kernel.prepare.hash_keys", lambda columns: np.full(len(columns[0]), 7, np.uint64)):
        plan = plan_of(THREE, schema)
        new = {a: [("", 1, 0), ("x", 2, 0), ("ä🙂", 3, 0)] for a in "ABC"}
        assert values(step(plan, new, schema=schema), *V) == Counter([(1, 1, 1), (2, 2, 2), (3, 3, 3)])


def test_segments_may_be_slices() -> None:
    plan = plan_of("SELECT A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k")
    (node,) = plan.operators.values()
    assert isinstance(node, Node)
    kept = rows_of(plan, "B", [(k, 10 * k, 0) for k in range(6)])
    pieces = [Indexed.of(kept.slice(start, rows)) for start, rows in ((0, 2), (2, 0), (2, 4))]
    new = rows_of(plan, "A", [(k, k, 0) for k in range(8)])
    nothing = rows_of(plan, "B", [])
    found = [chunk for start in range(8) for chunk in join_step(node, [new.slice(start, 1), nothing], [[], pieces])]
    assert values(found, "A.v", "B.v") == Counter((k, 10 * k) for k in range(6))


def test_the_output_carries_the_hash_and_the_wanted_columns() -> None:
    plan = plan_of(THREE)
    (chunk,) = step(plan, {alias: [(4, 1, 0)] for alias in "ABC"})
    assert chunk.schema.names == ["#h", "A.v", "B.v", "C.v"]
    assert chunk.column("#h").to_pylist() == hash_keys([pa.array([4])]).tolist()


def test_the_output_carries_the_upper_bits_of_its_hash_where_lineage_is_wanted() -> None:
    plan = plan_of(THREE)
    lower, _ = lay_out(plan.query, choose_tree(plan.query, "((A B) C)"), lineage=True).operators.values()
    new = [rows_of(plan, alias, [(4, 1, 0)]) for alias in "AB"]
    (chunk,) = join_step(lower, new, [[], []])
    assert lower.lineage == "#A+B"
    assert chunk.column("#A+B").type == pa.uint16()
    assert chunk.column("#A+B").to_pylist() == [hashed >> 48 for hashed in hash_keys([pa.array([4])]).tolist()]
