"""What a group-by keeps for its boundaries goes cold under a budget, and the answer stays the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm

SLIDE, WINDOW = 10, 80
SINGLE = (
    "SELECT k, COUNT(*) AS n, SUM(v) AS total "
    f"FROM A [RANGE {WINDOW} MICROSECONDS SLIDE {SLIDE} MICROSECONDS] GROUP BY k"
)
JOIN = (
    f"SELECT A.k, COUNT(*) AS n, SUM(A.v + B.v) AS total FROM A [RANGE {WINDOW} MICROSECONDS "
    f"SLIDE {SLIDE} MICROSECONDS], B [RANGE {SLIDE} MICROSECONDS] WHERE A.k = B.k GROUP BY A.k"
)
ROUTED = (
    f"SELECT A.k, COUNT(*) AS n FROM A [RANGE {WINDOW} MICROSECONDS SLIDE {SLIDE} MICROSECONDS], "
    f"B [RANGE {SLIDE} MICROSECONDS], C [RANGE {SLIDE} MICROSECONDS] WHERE A.k = B.k AND B.v = C.v GROUP BY A.k"
)
BUDGET = 15_000


def batches(count: int, rows: int, shift: int) -> list[pa.RecordBatch]:
    """Rows of many groups, ten microseconds to a batch."""
    return [
        pa.record_batch(
            {
                "k": [(7 * i + 13 * number) % 150 for i in range(rows)],
                "v": [i * number + shift for i in range(rows)],
                "ts": [10 * number + i % 10 for i in range(rows)],
            }
        )
        for number in range(count)
    ]


def run(text: str, count: int, **options: Any) -> tuple[Counter[tuple[Any, ...]], list[Mapping[str, Any]]]:
    streams = {"A": batches(count, 60, 1)} | {name: batches(count, 20, 5) for name in "BC" if f" {name} " in text}
    events: list[Mapping[str, Any]] = []
    table = wm.sql(text, **streams).run(report=events.append, **options)
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return Counter(rows), [event for event in events if event["event"] == "batch"]


def spills(events: list[Mapping[str, Any]], kind: str) -> int:
    return sum(told["decision"] == kind for event in events for told in event["decisions"])


@pytest.mark.parametrize("text", [SINGLE, JOIN])
def test_the_answer_is_the_same_and_memory_stays_inside_the_budget(text: str) -> None:
    answer, freely = run(text, 60)
    found, events = run(text, 60, memory=BUDGET)
    assert answer.total() > 1000
    assert found == answer
    assert max(event["active_bytes"] for event in freely) > BUDGET
    assert spills(events, "SpillAggregates") > 1
    assert not spills(events, "CannotSpill")
    assert max(event["active_bytes"] for event in events) <= BUDGET
    assert max(event["cold_bytes"] for event in events) > BUDGET


def test_what_is_cold_does_not_pile_up() -> None:
    """It leaves its windows, and its parts are united."""
    _, events = run(SINGLE, 300, memory=BUDGET)
    cold = [event["cold_bytes"] for event in events]
    assert max(cold[200:-1]) <= 1.2 * max(cold[50:150])
    held = [sum(state["segments"] for state in event["states"].values()) for event in events]
    assert max(held[200:-1]) <= max(held[50:150]) + 4


def test_running_totals_stay_in_memory() -> None:
    """Every batch asks for groups of them, so there is nothing to be gained."""
    text = "SELECT k, v, COUNT(*) AS n FROM A GROUP BY k, v"
    answer, _ = run(text, 30, output_mode="update")
    found, events = run(text, 30, output_mode="update", memory=10_000)
    assert found == answer
    assert not spills(events, "SpillAggregates")
    assert "G1 cannot be spilled" in str([event["decisions"] for event in events])


def test_that_joins_below_cannot_be_spilled_is_said_once() -> None:
    """What is kept for boundaries goes cold with every batch, which is no news of the joins."""
    answer, _ = run(ROUTED, 20, plan="mjoin")
    found, events = run(ROUTED, 20, plan="mjoin", memory=2_000)
    assert found == answer
    assert answer.total() > 100
    assert spills(events, "SpillAggregates") > 10
    assert spills(events, "CannotSpill") == 1
