"""The local runtime: the same step over slots in this process, with no JVM. The reference that Spark must agree with.

Slots run on threads; Arrow and numpy release the interpreter lock where the work is. With a checkpoint every batch is
committed and delivered as on Spark, and a run that was killed goes on from its last commit. Without one the state is in
memory and the answer comes out of `LocalRun.batches`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pyarrow as pa

from watersmeet import faults
from watersmeet.adapt.settings import MemorySettings
from watersmeet.kernel.prepare import cut, prepare, set_late_apart
from watersmeet.kernel.rows import concat
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.runtime.allocator import keep_freed_memory
from watersmeet.runtime.batch import BatchContext, StreamReport, TaskReport, commit_batch, context_of
from watersmeet.runtime.checkpoint import Checkpoint
from watersmeet.runtime.clock import Clock, WallClock
from watersmeet.runtime.events import Report, batch_event, end_event, silent
from watersmeet.runtime.local_sources import LocalSource, SourceBatch
from watersmeet.runtime.memory import MemoryKeeper
from watersmeet.runtime.results import write_late
from watersmeet.runtime.stage import Arrived, ResultWriter, Told, run_stage
from watersmeet.state.files import Folder
from watersmeet.state.manifest import BatchRecord, Manifest

Deliver = Callable[[BatchRecord], None]


class MemoryResults:
    """Keeps the rows of a batch until they are taken."""

    def __init__(self) -> None:
        self._rows: list[pa.RecordBatch] = []

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, batch: int, slot: int
    ) -> tuple[list[str], int]:
        rows = list(batches)
        self._rows += rows
        return [], sum(piece.num_rows for piece in rows)

    def taken(self) -> list[pa.RecordBatch]:
        rows, self._rows = self._rows, []
        return rows


class LocalRun:
    """Runs batches of a plan against a checkpoint."""

    def __init__(
        self,
        plan: PhysicalPlan,
        checkpoint: Checkpoint,
        results: ResultWriter,
        late: Folder | None = None,
        memory: MemorySettings | None = None,
    ) -> None:
        keep_freed_memory()
        self.plan = plan
        self.keeper = MemoryKeeper(plan, checkpoint, memory)
        self.checkpoint = checkpoint
        self.results = results
        self.late = late
        self._time = {entry.stream.name: entry.stream.time for entry in plan.query.inputs}
        self._schema = {entry.stream.name: entry.stream.schema for entry in plan.query.inputs}
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="slot")

    def close(self) -> None:
        self._threads.shutdown()
        self.checkpoint.close()

    def run_batch(self, pulled: Mapping[str, SourceBatch], merges: Iterable[tuple[str, int]] = ()) -> Manifest:
        """Join one batch, commit it, and return the version that holds it. `merges`: groups of operators to merge."""
        upkeep = self.keeper.upkeep if pulled else None
        context = context_of(self.plan, self.checkpoint.manifest, merges, bool(pulled), upkeep)
        slots = range(context.routing.slots)
        streams: list[StreamReport] = []
        arrived = [Arrived() for _ in slots]
        faults.reach("before-prepare")
        for report, ports in self._threads.map(lambda name: self._prepare(context, name, pulled[name]), pulled):
            streams.append(report)
            for port, rows in ports.items():
                for slot, piece in cut(rows, context.routing):
                    arrived[slot].rows.setdefault(port, []).append(piece)
        tasks: list[TaskReport] = []
        told: list[Told] = []
        for stage in self.plan.stages:
            run = self._threads.map(
                lambda slot, stage=stage: run_stage(
                    context, stage, slot, arrived[slot], self.checkpoint.segments, self.results
                ),
                slots,
            )
            outcomes = list(run)
            # Word is for one stage only; rows stay at their ports, which belong to one stage each.
            for entry in arrived:
                entry.told.clear()
            for outcome in outcomes:
                tasks.append(outcome.report)
                for message in outcome.sent:
                    arrived[message.slot].rows.setdefault(message.port, []).append(message.rows)
                told += outcome.told
            for word in told:
                if word.stage == stage.index + 1:
                    arrived[word.slot].told.setdefault(word.segment.state, []).append(word.segment)
        return commit_batch(self.checkpoint.table, context, streams, tasks)

    def _prepare(
        self, context: BatchContext, stream: str, pulled: SourceBatch
    ) -> tuple[StreamReport, dict[int, pa.RecordBatch]]:
        rows = concat(pulled.rows, self._schema[stream])
        punctual = set_late_apart(rows, self._time[stream], context.watermarks[stream])
        late_files: tuple[str, ...] = ()
        if punctual.late is not None and self.late is not None:
            late_files = (write_late(self.late, punctual.late, stream, context.batch),)
        report = StreamReport(
            stream=stream,
            rows=rows.num_rows,
            late=punctual.late.num_rows if punctual.late is not None else 0,
            newest=punctual.newest,
            late_files=late_files,
            files=pulled.files,
            oldest=punctual.oldest,
        )
        return report, {leaf.port: prepare(punctual, leaf) for leaf in self.plan.leaves if leaf.stream == stream}


def run_batches(
    run: LocalRun,
    sources: Mapping[str, LocalSource],
    deliver: Deliver,
    report: Report = silent,
    trigger: timedelta | None = None,
    clock: Clock | None = None,
    stopped: Callable[[], bool] = lambda: False,
    drain: bool = False,
) -> Iterator[Manifest]:
    """Run batches until the sources are empty (or for ever, with a `trigger`), delivering each after its commit.

    A batch that was committed but perhaps not delivered when an earlier run ended is delivered first. Where the sources
    have come to their end, and with `drain` also where the run is stopped, everything owed is paid.
    """
    clock = clock or WallClock()
    manifest = run.checkpoint.manifest
    if manifest.batch is not None:
        deliver(manifest.batch)
    first_batch = manifest.last_batch + 1
    before = manifest
    begin: float | None = None
    keeper = run.keeper
    ended = False

    def finish(manifest: Manifest, started: float) -> None:
        """What follows every commit of results."""
        assert manifest.batch is not None
        deliver(manifest.batch)
        seconds = clock.now() - started
        keeper.after_batch(seconds)
        report(batch_event(run.plan, run.checkpoint.manifest, seconds, keeper.taken()))
        run.checkpoint.tidy()

    while not stopped():
        started = clock.now()
        manifest = run.checkpoint.manifest
        done = {name: set(progress.files) for name, progress in manifest.streams.items()}
        pulled = {name: rows for name, s in sources.items() if (rows := s.pull(done.get(name, set()))) is not None}
        if pulled:
            begin = started if begin is None else begin
            manifest = run.run_batch(pulled, keeper.before_batch())
            finish(manifest, started)
            yield manifest
        elif trigger is None:
            drain = ended = True
            break
        elif manifest.batch is not None and (merges := keeper.while_idle()):
            manifest = run.run_batch({}, merges)
            finish(manifest, started)
            yield manifest
        if trigger is not None:
            clock.sleep(trigger.total_seconds() - (clock.now() - started))
    while drain and (merges := keeper.clean_up(ended)):
        started = clock.now()
        manifest = run.run_batch({}, merges)
        finish(manifest, started)
        yield manifest
    seconds = 0.0 if begin is None else clock.now() - begin
    batches = run.checkpoint.manifest.last_batch + 1 - first_batch
    report(end_event(before, run.checkpoint.manifest, batches, seconds))
