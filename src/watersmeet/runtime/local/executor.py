"""Runs the tasks of a batch in this process, with no JVM: the reference that Spark must agree with.

Slots run on threads; Arrow and numpy release the interpreter lock where the work is. With a checkpoint every batch is
committed and delivered as on Spark; without one the state is in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from watersmeet import faults
from watersmeet.kernel.pieces import is_piece, sliced
from watersmeet.kernel.rows import concat
from watersmeet.model.file_sums import FileSum
from watersmeet.model.stretches import Stretch
from watersmeet.plan.physical import PhysicalPlan, Stage
from watersmeet.runtime.ahead import TimesToFind, stretches_of
from watersmeet.runtime.allocator import keep_freed_memory
from watersmeet.runtime.context import BatchContext, SourceContext
from watersmeet.runtime.entering import enter_stream, enter_waiting
from watersmeet.runtime.gate import WaitingPiece
from watersmeet.runtime.local.sources import SourceBatch
from watersmeet.runtime.reports import StreamReport, TaskReport
from watersmeet.runtime.seeding import Seeding, SeedPiece, seed_rows
from watersmeet.runtime.spool import Spool
from watersmeet.runtime.stages import Arrived, Outcome, ResultWriter, run_stage
from watersmeet.runtime.written import Sync, files_of_tasks, late_files_of, waiting_files_of
from watersmeet.state.files import Folder
from watersmeet.state.output_names import Stamp
from watersmeet.state.segment_files import FileSegments, Segments
from watersmeet.state.syncing import sync_files

SourceBatches = Mapping[str, SourceBatch]  # by stream
Item = TypeVar("Item")
Done = TypeVar("Done")


class LocalExecutor:
    """Runs all stages over threads. Close it afterwards."""

    def __init__(
        self,
        segments: Segments,
        results: ResultWriter,
        late: Folder | None = None,
        sync: Sync = sync_files,
        threads: int | None = None,  # None: one for each core
    ) -> None:
        keep_freed_memory()
        self._segments = segments
        self._results = results
        self._late = late
        self._sync = sync
        self._threads = ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="slot")

    def close(self) -> None:
        self._threads.shutdown()

    def run(self, context: BatchContext, source: SourceBatches | None) -> tuple[list[StreamReport], list[TaskReport]]:
        with closing(Spool(self._spool_folder)) as spool:
            streams, tasks = self._run(context, source or {}, spool)
        files = files_of_tasks(tasks, self._segments, self._results) | late_files_of(streams, self._late)
        for folder, names in waiting_files_of(streams, self._segments).items():
            files[folder] = [*files.get(folder, ()), *names]
        self._sync(files)
        return streams, tasks

    @property
    def _spool_folder(self) -> str | None:
        """A folder on the disk that the checkpoint is on, if it is on one: temporary files may be in memory."""
        folder = self._segments.folder if isinstance(self._segments, FileSegments) else None
        return folder.path() if folder is not None and folder.local else None

    def _run(
        self, context: BatchContext, source: SourceBatches, spool: Spool
    ) -> tuple[list[StreamReport], list[TaskReport]]:
        arrived = _nothing_arrived(context.plan, context.placement.slots)
        told = context.for_sources()
        streams = self._prepare_all(told, source, arrived, spool)
        entered = self._let_in(context.waiting_pieces, told, arrived, spool)
        return streams, [*entered, *self._run_waves(context, arrived, spool)]

    def make_states(self, seeding: Seeding) -> list[TaskReport]:
        with closing(Spool(self._spool_folder)) as spool:
            arrived = _nothing_arrived(seeding.plan, seeding.placement.slots)
            for sent in self._side_by_side(lambda piece: self._seed(seeding, piece, spool), seeding.pieces):
                for slot, port, rows in sent:
                    arrived[seeding.plan.port_stage[port], slot].rows.setdefault(port, []).append(rows)
            tasks = self._run_waves(seeding, arrived, spool)
        self._sync(files_of_tasks(tasks, self._segments, self._results))
        return tasks

    def _seed(self, seeding: Seeding, piece: SeedPiece, spool: Spool) -> list[tuple[int, int, pa.RecordBatch]]:
        found = seed_rows(piece, seeding.placement, self._segments)
        return [(slot, port, spool.put(rows)) for slot, port, rows in found]

    def _run_waves(
        self, context: BatchContext | Seeding, arrived: dict[tuple[int, int], Arrived], spool: Spool
    ) -> list[TaskReport]:
        tasks: list[TaskReport] = []
        for wave in context.plan.waves:
            for outcome in self._run_wave(context, wave, arrived, spool):
                tasks.append(outcome.report)
                for sent in outcome.sent:
                    stage = context.plan.port_stage[sent.port]
                    arrived[stage, sent.slot].rows.setdefault(sent.port, []).append(sent.rows)
                for notice in outcome.notices:
                    notices = arrived[notice.stage, notice.slot].notices
                    notices.setdefault(notice.segment.state, []).append(notice.segment)
        return tasks

    def find_stretches(self, look: TimesToFind, source: SourceBatches) -> list[Stretch]:
        pieces = ((name, rows) for name, batch in source.items() for rows in batch.rows)
        return [stretch for name, rows in pieces for stretch in stretches_of(rows, name, look)]

    def _prepare_all(
        self, context: SourceContext, source: SourceBatches, arrived: dict[tuple[int, int], Arrived], spool: Spool
    ) -> list[StreamReport]:
        faults.reach("before-prepare")
        streams = []
        prepared = self._side_by_side(lambda name: self._prepare(context, name, source[name], spool), source)
        for report, pieces in prepared:
            streams.append(report)
            for slot, port, rows in pieces:
                arrived[context.port_stage[port], slot].rows.setdefault(port, []).append(rows)
        return streams

    def _prepare(
        self, context: SourceContext, stream: str, batch: SourceBatch, spool: Spool
    ) -> tuple[StreamReport, list[tuple[int, int, pa.RecordBatch]]]:
        """What was seen of a stream, and its rows by slot and port. `batch` loses its rows on the way."""
        report = StreamReport(stream)
        pieces = []
        for rows in _piecewise(batch.rows):
            place = len(report.waiting)
            seen, routed = enter_stream(rows, stream, context, self._late, self._segments, place)
            report = report.plus(seen)
            pieces += [(slot, port, spool.put(part)) for slot, port, part in routed]
        files = tuple(zip(batch.files, batch.modified_us, strict=True))
        report = replace(
            report,
            files=files,
            ignored_before_us=batch.ignored_before_us,
            intake=batch.intake,
            backlog=batch.backlog,
        )
        return report, pieces

    def _let_in(
        self,
        waiting: Sequence[WaitingPiece],
        context: SourceContext,
        arrived: dict[tuple[int, int], Arrived],
        spool: Spool,
    ) -> list[TaskReport]:
        """Let rows enter that have waited at the gate; return what filters did with them."""

        def enter_piece(piece: WaitingPiece) -> tuple[TaskReport, list[tuple[int, int, pa.RecordBatch]]]:
            report, routed = enter_waiting(piece, context, self._segments)
            return report, [(slot, port, spool.put(part)) for slot, port, part in routed]

        reports = list[TaskReport]()
        for report, pieces in self._side_by_side(enter_piece, waiting):
            reports.append(report)
            for slot, port, rows in pieces:
                arrived[context.port_stage[port], slot].rows.setdefault(port, []).append(rows)
        return reports

    def _run_wave(
        self,
        context: BatchContext | Seeding,
        wave: tuple[Stage, ...],
        arrived: dict[tuple[int, int], Arrived],
        spool: Spool,
    ) -> list[Outcome]:
        """The tasks of all stages of a wave, side by side."""
        contexts = {stage.index: context.for_stage(stage) for stage in wave}
        tasks = [(stage.index, slot) for stage in wave for slot in range(context.placement.slots)]

        def work(task: tuple[int, int]) -> Outcome:
            stage, slot = task
            return run_stage(contexts[stage], slot, arrived.pop(task), self._segments, self._results, spool)

        return self._side_by_side(work, tasks)

    def _side_by_side(self, work: Callable[[Item], Done], items: Iterable[Item]) -> list[Done]:
        """What comes of each. One that fails is raised when no other is at work any more: they write files."""
        futures = [self._threads.submit(work, item) for item in items]
        _, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        wait([future for future in waiting if not future.cancel()])
        return [future.result() for future in sorted(futures, key=lambda future: future.cancelled())]


def _nothing_arrived(plan: PhysicalPlan, slots: int) -> dict[tuple[int, int], Arrived]:
    """For each task of a plan, by stage and slot."""
    return {(stage.index, slot): Arrived() for stage in plan.stages for slot in range(slots)}


def _piecewise(rows: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows, which are all of one schema, taken from the list, as many at once as are worked on at once."""
    gathered: list[pa.RecordBatch] = []
    while rows:
        gathered.append(rows.pop(0))
        if not rows or is_piece(gathered):
            whole, gathered = concat(gathered, gathered[0].schema), []
            yield from sliced(whole)


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
