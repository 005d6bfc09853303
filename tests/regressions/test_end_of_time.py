"""Event times and windows at the ends of 64 bits: rows there join like any other, and nothing overflows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm

LAST, FIRST = 2**63 - 1, -(2**63)


def batches(*times: list[int]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"k": pa.array([1] * len(ts), pa.int64()), "ts": pa.array(ts, pa.int64())}) for ts in times]


@pytest.mark.parametrize("window", ["", "[UNBOUNDED]", "[RANGE 10 SECONDS]", "[RANGE 999999999 DAYS]"])
def test_rows_of_the_last_microsecond_join(window: str) -> None:
    # Was: T < E failed for T = E = NEVER, and a watermark at the end of time dropped states that nothing limits.
    query = wm.sql(
        f"SELECT A.ts AS a, B.ts AS b FROM A {window}, B {window} WHERE A.k = B.k",
        A=batches([LAST], [], [LAST]),
        B=batches([LAST], [LAST], []),
    )
    assert query.run().num_rows == 4


def test_unbounded_rows_outlive_a_watermark_at_the_end_of_time() -> None:
    query = wm.sql(
        "SELECT A.ts AS a, B.ts AS b FROM A, B WHERE A.k = B.k",
        A=batches([5], [LAST], [], []),
        B=batches([LAST], [], [], [LAST]),
    )
    assert sorted(query.run().column("a").to_pylist()) == [5, 5, LAST, LAST]


def test_a_window_wider_than_64_bits_is_no_limit() -> None:
    # Was: OverflowError from adding the width to the times.
    query = wm.sql(
        "SELECT A.ts AS a FROM A [RANGE 999999999 DAYS], B WHERE A.k = B.k",
        A=batches([FIRST, 0]),
        B=batches([FIRST], [LAST]),
    )
    assert sorted(query.run().column("a").to_pylist()) == [FIRST, FIRST, 0, 0]


@pytest.mark.parametrize("ring", ["psp", "atr", "ctr"])
@pytest.mark.parametrize("segment", [None, "999999999 days"])
def test_rings_have_windows_wider_than_64_bits(ring: str, segment: str | None) -> None:
    # Was: OverflowError from dividing times by the length of the segments of atr, and without it a row of the last
    # microsecond was in a segment of its own.
    query = wm.sql(
        "SELECT A.ts AS a, B.ts AS b FROM A [RANGE 999999999 DAYS], B [RANGE 200000000 DAYS] WHERE A.ts <= B.ts",
        A=batches([FIRST, 0], [LAST]),
        B=batches([FIRST], [LAST]),
    )
    found = query.run(ring=ring, ring_segment=segment if ring == "atr" else None).to_pylist()
    assert sorted((row["a"], row["b"]) for row in found) == [(FIRST, FIRST), (FIRST, LAST), (0, LAST), (LAST, LAST)]


@pytest.mark.parametrize("ring", ["psp", "atr", "ctr"])
def test_rows_of_the_last_microsecond_are_where_they_are_looked_for(ring: str) -> None:
    # Was: such a row lay in a slice after the last one that others visited, mostly in another slot.
    query = wm.sql(
        "SELECT A.ts AS a, B.ts AS b FROM A [RANGE 1 MICROSECOND], B [RANGE 1 MICROSECOND] WHERE A.k <= B.k",
        A=batches([LAST], [], [LAST]),
        B=batches([LAST], [LAST], []),
    )
    assert query.run(ring=ring, slots=4, groups=64).num_rows == 4


def test_a_row_of_the_first_microsecond_counts_at_its_boundaries() -> None:
    # Was: rounded up by way of its negative, which it has none, it was of no boundary.
    query = wm.sql("SELECT COUNT(*) AS n FROM A [RANGE 4 SECONDS SLIDE 2 SECONDS]", A=batches([FIRST], [0]))
    found = query.run().sort_by("window_end").column("window_end").to_pylist()
    assert found == [FIRST + 775_808, FIRST + 2_775_808, 0, 2_000_000]
