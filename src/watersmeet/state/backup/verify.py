"""Looks through the files of backups, whether they are there and as they were copied. Reads alone."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

from watersmeet.state.backup.index import BackupIndex
from watersmeet.state.backup.store import BackupStore


def wrong_files(
    store: BackupStore, indexes: Sequence[BackupIndex], progress: Callable[[int, int], None]
) -> list[tuple[str, str]]:
    """The files of these backups that are not as they should be, and what is wrong with each."""
    files = {file.place: file for index in indexes for file in index.files}
    found = []
    for done, file in enumerate(files.values(), 1):
        folder, size, crc32 = store.files(file.number), 0, 0
        try:
            with folder.pieces(file.name) as pieces:
                for piece in pieces:
                    size, crc32 = size + len(piece), zlib.crc32(piece, crc32)
            if (size, crc32) != (file.bytes, file.crc32):
                wrong = f"it has {size} bytes with checksum {crc32:08x}; {file.bytes} with {file.crc32:08x} were copied"
                found.append((folder.path(file.name), wrong))
        except FileNotFoundError:
            found.append((folder.path(file.name), "it is missing"))
        progress(done, len(files))
    return found
