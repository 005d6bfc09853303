"""Files of a stream that lie elsewhere than when they were read: their folder was moved, or the job has another path.

A file is known by its whole address, so all of a folder that was moved would be new, and every row of it come twice. So
where files were read that do not lie below the path of their stream, those are looked for that have the name and the
time of one of them: they are the same, unless that one is still there as it was read, on this machine, and has another
content. For this both are read, once: a run notes down what it has found. Where names are the same and times are not,
nobody can tell, and the user has to (`moved` of the stream).

Spark keeps the list itself, and goes on at the same path alone: that is told before it starts, in words.
"""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from watersmeet.errors import InputError
from watersmeet.model.intake import UnfinishedIntake
from watersmeet.runtime.source_files import SourceFile, SourceRoot, list_files
from watersmeet.state.file_lists import FilesRead
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.spark_notes import SOURCES, list_notes, read_notes
from watersmeet.state.updates import AdvanceStream

Read = tuple[str, int]  # the address of a file that was read, and the time that it was modified
# Whether a file is the very one that was read, to look at; None: that cannot be told.
Compare = Callable[[SourceFile, Read], bool | None]


@dataclass(frozen=True)
class Moved:
    """Files below a path with the names of files that were read elsewhere, each with the one that it may be."""

    same: tuple[tuple[SourceFile, Read], ...] = ()  # which have its time too
    others: tuple[tuple[SourceFile, Read], ...] = ()

    @property
    def all(self) -> tuple[tuple[SourceFile, Read], ...]:
        return (*self.same, *self.others)


def find_moved(
    root: SourceRoot,
    files: Iterable[SourceFile],
    read: Sequence[Read],
    by_name: bool = False,
    compare: Compare = lambda file, read: None,
) -> Moved:
    """What of `files`, below `root`, was read elsewhere; with `by_name`, whatever times say.

    Where some that were read lie below `root`, others of the same name are other files, but for those that were read
    where such files have been as well: they have gone there, and come back.

    >>> root = SourceRoot.of("A", "/new")
    >>> files = [SourceFile(f"/new/{name}", f"/new/{name}", time) for name, time in zip("abc", (5, 6, 7), strict=True)]
    >>> def names(*read: Read) -> tuple[list[str], list[str]]:
    ...     moved = find_moved(root, files, read)
    ...     return [file.name for file, _ in moved.same], [file.name for file, _ in moved.others]
    >>> names(("/old/a", 5), ("/old/b", 1))
    (['a'], ['b'])
    >>> names(("/old/a", 5), ("/old/b", 1), ("/new/c", 7))
    (['a'], [])
    >>> names(("/old/a", 5), ("/old/b", 1), ("/new/c", 7), ("/old/c", 7))
    (['a'], ['b'])

    Of several with its name and time, it is the one that it looks like. One that looks like none of them is another.

    >>> looks = {"/old/a": False, "/older/a": True, "/old/b": False}
    >>> read = [*((path, 5) for path in ("/old/a", "/older/a")), ("/old/b", 6), ("/old/c", 7)]
    >>> moved = find_moved(root, files, read, compare=lambda file, former: looks.get(former[0]))
    >>> [former for _, (former, _) in moved.same], moved.others
    (['/older/a', '/old/c'], ())
    """
    here = {address: time for address, time in read if root.holds(address)}
    back_from = _places_of_both(root, here, read)
    named: dict[str, list[Read]] = {}
    for entry in read:
        if entry[0] not in here:
            named.setdefault(entry[0].rpartition("/")[2], []).append(entry)
    same, others = [], []
    taken: set[str] = set()
    # Of two files that may be one that was read, /new/x/a and /new/a for /old/x/a, it is the one that lies deeper.
    by_depth = sorted((root.below(file.address), file) for file in files if file.address not in here)
    for below, file in sorted(by_depth, key=lambda entry: -entry[0].count("/")):
        found = [e for e in named.get(file.name, ()) if e[0].endswith(f"/{below}") and e[0] not in taken]
        taken.update(address for address, _ in found)
        known = [entry for entry in found if entry[1] == file.modified_us]
        if known:
            looks = [(compare(file, entry), entry) for entry in known]
            alike = [entry for look in (True, None) for found, entry in looks if found is look]
            same += [(file, entry) for entry in alike[:1]]
        elif doubtful := [e for e in found if by_name or not here or e[0].removesuffix(below) in back_from]:
            others.append((file, doubtful[0]))
    return Moved(tuple(same), tuple(others))


def _places_of_both(root: SourceRoot, here: Mapping[str, int], read: Iterable[Read]) -> set[str]:
    """Where files were read that were read below `root` too."""
    belows: dict[tuple[str, int], list[str]] = {}
    for address, time in here.items():
        belows.setdefault((address.rpartition("/")[2], time), []).append(root.below(address))
    return {
        address.removesuffix(below)
        for address, time in read
        if address not in here
        for below in belows.get((address.rpartition("/")[2], time), ())
        if address.endswith(f"/{below}")
    }


