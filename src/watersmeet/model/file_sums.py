"""What is known of a file that was written, to tell later whether it is still the same. Plain JSON."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from watersmeet.model.file_names import checked_name

FileSum = tuple[int, int]  # bytes, and their CRC-32


def sum_of(data: bytes) -> FileSum:
    """
    >>> sum_of(b"abc")
    (3, 891568578)
    """
    return len(data), zlib.crc32(data)


def sums_from_json(data: Mapping[str, Any]) -> dict[str, FileSum]:
    """The entry "sums" of an object, by name of the file."""
    return {checked_name(name): (size, crc32) for name, (size, crc32) in data["sums"].items()}
