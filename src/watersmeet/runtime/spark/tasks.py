"""What runs on executors: functions from record batches to record batches, for `mapInArrow`.

`Pack` turns the rows of a micro-batch into cells for the slots; `RunStage` runs one stage for one slot. Both are told
everything by the context that they carry and keep nothing. An error of ours is not raised but sent to the driver as a
report, so that Spark does not retry what cannot succeed; anything else is raised, and Spark retries.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from watersmeet import faults
from watersmeet.errors import WatersmeetError
from watersmeet.kernel.prepare import cut, prepare, set_late_apart
from watersmeet.kernel.rows import concat
from watersmeet.runtime.allocator import keep_freed_memory
from watersmeet.runtime.batch import BatchContext, StreamReport
from watersmeet.runtime.results import write_late
from watersmeet.runtime.spark.blobs import (
    DRIVER,
    WORD,
    Cell,
    from_arrow,
    pack,
    read_word,
    report_cell,
    to_arrow,
    word_cell,
)
from watersmeet.runtime.spark.sources import UnionLayout
from watersmeet.runtime.stage import Arrived, ResultWriter, run_stage
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import FileSegments

# Rows that are hashed, sorted and sent together: one Arrow batch as Spark hands it over, so that Python works on it
# while the JVM converts the next. Gathering four of them first was 7 % slower (benchmarks/shuffles.py).
CHUNK_ROWS = 65_536
# The same for rows with long text, of which Arrow cannot hold 2 GiB in one column.
CHUNK_BYTES = 256 << 20


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


def _is_chunk(pieces: list[pa.RecordBatch]) -> bool:
    rows = sum(piece.num_rows for piece in pieces)
    return bool(rows >= CHUNK_ROWS or sum(piece.nbytes for piece in pieces) >= CHUNK_BYTES)


@dataclass(frozen=True)
class Pack:
    """Rows of the union -> cells for the first stages, and a report on each stream."""

    context: BatchContext
    layout: UnionLayout
    late: Folder | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_arrow(self._cells(batches))

    def _cells(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Cell]:
        faults.reach("before-prepare")
        home = _partition() % self.context.routing.slots
        waiting: dict[str, list[pa.RecordBatch]] = {}
        try:
            for batch in batches:
                for stream, rows in self.layout.split(batch):
                    waiting.setdefault(stream, []).append(rows)
                    if _is_chunk(waiting[stream]):
                        yield from self._pack(stream, waiting.pop(stream), home)
            for stream, pieces in waiting.items():
                yield from self._pack(stream, pieces, home)
        except WatersmeetError as error:
            yield report_cell(home, error)

    def _pack(self, stream: str, pieces: list[pa.RecordBatch], home: int) -> Iterator[Cell]:
        plan = self.context.plan
        rows = concat(pieces, self.layout.schemas[stream])
        time = next(entry.stream.time for entry in plan.query.inputs if entry.stream.name == stream)
        punctual = set_late_apart(rows, time, self.context.watermarks[stream])
        late_files: tuple[str, ...] = ()
        if punctual.late is not None and self.late is not None:
            late_files = (write_late(self.late, punctual.late, stream, self.context.batch),)
        for leaf in plan.leaves:
            if leaf.stream == stream:
                for slot, piece in cut(prepare(punctual, leaf), self.context.routing):
                    yield pack(piece, slot, plan.port_stage[leaf.port], leaf.port)
        late = punctual.late.num_rows if punctual.late is not None else 0
        report = StreamReport(stream, rows.num_rows, late, punctual.newest, late_files, oldest=punctual.oldest)
        yield report_cell(home, report)


@dataclass(frozen=True)
class RunStage:
    """Cells for this stage -> cells for later ones, and a report. Cells for others pass through."""

    context: BatchContext
    stage: int
    segments: Folder
    results: ResultWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return to_arrow(self._cells(batches))

    def _cells(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Cell]:
        slot = _partition()
        plan = self.context.plan
        stage = plan.stages[self.stage]
        ports = stage.ports
        arrived = Arrived()
        for cell in from_arrow(batches):
            if cell.stage != self.stage:
                yield Cell(slot if cell.stage == DRIVER else cell.part, cell.stage, cell.port, cell.data)
            elif cell.port == WORD:
                segment = read_word(cell.data.to_pybytes())
                arrived.told.setdefault(segment.state, []).append(segment)
            else:
                arrived.rows.setdefault(cell.port, []).append(cell.rows(ports[cell.port].schema))
        try:
            outcome = run_stage(self.context, stage, slot, arrived, FileSegments(self.segments), self.results)
        except WatersmeetError as error:
            yield report_cell(slot, error)
            return
        for word in outcome.told:
            yield word_cell(word.slot, word.stage, word.segment)
        for message in outcome.sent:
            yield pack(message.rows, message.slot, plan.port_stage[message.port], message.port)
        yield report_cell(slot, outcome.report)
