"""Has files that were written on disk before anything refers to them, so that what is committed survives a power loss.

Contents first, then the names in their folders, each folder once. Tasks and batches gather what they wrote and pass it
here in one go: a few threads wait for the disk, which takes several requests in the time of one.

Does nothing for folders that are not `durable`, and for those on other filesystems, which see to it themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from watersmeet.state.files import Folder, disk_errors, sync_file, sync_folder

POWER_LOSS, PROCESS = "power-loss", "process"
DURABILITIES = (POWER_LOSS, PROCESS)  # what a committed version survives; the first is the default

# Threads that wait for the disk.
THREADS = 4


def sync_files(files: Mapping[Folder, Iterable[str]], also: Iterable[str] = ()) -> None:
    """Have these files of each folder on disk, and their names; `also` are paths of files without their names."""
    folders = {folder: list(names) for folder, names in files.items() if folder.durable and folder.local}
    _sync_contents([*(folder.path(name) for folder, names in folders.items() for name in names), *also])
    for path in {folder.path() for folder in folders}:
        with disk_errors("sync folder", path):
            sync_folder(path)


def _sync_contents(paths: list[str]) -> None:
    if len(paths) < 2:
        for path in paths:
            _sync(path)
        return
    with ThreadPoolExecutor(min(THREADS, len(paths)), thread_name_prefix="sync") as threads:
        list(threads.map(_sync, paths))


def _sync(path: str) -> None:
    with disk_errors("sync", path):
        sync_file(path)
