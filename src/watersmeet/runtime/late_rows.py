"""The rows of a stream that are late or ahead: split off, counted and written apart, by whatever task reads the stream.

Both runtimes begin with this, so that they agree on which rows these are, and report the same of them. What is written
apart has the columns of its stream and, behind them, the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.prepare import SplitRows, split_late
from watersmeet.model.file_sums import FileSum
from watersmeet.runtime.context import SourceContext
from watersmeet.runtime.reports import StreamReport
from watersmeet.runtime.results import write_late
from watersmeet.state.files import Folder

REASON = "_reason"
LATE, AHEAD, NO_TIME = "late", "ahead", "no time"


def split_stream(
    rows: pa.RecordBatch, stream: str, context: SourceContext, late: Folder | None
) -> tuple[SplitRows, StreamReport]:
    """The rows of a stream that may join, as far as the query reads them, and what was seen.

    The others go to the folder `late`, if there is one, with all of their columns.
    """
    time = context.times[stream]
    split = split_late(rows, time, context.watermarks_us[stream], context.limits_us.get(stream))
    late_files: dict[str, FileSum] = {}
    if late is not None and (apart := _with_reasons(split, time.name)):
        late_files = write_late(late, apart, stream, context.stamp)
    split = replace(split, rows=split.rows.select(context.columns[stream]))
    return split, StreamReport(
        stream=stream,
        rows=rows.num_rows,
        late=split.late.num_rows if split.late is not None else 0,
        newest_us=split.newest_us,
        oldest_us=split.oldest_us,
        late_files=tuple(late_files),
        sums=late_files,
        ahead=split.ahead.num_rows if split.ahead is not None else 0,
        furthest_us=split.furthest_us,
    )


def reason_column(names: Iterable[str]) -> str:
    """What the column with the reason is called beside these: `_reason`, or with more underscores where that is taken.

    >>> reason_column(["k", "ts"]), reason_column(["_Reason", "ts"])
    ('_reason', '__reason')
    """
    taken, name = {other.lower() for other in names}, REASON
    while name in taken:
        name = f"_{name}"
    return name


def _with_reasons(split: SplitRows, time: str) -> list[pa.RecordBatch]:
    """The rows that do not join, each with the reason."""
    apart = []
    if split.late is not None:
        apart.append(_with_reason(split.late, pc.if_else(pc.is_valid(split.late.column(time)), LATE, NO_TIME)))
    if split.ahead is not None:
        apart.append(_with_reason(split.ahead, pa.repeat(AHEAD, split.ahead.num_rows)))
    return apart


def _with_reason(rows: pa.RecordBatch, reasons: pa.Array) -> pa.RecordBatch:
    return rows.append_column(reason_column(rows.schema.names), reasons)