def take_along(
    root: SourceRoot,
    recursive: bool,
    moved: bool | None,
    files_read: FilesRead,
    manifest: Manifest,
    note: Callable[[str], None],
) -> AdvanceStream | None:
    """What a local run commits before it reads a stream whose files have moved: the same files are read, elsewhere.

    `moved` is what the user says: True, names are enough; False, these are other files.
    """
    progress = manifest.streams.get(root.stream)
    if progress is None or moved is False:
        return None
    read, begun = list(files_read.entries(progress)), _begun(progress.intake)
    if all(root.holds(address) for address, _ in (*read, *begun)):
        return None
    files_there = list_files(root, recursive).files
    if moved:
        found = find_moved(root, files_there, [*read, *begun], by_name=True)
    else:
        found = find_moved(root, files_there, [*read, *begun], compare=_compare)
    if found.others and moved is None:
        raise _cannot_tell(root, found)
    if found.others and begun:
        raise _order_is_lost(root, found)
    if not found.all:
        if not any(root.holds(address) for address, _ in (*read, *begun)):
            note(f'stream "{root.stream}" has another path, {root.address}, where no file lies that was read')
        return None
    before = _folder_of(found)
    note(
        f'stream "{root.stream}" has moved from {before} to {root.address}: {len(found.all):,} files there were read '
        "before, and are not read again"
    )
    known = {address for address, _ in read}
    files = tuple((file.address, file.modified_us) for file, (former, _) in found.all if former in known)
    places = {former: file for file, (former, _) in found.all}
    return AdvanceStream(root.stream, None, 0, 0, files, intake=_at(progress.intake, places))


def _compare(file: SourceFile, read: Read) -> bool | None:
    """Look at both, from beginning to end: two may share a name and a time, a length, and most of their rows."""
    former, modified_us = read
    if not (former.startswith("/") and file.path.startswith("/")):
        return None
    try:
        if os.stat(former).st_mtime_ns // 1000 != modified_us:
            return None  # it has been written anew since, and what was read may lie elsewhere now
        return filecmp.cmp(former, file.path, shallow=False)
    except OSError:  # it has gone: moved
        return None


def refuse_moved_on_spark(roots: Sequence[SourceRoot], spark: Folder) -> None:
    """Raise `InputError` if one of these has another path than the sources of files had that Spark has notes of."""
    by_source = _read_by_spark(spark)
    own = [[any(root.holds(address) for address, _ in read) for read in by_source] for root in roots]
    left = [read for place, read in enumerate(by_source) if not any(row[place] for row in own)]
    for root, row in zip(roots, own, strict=True):
        if left and not any(row):
            raise InputError(
                f'stream "{root.stream}" has another path, and Spark goes on with files at their former one alone',
                detail=f"It is {root.address} now; files were read such as {left[0][0][0]}.",
                hint="Name the former path, with the files or a link to them there, or start with a new checkpoint.",
            )


def _read_by_spark(spark: Folder) -> list[list[Read]]:
    """The files that Spark's notes name, of each source of files."""
    by_source: dict[str, list[Read]] = {}
    paths = [path for path in list_notes(spark) if path.startswith(f"{SOURCES}/") and not path.endswith(".crc")]
    for path, content in read_notes(spark, paths).items():
        for line in content.decode(errors="replace").splitlines()[1:]:
            try:
                entry = json.loads(line)
                read = unquote(entry["path"]).removeprefix("file://"), int(entry["timestamp"]) * 1000
            except (ValueError, TypeError, KeyError):  # of another kind of source
                continue
            by_source.setdefault(path.rpartition("/")[0], []).append(read)
    return list(by_source.values())


def _begun(intake: UnfinishedIntake | None) -> list[Read]:
    """The files that an intake names, which are yet to be read, or to be read on."""
    if intake is None:
        return []
    last = [(intake.last_file, intake.last_modified_us)] if intake.last_file else []
    return last if intake.file is None else [*last, (intake.file, intake.modified_us)]


def _at(intake: UnfinishedIntake | None, places: Mapping[str, SourceFile]) -> UnfinishedIntake | None:
    """What was begun, with its files where they are now."""
    if intake is None:
        return None
    if (last := places.get(intake.last_file)) is not None:
        intake = replace(intake, last_file=last.address, last_modified_us=last.modified_us)
    if intake.file is not None and (file := places.get(intake.file)) is not None:
        intake = replace(intake, file=file.address, modified_us=file.modified_us)
    return intake


def _folder_of(found: Moved) -> str:
    return found.all[0][1][0].rpartition("/")[0]


def _order_is_lost(root: SourceRoot, found: Moved) -> InputError:
    """Files are read in the order of their times, and how far was noted down as a place in that order."""
    file, (former, _) = found.others[0]
    return InputError(
        f'stream "{root.stream}" was read in part, and its files have lost their times on the way to another path',
        detail=f"{file.address} has another time than {former} had: which files were read before cannot be told.",
        hint="Copy them with their times (cp -p, rsync -t), or let the job come to the end of what it has begun with "
        "the former path.",
    )


def _cannot_tell(root: SourceRoot, found: Moved) -> InputError:
    file, (former, _) = (found.others or found.same)[0]
    times = "" if not found.others else " The times of some are not those of the files that were read."
    return InputError(
        f'stream "{root.stream}" has another path, where files of the same names lie as were read before',
        detail=f"{len(found.all):,} files in {root.address}, such as {file.name}, have names of files that were read "
        f"in {former.rpartition('/')[0]}; all of their rows would come a second time.{times}",
        hint=f"Set moved = true in [streams.{root.stream}] if they are the same files, which are then not read again, "
        "or moved = false if they are others.",
    )
