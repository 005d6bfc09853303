"""The late rows of a stream: split off, counted and written apart, by whatever task reads the stream.

Both runtimes begin with this, so that they agree on which rows are late, and report the same of them.
"""

from __future__ import annotations

import pyarrow as pa

from watersmeet.kernel.prepare import SplitRows, split_late
from watersmeet.model.file_sums import FileSum
from watersmeet.runtime.context import SourceContext
from watersmeet.runtime.reports import StreamReport
from watersmeet.runtime.results import write_late
from watersmeet.state.files import Folder


def split_stream(
    rows: pa.RecordBatch, stream: str, context: SourceContext, late: Folder | None
) -> tuple[SplitRows, StreamReport]:
    """The rows of a stream without the late ones, which go to the folder `late` if there is one; what was seen."""
    split = split_late(rows, context.times[stream], context.watermarks_us[stream])
    late_files: dict[str, FileSum] = {}
    if split.late is not None and late is not None:
        late_files = write_late(late, split.late, stream, context.batch, context.checkpoint, context.epoch)
    return split, StreamReport(
        stream=stream,
        rows=rows.num_rows,
        late=split.late.num_rows if split.late is not None else 0,
        newest_us=split.newest_us,
        oldest_us=split.oldest_us,
        late_files=tuple(late_files),
        sums=late_files,
    )
