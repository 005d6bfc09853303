"""Segments as files: Arrow IPC files, opened by any Arrow reader, memory-mapped when read.

The schema's metadata carries the format version and the name of the state; the manifest carries the checksum. Beside
the columns of the state a file has the directory of its hashes (`kernel/indexed.py`) in the column `#d`. A process
checks a file's checksum the first time it opens it, and not again, so that a batch does not read all of the state.

A large segment is written in pieces, one after the other in order of the hash, so that it is never in memory whole.
Each is a record batch with a directory of its own (format 2; one of a single piece has format 1, as ever).
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet import faults
from watersmeet.errors import CheckpointError, ResourceError
from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.indexed import Indexed, make_directory
from watersmeet.kernel.rows import hashes
from watersmeet.kernel.window import LONG_AGO, NEVER, expiry, lifetimes, rank_ends
from watersmeet.model.ids import SegmentId
from watersmeet.model.routing import Slice, count_groups, expand_ranges
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import State
from watersmeet.state.epochs import name_of_epoch
from watersmeet.state.files import Folder
from watersmeet.state.summed import SummedSink
from watersmeet.state.syncing import begin_sync

FORMAT = 2
FORMAT_OF_ONE_PIECE = 1
DIRECTORY_FIELD = "#d"
METADATA_KEY = b"watersmeet"

# What one process keeps open: segments do not change, and most batches read most of them again. Opening one takes
# longer than probing it; a map is of the file, and takes no memory of its own.
OPEN_FILES = 2_000
OPEN_BYTES = 256 << 20  # what deleted files may hold of the disk until they are let go


Pieces = tuple[Indexed, ...]  # of a segment, in order of the hash


class _OpenFiles:
    """The files that were opened last, found sound, by path."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, tuple[int, int, Pieces]] = OrderedDict()  # checksum, bytes, content
        self._bytes = 0
        self._turn = threading.Lock()

    def get(self, path: str, segment: Segment) -> Pieces | None:
        with self._turn:
            found = self._files.get(path)
            if found is None or found[0] != segment.crc32:
                return None
            self._files.move_to_end(path)
            return found[2]

    def put(self, path: str, segment: Segment, content: Pieces) -> None:
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


class _Description:
    """The manifest's entry for a segment, made up as its pieces are written. Its name, size and checksum come last."""

    def __init__(self, state: State, slice_: Slice, number: int) -> None:
        self._state = state
        self._slice = slice_
        self._number = number
        self._rows = self._bytes = 0
        self._expiry = (NEVER, LONG_AGO)
        self._time = NEVER
        self._rank_ends = [LONG_AGO] * len(state.ranks)
        self._last: int | None = None
        groups = count_groups(slice_.groups)
        self._group_rows, self._group_keys = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)

    def of(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The pieces that have rows, as they go by."""
        for piece in pieces:
            if piece.num_rows:
                self._add(piece)
                yield piece

    def _add(self, piece: pa.RecordBatch) -> None:
        values = hashes(piece)
        assert self._last is None or self._last < int(values[0]), "pieces have their own hashes, in order"
        self._last = int(values[-1])
        self._rows += piece.num_rows
        self._bytes += piece.nbytes
        if self._state.stays:
            ends = expiry(piece, self._state)
            self._expiry = min(self._expiry[0], int(np.min(ends))), max(self._expiry[1], int(np.max(ends)))
        self._rank_ends = [max(both) for both in zip(self._rank_ends, rank_ends(piece, self._state), strict=True)]
        if (times := lifetimes(piece, self._state)) is not None:
            self._time = min(self._time, int(np.min(times.newest)))
        rows, keys = count_by_group(values, self._slice)
        self._group_rows += rows
        self._group_keys += keys

    def entry(self, segment_id: SegmentId) -> Segment:
        return Segment(
            id=segment_id,
            state=self._state.name,
            rows=self._rows,
            bytes=self._bytes,
            crc32=0,
            groups=self._slice.groups,
            written=self._slice.groups,
            min_expiry_us=self._expiry[0] if self._state.stays else NEVER,
            max_expiry_us=self._expiry[1] if self._state.stays else NEVER,
            min_time_us=self._time,
            batch=self._number,
            group_rows=tuple(self._group_rows.tolist()),
            group_keys=tuple(self._group_keys.tolist()),
            rank_ends=tuple((stream, end) for (_, stream), end in zip(self._state.ranks, self._rank_ends, strict=True)),
        )


FEW_RANGES = 4  # of groups, that are counted one by one; where groups are scattered, all of them at once


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
    if len(slice_.groups) > FEW_RANGES:
        place = np.append(np.searchsorted(values, bounds.start_array), len(values))
        numbers = expand_ranges(slice_.groups)
        return tuple(np.diff(place)[numbers].tolist()), tuple(np.diff(distinct[place])[numbers].tolist())
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

    def write(self, pieces: Iterable[pa.RecordBatch], state: State, slice_: Slice, number: int) -> Segment | None:
        """Write pieces, which are in order of the hash, as a segment; None where they have no row."""
        described = _Description(state, slice_, number)
        rest = described.of(pieces)
        waiting = list(itertools.islice(rest, 2))  # whether there is a second one decides on the format
        if not waiting:
            return None
        form = FORMAT if len(waiting) > 1 else FORMAT_OF_ONE_PIECE
        header = json.dumps({"format": form, "state": state.name}).encode()
        schema = waiting[0].schema.append(pa.field(DIRECTORY_FIELD, pa.int32())).with_metadata({METADATA_KEY: header})
        summed = SummedSink()

        def fill(sink: Any) -> None:
            with pa.PythonFile(summed.into(sink), mode="w") as out, pa.ipc.new_file(out, schema) as writer:
                while waiting:
                    writer.write_batch(_with_directory(waiting.pop(0)))
                    waiting.extend(itertools.islice(rest, 1))

        faults.reach("before-segment")
        name = SegmentId(name_of_epoch(f"{number:08d}", self.epoch))
        self.folder.write(file_name(name), fill, midway="in-segment", keep_copy=True)
        faults.reach("after-segment")
        size, crc32 = summed.sum
        return replace(described.entry(name), bytes=size, crc32=crc32)

    def sync_soon(self, segment: Segment) -> None:
        """A version will refer to a file that was written: let it be on its way to the disk."""
        begin_sync(self.folder, file_name(segment.file))

    def read(self, segment: Segment) -> Pieces:
        path = self.folder.path(file_name(segment.file))
        found = open_files.get(path, segment) if self.keep_open else None
        if found is None:
            found = self._open(segment)
            if self.keep_open:
                open_files.put(path, segment, found)
        return found

    def _open(self, segment: Segment) -> Pieces:
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
        place = reader.schema.get_field_index(DIRECTORY_FIELD)
        pieces = (reader.get_batch(i).replace_schema_metadata(None) for i in range(reader.num_record_batches))
        return tuple(Indexed(piece.remove_column(place), piece.column(place).to_numpy()) for piece in pieces)

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
        self._rows: dict[SegmentId, Pieces] = {}

    def write(self, pieces: Iterable[pa.RecordBatch], state: State, slice_: Slice, number: int) -> Segment | None:
        described = _Description(state, slice_, number)
        content = tuple(map(Indexed.of, described.of(pieces)))
        if not content:
            return None
        entry = described.entry(SegmentId(uuid.uuid4().hex))
        self._rows[entry.id] = content
        return entry

    def sync_soon(self, segment: Segment) -> None:
        """There is nothing to be on a disk."""

    def read(self, segment: Segment) -> Pieces:
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
