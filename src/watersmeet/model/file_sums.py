"""What is known of a file that was written, to tell later whether it is still the same. Plain JSON."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from watersmeet.model.file_names import FileName

FileSum = tuple[int, int]  # bytes, and their CRC-32
FileSums = Mapping[FileName, FileSum]


def sum_of(data: bytes) -> FileSum:
    """
    >>> sum_of(b"abc")
    (3, 891568578)
    """
    return len(data), zlib.crc32(data)
