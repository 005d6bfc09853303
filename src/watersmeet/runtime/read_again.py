"""What of its streams a job reads again after a rollback, as far as the checkpoint alone can tell.

The checkpoint knows files by the addresses that they had when they were read, and nothing of the job file. A file that
is not there any more may lie elsewhere: where a run has found it since, or where it would be if all of the job had
been moved together. As in `runtime/moved_files.py` it is the same if its name and its time are, and the folders that
name its partition. Known limit: a path that is new in the job file is not known here before a run has been there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.state.file_lists import FilesRead
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Manifest

Read = tuple[str, int]  # the address of a file that was read, and the time that it was modified


@dataclass(frozen=True)
class StreamAgain:
    """What of a stream is read again: rows, and, on the local runtime, files, some of which are not found."""

    rows: int
    files: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def read_again(folders: CheckpointFolders, target: Manifest, head: Manifest) -> dict[str, StreamAgain]:
    """What each stream has read since `target`, where it lies now."""
    then, now = FilesRead(folders.file_lists, target), FilesRead(folders.file_lists, head)
    found = {}
    for stream, progress in head.streams.items():
        before = target.streams.get(stream)
        read = {} if before is None else dict(then.entries(before))
        since = {address: time for address, time in now.entries(progress) if address not in read}
        files, gone = _places(since, read, folders.home.path())
        rows = progress.rows - (0 if before is None else before.rows)
        if rows or files:
            found[stream] = StreamAgain(rows, tuple(sorted(files)), tuple(sorted(gone)))
    return found


def _places(since: dict[str, int], read: dict[str, int], home: str) -> tuple[set[str], set[str]]:
    """Where the files are now that were read since, and those of them that are nowhere.

    One that was read before under another address, which has gone from there, is no file that was read since.
    """
    there = {_identity(entry): entry[0] for entry in since.items() if os.path.exists(entry[0])}
    known = {_identity(entry): entry[0] for entry in read.items()}
    files, gone = set(), set()
    for entry in since.items():
        address, identity = entry[0], _identity(entry)
        if identity in known and _has_gone(known[identity]):
            continue
        place = address if not _has_gone(address) else there.get(identity) or _moved_along(entry, home)
        files.add(place or address)
        if place is None:
            gone.add(address)
    return files, gone


def _moved_along(entry: Read, home: str) -> str | None:
    address, time = entry
    return next((place for place in moved_together(address, home) if _is_as_read(place, time)), None)


def moved_together(path: str, home: str) -> Iterator[str]:
    """Where `path` may be by now, if it has been moved together with the checkpoint at `home`: the nearest first.

    >>> list(moved_together("/one/in/a", "/two/ck"))
    ['/two/one/in/a', '/two/in/a', '/two/a', '/one/in/a', '/in/a', '/a']
    """
    if not (path.startswith("/") and home.startswith("/")):
        return
    parts = path.strip("/").split("/")
    folder = home.rstrip("/")
    while folder:
        folder = folder.rpartition("/")[0]
        yield from (f"{folder}/{'/'.join(parts[number:])}" for number in range(len(parts)))


def _identity(entry: Read) -> tuple[str, ...]:
    """What tells a file from others wherever it lies: its name, its time, and the partition that it is in.

    >>> _identity(("/in/day=1/a.csv", 5))
    ('5', 'a.csv', 'day=1')
    """
    address, time = entry
    *folders, name = address.split("/")
    return str(time), name, *(part for part in folders if "=" in part)


def _has_gone(address: str) -> bool:
    """Whether no file lies there. One that is not on this machine is taken to."""
    return address.startswith("/") and not os.path.exists(address)


def _is_as_read(address: str, time: int) -> bool:
    try:
        return os.stat(address).st_mtime_ns // 1000 == time
    except OSError:
        return False
