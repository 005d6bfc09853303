"""Sources of the local runtime: where each batch's rows of a stream come from.

A source gives rows a batch at a time; None means that there is nothing now. A file source remembers nothing itself: the
files that were read are in the manifest, and it goes on after them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from watersmeet.errors import InputError, JobError, did_you_mean
from watersmeet.model.schema import conform
from watersmeet.model.streams import Stream


@dataclass(frozen=True)
class Pulled:
    """The rows of one batch of one stream, and the files that they came from."""

    rows: list[pa.RecordBatch]
    files: tuple[str, ...] = ()


class LocalSource(Protocol):
    def pull(self, done: Collection[str]) -> Pulled | None:
        """The next batch; `done` are the files that earlier batches read. None if there is nothing now."""


class RowsSource:
    """Record batches from memory, or from any iterable: each becomes (part of) one batch."""

    def __init__(self, stream: Stream, batches: Iterable[pa.RecordBatch]) -> None:
        self._stream = stream
        self._batches: Iterator[pa.RecordBatch] = iter(batches)

    def pull(self, done: Collection[str]) -> Pulled | None:
        batch = next(self._batches, None)
        return None if batch is None else Pulled([conform(batch, self._stream.schema, self._stream.name)])


class FileSource:
    """A folder of files, in order of modification time; at most `max_files` of them a batch."""

    def __init__(self, stream: Stream, path: str, format: str, options: Mapping[str, Any]) -> None:
        if not os.path.exists(path):
            raise missing_path(stream.name, path)
        known = {"maxFilesPerTrigger", *READERS[format].options}
        for name in options:
            if name not in known:
                raise JobError(
                    f'unknown option "{name}" of stream "{stream.name}"',
                    detail=f"The local runtime knows {', '.join(sorted(known))} for {format} files.",
                    hint=did_you_mean(name, known),
                )
        self._stream = stream
        self._path = path
        self._reader = READERS[format]
        self._options = options
        self._max_files = _positive(options.get("maxFilesPerTrigger"), stream.name)

    def pull(self, done: Collection[str]) -> Pulled | None:
        names = [name for name in list_files(self._path) if name not in done][: self._max_files]
        if not names:
            return None
        rows = []
        for name in names:
            path = os.path.join(self._path, name) if os.path.isdir(self._path) else self._path
            try:
                table = self._reader.read(path, self._stream.schema, self._options)
            except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
                raise _unreadable(self._stream.name, name, path, error) from None
            rows += [conform(b, self._stream.schema, self._stream.name, f'"{name}"') for b in table.to_batches()]
        return Pulled(rows, tuple(names))


def list_files(path: str) -> list[str]:
    """The data files under `path`, oldest first; hidden ones and those that begin with an underscore are passed over.

    Names are relative to `path`, or the file's own name if `path` is a file.
    """
    if os.path.isfile(path):
        return [os.path.basename(path)]
    with os.scandir(path) as entries:
        found = [(e.stat().st_mtime_ns, e.name) for e in entries if e.is_file() and e.name[0] not in "._"]
    return [name for _, name in sorted(found)]


def probe_files(stream: str, path: str, format: str, schema: pa.Schema) -> None:
    """Raise `InputError` if a file under `path` cannot be of `schema`, as far as its own schema tells."""
    if format != "parquet":
        return
    for name in list_files(path):
        file = os.path.join(path, name) if os.path.isdir(path) else path
        try:
            found = pq.read_schema(file)
        except (OSError, pa.ArrowInvalid) as error:
            raise _unreadable(stream, name, file, error) from None
        conform(pa.RecordBatch.from_pylist([], schema=found), schema, stream, f'"{name}"')


def _unreadable(stream: str, name: str, path: str, error: Exception) -> InputError:
    return InputError(
        f'cannot read "{name}" of stream "{stream}"',
        detail=f"{path}: {str(error).strip()}",
        hint="Check the format and the schema of the stream.",
    )


def missing_path(stream: str, path: str) -> InputError:
    return InputError(
        f'the path of stream "{stream}" does not exist',
        detail=f"{os.path.abspath(path)} is neither a folder nor a file.",
        hint="Paths in a job file are relative to the folder that the command is run in.",
    )


def _positive(value: Any, stream: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and value > 0:
        return value
    raise JobError(f'maxFilesPerTrigger of stream "{stream}" is {value!r}', detail="It is a whole number above zero.")


class _Parquet:
    options: frozenset[str] = frozenset()

    def read(self, path: str, schema: pa.Schema, options: Mapping[str, Any]) -> pa.Table:
        with pq.ParquetFile(path) as file:
            present = [name for name in schema.names if name in file.schema_arrow.names]
            return file.read(columns=present) if len(present) == len(schema.names) else file.read()


class _Csv:
    options = frozenset({"header", "sep", "delimiter", "nullValue"})

    def read(self, path: str, schema: pa.Schema, options: Mapping[str, Any]) -> pa.Table:
        sep = str(options.get("sep", options.get("delimiter", ",")))
        if _is_blank(path):
            return schema.empty_table()
        header = options.get("header")
        has_header = csv_header(path, schema, sep) is not None if header is None else str(header).lower() == "true"
        table = pacsv.read_csv(
            path,
            read_options=pacsv.ReadOptions(column_names=None if has_header else schema.names),
            parse_options=pacsv.ParseOptions(delimiter=sep),
            convert_options=pacsv.ConvertOptions(
                column_types=_with_text(schema, _is_instant),
                null_values=["", str(options.get("nullValue", ""))],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,  # as Spark: empty text in a CSV file is NULL, quoted or not
            ),
        )
        return _read_text(table, schema, _is_instant, _instants)


class _Json:
    options: frozenset[str] = frozenset()

    def read(self, path: str, schema: pa.Schema, options: Mapping[str, Any]) -> pa.Table:
        if _is_blank(path):
            return schema.empty_table()
        fields = _with_text(schema, pa.types.is_date)
        parsing = pajson.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore")
        table = pajson.read_json(path, parse_options=parsing)
        return _read_text(table, schema, pa.types.is_date, lambda column, kind: column.cast(kind))


def _is_blank(path: str) -> bool:
    """Whether a file holds no line, and so no row: Arrow's readers refuse it, and Spark reads nothing."""
    with open(path, "rb") as file:
        return not file.read(4096).strip() and os.path.getsize(path) <= 4096


