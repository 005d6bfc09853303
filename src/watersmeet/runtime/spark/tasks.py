"""What runs on executors: functions from record batches to record batches, for `mapInArrow`.

`Pack` turns the rows of a micro-batch into cells for the slots; `RunWave` runs the stages of a wave for one slot, and
`FindStretches` looks at event times before a batch. All are told everything by the contexts that they carry and keep
nothing. An error of ours is not raised but sent to the driver as a report, so that Spark does not retry what cannot
succeed; anything else is raised, and Spark retries.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext

from watersmeet import faults
from watersmeet.errors import WatersmeetError
from watersmeet.kernel.rows import concat
from watersmeet.model.placement import Placement
from watersmeet.model.stretches import Stretch, unite_stretches
from watersmeet.runtime.ahead import TimesToFind, stretches_of
from watersmeet.runtime.allocator import keep_freed_memory
from watersmeet.runtime.context import SourceContext, StageContext
from watersmeet.runtime.entering import enter_stream, enter_waiting
from watersmeet.runtime.gate import WaitingPiece
from watersmeet.runtime.seeding import SeedPiece, seed_rows
from watersmeet.runtime.spark.blobs import (
    DRIVER,
    NOTICE,
    Cell,
    from_arrow,
    notice_cell,
    pack,
    read_notice,
    report_cell,
    to_arrow,
)
from watersmeet.runtime.spark.sources import UnionLayout
from watersmeet.runtime.spool import Spool
from watersmeet.runtime.stages import Arrived, ResultWriter, run_stage
from watersmeet.runtime.written import files_of_tasks, late_files_of, waiting_files_of
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import FileSegments
from watersmeet.state.syncing import sync_files

# Rows that are hashed, sorted and sent together: one Arrow batch as Spark hands it over, so that Python works on it
# while the JVM converts the next. Gathering four of them first was 7 % slower (benchmarks/shuffles.py).
CHUNK_ROWS = 65_536
# The same for rows with long text, of which Arrow cannot hold 2 GiB in one column.
CHUNK_BYTES = 256 << 20
# More than a partition has of them, so that their numbers in one are all below those in the next.
CHUNKS = 1 << 24
STRETCH_SCHEMA = ", ".join(f"{name} long" for name in Stretch._fields)


_settled = False


def _settle_once() -> None:
    """Take what is loaded out of sight of the garbage collector, which Spark's worker runs in full after every task.

    With our imports one such run takes some 35 ms; afterwards, 2. And keep freed memory.
    """
    global _settled
    if not _settled:
        keep_freed_memory()
        gc.collect()
        gc.freeze()
        _settled = True


def _partition() -> int:
    _settle_once()
    task = TaskContext.get()
    assert task is not None, "runs inside a Spark task"
    return task.partitionId()


def _local_folder() -> str | None:
    """Where Spark lets an executor keep temporary files; None: where they are otherwise."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((folder for folder in folders if folder and os.path.isdir(folder)), None)


def _is_chunk(pieces: list[pa.RecordBatch]) -> bool:
    rows = sum(piece.num_rows for piece in pieces)
    return bool(rows >= CHUNK_ROWS or sum(piece.nbytes for piece in pieces) >= CHUNK_BYTES)


@dataclass(frozen=True)
class Pack:
    """Rows of the union -> cells for the stages that streams enter, and a report on each stream."""

    context: SourceContext
    layout: UnionLayout
    late: Folder | None
    segments: Folder  # for rows that wait

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_arrow(self._cells(batches))

    def _cells(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Cell]:
        faults.reach("before-prepare")
        partition = _partition()
        home = partition % self.context.placement.slots
        places = itertools.count(partition * CHUNKS)  # of what is written, among that of all partitions
        waiting: dict[str, list[pa.RecordBatch]] = {}
        try:
            for batch in batches:
                for stream, rows in self.layout.split(batch):
                    waiting.setdefault(stream, []).append(rows)
                    if _is_chunk(waiting[stream]):
                        yield from self._pack(stream, waiting.pop(stream), home, next(places))
            for stream, pieces in waiting.items():
                yield from self._pack(stream, pieces, home, next(places))
        except WatersmeetError as error:
            yield report_cell(home, error)

    def _pack(self, stream: str, pieces: list[pa.RecordBatch], home: int, place: int) -> Iterator[Cell]:
        context, segments = self.context, FileSegments(self.segments, epoch=self.context.stamp.epoch)
        chunk = concat(pieces, self.layout.schemas[stream])
        report, routed = enter_stream(chunk, stream, context, self.late, segments, place)
        sync_files(waiting_files_of([report], segments))
        for slot, port, rows in routed:
            yield pack(rows, slot, context.port_stage[port], port)
        sync_files(late_files_of([report], self.late))
        yield report_cell(home, report)


