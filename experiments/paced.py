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

The plan may change under way, by hand (`PacedRun.migrate`) or because a policy says so: `changes` has how long it took.

The clock is the wall's, or a `CpuClock`: one on which this process has a core to itself, however busy the machine is.

There may be several slots (`placement`). Then the clock is to say what it is for them to work side by side: see
`slotted.py`.

Invariants: one slot unless `placement` says otherwise, so the join has one core; state in memory; results are counted
and handed to `keep`, not held.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.adapt.controller import Controller
from watersmeet.adapt.decisions.change_plan import BeginMigration, ChangePlan, MigrationAbandoned
from watersmeet.adapt.decisions.place import MoveGroups
from watersmeet.model.ids import StateName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import Groups
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.clock import Clock, Ended, never
from watersmeet.runtime.events import Event
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
    state_bytes: int  # active: what batches probe
    joined_rows: int = 0  # of the state, those of two or more inputs
    cold_bytes: int = 0  # such as what is made for a plan that is to take over
    tree: str = ""  # the plan that answered
    took_seconds: float = 0.0  # of the clock, that the batch took
    slot_bytes: tuple[int, ...] = ()  # active, by slot
    slot_cpu: tuple[float, ...] = ()  # that the tasks of each slot took


@dataclass(frozen=True)
class Change:
    """A change of the plan, of all groups or of some: when it was asked for and when the new plan took over.

    Times are in seconds since the start.
    """

    by: str
    plan: str
    before_batch: int
    asked_at: float
    done_at: float
    input_seconds: float  # of input that were taken in between
    work_seconds: float  # that its steps took
    rows: int  # that were taken in for the new plan
    groups: int | None = None  # that it was for; None: all of them

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.done_at - self.asked_at


@dataclass(frozen=True)
class Moves:
    """Groups that went to other slots before a batch."""

    seconds: float
    groups: int


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
    changes: tuple[Change, ...] = ()
    moves: tuple[Moves, ...] = ()

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


