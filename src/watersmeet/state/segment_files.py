"""Segments as files: Arrow IPC files, opened by any Arrow reader, memory-mapped when read.

The schema's metadata carries the format version and the name of the state; the manifest carries the checksum. Beside
the columns of the state a file has the directory of its hashes (`kernel/indexed.py`) in the column `#d`. A process
checks a file's checksum the first time it opens it, and not again, so that a batch does not read all of the state.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet import faults
from watersmeet.errors import CheckpointError, ResourceError
from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.indexed import Indexed, make_directory
from watersmeet.kernel.rows import hashes
from watersmeet.kernel.window import NEVER, expiry, lifetimes
from watersmeet.model.ids import SegmentId
from watersmeet.model.routing import Slice
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import State
from watersmeet.state.epochs import name_of_epoch
from watersmeet.state.files import Folder
from watersmeet.state.summed import SummedSink
from watersmeet.state.syncing import begin_sync

FORMAT = 1
DIRECTORY_FIELD = "#d"
METADATA_KEY = b"watersmeet"

# What one process keeps open: segments do not change, and most batches read most of them again. Opening one takes
# longer than probing it; a map is of the file, and takes no memory of its own.
OPEN_FILES = 2_000
OPEN_BYTES = 256 << 20  # what deleted files may hold of the disk until they are let go


class _OpenFiles:
    """The files that were opened last, found sound, by path."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, tuple[int, int, Indexed]] = OrderedDict()  # checksum, bytes, content
        self._bytes = 0
        self._turn = threading.Lock()

    def get(self, path: str, segment: Segment) -> Indexed | None:
        with self._turn:
            found = self._files.get(path)
            if found is None or found[0] != segment.crc32:
                return None
            self._files.move_to_end(path)
            return found[2]

    def put(self, path: str, segment: Segment, content: Indexed) -> None:
        with self._turn:
            self._forget(path)
            self._files[path] = (segment.crc32, segment.bytes, content)
            self._bytes += segment.bytes
            while len(self._files) > OPEN_FILES or self._bytes > OPEN_BYTES:
                self._forget(next(iter(self._files)))

    def forget(self, path: str) -> None:
        with self._turn:
            self._forget(path)

    def _forget(self, path: str) -> None:
        found = self._files.pop(path, None)
        self._bytes -= 0 if found is None else found[1]

    def forget_under(self, folder: str) -> None:
        with self._turn:
            for path in [path for path in self._files if path.startswith(f"{folder}/")]:
                self._forget(path)


open_files = _OpenFiles()

# Files of this process that were found sound: their checksum by path. Forgotten now and then, so as not to grow.
_sound: dict[str, int] = {}
SOUND_KEPT = 100_000


def describe_segment(batch: pa.RecordBatch, state: State, slice_: Slice, number: int, segment_id: SegmentId) -> Segment:
    """The manifest's entry for `batch` as a segment of `state`, before its size and checksum are known."""
    ends = expiry(batch, state) if state.windows else None
    times = lifetimes(batch, state)
    rows, keys = count_by_group(hashes(batch), slice_)
    return Segment(
        id=segment_id,
        state=state.name,
        rows=batch.num_rows,
        bytes=batch.nbytes,
        crc32=0,
        groups=slice_.groups,
        written=slice_.groups,
        min_expiry_us=int(np.min(ends)) if ends is not None else NEVER,
        max_expiry_us=int(np.max(ends)) if ends is not None else NEVER,
        min_time_us=int(np.min(times.newest)) if times is not None else NEVER,
        batch=number,
        group_rows=rows,
        group_keys=keys,
    )


def count_by_group(values: UInt64Array, slice_: Slice) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The number of rows and of distinct hashes in each group of the slice, given the sorted hashes.

    >>> from watersmeet.model.bounds import Bounds
    >>> count_by_group(np.array([1, 1, 5, 2**63], np.uint64), Slice(((0, 2),), Bounds(2)))
    ((3, 1), (2, 1))
    """
    first = np.ones(len(values) + 1, dtype=np.int64)
    first[0] = 0
    first[2:] = values[1:] != values[:-1]
    distinct = np.cumsum(first)
    rows: list[int] = []
    keys: list[int] = []
    bounds = slice_.bounds
    for low, high in slice_.groups:
        # The end of the last group is 2**64, which no array holds: it is the end of the values.
        inner = bounds.start_array[low:high]
        ends = [len(values) if high == len(bounds) else np.searchsorted(values, bounds.start_array[high])]
        place = np.concatenate([np.searchsorted(values, inner), ends])
        rows += np.diff(place).tolist()
        keys += np.diff(distinct[place]).tolist()
    return tuple(rows), tuple(keys)


def _with_directory(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with its directory as one column more, which is long enough: it has at most one entry a row."""
    starts = make_directory(hashes(batch))
    column = np.zeros(batch.num_rows, dtype=np.int32)
    column[: len(starts)] = starts
    return batch.append_column(DIRECTORY_FIELD, pa.array(column))