@dataclass(frozen=True)
class PackWaiting:
    """Numbers of pieces -> cells with rows that have waited at the gate, and reports of what filters did with them."""

    waiting: tuple[WaitingPiece, ...]
    context: SourceContext
    segments: Folder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_arrow(self._cells(batches))

    def _cells(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Cell]:
        context = self.context
        home = _partition() % context.placement.slots
        segments = FileSegments(self.segments)
        try:
            for place in (place for batch in batches for place in batch.column(0).to_pylist()):
                report, routed = enter_waiting(self.waiting[place], context, segments)
                for slot, port, rows in routed:
                    yield pack(rows, slot, context.port_stage[port], port)
                yield report_cell(home, report)
        except WatersmeetError as error:
            yield report_cell(home, error)


@dataclass(frozen=True)
class PackSeeds:
    """Numbers of segments -> cells with their rows, for the stages of a plan that is to take over."""

    pieces: tuple[SeedPiece, ...]
    placement: Placement
    port_stage: tuple[int, ...]
    segments: Folder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_arrow(self._cells(batches))

    def _cells(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Cell]:
        home = _partition() % self.placement.slots
        segments = FileSegments(self.segments)
        try:
            for place in (place for batch in batches for place in batch.column(0).to_pylist()):
                for slot, port, rows in seed_rows(self.pieces[place], self.placement, segments):
                    yield pack(rows, slot, self.port_stage[port], port)
        except WatersmeetError as error:
            yield report_cell(home, error)


@dataclass(frozen=True)
class FindStretches:
    """Rows of the union -> the stretches of time that have rows."""

    look: TimesToFind
    layout: UnionLayout

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _settle_once()
        found: list[Stretch] = []
        with suppress(WatersmeetError):  # `Pack` will come upon the same, and report it
            for batch in batches:
                for stream, rows in self.layout.split(batch):
                    found = unite_stretches([*found, *stretches_of(rows, stream, self.look)], self.look.gap_us)
        if found:
            columns = [pa.array(values, pa.int64()) for values in zip(*found, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=list(Stretch._fields))


@dataclass(frozen=True)
class RunWave:
    """Cells for the stages of one wave -> cells for later ones, and reports. Cells for others pass through."""

    contexts: Mapping[int, StageContext]  # by stage
    segments: Folder
    results: ResultWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_arrow(self._cells(batches))

    def _cells(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Cell]:
        with closing(Spool(_local_folder())) as spool:
            yield from self._run_all(batches, spool)

    def _run_all(self, batches: Iterable[pa.RecordBatch], spool: Spool) -> Iterator[Cell]:
        slot = _partition()
        arrived = {stage: Arrived() for stage in self.contexts}
        ports = {stage: context.stage.ports for stage, context in self.contexts.items()}
        for cell in from_arrow(batches):
            if cell.stage not in arrived:
                yield Cell(slot if cell.stage == DRIVER else cell.part, cell.stage, cell.port, cell.data)
            elif cell.port == NOTICE:
                segment = read_notice(cell.data.to_pybytes())
                arrived[cell.stage].notices.setdefault(segment.state, []).append(segment)
            else:
                schema = ports[cell.stage][cell.port].schema
                arrived[cell.stage].rows.setdefault(cell.port, []).append(spool.put(cell.rows(schema)))
        for stage, context in self.contexts.items():
            yield from self._run(context, slot, arrived.pop(stage), spool)

    def _run(self, context: StageContext, slot: int, arrived: Arrived, spool: Spool) -> Iterator[Cell]:
        segments = FileSegments(self.segments, epoch=context.stamp.epoch)
        try:
            outcome = run_stage(context, slot, arrived, segments, self.results, spool)
            started = time.monotonic()
            sync_files(files_of_tasks([outcome.report], segments, self.results))
            report = replace(outcome.report, sync_seconds=time.monotonic() - started)
        except WatersmeetError as error:
            yield report_cell(slot, error)
            return
        for notice in outcome.notices:
            yield notice_cell(notice.slot, notice.stage, notice.segment)
        for sent in outcome.sent:
            yield pack(sent.rows, sent.slot, context.port_stage[sent.port], sent.port)
        yield report_cell(slot, report)
