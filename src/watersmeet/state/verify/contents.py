"""Checks the contents of files that versions refer to, against what they say of them. Pure functions of bytes.

Each gives None for a file that is as it should be, or says what is wrong with it.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.kernel.indexed import make_directory
from watersmeet.kernel.rows import hashes
from watersmeet.model.file_sums import FileSum
from watersmeet.model.ids import Partitioning
from watersmeet.model.placement import Placement
from watersmeet.model.routing import Slice
from watersmeet.model.segments import WAITING, Segment
from watersmeet.state.file_lists import listed_files
from watersmeet.state.segment_files import DIRECTORY_FIELD, FORMAT, METADATA_KEY, count_by_group


def wrong_sum(data: Any, told: FileSum) -> str | None:
    size, crc32 = len(data), zlib.crc32(data)  # which lets other threads go on
    if (size, crc32) == told:
        return None
    return (
        f"it has {size} bytes with checksum {crc32:08x}; the manifest says {told[0]} bytes with checksum {told[1]:08x}"
    )


def wrong_segment(data: pa.Buffer, entries: Sequence[tuple[Segment, Placement]]) -> str | None:
    """A segment against its entries in versions, each with the placement of that version."""
    for told in dict.fromkeys((segment.bytes, segment.crc32) for segment, _ in entries):  # as a rule one
        if (wrong := wrong_sum(data, told)) is not None:
            return wrong
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        header = json.loads(reader.schema.metadata[METADATA_KEY])
        if header["format"] > FORMAT or (header["format"] < FORMAT and reader.num_record_batches != 1):
            return f"it has format {header['format']} and {reader.num_record_batches} batches"
        pieces = []
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            batch.validate(full=True)
            values = hashes(batch)
            if not bool(np.all(values[1:] >= values[:-1])):
                return "its rows are not sorted by their hashes"
            pieces.append(values)
            starts = make_directory(values)
            if not np.array_equal(batch.column(DIRECTORY_FIELD).to_numpy()[: len(starts)], starts):
                return "the directory of its hashes is not that of its rows"
    except (pa.ArrowInvalid, OSError, ValueError, LookupError, TypeError) as error:
        return f"it cannot be read: {error}"
    if not all(before[-1] < after[0] for before, after in itertools.pairwise(pieces)):
        return "its pieces are not sorted by their hashes"
    values = np.concatenate(pieces)
    for segment, placement in entries:
        if len(values) != segment.rows:
            return f"it has {len(values)} rows; the manifest says {segment.rows}"
        if segment.tier == WAITING:  # by time, and not in groups
            continue
        if not any(_fits(values, segment, Slice(segment.written, bounds)) for bounds in _bounds(placement)):
            return "its rows do not lie in the groups that the manifest says, or not as many in each"
    return None


def _bounds(placement: Placement) -> Sequence[Any]:
    """The bounds that groups may have. Which of them are those of a state, its plan says, and a manifest does not."""
    return list(dict.fromkeys(placement.of(name).bounds for name in (Partitioning(""), *placement.known)))


def _fits(values: Any, segment: Segment, slice_: Slice) -> bool:
    if segment.written and segment.written[-1][1] > len(slice_.bounds):
        return False
    rows, _ = count_by_group(values, slice_)
    return rows == segment.group_rows if segment.group_rows else sum(rows) == segment.rows


def wrong_list(data: bytes, name: str, count: int) -> str | None:
    """A list of files that were read."""
    try:
        if not all(isinstance(file, str) and isinstance(time, int) for file, time in listed_files(data, name, count)):
            return "it holds something that is not the name of a file and a time"
    except (ValueError, TypeError, KeyError) as error:
        return str(error)
    return None


def wrong_waiting(data: bytes, told: FileSum | None) -> str | None:
    """Results or late rows that wait for their delivery."""
    if told is not None and (wrong := wrong_sum(data, told)) is not None:
        return wrong
    try:
        pq.read_metadata(pa.BufferReader(data))
    except (pa.ArrowInvalid, OSError) as error:
        return f"it cannot be read: {error}"
    return None
