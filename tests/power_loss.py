"""What may be left on a disk when the power goes: the operations of a run, recorded, and the images that they allow.

A `Recorder` wraps the calls by which a program changes a folder (rename, link, unlink, mkdir) and has things on disk
(fsync), passes each on, and notes it down. Everything that was in the folder before counts as on disk. `images` builds
what may be found there after a power loss at a point of the log:

- *contents*: those of a file that was on disk when it was asked for are there; of any other file, all, none, a part, or
  as many zeros;
- *names*, `JOURNAL`: as with an ordered journal (ext4): operations are on disk in their order, all of those before any
  fsync, and some more, up to anywhere;
- *names*, `LOOSE`: an operation is on disk for certain only if its folder (that it came to) was asked for afterwards;
  of the others, any. A folder whose own name is not on disk is lost with all that is in it.

A rename is on disk whole or not at all. Names of files that are still being written are left out: nobody reads them.
"""

from __future__ import annotations

import os
import random
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

JOURNAL, LOOSE = "journal", "loose"
MODELS = (JOURNAL, LOOSE)


@dataclass(frozen=True)
class Op:
    """One operation: `name` (a path in the folder) gets the file `file`, a folder, or nothing; `gone` loses its own."""

    kind: str  # "name", "gone", "folder", "sync file" or "sync folder"
    path: str = ""
    file: int = -1
    gone: str = ""  # a name that goes in the same operation


class Killed(BaseException):
    """The process is killed here."""


class Recorder:
    """The log of one run, or of several. `root` and all that is in it is on disk when it begins.

    `kill` is asked before each fsync, with its path, whether the process is killed instead. `strike` is told of every
    operation before it is carried out, and may raise instead. Once `dead`, nothing in the folder changes any more,
    whatever a Python that goes on to its `finally` clauses tries: as after a real death.
    """

    def __init__(self, root: Path, kill: Callable[[str], bool] = lambda path: False) -> None:
        self.root = str(root)
        self.kill = kill
        self.strike: Callable[[str, str], None] = lambda kind, path: None
        self.dead = False
        self.log: list[Op] = []
        self.contents: list[bytes] = []  # by file
        self._files: dict[str, int] = {}  # by path, as it is now
        self._turn = threading.RLock()
        self.folders = [path for path, _, _ in os.walk(root)]
        for path, _, names in os.walk(root):
            for name in names:
                self._know(os.path.join(path, name))
        self.before = dict(self._files)

    def _know(self, path: str) -> int:
        """The number of the file at `path`, whose contents are complete."""
        if path not in self._files:
            self._files[path] = len(self.contents)
            self.contents.append(Path(path).read_bytes())
        return self._files[path]

    def _inside(self, path: Any) -> str | None:
        path = os.path.abspath(os.fspath(path))
        return path if path.startswith(self.root + os.sep) or path == self.root else None

    def _begin(self, kind: str, path: str | None) -> None:
        if path is not None:
            if self.dead:
                raise Killed
            self.strike(kind, path)

    @contextmanager
    def recording(self) -> Iterator[None]:
        real = {name: getattr(os, name) for name in ("rename", "replace", "link", "unlink", "mkdir", "fsync")}

        def rename(source: Any, target: Any, **options: Any) -> None:
            with self._turn:
                old, new = self._inside(source), self._inside(target)
                self._begin("rename", new)
                file = self._know(old) if old else -1
                real["rename"](source, target, **options)
                if old and new:
                    self._files[new] = self._files.pop(old)
                    self.log.append(Op("name", new, file, gone=old))

        def link(source: Any, target: Any, **options: Any) -> None:
            with self._turn:
                old, new = self._inside(source), self._inside(target)
                self._begin("link", new)
                file = self._know(old) if old else -1
                real["link"](source, target, **options)
                if new:
                    self._files[new] = file
                    self.log.append(Op("name", new, file))

        def unlink(path: Any, **options: Any) -> None:
            with self._turn:
                self._begin("unlink", self._inside(path))
                real["unlink"](path, **options)
                if old := self._inside(path):
                    self._files.pop(old, None)
                    self.log.append(Op("gone", old))

        def mkdir(path: Any, *arguments: Any, **options: Any) -> None:
            with self._turn:
                self._begin("mkdir", self._inside(path))
                real["mkdir"](path, *arguments, **options)
                if new := self._inside(path):
                    self.log.append(Op("folder", new))

        def fsync(handle: int) -> None:
            with self._turn:
                path = self._inside(os.readlink(f"/proc/self/fd/{handle}"))
                if path is None:
                    return
                self._begin("fsync", path)
                if self.kill(path):
                    raise Killed
                if stat.S_ISDIR(os.fstat(handle).st_mode):
                    self.log.append(Op("sync folder", path))
                else:
                    self.log.append(Op("sync file", path, self._know(path)))

        wrapped = {"rename": rename, "replace": rename, "link": link, "unlink": unlink, "mkdir": mkdir, "fsync": fsync}
        with mock.patch.multiple(os, **wrapped):
            yield

    def image(self, point: int, model: str, draw: random.Random) -> dict[str, bytes | None]:
        """What may be in the folder after a power loss at `point` of the log: files, and folders as None."""
        done = self.log[:point]
        names: dict[str, int | None] = dict(self.before) | dict.fromkeys(self.folders)
        for op in _left(done, model, draw):
            if op.gone:
                names.pop(op.gone, None)
            if op.kind == "gone":
                names.pop(op.path, None)
            elif op.kind == "folder":
                names[op.path] = None
            elif op.kind == "name":
                names[op.path] = op.file
        synced = set(self.before.values()) | {op.file for op in done if op.kind == "sync file"}
        found: dict[str, bytes | None] = {}
        for path in sorted(names):  # a folder before what is in it
            if path != self.root and os.path.dirname(path) not in found:
                continue  # its folder is lost
            file = names[path]
            found[path] = None if file is None else self._content(file, file in synced, draw)
        return found

    def _content(self, file: int, synced: bool, draw: random.Random) -> bytes:
        whole = self.contents[file]
        if synced:
            return whole
        part = whole[: draw.randrange(len(whole) + 1)]
        return draw.choice([whole, b"", part, part + bytes(len(whole) - len(part))])


def _left(done: list[Op], model: str, draw: random.Random) -> list[Op]:
    """The operations on names, of these, that are on disk."""
    changes = [(place, op) for place, op in enumerate(done) if op.kind in ("name", "gone", "folder")]
    if model == JOURNAL:
        certain = max((place for place, op in enumerate(done) if op.kind.startswith("sync")), default=-1)
        end = draw.randint(certain + 1, len(done))
        return [op for place, op in changes if place < end]
    asked: dict[str, int] = {}
    for place, op in enumerate(done):
        if op.kind == "sync folder":
            asked[op.path] = place
    share = draw.random()
    return [op for place, op in changes if asked.get(os.path.dirname(op.path), -1) > place or draw.random() < share]


def put_back(image: dict[str, bytes | None]) -> None:
    """Make the image real. Nothing must be there but empty folders."""
    for path, content in image.items():
        if content is None:
            os.makedirs(path, exist_ok=True)
        else:
            Path(path).write_bytes(content)
