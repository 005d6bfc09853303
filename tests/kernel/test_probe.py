"""Search and expand against the same in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.probe import expand, find_runs, number_distinct

TOP = 2**64 - 1
hashes = st.one_of(st.integers(0, 5), st.sampled_from([TOP, TOP - 1, 2**63]))


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


@pytest.mark.parametrize(
    ("needles", "values", "runs"),
    [
        ([], [1, 2], []),
        ([1, 2], [], []),
        ([1], [1], [(0, 0, 1)]),
        ([0, 9], [3, 4], []),
        ([TOP], [0, TOP, TOP], [(0, 1, 2)]),
        ([0], [0, 0, 0], [(0, 0, 3)]),
        ([TOP], [0], []),
    ],
    ids=["no needles", "no values", "one of each", "below and above", "the last hash", "all alike", "past the end"],
)
def test_find_runs(needles: list[int], values: list[int], runs: list[tuple[int, int, int]]) -> None:
    assert list(zip(*(a.tolist() for a in find_runs(array(needles), array(values))), strict=True)) == runs


@given(st.lists(hashes, unique=True).map(sorted), st.lists(hashes).map(sorted))
def test_find_runs_finds_all_and_only_what_is_there(needles: list[int], values: list[int]) -> None:
    found = zip(*(a.tolist() for a in find_runs(array(needles), array(values))), strict=True)
    assert list(found) == [(i, values.index(n), values.count(n)) for i, n in enumerate(needles) if n in values]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4))))
def test_expand_spells_runs_out(runs: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in runs], dtype=np.int64)
    counts = np.array([count for _, count in runs], dtype=np.int64)
    run, row = expand(starts, counts)
    expected = [(i, start + k) for i, (start, count) in enumerate(runs) for k in range(count)]
    assert list(zip(run.tolist(), row.tolist(), strict=True)) == expected


@given(st.lists(st.lists(hashes).map(sorted), min_size=1, max_size=4))
def test_number_distinct(columns: list[list[int]]) -> None:
    distinct, numbers = number_distinct([array(column) for column in columns])
    assert distinct.tolist() == sorted({value for column in columns for value in column})
    assert [distinct[n].tolist() for n in numbers] == columns
