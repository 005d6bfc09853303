"""What a spilled join owes is paid as fast as rows come, the oldest first: nothing piles up, and nobody above starves.

Merges of what had outlived its windows took the largest groups first, and no more than a share of the budget: with a
budget of two thirds of the state, 2 groups a batch of 95 that owed. Small groups were never merged. What was cold grew
with every batch, and a group-by above, which waits for the oldest result that is owed, emitted next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import watersmeet as wm

QUERY = (
    "SELECT A.k, COUNT(*) AS n, SUM(A.v + B.v) AS total FROM A [RANGE 80 MICROSECONDS SLIDE 10 MICROSECONDS], "
    "B [RANGE 10 MICROSECONDS] WHERE A.k = B.k GROUP BY A.k"
)
BATCHES = 240


def rows(count: int, shift: int) -> list[pa.RecordBatch]:
    return [
        pa.record_batch(
            {
                "k": [(7 * i + 13 * number) % 150 for i in range(count)],
                "v": [i * number + shift for i in range(count)],
                "ts": [10 * number + i % 10 for i in range(count)],
            }
        )
        for number in range(BATCHES)
    ]


def test_groups_above_a_spilled_join_come_out_while_it_runs() -> None:
    events: list[Mapping[str, Any]] = []
    table = wm.sql(QUERY, A=rows(60, 1), B=rows(20, 5)).run(memory=20_000, report=events.append)
    batches = [event for event in events if event["event"] == "batch"]
    assert any(told["decision"] == "SpillGroups" for event in batches for told in event["decisions"])
    out = [event["rows_out"] for event in batches]
    assert sum(out[:200]) > 0.7 * table.num_rows * 200 / BATCHES
    cold = [event["cold_bytes"] for event in batches]
    assert max(cold[200:]) < 1.3 * max(cold[60:100])
