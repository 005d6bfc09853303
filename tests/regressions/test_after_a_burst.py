"""Was: a budget that was passed once made a windowed query keep everything from then on.

A group that was spilled has a closed generation, and rows that expire beside it go cold, being owed results with it.
Only a spill of the group or a merge ended that. Once the burst was over there were no spills, and merges left the live
generation alone: after 700 batches nearly all rows that had ever come to such groups were still there.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.runtime.events import Event

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
TEXT = "SELECT A.v AS a, B.v AS b FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k"
BATCHES, BURST = 160, 12


def rows(stream: str, second: int) -> pa.RecordBatch:
    random = Random(f"{stream}{second}")
    count = 400 if second < BURST else 40
    entries = [{"k": random.randrange(300), "v": i, "ts": second * 1_000_000 + i} for i in range(count)]
    return pa.RecordBatch.from_pylist(entries, schema=SCHEMA)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("memory", [60_000, 75_000], ids=["a little too small", "just large enough"])
def test_what_is_cold_stays_bounded(memory: int) -> None:
    """Afterwards the state without a budget has some 70,000 bytes: ten seconds of two streams."""
    data = {name: [rows(name, second) for second in range(BATCHES)] for name in "AB"}
    events: list[Event] = []
    limited = wm.sql(TEXT, **data).run(groups=30, memory=memory, report=events.append)
    found = [event for event in events if event["event"] == "batch"]
    assert max(event["cold_bytes"] for event in found[:BURST]) > 100_000, "the burst is spilled"
    late = max(event["cold_bytes"] for event in found[-30:])
    assert late < 250_000, f"{late} bytes cold in the last 30 batches"
    assert limited.num_rows == wm.sql(TEXT, **data).run(groups=30).num_rows
