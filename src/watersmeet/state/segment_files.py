"""Segments as files: Arrow IPC files, opened by any Arrow reader, memory-mapped when read.

The schema's metadata carries the format version and the name of the state; the manifest carries the checksum. A process
checks a file's checksum the first time it opens it, and not again, so that a batch does not read all of the state.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet import faults
from watersmeet.errors import CheckpointError, ResourceError
from watersmeet.kernel.window import NEVER, expiry
from watersmeet.model.routing import GroupRange, count_groups
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import State
from watersmeet.state.files import Folder

FORMAT = 1
_METADATA_KEY = b"watersmeet"

# Files of this process that were found sound, by their path and size. Bounded by what one run reads.
_sound: set[tuple[str, int]] = set()


def describe_segment(
    batch: pa.RecordBatch, state: State, groups: tuple[GroupRange, ...], number: int, segment_id: str
) -> Segment:
    """The manifest's entry for `batch` as a segment of `state`, before its size and checksum are known."""
    ends = expiry(batch, state) if state.windows else None
    return Segment(
        id=segment_id,
        state=state.name,
        rows=batch.num_rows,
        bytes=batch.nbytes,
        crc32=0,
        groups=groups,
        groups_at_birth=count_groups(groups),
        min_expiry=int(np.min(ends)) if ends is not None else NEVER,
        max_expiry=int(np.max(ends)) if ends is not None else NEVER,
        batch=number,
    )


class FileSegments:
    """Writes and reads the segments of a checkpoint."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def write(self, batch: pa.RecordBatch, state: State, groups: tuple[GroupRange, ...], number: int) -> Segment:
        entry = describe_segment(batch, state, groups, number, f"{number:08d}-{uuid.uuid4().hex[:16]}")
        header = json.dumps({"format": FORMAT, "state": state.name}).encode()
        schema = batch.schema.with_metadata({_METADATA_KEY: header})

        def fill(sink: Any) -> None:
            with pa.PythonFile(sink, mode="w") as out, pa.ipc.new_file(out, schema) as writer:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata))

        faults.reach("before-segment")
        written = self.folder.write(_file_name(entry.id), fill, midway="in-segment")
        faults.reach("after-segment")
        return Segment(**{**entry.__dict__, "bytes": written.bytes, "crc32": written.crc32})

    def read(self, segment: Segment) -> pa.RecordBatch:
        name = _file_name(segment.id)
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
        header = json.loads(reader.schema.metadata[_METADATA_KEY])
        if header["format"] > FORMAT:
            raise newer_format(f'segment "{segment.id}"', header["format"], FORMAT)
        return reader.get_batch(0).replace_schema_metadata(None)

    def _check(self, segment: Segment, source: pa.NativeFile, path: str) -> None:
        mark = (path, segment.crc32)
        if mark in _sound:
            return
        size = source.size()
        found = zlib.crc32(source.read_buffer(size)) if size else 0
        source.seek(0)
        if size != segment.bytes or found != segment.crc32:
            self.folder.forget(_file_name(segment.id))  # a copy must not outlive the repair of the file
            raise ResourceError(
                f'segment "{segment.id}" of state "{segment.state}" is corrupt',
                detail=f"{path} has {size} bytes with checksum {found:08x}; "
                f"the manifest says {segment.bytes} bytes with checksum {segment.crc32:08x}.",
                hint="Restore the file from a backup, or start again with a new checkpoint.",
            )
        _sound.add(mark)

    def names(self) -> list[str]:
        return self.folder.names()

    def delete(self, name: str) -> None:
        self.folder.delete(name)


class MemorySegments:
    """Segments of a run without a checkpoint: kept as they are, by id."""

    def __init__(self) -> None:
        self._rows: dict[str, pa.RecordBatch] = {}

    def write(self, batch: pa.RecordBatch, state: State, groups: tuple[GroupRange, ...], number: int) -> Segment:
        entry = describe_segment(batch, state, groups, number, uuid.uuid4().hex)
        self._rows[entry.id] = batch
        return entry

    def read(self, segment: Segment) -> pa.RecordBatch:
        return self._rows[segment.id]

    def names(self) -> list[str]:
        return [_file_name(segment_id) for segment_id in self._rows]

    def delete(self, name: str) -> None:
        self._rows.pop(os.path.splitext(name)[0], None)


Segments = FileSegments | MemorySegments


def _file_name(segment_id: str) -> str:
    return f"{segment_id}.arrow"


def referenced_name(segment: Segment) -> str:
    """The name under which `Segments.names` lists the segment."""
    return _file_name(segment.id)


def newer_format(what: str, found: int, known: int) -> CheckpointError:
    return CheckpointError(
        f"{what} was written by a newer version of watersmeet",
        detail=f"It has format {found}; this version reads formats up to {known}.",
        hint="Upgrade watersmeet, or start with a new checkpoint.",
    )
