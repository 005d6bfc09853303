"""Looks through all of a checkpoint: every version, segment, list, waiting file and note of Spark's; what is wrong.

Reads alone: writes nothing, takes no lock, claims no epoch, so that a query may run meanwhile. It deletes files that
its newest versions have let go of, and adds others. So what a first look finds counts only if a second look, at the
version that is the newest by then, finds the same file still referred to and still wrong. A file is written whole
before anything refers to it, and never changes: what is wrong twice was not being written.

Known limit: a result that waits for its delivery and has gone cannot be told from one that was delivered and taken away
by its reader: a *doubt*, not damage.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from watersmeet.model.placement import Placement
from watersmeet.model.segments import Segment
from watersmeet.state.files import Folder, is_temporary
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Manifest
from watersmeet.state.spark_notes import (
    OFFSETS,
    checksums_of,
    list_notes,
    numbers_in,
    read_notes,
    unnoted,
    wrong_ahead,
    wrong_note,
    wrong_sequence,
)
from watersmeet.state.verify.contents import wrong_list, wrong_segment, wrong_waiting
from watersmeet.state.verify.findings import DAMAGE, DOUBT, NEXT_RUN, ORPHAN, Finding, Report, found_again
from watersmeet.state.verify.log import LogReading, check_log
from watersmeet.state.version_files import VersionFiles, WaitingFile, waiting_folders

SEGMENT, FILE_LIST, WAITING, NOTE = "segment", "file list", "waiting file", "note of Spark's"
LOOKS = 5  # at a log that changes while it is read
THREADS = 2

Progress = Callable[[int, int], None]  # files that were looked at, and of how many


def silent(done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Needed:
    """The files that the kept versions refer to, with what these say of them."""

    segments: Mapping[str, Sequence[tuple[Segment, Placement]]] = field(default_factory=dict)  # by file name
    lists: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[WaitingFile, ...] = ()  # for the newest alone: what others list was delivered since
    places: tuple[str, ...] = ()  # where those wait

    @classmethod
    def by(cls, manifests: Iterable[Manifest]) -> Needed:
        segments: dict[str, dict[Segment, Placement]] = {}
        lists: dict[str, int] = {}
        files: VersionFiles | None = None
        for manifest in manifests:
            files = VersionFiles.of(manifest)
            for name, entries in files.segments.items():
                segments.setdefault(name, {}).update(dict.fromkeys(entries, manifest.placement))
            lists |= files.lists
        waiting, places = ((), ()) if files is None else (files.waiting, files.places)
        return cls({name: list(held.items()) for name, held in segments.items()}, lists, waiting, places)

    def names(self) -> set[str]:
        return {*self.segments, *self.lists, *(file.name for file in self.waiting)}


def verify(folders: CheckpointFolders, progress: Progress = silent) -> Report | None:
    """What is wrong with a checkpoint, if anything; None if there is none."""
    notes_before = list_notes(folders.spark)
    log = _read_log(folders.state)
    if log is None:
        return None
    look = _Look(folders, progress)
    needed = Needed.by(log.manifests)
    listed = look.list_folders()  # before anything is checked: what comes later is nobody's orphan
    first = look.files(needed)
    notes = look.notes(notes_before, log)
    collected = 0
    again = log
    if first or notes:
        again = _read_log(folders.state) or log
        later = _Look(folders, silent)
        confirmed = found_again(first, later.files(Needed.by(again.manifests), {finding.file for finding in first}))
        collected = len(first) - len(confirmed)
        first = confirmed
        notes = found_again(notes, later.notes(list_notes(folders.spark), again))
    findings = [*again.findings, *first, *notes, *look.orphans(listed, needed, Needed.by(again.manifests))]
    newest = again.newest
    return Report(
        None if newest is None else newest.version, tuple(sorted(findings)), log.checked + look.checked, collected
    )


def _read_log(root: Folder) -> LogReading | None:
    """The log, with what two looks in a row have found; None if there is none."""
    seen = check_log(root)
    for _ in range(LOOKS):
        if seen is None or not seen.findings:
            break
        before, seen = seen, check_log(root) or seen
        confirmed = found_again(before.findings, seen.findings)
        if len(confirmed) == len(seen.findings):
            break
        seen = replace(seen, findings=tuple(confirmed))
    return seen


class _Look:
    """One look at the files that versions refer to."""

    def __init__(self, folders: CheckpointFolders, progress: Progress) -> None:
        self._folders = folders
        self._progress = progress
        self._turn = threading.Lock()
        self.checked: Counter[str] = Counter()

    def files(self, needed: Needed, only: set[str] | None = None) -> list[Finding]:
        """What is wrong with the files; with `only`, of those at these places."""
        folders = self._folders
        work: list[Callable[[], list[Finding]]] = [
            *(partial(self._segment, name, entries) for name, entries in needed.segments.items()),
            *(partial(self._list, name, count) for name, count in needed.lists.items()),
            *(partial(self._waiting, file, needed) for file in needed.waiting),
        ]
        if only is not None:
            places = [folders.segments.path(name) for name in needed.segments]
            places += [folders.file_lists.path(name) for name in needed.lists]
            work = [task for task, place in zip(work, places, strict=False) if place in only] + work[len(places) :]
        found: list[Finding] = []
        with ThreadPoolExecutor(THREADS) as threads:
            for done, outcome in enumerate(threads.map(lambda task: task(), work), 1):
                found += outcome
                self._progress(done, len(work))
        return found

    def _segment(self, name: str, entries: Sequence[tuple[Segment, Placement]]) -> list[Finding]:
        folder = self._folders.segments
        try:
            data = _content(folder, name)
        except FileNotFoundError:
            return [Finding(DAMAGE, SEGMENT, folder.path(name), f"it is missing; {entries[0][0].rows} rows were in it")]
        self._count(SEGMENT, len(data), entries[0][0].rows)
        wrong = wrong_segment(data, entries)
        return [] if wrong is None else [Finding(DAMAGE, SEGMENT, folder.path(name), wrong)]

    def _list(self, name: str, count: int) -> list[Finding]:
        folder = self._folders.file_lists
        try:
            data = folder.read(name)
        except FileNotFoundError:
            wrong: str | None = f"it is missing; it names {count} files that were read"
        else:
            self._count(FILE_LIST, len(data))
            wrong = wrong_list(data, name, count)
        return [] if wrong is None else [Finding(DAMAGE, FILE_LIST, folder.path(name), wrong)]

    def _waiting(self, file: WaitingFile, needed: Needed) -> list[Finding]:
        """A file of a delivery that is not known to have been made."""
        name, places = file.name, waiting_folders(self._folders, needed.places)
        for folder in places:
            try:
                data = folder.read(name)
            except FileNotFoundError:
                continue
            self._count(WAITING, len(data))
            wrong = wrong_waiting(data, file.sum)
            return [] if wrong is None else [Finding(DAMAGE, WAITING, folder.path(name), wrong)]
        if self._folders.results.path() in needed.places and not file.is_late:
            where = self._folders.results.path(name)
            return [Finding(DAMAGE, WAITING, where, "it is missing, and was not delivered")]
        if any(folder.exists(name) for folder in _outputs(self._folders, needed.places)):
            with self._turn:
                self.checked["delivered file"] += 1
            return []
        wrong = "it neither waits nor is where it is delivered to"
        if not needed.places:
            wrong = "the checkpoint does not say where its results wait"
        return [Finding(DOUBT, WAITING, places[-1].path(name), wrong, _ASK)]

    def _count(self, what: str, size: int, rows: int = 0) -> None:
        with self._turn:
            self.checked[what] += 1
            self.checked["bytes"] += size
            self.checked["rows"] += rows

    def notes(self, before: Sequence[str], log: LogReading) -> list[Finding]:
        """What is wrong with Spark's part, of which `before` were there when the log was not yet read."""
        spark = self._folders.spark
        newest = log.newest
        if not before or newest is None:
            return []
        now = list_notes(spark)
        contents = read_notes(spark, now)
        there = [path for path in now if path in contents]
        found = [(path, wrong) for path, wrong in wrong_sequence(there, newest.last_batch)]
        if not newest.withdrawals:  # a rollback that died has left later ones, which the next run deletes
            found += wrong_ahead(before, newest.last_batch)
        for path in there:
            if path.endswith(".crc"):
                continue
            self._count(NOTE, len(contents[path]))
            wrong = wrong_note(path, contents[path], contents.get(checksums_of(path)))
            found += [(path, wrong)] if wrong is not None else []
        last = f"{OFFSETS}/{max(numbers_in(there, OFFSETS), default=-1)}"
        going_back = bool(newest.withdrawals)  # notes of sources are cut before offsets, which the next run ends
        if last in contents and not going_back and not any(path == last for path, _ in found):
            found += unnoted(contents[last], there)
        return [Finding(DAMAGE, NOTE, spark.path(path), wrong, _BOTH) for path, wrong in found]

    def list_folders(self) -> dict[Folder, list[str]]:
        """The files in the folders that a run deletes from."""
        folders = self._folders
        return {folder: folder.names() for folder in (folders.segments, folders.file_lists, folders.results)}

    def orphans(self, listed: Mapping[Folder, list[str]], *needed: Needed) -> Iterator[Finding]:
        """Files that nothing refers to, before and after."""
        alive = set().union(*(entry.names() for entry in needed))
        for folder, names in listed.items():
            for name in names:
                if name not in alive and folder.exists(name):
                    what = "is half written" if is_temporary(name) else "is not referred to"
                    yield Finding(ORPHAN, "file", folder.path(name), f"it {what}", NEXT_RUN)


_ASK = "Look whether a reader of the output took it away. If none did, restore from a backup."
_BOTH = "Restore both Spark's part and ours from one backup, or start again with a new checkpoint."


def _outputs(folders: CheckpointFolders, waiting: Iterable[str]) -> list[Folder]:
    """Where they are delivered to: a folder that they wait in lies in that one."""
    own = folders.results.path()
    return [folders.home.elsewhere(place.rpartition("/")[0]) for place in waiting if place != own]


def _content(folder: Folder, name: str) -> pa.Buffer:
    """All of a file, without a copy in any cache."""
    if not folder.local:
        return pa.py_buffer(folder.read(name))
    with pa.memory_map(folder.path(name)) as source:
        return source.read_buffer()