class FileSegments:
    """Writes and reads the segments of a checkpoint. Close it when the run ends.

    With `keep_open`, files stay open for the batches to come: for a process that sees the end of the run. Files are
    named after the `epoch` of their run.
    """

    def __init__(self, folder: Folder, keep_open: bool = False, epoch: int = 0) -> None:
        self.folder = folder
        self.keep_open = keep_open
        self.epoch = epoch

    def write(self, batch: pa.RecordBatch, state: State, slice_: Slice, number: int) -> Segment:
        entry = describe_segment(batch, state, slice_, number, SegmentId(name_of_epoch(f"{number:08d}", self.epoch)))
        header = json.dumps({"format": FORMAT, "state": state.name}).encode()
        content = _with_directory(batch).replace_schema_metadata({METADATA_KEY: header})
        summed = SummedSink()

        def fill(sink: Any) -> None:
            with pa.PythonFile(summed.into(sink), mode="w") as out, pa.ipc.new_file(out, content.schema) as writer:
                writer.write_batch(content)

        faults.reach("before-segment")
        self.folder.write(file_name(entry.id), fill, midway="in-segment", keep_copy=True)
        faults.reach("after-segment")
        size, crc32 = summed.sum
        return replace(entry, bytes=size, crc32=crc32)

    def sync_soon(self, segment: Segment) -> None:
        """A version will refer to a file that was written: let it be on its way to the disk."""
        begin_sync(self.folder, file_name(segment.file))

    def read(self, segment: Segment) -> Indexed:
        path = self.folder.path(file_name(segment.file))
        found = open_files.get(path, segment) if self.keep_open else None
        if found is None:
            found = self._open(segment)
            if self.keep_open:
                open_files.put(path, segment, found)
        return found

    def _open(self, segment: Segment) -> Indexed:
        name = file_name(segment.file)
        try:
            source = self.folder.open(name)
        except FileNotFoundError:
            raise ResourceError(
                f'segment "{segment.id}" of state "{segment.state}" is missing',
                detail=f"Looked for {self.folder.path(name)}, which the manifest lists with {segment.rows} rows.",
                hint="Restore the file from a backup, or start again with a new checkpoint.",
            ) from None
        self._check(segment, source, self.folder.path(name))
        reader = pa.ipc.open_file(source)
        header = json.loads(reader.schema.metadata[METADATA_KEY])
        if header["format"] > FORMAT:
            raise newer_format(f'segment "{segment.id}"', header["format"], FORMAT)
        content = reader.get_batch(0).replace_schema_metadata(None)
        place = content.schema.get_field_index(DIRECTORY_FIELD)
        return Indexed(content.remove_column(place), content.column(place).to_numpy())

    def _check(self, segment: Segment, source: pa.NativeFile, path: str) -> None:
        if _sound.get(path) == segment.crc32:
            return
        size = source.size()
        found = zlib.crc32(source.read_buffer(size)) if size else 0
        source.seek(0)
        if size != segment.bytes or found != segment.crc32:
            self.folder.forget(file_name(segment.file))  # a copy must not outlive the repair of the file
            raise ResourceError(
                f'segment "{segment.id}" of state "{segment.state}" is corrupt',
                detail=f"{path} has {size} bytes with checksum {found:08x}; "
                f"the manifest says {segment.bytes} bytes with checksum {segment.crc32:08x}.",
                hint="Restore the file from a backup, or start again with a new checkpoint.",
            )
        if len(_sound) >= SOUND_KEPT:
            _sound.clear()
        _sound[path] = segment.crc32

    def close(self) -> None:
        """Let go of all files, and of what is known of them."""
        open_files.forget_under(self.folder.path())
        for path in [path for path in _sound if path.startswith(f"{self.folder.path()}/")]:
            del _sound[path]

    def names(self) -> list[str]:
        return self.folder.names()

    def delete_all(self, names: Sequence[str]) -> None:
        self.folder.delete_all(names)
        for name in names:
            open_files.forget(self.folder.path(name))
            _sound.pop(self.folder.path(name), None)


class MemorySegments:
    """Segments of a run without a checkpoint: kept as they are, by id."""

    def __init__(self) -> None:
        self._rows: dict[SegmentId, Indexed] = {}

    def write(self, batch: pa.RecordBatch, state: State, slice_: Slice, number: int) -> Segment:
        entry = describe_segment(batch, state, slice_, number, SegmentId(uuid.uuid4().hex))
        self._rows[entry.id] = Indexed.of(batch)
        return entry

    def sync_soon(self, segment: Segment) -> None:
        """There is nothing to be on a disk."""

    def read(self, segment: Segment) -> Indexed:
        return self._rows[segment.file]

    def close(self) -> None:
        self._rows.clear()

    def names(self) -> list[str]:
        return [file_name(segment_id) for segment_id in self._rows]

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self._rows.pop(SegmentId(os.path.splitext(name)[0]), None)


Segments = FileSegments | MemorySegments


def file_name(segment: str) -> str:
    """The name under which `Segments.names` lists the file of a segment."""
    return f"{segment}.arrow"


def newer_format(what: str, found: int, known: int) -> CheckpointError:
    return CheckpointError(
        f"{what} was written by a newer version of watersmeet",
        detail=f"It has format {found}; this version reads formats up to {known}.",
        hint="Upgrade watersmeet, or start with a new checkpoint.",
    )
