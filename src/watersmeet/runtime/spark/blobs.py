"""Rows between stages on Spark: Arrow record batches packed into binary cells, with where they go.

A cell is one record batch for one port and slot; Spark shuffles a few large cells instead of many small rows. Reports
travel the same way, addressed to the driver. Every cell is a multiple of 64 bytes long, so that the arrays read from it
in place are aligned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet import errors
from watersmeet.errors import InternalError, WatersmeetError
from watersmeet.model.plain_json import plain, read
from watersmeet.model.segments import Segment
from watersmeet.runtime.reports import StreamReport, TaskReport

DRIVER = -1  # the "stage" of cells that are for the driver
NOTICE = -1  # the "port" of cells that tell a later stage of rows in a segment
CELL_SCHEMA = "part int, stage int, port int, data binary"
_ARROW_SCHEMA = pa.schema([("part", pa.int32()), ("stage", pa.int32()), ("port", pa.int32()), ("data", pa.binary())])
_ALIGNMENT = 64
# Cells that go to Spark together; keeps a batch of them well under the 2 GiB of a binary column.
_BYTES_AT_ONCE = 32 << 20


@dataclass(frozen=True)
class Cell:
    part: int
    stage: int
    port: int
    data: pa.Buffer

    def rows(self, schema: pa.Schema) -> pa.RecordBatch:
        """The record batch in the cell, in place."""
        return pa.ipc.read_record_batch(self.data, schema)


def pack(rows: pa.RecordBatch, part: int, stage: int, port: int) -> Cell:
    return Cell(part, stage, port, rows.serialize())


def report_cell(part: int, report: StreamReport | TaskReport | WatersmeetError) -> Cell:
    """A report, or an error, on its way to the driver."""
    if isinstance(report, WatersmeetError):
        fields = {k: asdict(v) if isinstance(v, errors.Span) else v for k, v in report.__dict__.items()}
        content: dict[str, Any] = {"error": type(report).__name__, "fields": fields}
    else:
        content = {"stream" if isinstance(report, StreamReport) else "task": plain(report)}
    return Cell(part, DRIVER, 0, pa.py_buffer(json.dumps(content).encode()))


def notice_cell(part: int, stage: int, segment: Segment) -> Cell:
    """Tells a later stage of rows that are in `segment`."""
    return Cell(part, stage, NOTICE, pa.py_buffer(json.dumps(segment.to_json()).encode()))


def read_notice(data: bytes) -> Segment:
    return Segment.from_json(json.loads(data))


def read_report(data: bytes) -> StreamReport | TaskReport:
    """The report that `report_cell` sent; an error is raised."""
    content = json.loads(data)
    if "error" in content:
        fields = dict(content["fields"])
        if fields.get("span"):
            fields["span"] = errors.Span(**fields["span"])
        kind = getattr(errors, content["error"], InternalError)
        raise errors.rebuild(kind, fields)
    if "stream" in content:
        return read(StreamReport, content["stream"])
    return read(TaskReport, content["task"])


def to_arrow(cells: Iterable[Cell]) -> Iterator[pa.RecordBatch]:
    """Cells as record batches for Spark."""
    waiting: list[Cell] = []
    size = 0
    for cell in cells:
        waiting.append(cell)
        size += cell.data.size
        if size >= _BYTES_AT_ONCE:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(cells: list[Cell]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([cell.part for cell in cells], pa.int32()),
            pa.array([cell.stage for cell in cells], pa.int32()),
            pa.array([cell.port for cell in cells], pa.int32()),
            _padded([cell.data for cell in cells]),
        ],
        schema=_ARROW_SCHEMA,
    )


def _padded(buffers: list[pa.Buffer]) -> pa.Array:
    """The buffers as binary values, each filled up with spaces; copied once."""
    offsets = np.zeros(len(buffers) + 1, dtype=np.int32)
    np.cumsum([buffer.size + -buffer.size % _ALIGNMENT for buffer in buffers], out=offsets[1:])
    content = np.full(int(offsets[-1]), ord(" "), dtype=np.uint8)
    for start, buffer in zip(offsets[:-1].tolist(), buffers, strict=True):
        content[start : start + buffer.size] = np.frombuffer(buffer, dtype=np.uint8)
    return pa.Array.from_buffers(pa.binary(), len(buffers), [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def from_arrow(batches: Iterable[pa.RecordBatch]) -> Iterator[Cell]:
    """The cells in record batches from Spark."""
    for batch in batches:
        parts, stages, ports = (batch.column(i).to_numpy() for i in range(3))
        data = batch.column(3)
        _, starts, content = data.buffers()
        ends = np.frombuffer(starts, dtype=np.int32)[data.offset : data.offset + len(data) + 1].tolist()
        for i in range(batch.num_rows):
            cell = content.slice(ends[i], ends[i + 1] - ends[i])  # in place
            yield Cell(int(parts[i]), int(stages[i]), int(ports[i]), cell)
