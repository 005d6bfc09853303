"""Result rows on their way out: written by tasks, committed by the driver, then delivered.

A task writes result files under names of its own into the *waiting* folder; the commit lists them; `runtime/outputs.py`
moves them to where readers look. Files of an attempt that was never committed stay in the waiting folder until garbage
collection takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet import faults
from watersmeet.model.file_sums import FileSum
from watersmeet.runtime.output_names import late_name, result_name
from watersmeet.state.files import Folder
from watersmeet.state.summed import SummedSink
from watersmeet.state.syncing import begin_sync

ROW_GROUP_ROWS = 1 << 20


class ParquetResults:
    """Writes a task's rows as one parquet file in `folder`, named after the checkpoint and the epoch of its run."""

    def __init__(self, folder: Folder, owner: str = "", epoch: int = 0) -> None:
        self.folder = folder
        self.owner = owner
        self.epoch = epoch

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, batch: int, slot: int
    ) -> tuple[dict[str, FileSum], int]:
        faults.reach("before-result")
        rest = iter(batches)
        first = next(rest, None)
        # The first batch leaves a file even if it is empty, so that the output folder has a schema.
        if first is None and (batch > 0 or slot > 0):
            return {}, 0
        name = result_name(batch, slot, self.owner, self.epoch)
        rows = 0
        summed = SummedSink()

        def fill(sink: Any) -> None:
            nonlocal rows
            with pa.PythonFile(summed.into(sink), mode="w") as out, parquet_writer(out, schema) as writer:
                for chunk in _all(first, rest):
                    writer.write_batch(chunk, row_group_size=ROW_GROUP_ROWS)
                    rows += chunk.num_rows

        self.folder.write(name, fill, midway="in-result")
        begin_sync(self.folder, name)
        faults.reach("after-result")
        return {name: summed.sum}, rows


def _all(first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
    yield from rest


def parquet_writer(sink: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer that packs integers and times by their differences, and looks for repeats only in the other columns.

    For 400,000 rows of nine BIGINT columns: 43 ms and 9 MB, against 135 ms and 16 MB with Arrow's defaults.
    """
    packed = [field.name for field in schema if _is_packed(field.type)]
    others = [field.name for field in schema if not _is_packed(field.type)]
    encoding = dict.fromkeys(packed, "DELTA_BINARY_PACKED")
    return pq.ParquetWriter(sink, schema, use_dictionary=others or False, column_encoding=encoding or None)


def _is_packed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind))


class CountedResults:
    """Counts a task's rows and lets them go."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, batch: int, slot: int
    ) -> tuple[dict[str, FileSum], int]:
        return {}, sum(chunk.num_rows for chunk in batches)


def write_late(
    folder: Folder, rows: Sequence[pa.RecordBatch], stream: str, batch: int, owner: str, epoch: int
) -> dict[str, FileSum]:
    """Write rows of a stream that are late or ahead to the waiting folder; the file, by name."""
    faults.reach("before-late")
    name = late_name(stream, batch, owner, epoch)
    summed = SummedSink()

    def fill(sink: Any) -> None:
        with pa.PythonFile(summed.into(sink), mode="w") as out, parquet_writer(out, rows[0].schema) as writer:
            for piece in rows:
                writer.write_batch(piece)

    folder.write(name, fill)
    begin_sync(folder, name)
    faults.reach("after-late")
    return {name: summed.sum}
