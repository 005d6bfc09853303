"""Makes a checkpoint from a backup. It is there when its snapshot is, which is written last.

Until then there is a version without a snapshot, which a run refuses; so a restore that was killed is not taken for a
checkpoint, nor for none. Every file is checked while it is copied.

A restored checkpoint goes on from the version of the backup. What was delivered after that is computed and delivered
once more, in files of other names. `delivered_since` finds those that are still where they were delivered to, by the
number of the delivery in their names (`state/output_names.py`), and `set_aside` moves them to a folder that readers
pass over. What a rollback after the backup took out of the output is found likewise, and `put_back`.

Known limits: a restored checkpoint counts deliveries from the backup on. A user who restores a backup, runs, and then
restores a later backup of before has to remove by hand what was delivered in between.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from watersmeet.errors import CheckpointError, ResourceError
from watersmeet.state.backup.copying import copy_file
from watersmeet.state.backup.index import BackupIndex, Stored
from watersmeet.state.backup.store import BackupStore
from watersmeet.state.files import Folder
from watersmeet.state.folders import ROLLED_BACK, SET_ASIDE, CheckpointFolders, aside_for, asides_in, kind_of_aside
from watersmeet.state.head import write_head
from watersmeet.state.lock import LOCK, CheckpointLock
from watersmeet.state.output_names import stamp_of
from watersmeet.state.syncing import sync_files
from watersmeet.state.table import table_folders, version_name

THREADS = 4
SNAPSHOTS, VERSIONS = "state/snapshots", "state/versions"

Progress = Callable[[int, int], None]  # bytes that were copied, and of how many


def silent(done: int, total: int) -> None:
    """Nobody watches."""


def choose(store: BackupStore, number: int | None) -> BackupIndex:
    """The backup of this number, or the newest."""
    if number is not None:
        found = store.read(number)
        if found is not None:
            return found
    whole = store.whole()
    if not whole:
        raise CheckpointError(
            f'there is no backup in "{store.home.path()}"',
            hint="Give the folder that watersmeet state backup was told to copy to.",
        )
    if number is not None:
        raise CheckpointError(
            f"there is no backup {number}",
            detail=f"In {store.home.path()} there are {', '.join(str(index.number) for index in whole)}.",
        )
    return whole[-1]


def restore(store: BackupStore, index: BackupIndex, folders: CheckpointFolders, progress: Progress = silent) -> None:
    """Make the checkpoint that the backup is of at `folders`, where there is none."""
    _refuse_inside(store, folders)
    _refuse_other(folders.home)
    lock = CheckpointLock(folders.home)
    lock.acquire()
    try:
        _refuse_existing(folders)
        _restore(store, index, folders, progress)
    finally:
        lock.release()


def _refuse_inside(store: BackupStore, folders: CheckpointFolders) -> None:
    if f"{folders.home.path()}/".startswith(f"{store.home.path()}/"):
        raise CheckpointError(
            "the checkpoint is to be in the folder for backups itself",
            detail=f"{folders.home.path()} would go with {store.home.path()}.",
            hint='Name a folder elsewhere, and set "checkpoint" in [run] to that.',
        )


def _refuse_other(home: Folder) -> None:
    others = [name for name in home.names() if name not in ("state", "spark", LOCK)]
    if others:
        raise CheckpointError(
            f'the folder "{home.path()}" holds other things than a checkpoint',
            detail=f"Such as {min(others)}.",
            hint="Name a folder that is empty, or is not there yet.",
        )


def _refuse_existing(folders: CheckpointFolders) -> None:
    for folder in (folders.state, folders.spark):
        if folder.names():
            raise CheckpointError(
                f'there is something already where the checkpoint is to be: "{folder.path()}"',
                detail="A backup is restored to a folder without a checkpoint alone.",
                hint="Stop its run, and move it away or remove it; or name another folder, and set checkpoint in [run] "
                "to that.",
            )


def _restore(store: BackupStore, index: BackupIndex, folders: CheckpointFolders, progress: Progress) -> None:
    first = [file for file in index.files if file.path.startswith(f"{VERSIONS}/")]
    last = {file.path: file for file in index.files if file.path.startswith(f"{SNAPSHOTS}/")}
    rest = [file for file in index.files if file not in first and file.path not in last]
    made: dict[str, Folder] = {}
    done = 0

    def place(file: Stored) -> tuple[Folder, str]:
        folder, _, name = file.path.rpartition("/")
        if folder not in made:
            made[folder] = folders.home.sub(folder)
            made[folder].make()
        return made[folder], name

    def copy(file: Stored) -> Stored:
        folder, name = place(file)
        try:
            copy_file(store.files(file.number), file.name, folder, name, (file.bytes, file.crc32))
        except FileNotFoundError as error:
            raise ResourceError(
                f'the file "{file.name}" of backup {index.number} is missing',
                detail=f"Looked for {error.filename}.",
                hint="Remove what was restored so far, and restore an earlier backup with --number.",
            ) from None
        return file

    def copy_all(files: Sequence[Stored]) -> None:
        nonlocal done
        for file in files:
            place(file)  # one after the other: two threads may need the same folder
        with ThreadPoolExecutor(THREADS) as threads:
            for file in threads.map(copy, files):
                done += file.bytes
                progress(done, index.bytes)
        sync_files(_by_folder(files, made))

    for folder in (*table_folders(folders.state), folders.segments, folders.file_lists):
        folder.make()
    copy_all(first)
    copy_all(rest)
    # The version itself, and only then the one that is there for its name.
    newest = f"{SNAPSHOTS}/{version_name(index.version)}"
    copy_all([last[newest]])
    write_head(folders.state, index.version, index.digest)
    copy_all([file for path, file in last.items() if path != newest])


def _by_folder(files: Sequence[Stored], made: Mapping[str, Folder]) -> dict[Folder, list[str]]:
    found: dict[Folder, list[str]] = {}
    for file in files:
        folder, _, name = file.path.rpartition("/")
        found.setdefault(made[folder], []).append(name)
    return found


@dataclass(frozen=True)
class Delivered:
    """Files that were delivered to a folder after a backup was made, and will be delivered once more."""

    folder: Folder
    names: tuple[str, ...]


def delivered_since(index: BackupIndex, near: Folder) -> list[Delivered]:
    """The files that are later than the backup, in the folders that its results were delivered to."""
    return _found(index, outputs_of(index, near), later=True)


def withdrawn_since(index: BackupIndex, near: Folder) -> list[Delivered]:
    """The files that were taken out of an output since, though they were delivered before the backup.

    A rollback has moved them aside, or a restored backup of before. The checkpoint of this backup counts them as
    delivered, and never computes them again. What lay aside when it was made is not among them, though it may have
    their numbers: that is of a past which was given up before.
    """
    known = [*index.asides, *(() for _ in index.outputs)]
    asides = [
        output.sub(name)
        for output, before in zip(outputs_of(index, near), known, strict=False)
        for name in asides_in(output)
        if name not in before and _is_since(name, index)
    ]
    return _found(index, asides, later=False)


def _is_since(aside: str, index: BackupIndex) -> bool:
    """Whether a folder may have been made after the backup."""
    kind = kind_of_aside(aside)
    return kind is not None and (kind[0] != ROLLED_BACK or kind[1] > index.version)


def outputs_of(index: BackupIndex, near: Folder) -> list[Folder]:
    """The folders that its results were delivered to, near the checkpoint that is made from it.

    Where one is not there any more, and the job was moved as a whole, it is the one that lies as it did.
    """
    found = []
    for place in (waiting.rpartition("/")[0] for waiting in index.outputs):
        folder = near.elsewhere(place)
        if folder.local and not folder.is_there:
            moved = _moved_along(place, index.source, near.path())
            folder = near.elsewhere(moved) if moved is not None and near.elsewhere(moved).is_there else folder
        found.append(folder)
    return found


def _moved_along(place: str, source: str, now: str) -> str | None:
    """Where a place is, if what lay at `source` is at `now`, and both have moved with a folder that they are in.

    >>> _moved_along("/a/job/out", "/a/job/ck", "/b/job2/ck"), _moved_along("/a/job/out", "/a/job/ck", "/b/other")
    ('/b/job2/out', None)
    """
    if not (place.startswith("/") and source.startswith("/")):
        return None
    above = os.path.commonpath([place, source])
    below = os.path.relpath(source, above)
    return f"{now.removesuffix(below)}{os.path.relpath(place, above)}" if now.endswith(f"/{below}") else None


def _found(index: BackupIndex, folders: Iterable[Folder], later: bool) -> list[Delivered]:
    found = (
        Delivered(folder, tuple(name for name in folder.names() if _is_later(name, index) is later))
        for folder in folders
    )
    return [entry for entry in found if entry.names]


def _is_later(name: str, index: BackupIndex) -> bool | None:
    """Whether a file was written after the backup; None if it is none of its checkpoint's."""
    stamp = stamp_of(name)
    if stamp is None or stamp.owner != index.owner:
        return None
    return stamp.delivery >= index.next_delivery


def set_aside(delivered: Sequence[Delivered], index: BackupIndex) -> list[Folder]:
    """Move these files to folders that readers pass over, beside them."""
    folders = []
    for entry in delivered:
        aside = aside_for(entry.folder, SET_ASIDE, f"{index.number:08d}", ())
        aside.make()
        entry.folder.move_out(entry.names, aside)
        sync_files({aside: (), entry.folder: ()})
        folders.append(aside)
    return folders


def put_back(withdrawn: Sequence[Delivered]) -> list[Folder]:
    """Move files that were taken out of an output back to it."""
    outputs = []
    for entry in withdrawn:
        output = entry.folder.parent
        entry.folder.move_out(entry.names, output)
        sync_files({output: (), entry.folder: ()})
        entry.folder.remove_if_empty()
        outputs.append(output)
    return outputs
