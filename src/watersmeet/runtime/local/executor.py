"""Runs the tasks of a batch in this process, with no JVM: the reference that Spark must agree with.

Slots run on threads; Arrow and numpy release the interpreter lock where the work is. With a checkpoint every batch is
committed and delivered as on Spark; without one the state is in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from watersmeet import faults
from watersmeet.kernel.prepare import cut, prepare
from watersmeet.kernel.rows import concat
from watersmeet.model.file_sums import FileSum
from watersmeet.model.stretches import Stretch
from watersmeet.plan.physical import PhysicalPlan, Stage
from watersmeet.runtime.ahead import TimesToFind, stretches_of
from watersmeet.runtime.allocator import keep_freed_memory
from watersmeet.runtime.context import BatchContext, SourceContext
from watersmeet.runtime.late_rows import split_stream
from watersmeet.runtime.local.sources import SourceBatch
from watersmeet.runtime.reports import StreamReport, TaskReport
from watersmeet.runtime.stages import Arrived, Outcome, ResultWriter, run_stage
from watersmeet.runtime.written import Sync, files_of_tasks, late_files_of
from watersmeet.state.files import Folder
from watersmeet.state.output_names import Stamp
from watersmeet.state.segment_files import Segments
from watersmeet.state.syncing import sync_files

SourceBatches = Mapping[str, SourceBatch]  # by stream


class LocalExecutor:
    """Runs all stages over threads. Close it afterwards."""

    def __init__(
        self,
        plan: PhysicalPlan,
        segments: Segments,
        results: ResultWriter,
        late: Folder | None = None,
        sync: Sync = sync_files,
    ) -> None:
        keep_freed_memory()
        self._plan = plan
        self._segments = segments
        self._results = results
        self._late = late
        self._sync = sync
        self._schemas = {entry.stream.name: entry.stream.schema for entry in plan.query.inputs}
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="slot")

    def close(self) -> None:
        self._threads.shutdown()

    def run(self, context: BatchContext, source: SourceBatches | None) -> tuple[list[StreamReport], list[TaskReport]]:
        slots = range(context.placement.slots)
        arrived = {(stage.index, slot): Arrived() for stage in self._plan.stages for slot in slots}
        streams = self._prepare_all(context.for_sources(), source or {}, arrived)
        tasks: list[TaskReport] = []
        for wave in self._plan.waves:
            for outcome in self._run_wave(context, wave, arrived):
                tasks.append(outcome.report)
                for sent in outcome.sent:
                    stage = self._plan.port_stage[sent.port]
                    arrived[stage, sent.slot].rows.setdefault(sent.port, []).append(sent.rows)
                for notice in outcome.notices:
                    notices = arrived[notice.stage, notice.slot].notices
                    notices.setdefault(notice.segment.state, []).append(notice.segment)
        self._sync(files_of_tasks(tasks, self._segments, self._results) | late_files_of(streams, self._late))
        return streams, tasks

    def find_stretches(self, look: TimesToFind, source: SourceBatches) -> list[Stretch]:
        pieces = ((name, rows) for name, batch in source.items() for rows in batch.rows)
        return [stretch for name, rows in pieces for stretch in stretches_of(rows, name, look)]

    def _prepare_all(
        self, context: SourceContext, source: SourceBatches, arrived: Mapping[tuple[int, int], Arrived]
    ) -> list[StreamReport]:
        faults.reach("before-prepare")
        streams = []
        for report, ports in self._threads.map(lambda name: self._prepare(context, name, source[name]), source):
            streams.append(report)
            for leaf in context.leaves:
                if leaf.port in ports:
                    stage = context.port_stage[leaf.port]
                    for slot, piece in cut(ports[leaf.port], context.placement.of(leaf.state.partitioning)):
                        arrived[stage, slot].rows.setdefault(leaf.port, []).append(piece)
        return streams

    def _prepare(
        self, context: SourceContext, stream: str, batch: SourceBatch
    ) -> tuple[StreamReport, dict[int, pa.RecordBatch]]:
        split, report = split_stream(concat(batch.rows, self._schemas[stream]), stream, context, self._late)
        files = tuple(zip(batch.files, batch.modified_us, strict=True))
        report = replace(
            report,
            files=files,
            ignored_before_us=batch.ignored_before_us,
            intake=batch.intake,
            backlog=batch.backlog,
        )
        return report, {leaf.port: prepare(split, leaf) for leaf in context.leaves if leaf.stream == stream}

    def _run_wave(
        self, context: BatchContext, wave: tuple[Stage, ...], arrived: Mapping[tuple[int, int], Arrived]
    ) -> list[Outcome]:
        """The tasks of all stages of a wave, side by side."""
        contexts = {stage.index: context.for_stage(stage) for stage in wave}
        tasks = [(stage.index, slot) for stage in wave for slot in range(context.placement.slots)]
        return list(
            self._threads.map(
                lambda task: run_stage(contexts[task[0]], task[1], arrived[task], self._segments, self._results), tasks
            )
        )


class MemoryResults:
    """Keeps the rows of a batch until they are taken."""

    def __init__(self) -> None:
        self._rows: list[pa.RecordBatch] = []

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, stamp: Stamp, slot: int
    ) -> tuple[dict[str, FileSum], int]:
        rows = list(batches)
        self._rows += rows
        return {}, sum(piece.num_rows for piece in rows)

    def pop(self) -> list[pa.RecordBatch]:
        rows, self._rows = self._rows, []
        return rows
