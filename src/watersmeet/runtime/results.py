"""Result rows on their way out: written by tasks, committed by the driver, then delivered.

A task writes result files under names of its own into the *waiting* folder; the commit lists them; `runtime/outputs.py`
moves them to where readers look. Files of an attempt that was never committed stay in the waiting folder until garbage
collection takes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet import faults
from watersmeet.model.file_sums import FileSum
from watersmeet.runtime.spark_row_type import with_spark_row_type
from watersmeet.state.files import Folder
from watersmeet.state.output_names import Stamp, late_name, result_name
from watersmeet.state.summed import SummedSink
from watersmeet.state.syncing import begin_sync

ROW_GROUP_ROWS = 1 << 20


class ParquetResults:
    """Writes a task's rows as parquet files in `folder`.

    A file has at most `max_rows` rows; with None, a task writes one.
    """

    def __init__(self, folder: Folder, max_rows: int | None = None) -> None:
        self.folder = folder
        self.max_rows = max_rows

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, stamp: Stamp, slot: int
    ) -> tuple[dict[str, FileSum], int]:
        faults.reach("before-result")
        rest = iter(batches)
        first = next(rest, None)
        # The first batch leaves a file even if it is empty, so that the output folder has a schema.
        if first is None and (stamp.batch > 0 or slot > 0):
            return {}, 0
        names = (result_name(slot, stamp) for _ in itertools.count())
        chunks = rest if first is None else itertools.chain([first], rest)
        written = write_files(self.folder, names, chunks, schema, self.max_rows, midway="in-result")
        faults.reach("after-result")
        return written


def write_files(
    folder: Folder,
    names: Iterator[str],
    chunks: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    max_rows: int | None,
    midway: str | None = None,
) -> tuple[dict[str, FileSum], int]:
    """Write rows to files of at most `max_rows` rows, one at least; the files, and the number of rows."""
    left = _Rows(chunks)
    files: dict[str, FileSum] = {}
    total = 0
    while not files or left.more():
        summed, before = SummedSink(), total

        def fill(sink: Any, summed: SummedSink = summed) -> None:
            nonlocal total
            with pa.PythonFile(summed.into(sink), mode="w") as out, parquet_writer(out, schema) as writer:
                for chunk in left.take(max_rows):
                    writer.write_batch(chunk, row_group_size=ROW_GROUP_ROWS)
                    total += chunk.num_rows

        name = next(names)
        folder.write(name, fill, midway=midway)
        begin_sync(folder, name)
        files[name] = summed.sum
        assert not max_rows or total - before <= max_rows
    return files, total


class _Rows:
    """Record batches that are taken a number of rows at a time."""

    def __init__(self, chunks: Iterable[pa.RecordBatch]) -> None:
        self._chunks = iter(chunks)
        self._next: pa.RecordBatch | None = None

    def more(self) -> bool:
        """Whether any row is left."""
        while self._next is None or not self._next.num_rows:
            self._next = next(self._chunks, None)
            if self._next is None:
                return False
        return True

    def take(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        """The next rows, all of them where there is no limit."""
        while (limit is None or limit > 0) and self.more():
            chunk = self._next
            assert chunk is not None
            taken = chunk.num_rows if limit is None else min(limit, chunk.num_rows)
            self._next = chunk.slice(taken) if taken < chunk.num_rows else None
            limit = None if limit is None else limit - taken
            yield chunk.slice(0, taken) if taken < chunk.num_rows else chunk


def parquet_writer(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer that packs integers and times by their differences, and looks for repeats only in the other columns.

    For 400,000 rows of nine BIGINT columns: 43 ms and 9 MB, against 135 ms and 16 MB with Arrow's defaults.
    """
    packed = [field.name for field in schema if _is_packed(field.type)]
    others = [field.name for field in schema if not _is_packed(field.type)]
    encoding = dict.fromkeys(packed, "DELTA_BINARY_PACKED")
    written = with_spark_row_type(schema)
    return pq.ParquetWriter(sink, written, use_dictionary=others or False, column_encoding=encoding or None)


def _is_packed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


class CountedResults:
    """Counts a task's rows and lets them go."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, stamp: Stamp, slot: int
    ) -> tuple[dict[str, FileSum], int]:
        return {}, sum(chunk.num_rows for chunk in batches)


def write_late(folder: Folder, rows: Sequence[pa.RecordBatch], stream: str, stamp: Stamp) -> dict[str, FileSum]:
    """Write rows of a stream that are late or ahead to the waiting folder; the file, by name."""
    faults.reach("before-late")
    name = late_name(stream, stamp)
    summed = SummedSink()

    def fill(sink: Any) -> None:
        with pa.PythonFile(summed.into(sink), mode="w") as out, parquet_writer(out, rows[0].schema) as writer:
            for piece in rows:
                writer.write_batch(piece)

    folder.write(name, fill)
    begin_sync(folder, name)
    faults.reach("after-late")
    return {name: summed.sum}
