"""Sources of the local runtime: where each batch's rows of a stream come from.

A source gives rows a batch at a time; None means that there is nothing now. Which files were read is in the manifest,
and how far one was read that a batch took a part of; a file source goes on after that. It remembers the files that it
has found and not yet given, so that the folder is listed when those are used up, or from time to time, and not for
every batch.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.errors import InputError, JobError, did_you_mean
from watersmeet.kernel.pieces import is_piece
from watersmeet.kernel.rows import concat
from watersmeet.model.conform import conform
from watersmeet.model.intake import NO_LIMITS, BatchLimits, FilePosition, UnfinishedIntake
from watersmeet.model.streams import Stream
from watersmeet.runtime.file_formats import FORMATS, column_of_text, csv_header, csv_separator, read_bytes
from watersmeet.runtime.reports import Backlog
from watersmeet.runtime.source_files import (
    Listing,
    SourceFile,
    SourceRoot,
    known_before,
    list_files,
    missing_path,
    refuse_if_astray,
)

__all__ = ["FileSource", "LocalSource", "RowsSource", "SourceBatch", "known_before", "probe_files"]


LIST_EVERY_SECONDS = 1.0  # while there are files to read
LIST_AT_MOST = 20  # times what a listing took: so long it is until the next one


@dataclass(frozen=True)
class SourceBatch:
    """The rows of one batch of one stream, and the files that are now read to their end, by their whole addresses.

    `modified_us` are the files' times, in the same order. From this batch on, the source passes over files that were
    modified before `ignored_before_us`: whoever keeps a list of the files that were read may drop those from it, if a
    source made later is told. `intake` is what the rows are a part of, if there is more of it.
    """

    rows: list[pa.RecordBatch]
    files: tuple[str, ...] = ()
    modified_us: tuple[int, ...] = ()
    ignored_before_us: int = 0
    intake: UnfinishedIntake | None = None
    backlog: Backlog | None = None  # what was found and is yet to be given, if that is known


class LocalSource(Protocol):
    def pull(self, done: Container[str], intake: UnfinishedIntake | None = None) -> SourceBatch | None:
        """The next batch; `done` has the files that earlier batches read, `intake` what the last one left of its own.

        None if there is nothing now.
        """


class RowsSource:
    """Record batches from memory, or from any iterable: each is an intake, of one batch if it is not too large."""

    def __init__(self, stream: Stream, batches: Iterable[pa.RecordBatch], limits: BatchLimits = NO_LIMITS) -> None:
        self._stream = stream
        self._batches: Iterator[pa.RecordBatch] = iter(batches)
        self._limits = limits
        self._rest: pa.RecordBatch | None = None

    def pull(self, done: Container[str], intake: UnfinishedIntake | None = None) -> SourceBatch | None:
        batch = self._rest if self._rest is not None else next(self._batches, None)
        if batch is None:
            return None
        room = Room(self._limits)
        taken = room.take(batch)
        left = batch.slice(taken.num_rows)
        self._rest = left if left.num_rows else None
        rows = [conform(taken, self._stream.schema, self._stream.name)]
        return SourceBatch(rows, intake=None if self._rest is None else UnfinishedIntake())


class FileSource:
    """A folder of files, in order of modification time; at most `maxFilesPerTrigger` of them are an intake.

    Files that are older than the newest one given by more than `maxFileAge` are passed over, if they come that late.
    `ignored_before_us` is that bound; whoever goes on with an earlier run sets it as that one has left it. A file that
    goes away before it is read is an error, as on Spark; the next run does not find it, and goes on, unless a part of
    it was read.
    """

    def __init__(
        self, stream: Stream, path: str, format: str, options: Mapping[str, Any], limits: BatchLimits = NO_LIMITS
    ) -> None:
        self.root = SourceRoot.of(stream.name, path)
        _check_options(stream.name, format, options)
        self._stream = stream
        self._format = FORMATS[format]
        self._options = options
        self._limits = limits
        self.recursive = is_recursive(options)
        self._max_files = _positive(options.get("maxFilesPerTrigger"), stream.name)
        self._max_age_us = _age_us(options.get("maxFileAge", "7d"), stream.name)
        self.ignored_before_us = 0
        self._unread: deque[SourceFile] = deque()
        self._unread_bytes = 0
        self._list_again = 0.0
        self._open: _OpenFile | None = None  # what was left of a file by the batch before
        self._found_any = False
        if not self.root.exists():
            raise missing_path(stream.name, self.root.address)

    def pull(self, done: Container[str], intake: UnfinishedIntake | None = None) -> SourceBatch | None:
        # What was given before is at the front, and is given again unless it was done.
        while self._unread and known_before(self._unread[0].address, self.root, done):
            self._unread_bytes -= self._unread.popleft().bytes
        if not self._unread or (intake is None and time.perf_counter() >= self._list_again):
            self._look(done)
        if intake is not None and intake.file is not None:
            self._put_first(intake.file, intake)
        elif not self._unread and intake is None:
            return None
        whole = intake or self._next_intake()
        rows: list[pa.RecordBatch] = []
        small: list[pa.RecordBatch] = []
        read: list[SourceFile] = []
        room = Room(self._limits)
        for file in self._unread:
            if not whole.holds(file.modified_us, file.address) or room.is_full:
                break
            reading, self._open = self._opened(file, intake), None
            small += reading.take(room)
            if is_piece(small):  # many small arrays may take twice their size
                rows.append(concat(small, self._stream.schema))
                small = []
            if reading.has_more:
                self._open = reading
                break
            read.append(file)
        newest_us = max((file.modified_us for file in read), default=0)
        self.ignored_before_us = max(self.ignored_before_us, newest_us - self._max_age_us)
        return SourceBatch(
            rows + small,
            tuple(file.address for file in read),
            tuple(file.modified_us for file in read),
            self.ignored_before_us,
            self._left_of(whole, len(read)),
            self._backlog(read),
        )

    def _look(self, done: Container[str]) -> None:
        """List the folder, also while there are files to read, so that it is known what waits.

        What was found before stays: a file that has gone since is an error when it is its turn.
        """
        started = time.perf_counter()
        known = {file.address: file for file in (*self._unread, *self._list(done))}
        self._unread = deque(sorted(known.values(), key=lambda file: (file.modified_us, file.address)))
        self._unread_bytes = sum(file.bytes for file in self._unread)
        now = time.perf_counter()
        self._list_again = now + max(LIST_EVERY_SECONDS, LIST_AT_MOST * (now - started))

    def _backlog(self, read: Sequence[SourceFile]) -> Backlog:
        """What is left when these of the unread files have been read; one that was begun counts as a whole."""
        return {
            "files": len(self._unread) - len(read),
            "bytes": self._unread_bytes - sum(file.bytes for file in read),
        }

    def _next_intake(self) -> UnfinishedIntake:
        last = self._unread[min(len(self._unread), self._max_files or len(self._unread)) - 1]
        return UnfinishedIntake(last.modified_us, last.address)

    def _left_of(self, whole: UnfinishedIntake, read: int) -> UnfinishedIntake | None:
        """What is to follow of an intake now that so many of the unread files have been read."""
        following = self._unread[read] if read < len(self._unread) else None
        if following is None or not whole.holds(following.modified_us, following.address):
            return None
        partly = self._open
        if partly is None or not partly.position.rows:
            return UnfinishedIntake(whole.last_modified_us, whole.last_file)
        file = partly.file
        return UnfinishedIntake(
            whole.last_modified_us, whole.last_file, file.address, file.modified_us, partly.position
        )

    def _put_first(self, address: str, intake: UnfinishedIntake) -> None:
        """Go on with a file that was read in part, whatever older ones have come since."""
        found = next((file for file in self._unread if file.address == address), None)
        if found is None or found.modified_us != intake.modified_us:
            raise InputError(
                f'"{os.path.basename(address)}" of stream "{self._stream.name}" was read in part, and has '
                f"{'gone' if found is None else 'changed'} since",
                detail=f"{address}: {intake.position.rows:,} rows of it were read.",
                hint="Put the file back as it was, with its time of modification, or start with a new checkpoint.",
            )
        if self._unread[0] is not found:
            self._unread.remove(found)
            self._unread.appendleft(found)

    def _opened(self, file: SourceFile, intake: UnfinishedIntake | None) -> _OpenFile:
        start = intake.position if intake is not None and intake.file == file.address else FilePosition()
        if self._open is not None and self._open.file == file and self._open.position == start:
            return self._open
        return _OpenFile(file, start, self._pieces(file, start))

    def _list(self, done: Container[str]) -> Iterator[SourceFile]:
        listing = list_files(self.root, self.recursive)
        self._refuse_if_astray(listing, done)
        for file in listing.files:
            if file.modified_us >= self.ignored_before_us and not known_before(file.address, self.root, done):
                yield file

    def _refuse_if_astray(self, listing: Listing, done: Container[str]) -> None:
        """Nothing to read, but in sub-folders: a mistake, unless files were moved there after they were read."""
        moved = any(known_before(f"{self.root.address}/{file.name}", self.root, done) for file in listing.astray)
        if not (moved or self._found_any):
            refuse_if_astray(self.root, listing)
        self._found_any = self._found_any or bool(listing.files)

    def _pieces(self, file: SourceFile, start: FilePosition) -> Iterator[tuple[FilePosition, pa.RecordBatch]]:
        """The rows of a file from a position on, with the position that each batch of them begins at."""
        schema = self._stream.schema
        given = file.partition_columns(schema)
        own = _without(schema, given)
        values = {name: pa.array([text], pa.string()) for name, text in given.items()}
        try:
            for position, table in self._format.pieces(self.root.filesystem, file.path, own, self._options, start):
                for name, text in values.items():
                    value = column_of_text(text, schema.field(name))[0]
                    table = table.drop_columns(name) if name in table.column_names else table
                    table = table.append_column(name, pa.repeat(value, table.num_rows))
                for batch in table.to_batches():
                    yield position, conform(batch, schema, self._stream.name, f'"{file.name}"')
                    position = position.after(batch.num_rows)
        except (OSError, ValueError, NotImplementedError) as error:  # Arrow's errors are among them
            raise _unreadable(self._stream.name, file, error) from None


class Room:
    """What a batch may still take of a stream."""

    def __init__(self, limits: BatchLimits) -> None:
        self._rows = math.inf if limits.rows is None else limits.rows
        self._bytes = math.inf if limits.bytes is None else limits.bytes
        self._empty = True

    @property
    def is_full(self) -> bool:
        return not (self._rows > 0 and self._bytes > 0)

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """As many of the rows as there is room for; the first one always, so that a batch comes to something."""
        fitting = int(min(rows.num_rows, self._rows))
        while fitting and rows.slice(0, fitting).nbytes > self._bytes:
            share = self._bytes / rows.slice(0, fitting).nbytes
            fitting = min(fitting - 1, int(fitting * share))
        taken = rows.slice(0, max(fitting, 1) if self._empty else fitting)
        self._rows -= taken.num_rows
        self._bytes -= taken.nbytes
        if taken.num_rows < rows.num_rows:
            self._rows = 0
        self._empty = self._empty and not taken.num_rows
        return taken


class _OpenFile:
    """A file that is being read: how far, and what is to come."""

    def __init__(
        self, file: SourceFile, position: FilePosition, pieces: Iterator[tuple[FilePosition, pa.RecordBatch]]
    ) -> None:
        self.file = file
        self.position = position
        self._pieces = pieces
        self._waiting: pa.RecordBatch | None = None  # of what was read, the rows from `position` on

    def take(self, room: Room) -> list[pa.RecordBatch]:
        taken = []
        while not room.is_full and self.has_more:
            assert self._waiting is not None, "there is more"
            rows = room.take(self._waiting)
            taken.append(rows)
            left = self._waiting.slice(rows.num_rows)
            self.position = self.position.after(rows.num_rows)
            self._waiting = left if left.num_rows else None
        return taken

    @property
    def has_more(self) -> bool:
        while self._waiting is None:
            if (piece := next(self._pieces, None)) is None:
                return False
            if piece[1].num_rows:
                self.position, self._waiting = piece
        return True


def probe_files(
    stream: str, path: str, format: str, schema: pa.Schema, options: Mapping[str, Any], fresh: bool = True
) -> None:
    """Raise `InputError` if the files under `path` cannot be those of a stream of `schema`, as far as can be seen.

    That is by the folders that they are in, and for Parquet by their own schemas. `fresh`: nothing was read before.
    """
    root = SourceRoot.of(stream, path)
    listing = list_files(root, is_recursive(options))
    if fresh:
        refuse_if_astray(root, listing)
    if format != "parquet":
        return
    for file in listing.files:
        try:
            with root.filesystem.open_input_file(file.path) as source:
                found = pq.read_schema(source)
        except (OSError, ValueError) as error:
            raise _unreadable(stream, file, error) from None
        own = _without(schema, file.partition_columns(schema))
        conform(pa.RecordBatch.from_pylist([], schema=found), own, stream, f'"{file.name}"')


def last_csv_header(stream: str, path: str, schema: pa.Schema, options: Mapping[str, Any]) -> list[str] | None:
    """The columns as the header of the newest CSV file under `path` names them; None if there is no header or file."""
    root = SourceRoot.of(stream, path)
    for file in list_files(root, is_recursive(options)).files[-1:]:
        own = _without(schema, file.partition_columns(schema))
        return csv_header(read_bytes(root.filesystem, file.path, 1 << 20), own, csv_separator(options))
    return None


def partition_columns(stream: str, path: str, schema: pa.Schema, options: Mapping[str, Any]) -> list[str]:
    """The columns of `schema` that folders under `path` give, as of now."""
    files = list_files(SourceRoot.of(stream, path), is_recursive(options)).files
    return list(files[0].partition_columns(schema)) if files else []


def is_recursive(options: Mapping[str, Any]) -> bool:
    return str(options.get("recursiveFileLookup", False)).lower() == "true"


def _without(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    left_out = set(names)
    return pa.schema([field for field in schema if field.name not in left_out])


def _unreadable(stream: str, file: SourceFile, error: Exception) -> InputError:
    return InputError(
        f'cannot read "{file.name}" of stream "{stream}"',
        detail=f"{file.address}: {str(error).strip()}",
        hint="Check the format and the schema of the stream.",
    )


def _check_options(stream: str, format: str, options: Mapping[str, Any]) -> None:
    known = {"maxFilesPerTrigger", "maxFileAge", "recursiveFileLookup", *FORMATS[format].options}
    for name in options:
        if name not in known:
            raise JobError(
                f'unknown option "{name}" of stream "{stream}"',
                detail=f"The local runtime knows {', '.join(sorted(known))} for {format} files.",
                hint=did_you_mean(name, known),
            )
    if format == "csv":
        csv_separator(options)


def _positive(value: Any, stream: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and value > 0:
        return value
    raise JobError(f'maxFilesPerTrigger of stream "{stream}" is {value!r}', detail="It is a whole number above zero.")


_AGE_UNITS_US = {"": 1000, "us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000}
_AGE_UNITS_US |= {"h": 3_600_000_000, "d": 86_400_000_000}


def _age_us(value: Any, stream: str) -> int:
    """A duration as Spark's options have it, in microseconds; a number alone is milliseconds."""
    found = re.fullmatch(r"([0-9]+)([a-z]*)", str(value).strip().lower())
    if found is None or found[2] not in _AGE_UNITS_US or isinstance(value, bool):
        raise JobError(
            f'maxFileAge of stream "{stream}" is {value!r}',
            detail="It is a whole number and a unit without a space, as Spark has them: us, ms, s, m, min, h or d.",
            hint='For example "7d".',
        )
    return int(found[1]) * _AGE_UNITS_US[found[2]]
