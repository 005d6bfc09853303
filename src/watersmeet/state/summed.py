"""A sink that keeps the length and the CRC-32 of what passes through it, so that a file need not be read again."""

from __future__ import annotations

import zlib
from typing import Any

from watersmeet.model.file_sums import FileSum


class SummedSink:
    """What `pa.PythonFile` writes to; it passes everything on. The owner of the other sink closes that."""

    def __init__(self) -> None:
        self._sink: Any = None
        self._crc32 = 0
        self._length = 0
        self.closed = False

    def into(self, sink: Any) -> SummedSink:
        self._sink = sink
        return self

    @property
    def sum(self) -> FileSum:
        return self._length, self._crc32

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._crc32 = zlib.crc32(view, self._crc32)
        self._length += view.nbytes
        self._sink.write(view)
        return view.nbytes

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        """Nothing of its own is open."""
