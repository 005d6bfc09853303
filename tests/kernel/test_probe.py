"""Numbering and expanding against the same in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.probe import expand, number_distinct

TOP = 2**64 - 1
hashes = st.one_of(st.integers(0, 5), st.sampled_from([TOP, TOP - 1, 2**63]))


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


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
