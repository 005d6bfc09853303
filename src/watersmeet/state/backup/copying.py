"""Copies a file from one folder to another, on whatever filesystem or store, and sees that it is what it should be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from watersmeet.errors import ResourceError
from watersmeet.model.file_sums import FileSum
from watersmeet.state.files import Folder
from watersmeet.state.summed import SummedSink


def copy_file(source: Folder, name: str, target: Folder, to: str, told: FileSum | None) -> FileSum:
    """Copy a file, which has this length and checksum; what it has. `FileNotFoundError` if there is none.

    A file that has not is not copied: `ResourceError`. One that is deleted meanwhile is copied whole.
    """
    with source.pieces(name) as pieces:
        return copy_pieces(pieces, source.path(name), target, to, told)


def copy_pieces(pieces: Iterable[bytes], path: str, target: Folder, to: str, told: FileSum | None) -> FileSum:
    """The same for a file that is open already; `path` is for people."""
    summed = SummedSink()

    def fill(sink: Any) -> None:
        out = summed.into(sink)
        for piece in pieces:
            out.write(piece)
        if told is not None and summed.sum != told:
            raise _corrupt(path, summed.sum, told)

    target.write(to, fill)
    return summed.sum


def _corrupt(path: str, found: FileSum, told: FileSum) -> ResourceError:
    return ResourceError(
        f'the file "{path.rpartition("/")[2]}" is corrupt, and was not copied',
        detail=f"{path} has {found[0]} bytes with checksum {found[1]:08x}; "
        f"it was written with {told[0]} bytes and checksum {told[1]:08x}.",
        hint="Look through it with watersmeet state verify, and restore from a backup that is whole.",
    )
