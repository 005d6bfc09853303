"""A mutant that the drawn cases let live: the other alias of a row's own stream may still need the row.

Stream A is behind, B far ahead. Rows of A as `x` must wait for A's own watermark, not for that of B alone.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm


def batches(*times: list[int]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"k": pa.array([1] * len(ts), pa.int64()), "ts": pa.array(ts, pa.int64())}) for ts in times]


@pytest.mark.parametrize("plan", ["mjoin", "((x y) z)", "((x z) y)", "((y z) x)"])
def test_a_row_waits_for_its_own_stream(plan: str) -> None:
    query = wm.sql(
        "SELECT x.ts AS x, y.ts AS y, z.ts AS z FROM A x [RANGE 10 MICROSECONDS], A y [RANGE 10 MICROSECONDS], B z "
        "WHERE x.k = y.k AND y.k = z.k",
        A=batches([0], [], [], [5]),
        B=batches([2, 1000], [2000], [3000], []),
    )
    found = sorted(tuple(row.values()) for row in query.run(plan=plan).to_pylist())
    assert found == [(0, 0, 2), (0, 5, 2), (5, 0, 2), (5, 5, 2)]