class PacedRun:
    """A run, a batch at a time (`batches`). Between two batches whoever runs it may have its plan changed."""

    def __init__(
        self,
        plan: PhysicalPlan,
        rows: Mapping[str, pa.RecordBatch],
        pace: Pace,
        clock: Clock,
        keep: Keep = drop,
        controller: Controller | None = None,
        placement: Placement | None = None,
        threads: int | None = None,
    ) -> None:
        """The rows of a stream are in order of their event time, and go on a little longer than the run."""
        self.changes: list[Change] = []
        self.moves: list[Moves] = []
        self.samples = [Sample(0.0, 0.0, 0, 0, 0, 0)]
        self.exceeded_at: float | None = None
        self._rows, self._pace, self._clock, self._keep = rows, pace, clock, keep
        times = {entry.stream.name: rows[entry.stream.name].column(entry.stream.time) for entry in plan.query.inputs}
        self._arrivals = {name: column.to_numpy() for name, column in times.items()}
        self._taken = dict.fromkeys(self._arrivals, 0)
        self._begun = 0.0  # seconds of input taken before the batch at hand
        self._called = 0.0  # when the driver was last called
        self._results = MemoryResults()
        self._run = LocalRun(
            plan,
            in_memory(plan.query, plan.spec, placement or Placement(1, GROUPS)),
            self._results,
            controller=controller,
            report=self._report,
            clock=clock,
            threads=threads,
        )
        self._batches: list[_Batch] = []
        self._event: Mapping[str, Any] = {}  # of the last batch
        self._asked: tuple[float, float] | None = None  # of a change that is under way: when, and how far the input was
        self._stepped = 0.0  # seconds that its steps have taken
        self._told: list[Mapping[str, Any]] = []  # changes that are done
        self._start = clock.now()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._clock.now() - self._start

    @property
    def migrating(self) -> bool:
        return self._run.driver.migrating

    def batches(self) -> Iterator[Sample]:
        """Run for `pace.seconds`, or for as long as somebody asks for more."""
        pace = self._pace
        while self.now < pace.seconds:
            due = self._begun + pace.batch_seconds
            self._go_on_until(due)
            self._clock.sleep(due - self.now)
            ended = min(self.now, self._begun + CAP * pace.batch_seconds)
            ended = max(ended, self._begun + pace.batch_seconds)  # a clock may wake us a little early
            yield self._run_batch(ended)

    def _go_on_until(self, due: float) -> None:
        """Take steps to another plan while there is nothing to read, as both runtimes do."""
        self._called = self.now
        while self.migrating and self.now < due and self._run.driver.run_idle():
            pass

    def migrate(self, plan: str, by: str, groups: Groups | None = None) -> None:
        """Go over to another plan, or set out for it; with some groups alone, if these are named."""
        self._called = self.now
        self._asked, self._stepped = (self.now, self._begun), 0.0
        self._note(self._run.driver.migrate(plan, by, "asked for", groups))

    def close(self) -> None:
        self._run.close()

    def trace(self) -> Trace:
        """What has happened so far."""
        steady = _steady(self._batches, self._pace.filled_after)
        return Trace(tuple(self.samples), steady, self.exceeded_at, tuple(self.changes), tuple(self.moves))

    def _run_batch(self, ended: float) -> Sample:
        until = {name: _arrived(column, ended) for name, column in self._arrivals.items()}
        pulled = {
            name: SourceBatch([batch.slice(self._taken[name], until[name] - self._taken[name])])
            for name, batch in self._rows.items()
        }
        if self._asked is None or self.migrating:  # else it ended before, and is told now
            self._called = self.now
        began, cpu, wall = self.now, time.process_time(), time.perf_counter()
        manifest = self._run.driver.run_batch(pulled)
        took, cpu, wall = self.now - began, time.process_time() - cpu, time.perf_counter() - wall
        self._keep(self._results.pop())
        measured = _measured(self._states(), manifest, self._begun, ended, cpu, wall)
        self._batches.append(measured)
        self._taken, self._begun = until, ended
        now = self.now
        waiting = {name: _arrived(column, now) - until[name] for name, column in self._arrivals.items()}
        self.samples.append(
            Sample(
                seconds=now,
                taken_seconds=ended,
                results=manifest.rows_out,
                waiting_rows=sum(waiting.values()),
                state_rows=manifest.state_rows,
                state_bytes=manifest.active_bytes,
                joined_rows=sum(rows for name, rows in measured.rows_by_state.items() if " " in name),
                cold_bytes=manifest.cold_bytes,
                tree=self._run.plan.tree,
                took_seconds=took,
                slot_bytes=tuple(slot["active_bytes"] for slot in self._event["slots"]),
                slot_cpu=tuple(slot["cpu_seconds"] for slot in self._event["slots"]),
            )
        )
        if self.exceeded_at is None and manifest.active_bytes > self._pace.memory_bytes:
            self.exceeded_at = now
        return self.samples[-1]

    def _states(self) -> dict[StateName, State]:
        """Of the plan that answers, and of one that is to take over."""
        track = self._run.manifest.warming_up
        coming = {} if track is None else lay_out_spec(self._run.plan.query, track.spec).states
        return {**coming, **self._run.plan.states}

    def _report(self, event: Event) -> None:
        if event["event"] == "batch":
            self._event = event
        for decision in event.get("decisions", ()):
            self._note(decision)
        if (progress := event.get("migration")) is not None:
            self._stepped = progress["seconds"]

    def _note(self, decision: Mapping[str, Any]) -> None:
        """A change begins, or ends: in what the driver was called for last."""
        if decision["decision"] == BeginMigration.__name__ and self._asked is None:
            self._asked = (self._called, self._begun)
        elif decision["decision"] == ChangePlan.__name__ and not self._is_known(decision):
            asked, taken = self._asked or (self._called, self._begun)
            self.changes.append(
                Change(
                    by=decision["by"],
                    plan=decision["plan"],
                    before_batch=decision["before_batch"],
                    asked_at=asked,
                    done_at=self._called + decision["seconds"] - self._stepped,
                    input_seconds=self._begun - taken,
                    work_seconds=decision["seconds"],
                    rows=decision["rows"],
                    groups=_count(decision["within"]),
                )
            )
            self._asked, self._stepped = None, 0.0
            self._told.append(decision)
        elif decision["decision"] == MigrationAbandoned.__name__:
            self._asked, self._stepped = None, 0.0
        elif decision["decision"] == MoveGroups.__name__:
            self.moves.append(Moves(self._called, len(decision["moves"])))

    def _is_known(self, decision: Mapping[str, Any]) -> bool:
        """What was asked for by hand is told with the next event, too."""
        same = ("before_batch", "within")
        return any(all(told[name] == decision[name] for name in same) for told in self._told)


def _count(within: Sequence[tuple[int, int]] | None) -> int | None:
    """
    >>> _count([(0, 3), (7, 8)])
    4
    """
    return None if within is None else sum(end - start for start, end in within)


def run_paced(
    plan: PhysicalPlan, rows: Mapping[str, pa.RecordBatch], pace: Pace, clock: Clock, keep: Keep = drop
) -> Trace:
    """Run `plan` on `rows` of each stream, for `pace.seconds` of `clock`."""
    run = PacedRun(plan, rows, pace, clock, keep)
    try:
        for _ in run.batches():
            pass
    finally:
        run.close()
    return run.trace()


def _arrived(arrivals: np.ndarray[tuple[int], np.dtype[np.int64]], seconds: float) -> int:
    """How many rows had arrived by then."""
    return int(np.searchsorted(arrivals, seconds * 1e6))


def _measured(
    states: Mapping[StateName, State], manifest: Manifest, began: float, ended: float, cpu: float, wall: float
) -> _Batch:
    assert manifest.batch is not None
    by_state: dict[str, int] = {}
    for segment in manifest.segments.values():
        name = " ".join(states[segment.state].aliases)
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
