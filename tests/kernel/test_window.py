"""Lifetimes of rows: when a combination is complete (T), and when it stops being one (E)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from watersmeet.kernel.window import LONG_AGO, NEVER, expiry, lifetimes
from watersmeet.model.ids import Partitioning, StateName
from watersmeet.plan.physical import State

SECOND = 1_000_000


def state(windows: dict[str, int], times: list[str]) -> State:
    fields = tuple((f"@{alias}", pa.int64()) for alias in times)
    return State(
        StateName("S"),
        tuple(times),
        (),
        fields,
        tuple((f"@{alias}", width) for alias, width in windows.items()),
        ("other",),
        Partitioning("k0"),
    )


def rows(**times: list[int]) -> pa.RecordBatch:
    return pa.record_batch({f"@{alias}": pa.array(values, pa.int64()) for alias, values in times.items()})


@pytest.mark.parametrize(
    ("windows", "times", "newest", "ends"),
    [
        ({"A": 10}, {"A": [0, 5, -20]}, [0, 5, -20], [10, 15, -10]),
        ({}, {"A": [3]}, [3], [NEVER]),
        ({"A": 10, "B": 4}, {"A": [0, 7], "B": [5, 0]}, [5, 7], [9, 4]),
        ({"B": 4}, {"A": [100], "B": [98]}, [100], [102]),
        (
            {"A": 10},
            {"A": [NEVER, NEVER - 10, NEVER - 11]},
            [NEVER - 1, NEVER - 10, NEVER - 11],
            [NEVER, NEVER, NEVER - 1],
        ),
        ({"A": 10}, {"A": [LONG_AGO]}, [LONG_AGO], [LONG_AGO + 10]),
        ({"A": 10}, {"A": []}, [], []),
        ({"A": 999_999_999 * 86_400 * SECOND}, {"A": [0, -5, LONG_AGO]}, [0, -5, LONG_AGO], [NEVER, NEVER, NEVER]),
        ({"A": 2**63 + 7}, {"A": [0, -9]}, [0, -9], [NEVER, NEVER - 1]),
    ],
    ids=[
        "one window",
        "no window never ends",
        "the oldest of two ends first",
        "an input without a window sets T only",
        "the end of time saturates",
        "the beginning of time",
        "no rows",
        "a window wider than 64 bits",
        "a window a little wider than 63 bits",
    ],
)
def test_lifetimes(windows: dict[str, int], times: dict[str, list[int]], newest: list[int], ends: list[int]) -> None:
    found = lifetimes(rows(**times), state(windows, list(times)))
    assert found is not None
    assert (found.newest.tolist(), found.expiry.tolist()) == (newest, ends)


@pytest.mark.parametrize(
    ("widths", "times", "ends"),
    [
        ({"A": -10}, {"A": [0, 5]}, [-10, -5]),
        ({"A": 0}, {"A": [3]}, [3]),
        ({"A": -10, "B": 4}, {"A": [0, 30], "B": [5, 0]}, [-10, 4]),
        ({"A": -10}, {"A": [LONG_AGO + 3, LONG_AGO + 11]}, [LONG_AGO, LONG_AGO + 1]),
        ({"A": -(2**63) - 7}, {"A": [0, NEVER]}, [LONG_AGO, -8]),
        ({}, {"A": [0]}, [NEVER]),
    ],
)
def test_how_long_rows_stay_is_their_own_affair(
    widths: dict[str, int], times: dict[str, list[int]], ends: list[int]
) -> None:
    """By windows for pairs, which may be shorter than nothing; what combinations are checked by stays as it is."""
    by_pairs = tuple((f"@{alias}", width) for alias, width in widths.items())
    found = replace(state({"A": 7}, list(times)), stays_by_pairs=by_pairs)
    assert expiry(rows(**times), found).tolist() == ends
    life = lifetimes(rows(**times), found)
    assert life is not None
    assert life.expiry.tolist() == [min(NEVER, time + 7) for time in times["A"]]


def test_rows_without_times_have_no_lifetime() -> None:
    assert lifetimes(pa.record_batch({"A.v": pa.array([1])}), state({}, [])) is None


def test_expiry_leaves_its_rows_alone() -> None:
    batch = rows(A=[1, 2])
    expiry(batch, state({"A": 5}, ["A"]))
    assert batch.column("@A").to_pylist() == [1, 2]
