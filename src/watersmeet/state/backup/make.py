"""Makes a backup of a checkpoint: a consistent copy of one version, while its query runs and deletes what it needs not.

Nothing is held: a run would have to look for holds with every batch, and a backup that died would leave one. Instead,
where a file has gone, the newest version is read, and what it refers to and was not yet copied is copied; all that was
copied before stays. A run deletes files some versions after it has let go of them, and the newest segments go first: so
they are opened first, many before one is copied, and what is open stays whole. What is left shrinks with every turn.

Writes nothing to the checkpoint, and takes no lock there. Every file is checked while it is copied, and one that is
damaged stops the backup; those that were made before are as they were.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from watersmeet.errors import CheckpointError, ResourceError, StateConflictError
from watersmeet.model.file_sums import FileSum
from watersmeet.state.backup.copying import copy_file, copy_pieces
from watersmeet.state.backup.index import BackupIndex, Stored
from watersmeet.state.backup.store import BackupStore
from watersmeet.state.files import Folder
from watersmeet.state.folders import CheckpointFolders, asides_in
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import Manifest
from watersmeet.state.sealed import seal
from watersmeet.state.spark_notes import (
    OFFSETS,
    checksums_of,
    list_notes,
    numbers_in,
    of_batch,
    read_notes,
    unnoted,
    wrong_note,
    wrong_sequence,
)
from watersmeet.state.syncing import sync_files
from watersmeet.state.table import FileTable, decode, version_name
from watersmeet.state.updates import GatherDeliveries, update_from_json
from watersmeet.state.version_files import VersionFiles, waiting_folders

TURNS = 200  # of a checkpoint whose files go while they are copied
THREADS = 4
OPENED = 256  # files at once, of which a process may have a thousand as a rule

Progress = Callable[[int, int], None]  # bytes that were copied, and of how many


def silent(done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Made:
    """What came of a backup."""

    index: BackupIndex
    copied_files: int
    copied_bytes: int
    deleted_files: int
    turns: int  # versions that were begun with
    unknown: tuple[str, ...] = ()  # results that are not known to be delivered, and that were not found waiting

    @property
    def kept_files(self) -> int:
        """Files that an earlier backup had."""
        return len(self.index.files) - self.copied_files


class _Gone(Exception):
    """A file of the version is not there any more."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


def back_up(
    folders: CheckpointFolders, store: BackupStore, now: str, keep: int = 3, progress: Progress = silent
) -> Made | None:
    """Back up the newest version of a checkpoint; None if there is none."""
    table = _newest(folders.state)
    if table is None:
        return None
    _refuse_inside(folders, store)
    store.refuse_if_other()
    lock = _lock(store)
    try:
        _refuse_other(table.manifest, store)
        number = store.begin({"since": now})
        whole = store.whole()
        work = _Work(folders, store, number, whole[-1] if whole else None, progress)
        index, turns = work.copy(now)
        sync_files({store.files(number): sorted(work.written)})
        store.finish(index)
        deleted = store.collect(number, keep)
    finally:
        lock.release()
    own = [file for file in index.files if file.number == number]
    copied = {file.place: file.bytes for file in own}
    return Made(index, len(own), sum(copied.values()), deleted, turns, tuple(sorted(work.unknown)))


def _refuse_inside(folders: CheckpointFolders, store: BackupStore) -> None:
    if f"{store.home.path()}/".startswith(f"{folders.home.path()}/"):
        raise CheckpointError(
            "the folder for backups is in the checkpoint itself",
            detail=f"{store.home.path()} would go with {folders.home.path()}.",
            hint="Give a folder elsewhere, on another disk if there is one.",
        )


def _refuse_other(manifest: Manifest, store: BackupStore) -> None:
    """Raise if there are backups of another checkpoint: those would be counted, and dropped, with its own."""
    for index in store.whole():
        if index.owner != manifest.id:
            raise CheckpointError(
                "the folder holds backups of another checkpoint",
                detail=f"{store.home.path()} has backup {index.number} of {index.source}.",
                hint="Give each checkpoint a folder of its own.",
            )


def _lock(store: BackupStore) -> CheckpointLock:
    """Where there are locks, the second of two backups to one folder waits for nothing: it is told."""
    lock = CheckpointLock(store.home)
    try:
        lock.acquire()
    except CheckpointError as error:
        raise CheckpointError(
            "another backup to the same folder is at work", detail=error.detail, hint="Let it finish first."
        ) from None
    return lock


def _newest(root: Folder) -> FileTable | None:
    """The table at its newest version, which other versions may follow while it is read."""
    for turn in range(TURNS):
        try:
            return FileTable.open(root)
        except StateConflictError:
            if turn == TURNS - 1:
                raise
    raise AssertionError("the last turn returns or raises")


