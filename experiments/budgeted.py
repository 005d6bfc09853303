"""Runs a query inside a memory budget, in the local runtime and on a virtual clock, and records it batch by batch.

A row arrives at its event time, in microseconds from the start of the run. Every `batch_seconds` a batch takes all that
has arrived. Where nothing has, the state manager may merge, if the settings let it. When the last row has been taken
everything owed is paid: the *clean-up*. Results before that are those of the *run time*.

The clock is virtual: a batch takes no time on it, or as long as `takes` says, so hours of input pass in seconds and a
run repeats exactly. What work really costs is measured beside it, in CPU seconds of this process. The state manager
weighs a second of probing against a second of merging: runs that use it need a `takes`, or probing looks free to it.

Invariants: same rows, settings and `takes`, same history but for CPU seconds. Results are counted and handed to `keep`,
not held. The state is in files of a temporary folder, with a budget and without, so that runs can be compared.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from experiments.paced import Keep, drop
from watersmeet.adapt.controller import Controller
from watersmeet.lang.binder import bind
from watersmeet.model.intake import UnfinishedIntake
from watersmeet.model.placement import Placement
from watersmeet.model.streams import Stream
from watersmeet.optimize.choose import choose_plan
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.runtime.checkpoint import Checkpoint, in_memory
from watersmeet.runtime.clock import Clock, VirtualClock
from watersmeet.runtime.events import Event
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import LocalSource, SourceBatch
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.state.files import Folder
from watersmeet.state.manifest import BatchRecord, Delivery

GROUPS = 300
SLOTS = 2

Phase = Literal["batch", "idle", "clean-up"]
Takes = Callable[[BatchRecord], float]
Control = Callable[[PhysicalPlan, AdaptSettings], Controller]


def no_time(record: BatchRecord) -> float:
    """For a run whose machine is always fast enough."""
    return 0.0


@dataclass(frozen=True)
class Course:
    """How a run goes. `plan` is a tree such as "((A B C) D)", or what else `[adapt] plan` may be."""

    plan: str
    batch_seconds: float
    slots: int = SLOTS
    groups: int = GROUPS
    clean_up: bool = True  # False: the run ends with the input, and what is owed stays owed
    owners: tuple[int, ...] = ()  # the slot of each group at the start; empty: spread evenly


@dataclass(frozen=True)
class Sample:
    """How things stood after a batch, after merges while no rows came (`idle`), or after a round of the clean-up."""

    phase: Phase
    seconds: float  # on the virtual clock, when it had ended
    results: int  # of the query so far
    merged: int  # rows that merges have made so far, at all joins
    peak_bytes: int  # active before a spill, if there was one
    active_bytes: int  # active after it
    cold_bytes: int
    owed_groups: int
    spilled_groups: int  # in this spill
    cpu_seconds: float  # that it took
    decisions: tuple[Mapping[str, Any], ...] = ()  # as events have them
    slot_bytes: tuple[int, ...] = ()  # active after it, by slot
    slot_cpu: tuple[float, ...] = ()  # seconds that the tasks of each slot took
    slot_owed: tuple[int, ...] = ()  # groups that owe results, by slot
    slot_results: tuple[int, ...] = ()  # of the query, in this batch or round, by slot


@dataclass(frozen=True)
class History:
    """All of a run."""

    samples: tuple[Sample, ...]

    @property
    def run_time(self) -> tuple[Sample, ...]:
        """Up to the clean-up."""
        return tuple(sample for sample in self.samples if sample.phase != "clean-up")

    @property
    def clean_up(self) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples if sample.phase == "clean-up")

    @property
    def results(self) -> int:
        """Of the run time and the clean-up."""
        return self.samples[-1].results if self.samples else 0

    @property
    def run_time_results(self) -> int:
        return self.run_time[-1].results if self.run_time else 0

    @property
    def clean_up_results(self) -> int:
        return self.results - self.run_time_results

    @property
    def run_time_cpu(self) -> float:
        return sum(sample.cpu_seconds for sample in self.run_time)

    @property
    def clean_up_cpu(self) -> float:
        return sum(sample.cpu_seconds for sample in self.clean_up)

    @property
    def spills(self) -> int:
        """Spills of the run time; one takes many groups."""
        return sum(sample.spilled_groups > 0 for sample in self.run_time)

    @property
    def moves(self) -> tuple[Sample, ...]:
        """Where groups were moved."""
        return tuple(s for s in self.samples if any(entry["decision"] == "MoveGroups" for entry in s.decisions))

    @property
    def clean_up_cpu_of_slots(self) -> tuple[float, ...]:
        """What the tasks of each slot took in the clean-up, all rounds together."""
        return tuple(map(sum, zip(*(sample.slot_cpu for sample in self.clean_up), strict=True)))

    @property
    def clean_up_results_of_slots(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*(sample.slot_results for sample in self.clean_up), strict=True)))

    @property
    def spilled_groups(self) -> int:
        """Groups that all of them took, one as often as it was spilled."""
        return sum(sample.spilled_groups for sample in self.run_time)

    @property
    def most_bytes(self) -> int:
        """The most that was ever active."""
        return max((sample.peak_bytes for sample in self.samples), default=0)

    def results_at(self, seconds: float) -> int:
        """Results by this time of the clock."""
        return max((sample.results for sample in self.samples if sample.seconds <= seconds), default=0)


def bind_streams(text: str, schemas: Mapping[str, pa.Schema]) -> Query:
    """The query `text` over streams with these schemas, whose rows come in the order of their event time `ts`."""
    return bind(text, {name: Stream(name, schema, "ts") for name, schema in schemas.items()})


def run_budgeted(
    query: Query,
    rows: Mapping[str, pa.RecordBatch],
    course: Course,
    memory: AdaptSettings,
    takes: Takes = no_time,
    keep: Keep = drop,
    control: Control = Controller,
) -> History:
    """Run `query` on `rows` of each stream, which are in order of their event time, to the end of the clean-up."""
    chosen = choose_plan(query, course.plan)
    plan = lay_out(query, chosen.tree, chosen.orders, lineage=memory.watched)
    clock = VirtualClock()
    sources = {e.stream.name: _Arriving(rows[e.stream.name], e.stream.time, clock) for e in query.inputs}
    results = MemoryResults()
    with tempfile.TemporaryDirectory(prefix="watersmeet-") as folder:
        owners = {node.partitioning: course.owners for node in plan.operators.values() if course.owners}
        checkpoint = in_memory(query, plan.spec, Placement(course.slots, course.groups, owners), Folder(folder))
        recorder = _Recorder(checkpoint, clock, takes)
        run = LocalRun(
            plan,
            checkpoint,
            results,
            controller=control(plan, memory),
            deliver=recorder.deliver,
            report=recorder.report,
            clock=clock,
        )
        every = timedelta(seconds=course.batch_seconds)
        given: dict[str, LocalSource] = {**sources}

        def all_taken() -> bool:
            recorder.draining = all(source.empty for source in sources.values())
            return recorder.draining

        try:
            for _ in run.batches(given, every, all_taken, drain=course.clean_up):
                recorder.finish()
                keep(results.pop())
                recorder.begin()
        finally:
            run.close()
    return History(tuple(recorder.samples))


class _Arriving:
    """Hands out rows once the clock has reached their event time."""

    def __init__(self, rows: pa.RecordBatch, time_column: str, clock: Clock) -> None:
        self._rows = rows
        self._size: int = rows.num_rows
        self._times = rows.column(time_column).to_numpy()
        self._clock = clock
        self._taken = 0

    @property
    def empty(self) -> bool:
        return self._taken >= self._size

    def pull(self, done: Container[str], intake: UnfinishedIntake | None = None) -> SourceBatch | None:
        until = int(np.searchsorted(self._times, round(self._clock.now() * 1e6)))
        if until == self._taken:
            return None
        piece = self._rows.slice(self._taken, until - self._taken)
        self._taken = until
        return SourceBatch([piece])


class _Recorder:
    """Makes samples of what a run tells. The runtime delivers a batch, then spills, then reports."""

    def __init__(self, checkpoint: Checkpoint, clock: VirtualClock, takes: Takes) -> None:
        self.samples: list[Sample] = []
        self.draining = False
        self._checkpoint = checkpoint
        self._clock = clock
        self._takes = takes
        self._peak_bytes = 0
        self._results = 0
        self._merged = 0
        self._event: Event = {}
        self.begin()

    def begin(self) -> None:
        self._cpu = time.process_time()

    def deliver(self, delivery: Delivery) -> None:
        manifest = self._checkpoint.manifest
        assert manifest.batch is not None, "what is delivered was committed"
        self._peak_bytes = manifest.active_bytes
        self._clock.sleep(self._takes(manifest.batch))

    def report(self, event: Event) -> None:
        if event["event"] in ("batch", "merge"):
            self._event = event

    def finish(self) -> None:
        event = self._event
        self._results += event["rows_out"]
        self._merged += event["rows_merged"]
        spilled = [entry for entry in event["decisions"] if entry["decision"] == "SpillGroups"]
        phase: Phase = "clean-up" if self.draining else "batch" if event["event"] == "batch" else "idle"
        self.samples.append(
            Sample(
                phase=phase,
                seconds=self._clock.now(),
                results=self._results,
                merged=self._merged,
                peak_bytes=self._peak_bytes,
                active_bytes=event["active_bytes"],
                cold_bytes=event["cold_bytes"],
                owed_groups=sum(event["owed_groups"].values()),
                spilled_groups=sum(len(entry["groups"]) for entry in spilled),
                cpu_seconds=time.process_time() - self._cpu,
                decisions=tuple(event["decisions"]),
                slot_bytes=tuple(slot["active_bytes"] for slot in event["slots"]),
                slot_cpu=tuple(slot["cpu_seconds"] for slot in event["slots"]),
                slot_owed=tuple(slot["owed_groups"] for slot in event["slots"]),
                slot_results=tuple(int(slot["rows_out"]) for slot in event["slots"]),
            )
        )
