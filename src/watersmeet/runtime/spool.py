"""Rows of a batch on their way from task to task: in memory while there are few, else in a file without a name.

`put` takes rows and gives the same rows back. What a batch holds beyond `KEPT_BYTES` it has written down by then, and
what it gives back is memory-mapped, so that it takes no memory that the system could not have back. The file has no
name and goes when nobody holds rows of it any more, whatever becomes of the process.

Never changes rows, and keeps no list of them. Known limit: what is kept in memory counts until the end of the batch,
whether or not somebody still holds it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from contextlib import suppress
from typing import BinaryIO

import pyarrow as pa

from watersmeet.state.files import TEMPORARY, disk_errors

# Of one batch, in one process. A batch of 32 MB from each of three streams, hashed, is half of that.
KEPT_BYTES = 256 << 20
# The file grows by so much at a time, or by what is put if that is more.
EXTENT_BYTES = 64 << 20
ALIGNMENT = 64


class Spool:
    """For one batch, or one task of it on Spark. Threads may share it. To be closed, which takes no rows from anybody.

    `folder` is where the file lies; None is where temporary files do.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._turn = threading.Lock()
        self._kept = 0
        self._file: BinaryIO | None = None
        self._extents: list[_Extent] = []

    def put(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows, which are not in memory if there are many already."""
        size = rows.nbytes
        with self._turn:
            if self._kept + size <= KEPT_BYTES:
                self._kept += size
                return rows
        content = rows.serialize()
        with disk_errors("write", f"a temporary file in {self._folder or tempfile.gettempdir()}"):
            return pa.ipc.read_record_batch(self._write(content), rows.schema)

    def _write(self, content: pa.Buffer) -> pa.Buffer:
        with self._turn:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix=TEMPORARY, dir=self._folder, buffering=0)  # noqa: SIM115
            extent = self._extents[-1] if self._extents else None
            if extent is None or extent.free < content.size:
                begin = 0 if extent is None else extent.begin + extent.size
                extent = _Extent(self._file.fileno(), begin, content.size)
                self._extents.append(extent)
            place = extent.take(content.size)
            file = self._file.fileno()
        # By a write and not into the map: of a full disk a write says so, and a map kills the process.
        left, at = memoryview(content), extent.begin + place
        while left:
            done = os.pwrite(file, left, at)
            left, at = left[done:], at + done
        return pa.py_buffer(extent.map).slice(place, content.size)

    def settle(self) -> None:
        """Let the system have back what was mapped to be read. Rows stay as they are, and are mapped again if read."""
        for extent in list(self._extents):
            extent.settle()

    def close(self) -> None:
        with self._turn:
            self._extents.clear()
            if self._file is not None:
                self._file.close()
                self._file = None


class _Extent:
    """A stretch of the file, mapped."""

    def __init__(self, file: int, begin: int, least: int) -> None:
        granule = mmap.ALLOCATIONGRANULARITY
        self.begin = begin
        self.size = max(EXTENT_BYTES, -(-least // granule) * granule)
        self._taken = 0
        os.truncate(file, begin + self.size)
        self.map = mmap.mmap(file, self.size, offset=begin, prot=mmap.PROT_READ)

    @property
    def free(self) -> int:
        return self.size - self._taken

    def take(self, size: int) -> int:
        """Where so many bytes may be written."""
        place = self._taken
        self._taken = min(self.size, place + size + -size % ALIGNMENT)
        return place

    def settle(self) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):
            with suppress(OSError):
                self.map.madvise(mmap.MADV_DONTNEED)
