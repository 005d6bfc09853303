"""Has files that were written on disk before anything refers to them, so that what is committed survives a power loss.

Contents first, then the names in their folders, each folder once. `begin_sync` sets a file on its way as soon as it is
written, while its task goes on; `sync_files`, at the end of a task or with the commit of a batch, waits for those that
are under way and does the rest. A few threads wait for the disk, which takes several requests in the time of one.

An error is told once, to whoever asked first; so what became of a file is kept until `sync_files` asks for it.

Does nothing for folders that are not `durable`, and for those on other filesystems, which see to it themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Protocol

from watersmeet.state.files import Folder, disk_errors, sync_file, sync_folder

POWER_LOSS, PROCESS = "power-loss", "process"
DURABILITIES = (POWER_LOSS, PROCESS)  # what a committed version survives; the first is the default

THREADS = 4  # that wait for the disk. One, and 16, took longer: docs/design/2026-11-17-power-loss-and-bit-rot.md
KEPT = 1_000  # files under way, more than which those are forgotten that have arrived: of attempts that failed

_turn = threading.Lock()
_begun: dict[str, Future[None]] = {}  # by path


def begin_sync(folder: Folder, name: str) -> None:
    """Set the contents of a file on their way to the disk."""
    if not (folder.durable and folder.local):
        return
    with _turn:
        if len(_begun) >= KEPT:
            for path in [path for path, work in _begun.items() if work.done() and work.exception() is None]:
                del _begun[path]
        _begun[folder.path(name)] = _threads().submit(sync_file, folder.path(name))


def sync_files(files: Mapping[Folder, Iterable[str]], also: Iterable[str] = (), may_be_gone: bool = False) -> None:
    """Have these files of each folder on disk, and their names; `also` are paths of files without their names.

    Of several errors the first is told; one of `also` comes after all others. `may_be_gone`: a file that is not there
    is passed over, as somebody else may be deleting some.
    """
    folders = {folder: list(names) for folder, names in files.items() if folder.durable and folder.local}
    named = (folder.path(name) for folder, names in folders.items() for name in names)
    paths = dict.fromkeys((*named, *also))  # each once: nobody would wait for the first of two
    with _turn:
        under_way = {path: _begun.pop(path) if path in _begun else _threads().submit(sync_file, path) for path in paths}
    for path, work in under_way.items():
        with disk_errors("sync", path), suppress(*[FileNotFoundError] if may_be_gone else []):
            work.result()
    for path in {folder.path() for folder in folders}:
        with disk_errors("sync folder", path):
            sync_folder(path)


class SyncFiles(Protocol):
    """`sync_files`, or what somebody has put around it."""

    def __call__(self, files: Mapping[Folder, Iterable[str]], also: Iterable[str] = ()) -> None: ...


@cache
def _threads() -> ThreadPoolExecutor:
    """One pool for a process, made when it is first needed: a process that was forked makes its own."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="sync")
