"""Look-ups through a directory against the same in plain Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.indexed import STEPS, Indexed, make_directory

TOP = 2**64 - 1
hashes = st.one_of(
    st.integers(0, 5), st.sampled_from([TOP, TOP - 1, 2**63]), st.integers(2**40, 2**40 + 50), st.integers(0, TOP)
)


def indexed(values: list[int]) -> Indexed:
    return Indexed.of(pa.record_batch({"#h": pa.array(values, pa.uint64())}))


def runs_of(needles: list[int], rows: Indexed) -> list[tuple[int, int, int]]:
    found = rows.find(np.array(needles, dtype=np.uint64))
    return list(zip(*(column.tolist() for column in found), strict=True))


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
        ([7], [7] * (3 * STEPS), [(0, 0, 3 * STEPS)]),
        ([3 * STEPS], [*range(3 * STEPS + 1), TOP], [(0, 3 * STEPS, 1)]),
    ],
    ids=[
        "no needles",
        "no values",
        "one of each",
        "below and above",
        "the last hash",
        "all alike",
        "past the end",
        "a run longer than the steps",
        "a crowd in one stretch",
    ],
)
def test_find(needles: list[int], values: list[int], runs: list[tuple[int, int, int]]) -> None:
    assert runs_of(needles, indexed(values)) == runs


@given(st.lists(hashes, unique=True).map(sorted), st.lists(hashes, max_size=60).map(sorted), hashes, hashes)
def test_finds_all_and_only_what_is_meant(needles: list[int], values: list[int], a: int, b: int) -> None:
    low, high = min(a, b), max(a, b) + 1
    expected = [(i, values.index(n), values.count(n)) for i, n in enumerate(needles) if n in values]
    assert runs_of(needles, indexed(values)) == expected
    meant = [run for run in expected if low <= needles[run[0]] < high]
    assert runs_of(needles, indexed(values).within(low, high)) == meant
    part = indexed(values).within(low, high).part
    assert part.column("#h").to_pylist() == [value for value in values if low <= value < high]


@given(st.lists(hashes, min_size=1, max_size=60).map(sorted))
def test_a_directory_is_no_longer_than_its_rows(values: list[int]) -> None:
    starts = make_directory(np.array(values, dtype=np.uint64))
    assert 1 <= len(starts) <= len(values)
    assert starts[0] == 0
    assert all(np.diff(starts) >= 0)
