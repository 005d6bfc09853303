"""Runs at the pace of the input: the answer is right, queues grow when the plan is slow, and limits are noticed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from experiments.banded import bind_query, query_text
from experiments.paced import CpuClock, Pace, Trace, run_paced
from experiments.plans import SETTINGS, Setting, find_plans, lay_out_plan, make_rows
from watersmeet.optimize import HashProbes
from watersmeet.runtime.clock import Clock, VirtualClock


class SlowClock(VirtualClock):
    """A clock on which every look takes a while, as if batches did."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step

    def now(self) -> float:
        self.sleep(self.step)
        return super().now()


def run_one(
    setting: Setting,
    name: str,
    clock: Clock,
    seconds: float = 3.0,
    memory_bytes: float = float("inf"),
    kept: list[pa.RecordBatch] | None = None,
) -> tuple[Trace, dict[str, pa.RecordBatch]]:
    rows = make_rows(setting, 2 * seconds)
    plan = lay_out_plan(bind_query(setting), find_plans(setting, HashProbes())[name])
    pace = Pace(seconds, setting.width / 10, 1.25 * setting.width, memory_bytes)
    return run_paced(plan, rows, pace, clock, [].extend if kept is None else kept.extend), rows


def duckdb_answer(setting: Setting, rows: dict[str, pa.RecordBatch], seconds: float) -> Counter[tuple[Any, ...]]:
    """The answer over all rows that arrived in time; DuckDB has the windows written out."""
    db = duckdb.connect()
    for name, batch in rows.items():
        db.register(f"{name}_rows", pa.Table.from_batches([batch]))
        db.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows WHERE ts < {seconds} * 1e6")
    select, _, where = query_text(setting).split("\n", 2)
    newest = f"greatest({', '.join(f'{name}.ts' for name in rows)})"
    windows = "".join(f" AND {newest} - {name}.ts < {round(setting.width * 1e6)}" for name in rows)
    return Counter(db.execute(f"{select} FROM {', '.join(rows)} {where}{windows}").fetchall())


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_answer_of_every_plan_is_that_of_duckdb(number: int) -> None:
    setting = replace(SETTINGS[number - 1], copies=3, speed=5.0, window_seconds=2.0)
    expected: Counter[tuple[Any, ...]] = Counter()
    for name in setting.verdicts:
        kept: list[pa.RecordBatch] = []
        trace, rows = run_one(setting, name, VirtualClock(), seconds=0.8, kept=kept)
        found = Counter(tuple(row.values()) for batch in kept for row in batch.to_pylist())
        expected = expected or duckdb_answer(setting, rows, trace.samples[-1].taken_seconds)
        assert found == expected
        assert found.total() == trace.samples[-1].results > 300


def test_a_plan_that_keeps_up_has_no_queue() -> None:
    setting = replace(SETTINGS[0], copies=2)
    trace, _ = run_one(setting, "bjtree", VirtualClock())
    assert trace.lag_seconds == pytest.approx(0.0)
    assert all(sample.waiting_rows == 0 for sample in trace.samples)
    assert [sample.taken_seconds for sample in trace.samples] == pytest.approx([0.2 * n for n in range(16)])
    assert trace.exceeded_at is None


def test_a_plan_that_is_too_slow_has_a_queue_that_grows() -> None:
    setting = replace(SETTINGS[0], copies=2)
    trace, rows = run_one(setting, "bjtree", SlowClock(0.05), seconds=6.0)
    waiting = [sample.waiting_rows for sample in trace.samples]
    assert waiting[-1] > waiting[len(waiting) // 2] > waiting[2]
    assert trace.lag_seconds > 1.0
    last = trace.samples[-1]
    arrived = sum(int((batch.column("ts").to_numpy() < last.seconds * 1e6).sum()) for batch in rows.values())
    taken = sum(int((batch.column("ts").to_numpy() < last.taken_seconds * 1e6).sum()) for batch in rows.values())
    assert last.waiting_rows == arrived - taken
    steps = [b.taken_seconds - a.taken_seconds for a, b in zip(trace.samples, trace.samples[1:], strict=False)]
    assert max(steps) == pytest.approx(0.4)  # twice the usual batch, and no more


def test_the_memory_limit_ends_what_is_shown_and_not_what_is_measured() -> None:
    setting = replace(SETTINGS[3], copies=2)
    trace, _ = run_one(setting, "bjtree", VirtualClock(), seconds=4.0, memory_bytes=2 * setting.memory_bytes)
    assert trace.exceeded_at is not None
    assert 0.5 < trace.exceeded_at < 2.5
    shown = trace.allowed()
    assert shown[-1].seconds == trace.exceeded_at
    assert shown[-1].state_bytes > 2 * setting.memory_bytes >= shown[-2].state_bytes
    assert len(shown) < len(trace.samples)
    assert trace.steady is not None
    assert trace.peak_bytes > trace.steady.state_bytes > 2 * setting.memory_bytes


def test_a_run_that_ends_before_windows_are_full_has_no_steady_part() -> None:
    trace, _ = run_one(replace(SETTINGS[0], copies=1), "mjoin", VirtualClock(), seconds=1.0)
    assert trace.steady is None


def test_the_cpu_clock_moves_with_work_and_with_sleep() -> None:
    clock = CpuClock()
    before = clock.now()
    clock.sleep(1000.0)
    slept = clock.now() - before
    assert 1000.0 <= slept < 1010.0
    sum(range(1_000_000))
    assert clock.now() - before > slept
