"""Runs a plan at the pace of its input, and says how it went: what came out, what waited, what was kept, what it cost.

A row arrives at its event time, counted in microseconds from the start of the run. A batch begins as soon as
`batch_seconds` of input have arrived that no batch has taken, and takes all that has arrived, but at most `CAP` times
as much. So a plan that keeps up takes a batch of the same length every time, and a plan that does not has a queue that
grows, while its batches and its memory stay of a size.

What it needs is measured whether it keeps up or not: the CPU seconds of its batches over the seconds of input that
they took are the cores that it needs to keep up. Only batches that begin after `filled_after` seconds of input count,
when every window is full. The CPU time is that of the whole process, spent in `Driver.run_batch`, whose work does
not end with the join: it commits, and collects what nothing needs. Making rows and waiting do not count.

A memory limit is noted when the state first exceeds it, and the run goes on, so that the plan's costs are known; what
it did after that moment is not to be shown as if it had been allowed.

The clock is the wall's, or a `CpuClock`: one on which this process has a core to itself, however busy the machine is.

Invariants: one slot, so the join has one core; state in memory; results are counted and handed to `keep`, not held.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.model.placement import Placement
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.clock import Clock, Ended, never
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import SourceBatch
from watersmeet.state.manifest import Manifest

GROUPS = 300
CAP = 2.0  # batches after a wait may take this many times the usual input


class CpuClock:
    """Counts the CPU time of this process and its sleeps, which take no time: as if it had a core of its own."""

    def __init__(self) -> None:
        self._slept = 0.0

    def now(self) -> float:
        return time.process_time() + self._slept

    def utc_us(self) -> int:
        return round(self.now() * 1e6)

    def sleep(self, seconds: float, ended: Ended = never) -> None:
        self._slept += max(0.0, seconds)


Keep = Callable[[list[pa.RecordBatch]], None]


def drop(results: list[pa.RecordBatch]) -> None:
    """Keep nothing."""


@dataclass(frozen=True)
class Pace:
    """How a run goes; seconds of input and of the clock are the same."""

    seconds: float
    batch_seconds: float
    filled_after: float
    memory_bytes: float = float("inf")


@dataclass(frozen=True)
class Sample:
    """How things stood at the end of a batch."""

    seconds: float  # since the start
    taken_seconds: float  # how far the input has been taken
    results: int  # so far
    waiting_rows: int  # arrived and not taken
    state_rows: int
    state_bytes: int


@dataclass(frozen=True)
class Steady:
    """Sums over the batches that found all windows full, and means over them of what was kept."""

    batches: int
    input_seconds: float
    rows_in: int
    results: int
    cpu_seconds: float
    busy_seconds: float  # that the batches took by the wall clock
    state_rows: float
    state_bytes: float
    rows_by_state: Mapping[str, float]  # by the inputs that a state holds, as in "A B"

    @property
    def cores(self) -> float:
        """What it takes to keep up."""
        return self.cpu_seconds / self.input_seconds

    @property
    def core_share(self) -> float:
        """How much of a core the batches got; well below 1 where other work had the machine."""
        return self.cpu_seconds / self.busy_seconds


@dataclass(frozen=True)
class Trace:
    """What happened in a run. `steady` is None if it ended before the windows were full."""

    samples: tuple[Sample, ...]
    steady: Steady | None
    exceeded_at: float | None  # when the state first went beyond the memory limit

    @property
    def lag_seconds(self) -> float:
        """How far behind its input the run was at its end."""
        last = self.samples[-1]
        return last.seconds - last.taken_seconds

    @property
    def peak_bytes(self) -> int:
        return max(sample.state_bytes for sample in self.samples)

    def allowed(self) -> tuple[Sample, ...]:
        """The samples up to the moment at which the memory limit was exceeded."""
        until = float("inf") if self.exceeded_at is None else self.exceeded_at
        return tuple(sample for sample in self.samples if sample.seconds <= until)


@dataclass(frozen=True)
class _Batch:
    """One batch as it was measured."""

    began: float  # seconds of input taken before it
    ended: float
    rows_in: int
    rows_out: int
    cpu_seconds: float
    busy_seconds: float
    rows_by_state: Mapping[str, int]
    state_bytes: int


def run_paced(
    plan: PhysicalPlan, rows: Mapping[str, pa.RecordBatch], pace: Pace, clock: Clock, keep: Keep = drop
) -> Trace:
    """Run `plan` on `rows` of each stream, for `pace.seconds` of `clock`.

    The rows of a stream are in order of their event time, and go on a little longer than the run.
    """
    times = {entry.stream.name: rows[entry.stream.name].column(entry.stream.time) for entry in plan.query.inputs}
    arrivals = {name: column.to_numpy() for name, column in times.items()}
    results = MemoryResults()
    run = LocalRun(plan, in_memory(plan.query, plan.spec, Placement(1, GROUPS)), results)
    batches: list[_Batch] = []
    samples = [Sample(0.0, 0.0, 0, 0, 0, 0)]
    taken = dict.fromkeys(arrivals, 0)
    begun = 0.0
    exceeded_at: float | None = None
    start = clock.now()
    try:
        while clock.now() - start < pace.seconds:
            clock.sleep(begun + pace.batch_seconds - (clock.now() - start))
            ended = min(clock.now() - start, begun + CAP * pace.batch_seconds)
            ended = max(ended, begun + pace.batch_seconds)  # a clock may wake us a little early
            until = {name: _arrived(column, ended) for name, column in arrivals.items()}
            pulled = {name: SourceBatch([rows[name].slice(taken[name], until[name] - taken[name])]) for name in rows}
            cpu, wall = time.process_time(), time.perf_counter()
            manifest = run.driver.run_batch(pulled)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            keep(results.pop())
            batches.append(_measured(plan, manifest, begun, ended, cpu, wall))
            taken, begun = until, ended
            now = clock.now() - start
            samples.append(
                Sample(
                    seconds=now,
                    taken_seconds=ended,
                    results=manifest.rows_out,
                    waiting_rows=sum(_arrived(column, now) - taken[name] for name, column in arrivals.items()),
                    state_rows=manifest.state_rows,
                    state_bytes=manifest.active_bytes,
                )
            )
            if exceeded_at is None and manifest.active_bytes > pace.memory_bytes:
                exceeded_at = now
    finally:
        run.close()
    return Trace(tuple(samples), _steady(batches, pace.filled_after), exceeded_at)


def _arrived(arrivals: np.ndarray[tuple[int], np.dtype[np.int64]], seconds: float) -> int:
    """How many rows had arrived by then."""
    return int(np.searchsorted(arrivals, seconds * 1e6))


def _measured(plan: PhysicalPlan, manifest: Manifest, began: float, ended: float, cpu: float, wall: float) -> _Batch:
    assert manifest.batch is not None
    by_state: dict[str, int] = {}
    for segment in manifest.segments.values():
        name = " ".join(plan.states[segment.state].aliases)
        by_state[name] = by_state.get(name, 0) + segment.live_rows
    return _Batch(
        began,
        ended,
        manifest.batch.rows_in,
        manifest.batch.rows_out,
        cpu,
        wall,
        by_state,
        manifest.active_bytes,
    )


def _steady(batches: list[_Batch], filled_after: float) -> Steady | None:
    full = [batch for batch in batches if batch.began >= filled_after]
    if not full:
        return None
    states = sorted({name for batch in full for name in batch.rows_by_state}, key=lambda name: (len(name), name))
    by_state = {name: sum(batch.rows_by_state.get(name, 0) for batch in full) / len(full) for name in states}
    return Steady(
        batches=len(full),
        input_seconds=full[-1].ended - full[0].began,
        rows_in=sum(batch.rows_in for batch in full),
        results=sum(batch.rows_out for batch in full),
        cpu_seconds=sum(batch.cpu_seconds for batch in full),
        busy_seconds=sum(batch.busy_seconds for batch in full),
        state_rows=sum(by_state.values()),
        state_bytes=sum(batch.state_bytes for batch in full) / len(full),
        rows_by_state=by_state,
    )
