"""Spark's own part of a checkpoint, on disk before a version that follows from it.

Spark notes down what a batch reads before it runs the batch, and does not wait for the disk. If a version of ours
outlived that note, Spark would make up another batch of the same number, whose rows nobody would join. So before a
batch is committed, what Spark has written is on disk: the note of this batch, and that the one before was done.

Spark writes a file under a name that it changes when all of it is there. One that still has that name belongs to no
batch that runs here: a run that was killed left it, or one whose checkpoint was taken over is still writing.
"""

from __future__ import annotations

import os
import re

from watersmeet.state.files import Folder
from watersmeet.state.syncing import sync_files

_UNFINISHED = re.compile(r"\..*\.tmp(\.crc)?")


class SparkLog:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._known: dict[str, int] = {}  # files, with the time that each was modified
        sync_files(self.pop_new(), may_be_gone=True)  # an earlier run that was taken over may still be moving some

    def pop_new(self) -> dict[Folder, list[str]]:
        """The files that have come since the last time, by folder, and the folders above these."""
        new: dict[Folder, list[str]] = {}
        if not (self._folder.local and self._folder.durable):
            return new
        found: dict[str, int] = {}
        for path, _, names in os.walk(self._folder.path()):
            for name in names:
                if _UNFINISHED.fullmatch(name):
                    continue
                file = os.path.join(path, name)
                time = _modified(file)
                if time is not None:
                    found[file] = time
                    if self._known.get(file) != time:
                        new.setdefault(Folder(path), []).append(name)
                        new.setdefault(Folder(os.path.dirname(path)), [])  # which may be as new as its first file
        self._known = found
        return new


def _modified(path: str) -> int | None:
    """When the file was modified; None for one that Spark has moved or dropped meanwhile."""
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return None