# Arrow's CSV reader refuses an instant without a zone, and its JSON reader a date: they are read as text, then cast.
def _with_text(schema: pa.Schema, chosen: Callable[[pa.DataType], bool]) -> pa.Schema:
    return pa.schema([(field.name, pa.string() if chosen(field.type) else field.type) for field in schema])


def _read_text(
    table: pa.Table,
    schema: pa.Schema,
    chosen: Callable[[pa.DataType], bool],
    cast: Callable[[pa.ChunkedArray, pa.DataType], pa.ChunkedArray],
) -> pa.Table:
    for field in schema:
        index = table.schema.get_field_index(field.name)
        if index >= 0 and chosen(field.type):
            table = table.set_column(index, field.name, cast(table.column(index), field.type))
    return table


def _is_instant(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz)


def _instants(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Text as instants; one that names no zone is in UTC."""
    zoned = pc.match_substring_regex(column, r":[0-9.]+ ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$")
    nothing = pa.scalar(None, pa.string())
    bare = pc.if_else(zoned, nothing, column).cast(pa.timestamp(kind.unit)).cast(kind)
    return pc.coalesce(pc.if_else(zoned, column, nothing).cast(kind), bare)


READERS: dict[str, _Parquet | _Csv | _Json] = {"parquet": _Parquet(), "csv": _Csv(), "json": _Json()}


def csv_header(path: str, schema: pa.Schema, sep: str = ",") -> list[str] | None:
    """The first line of a CSV file if it names the columns of `schema`, in any order; else None."""
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline().strip()
    names = [name.strip().strip('"') for name in first.split(sep)]
    return names if sorted(names) == sorted(schema.names) else None