def _gathered_since(table: FileTable, manifest: Manifest) -> bool:
    """Whether a later version has put other files in the place of those that wait; also where that cannot be known."""
    waiting = {delivery.id for delivery in manifest.undelivered}
    for number in itertools.count(manifest.version + 1):
        try:
            content, _ = decode(table.versions, version_name(number))
        except FileNotFoundError:  # the end, or the run has deleted them from the oldest on
            return number > 1 and not table.versions.exists(version_name(number - 1))
        updates = map(update_from_json, content["updates"])
        if any(isinstance(update, GatherDeliveries) and waiting & {*update.ids} for update in updates):
            return True
    raise AssertionError("versions come to an end")


class _Work:
    def __init__(
        self,
        folders: CheckpointFolders,
        store: BackupStore,
        number: int,
        base: BackupIndex | None,
        progress: Progress,
    ) -> None:
        self._folders = folders
        self._store = store
        self._number = number
        self._target = store.files(number)
        self._by_path = {file.path: file for file in (base.files if base is not None else ())}
        self._notes = {file.name: file for file in (base.files if base is not None else ())}  # by digest
        self._progress = progress
        self._turn = threading.Lock()
        self.written: set[str] = set()
        self.unknown: set[str] = set()

    def copy(self, now: str) -> tuple[BackupIndex, int]:
        """Copy the newest version, whichever that is by then; its index, and how many were begun with."""
        gone: _Gone | None = None
        for turn in range(1, TURNS + 1):
            table = _newest(self._folders.state)
            if table is None:
                raise CheckpointError("the checkpoint has gone", detail=f"It was in {self._folders.home.path()}.")
            try:
                return self._index(table, self._copy_version(table), now), turn
            except _Gone as error:
                # Gone twice, at the same version: nobody has deleted it but by mistake.
                again = _newest(self._folders.state)
                if again is not None and again.manifest.version == table.manifest.version:
                    raise ResourceError(
                        f'the file "{error.where.rpartition("/")[2]}" of the checkpoint is missing',
                        detail=f"Looked for {error.where}, which version {table.manifest.version} refers to.",
                        hint="Look through it with watersmeet state verify, and restore from a backup that is whole.",
                    ) from None
                gone = error
        assert gone is not None
        raise StateConflictError(
            "the checkpoint changes faster than it can be copied",
            detail=f"After {TURNS} versions that were begun with, {gone.where} had gone.",
            hint="Try again when the query has less to do, or copy to a faster place.",
        )

    def _index(self, table: FileTable, files: Iterable[Stored], now: str) -> BackupIndex:
        manifest = table.manifest
        outputs = tuple(place for place in manifest.holder.waiting if place != self._folders.results.path())
        return BackupIndex(
            self._number,
            manifest.version,
            manifest.last_batch,
            manifest.next_delivery,
            now,
            manifest.id,
            self._folders.home.path(),
            outputs,
            table.digest,
            tuple(files),
            self._asides(outputs),
        )

    def _asides(self, outputs: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """Where results lie aside that this version has not delivered, or has withdrawn."""
        places = (self._folders.home.elsewhere(waiting.rpartition("/")[0]) for waiting in outputs)
        return tuple(tuple(asides_in(place)) for place in places)

    def _copy_version(self, table: FileTable) -> list[Stored]:
        files = VersionFiles.of(table.manifest)
        self.unknown = set()
        # What goes first comes first: notes of Spark's and waiting files, then segments from the newest on.
        found = [*self._log(table), *self._spark(table.manifest), *self._waiting(table, files)]
        lists = sorted(files.lists)
        found += [self._file(self._folders.file_lists, f"state/files/{name}", name, None) for name in lists]
        sums = {name: (entries[0].bytes, entries[0].crc32) for name, entries in files.segments.items()}
        return [*found, *self._segments(sums)]

    def _segments(self, sums: Mapping[str, FileSum]) -> list[Stored]:
        """The segments of a version, the newest first.

        Where they are on this machine, many are opened before the first is copied: what is open stays whole when the
        run deletes it, and to open is much faster than to commit.
        """
        names = sorted(sums, reverse=True)
        total, done, found = sum(size for size, _ in sums.values()), 0, []
        with ThreadPoolExecutor(THREADS) as threads:
            for begin in range(0, len(names), OPENED):
                with ExitStack() as stack:
                    some = names[begin : begin + OPENED]
                    opened = [self._open(name, sums[name], stack) for name in some]
                    for stored in threads.map(self._segment, some, map(sums.__getitem__, some), opened):
                        found.append(stored)
                        done += stored.bytes
                        self._progress(done, total)
        return found

    def _open(self, name: str, told: FileSum, stack: ExitStack) -> Iterable[bytes] | None:
        """A segment that is to be copied, open, if it is on this machine."""
        folder = self._folders.segments
        if not folder.local or self._held(f"state/segments/{name}", told) is not None:
            return None
        try:
            return stack.enter_context(folder.pieces(name))
        except FileNotFoundError:
            raise _Gone(folder.path(name)) from None

    def _segment(self, name: str, told: FileSum, opened: Iterable[bytes] | None) -> Stored:
        folder, path = self._folders.segments, f"state/segments/{name}"
        if opened is None:
            return self._file(folder, path, name, told)
        return self._add(path, name, copy_pieces(opened, folder.path(name), self._target, name, told))

    def _held(self, path: str, told: FileSum | None) -> Stored | None:
        """A file that a backup has, or this one has copied already."""
        held = self._by_path.get(path)
        return None if held is None or (told is not None and (held.bytes, held.crc32) != told) else held

    def _add(self, path: str, name: str, copied: FileSum) -> Stored:
        stored = Stored(path, self._number, name, *copied)
        with self._turn:
            self._by_path[path] = stored
            self.written.add(name)
        return stored

    def _file(self, source: Folder, path: str, name: str, told: FileSum | None) -> Stored:
        """A file that is named once for all; not copied if a backup has it."""
        if (held := self._held(path, told)) is not None:
            return held
        try:
            return self._add(path, name, copy_file(source, name, self._target, name, told))
        except FileNotFoundError:
            raise _Gone(source.path(name)) from None

    def _note(self, path: str, content: bytes) -> Stored:
        """A small file, whose name may have been used for something else before: stored by its content."""
        name = hashlib.sha256(content).hexdigest()
        held = self._notes.get(name)
        if held is None:
            self._target.write(name, lambda sink: sink.write(content))
            held = Stored(path, self._number, name, len(content), zlib.crc32(content))
            self._notes[name] = held
            self.written.add(name)
        return Stored(path, held.number, name, held.bytes, held.crc32)

    def _log(self, table: FileTable) -> Iterator[Stored]:
        """The version as a snapshot, and what keeps names taken: its own, those of claims, and version 0."""
        manifest = table.manifest
        alone = replace(manifest, kept_from=manifest.version)  # earlier versions are not in the backup
        content = seal({**alone.to_json(), **({"digest": table.digest} if manifest.version else {})})
        yield self._note(f"state/snapshots/{version_name(manifest.version)}", content)
        for number in sorted({manifest.version, *manifest.claims} - {0}):
            name = version_name(number)
            try:
                yield self._note(f"state/versions/{name}", table.versions.read(name))
            except FileNotFoundError:
                if number == manifest.version and table.snapshots.exists(name):
                    continue
                raise _Gone(table.versions.path(name)) from None
        if manifest.version and table.snapshots.exists(version_name(0)):
            yield self._note(f"state/snapshots/{version_name(0)}", table.snapshots.read(version_name(0)))

    def _waiting(self, table: FileTable, files: VersionFiles) -> Iterator[Stored]:
        """What waits for its delivery. What does not wait any more was delivered, or gathered with others."""
        folders = waiting_folders(self._folders, files.places)
        stays = self._folders.results.path() in files.places  # until a version says so
        missing: list[str] = []
        for file in files.waiting:
            stored = self._first(folders, file.name, file.sum)
            if stored is not None:
                yield stored
            elif stays and not file.is_late:
                raise _Gone(self._folders.results.path(file.name))
            elif not files.places:
                self.unknown.add(file.name)
            else:
                missing.append(file.name)
        if missing and _gathered_since(table, table.manifest):
            raise _Gone(missing[0])  # its rows are in another file now, which a later version lists

    def _first(self, folders: Iterable[Folder], name: str, told: FileSum | None) -> Stored | None:
        for folder in folders:
            try:
                return self._file(folder, f"state/results/{name}", name, told)
            except _Gone:
                continue
        return None

    def _spark(self, manifest: Manifest) -> list[Stored]:
        """The notes from which Spark goes on after the last batch of this version."""
        spark, batch = self._folders.spark, manifest.last_batch
        paths = of_batch(list_notes(spark), batch)
        if not paths:
            return []
        contents = read_notes(spark, paths)
        if missing := [path for path in paths if path not in contents]:
            raise _Gone(spark.path(missing[0]))
        for path, _ in self._unfit(paths, contents, batch):
            raise _Gone(spark.path(path))
        for path, content in contents.items():
            if (wrong := wrong_note(path, content, contents.get(checksums_of(path)))) and not path.endswith(".crc"):
                raise ResourceError(
                    f'the note "{path}" of Spark\'s is corrupt, and was not copied',
                    detail=f"{spark.path(path)}: {wrong}.",
                    hint="Restore both Spark's part of the checkpoint and ours from a backup that is whole.",
                )
        return [self._note(f"spark/{path}", content) for path, content in contents.items()]

    def _unfit(self, paths: list[str], contents: Mapping[str, bytes], batch: int) -> Iterator[tuple[str, str]]:
        yield from wrong_sequence(paths, batch)
        last = f"{OFFSETS}/{max(numbers_in(paths, OFFSETS), default=-1)}"
        if last in contents:
            yield from unnoted(contents[last], paths)
