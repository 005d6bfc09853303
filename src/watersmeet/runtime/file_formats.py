"""How each format of file is read into a table: Parquet, CSV and JSON lines.

What text means is in `kernel/text_values.py`. This is its frame, the same here and on Spark (`SPARK_OPTIONS`):

- CSV: text in quotes may hold separators, line breaks, and quotes written twice; a quote that is closed in the middle
  of a value is a mistake. Empty text, quoted or not, is NULL, and so is `nullValue`. White space counts. Lines may end
  in any way; inside quotes a line break that the file's lines end with becomes "\\n". A row has a value a column.
- JSON: an object, or a list of objects, on each line. A field that is missing is NULL, of one that is there twice the
  last counts, fields without a column are passed over. Numbers are not read from text, but for decimals.

A file is read in pieces of bounded size, whole rows each, with the position that they begin at, from which another run
can go on. One that does not fit raises an error of Arrow or the system, or a ValueError that says where, when that
place is read. Never turns what does not fit into NULL.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from watersmeet.errors import JobError
from watersmeet.kernel.casting import cast
from watersmeet.kernel.text_values import UnreadableText, from_text
from watersmeet.model.intake import FilePosition
from watersmeet.model.sql_names import sql_type

Options = Mapping[str, Any]
Piece = tuple[FilePosition, pa.Table]  # where it begins, and its rows

# What makes Spark's readers mean the same. A job's own options come after these.
SPARK_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "parquet": {"timeZone": "UTC"},  # of values in the names of partition folders
    "csv": {
        "timeZone": "UTC",
        "mode": "FAILFAST",
        "quote": '"',
        "escape": '"',
        "unescapedQuoteHandling": "RAISE_ERROR",
        "multiLine": True,
        "enforceSchema": False,  # a header that differs is an error
        "columnPruning": False,  # a bad value is an error, in columns too that the query does not use
    },
    "json": {"timeZone": "UTC", "mode": "FAILFAST", "allowSingleQuotes": False},
}

_BOM = b"\xef\xbb\xbf"
_BLOCK_BYTES = 1 << 20
# What is read of a file at once: of Parquet, and of one with texts no more rows; of text, as it is in the file.
_PIECE_BYTES = 32 << 20
_PIECE_ROWS = 1 << 17
_TEXT_BYTES = 16 << 20
_WIDE = pa.decimal256(76, 38)


class FileFormat(Protocol):
    options: frozenset[str]

    def pieces(
        self, filesystem: Any, path: str, schema: pa.Schema, options: Options, start: FilePosition
    ) -> Iterator[Piece]:
        """The rows of a file from `start` on, with where each piece begins.

        Their columns may be in another order and type, or missing, and there may be more.
        """


class Parquet:
    options: frozenset[str] = frozenset()

    def pieces(
        self, filesystem: Any, path: str, schema: pa.Schema, options: Options, start: FilePosition
    ) -> Iterator[Piece]:
        with filesystem.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
            present = [name for name in schema.names if name in file.schema_arrow.names]
            columns = present if len(present) == len(schema.names) else None
            at_once = _rows_at_once(file.metadata, file.schema_arrow)
            if not start.rows and file.metadata.num_rows <= at_once:
                yield start, file.read(columns=columns)
                return
            groups = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            begins = [end - rows for end, rows in zip(accumulate(groups), groups, strict=True)]
            wanted = [group for group, begin in enumerate(begins) if begin + groups[group] > start.rows]
            if not wanted:
                return
            position = FilePosition(begins[wanted[0]])
            for batch in file.iter_batches(batch_size=at_once, row_groups=wanted, columns=columns):
                yield from _from(start, position, pa.Table.from_batches([batch]))
                position = position.after(batch.num_rows)


def _rows_at_once(metadata: pq.FileMetaData, schema: pa.Schema) -> int:
    """How many rows make a piece. How long texts are is not known: packed ones may be a fraction of their length."""
    fixed = [field.type.bit_width for field in schema if _has_width(field.type)]
    packed = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    width = max(1, sum(fixed) // 8, packed // max(1, metadata.num_rows))
    return int(max(1, min(_PIECE_BYTES // width, _PIECE_BYTES if len(fixed) == len(schema) else _PIECE_ROWS)))


def _has_width(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False


class Csv:
    options = frozenset({"header", "sep", "delimiter", "nullValue"})

    def pieces(
        self, filesystem: Any, path: str, schema: pa.Schema, options: Options, start: FilePosition
    ) -> Iterator[Piece]:
        separator, nulls = csv_separator(options), ["", str(options.get("nullValue", ""))]
        reading = text_blocks(filesystem, path, 0, _CsvRows(separator))
        head = next(reading, b"")
        names, begin = _csv_columns(head, schema, separator, options)
        first_break = re.search(rb"\r\n?|\n", head)
        odd_break = None if first_break is None or first_break[0] == b"\n" else first_break[0].decode()
        if start.offset:
            reading.close()
            offset, rows, lines = start.offset, start.offset_rows, start.offset_lines
            blocks: Iterator[bytes] = text_blocks(filesystem, path, offset, _CsvRows(separator))
        else:
            offset, rows, lines = begin, 0, _count_lines(head[:begin])
            blocks = chain([head[begin:]], reading)
        for data in blocks:
            position = FilePosition(rows, offset, rows, lines)
            table = schema.empty_table()
            if data.strip(b"\r\n"):
                if b'"' in data:
                    _refuse_stray_quotes(data, separator, lines)
                texts = _csv_texts(pa.py_buffer(data), names, separator, nulls)
                if odd_break is not None and b'"' in data:
                    texts = [pc.replace_substring(column, odd_break, "\n") for column in texts]
                columns = zip(names, texts, strict=True)
                arrays = [column_of_text(text, schema.field(name), rows) for name, text in columns]
                table = pa.Table.from_arrays(arrays, names=names)
            yield from _from(start, position, table)
            offset, rows, lines = offset + len(data), rows + table.num_rows, lines + _count_lines(data)


def _from(start: FilePosition, position: FilePosition, table: pa.Table) -> Iterator[Piece]:
    """The rows of a piece that begins at `position`, less those before `start`."""
    skipped = min(table.num_rows, max(0, start.rows - position.rows))
    if skipped < table.num_rows:
        yield position.after(skipped), table.slice(skipped)


def _count_lines(data: bytes) -> int:
    """The line breaks in whole lines."""
    return data.count(b"\n") + (data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0)


class LastRow(Protocol):
    """Where the last whole row of the beginning of some text ends; 0 if there is none."""

    def __call__(self, data: bytes) -> int: ...


def text_blocks(filesystem: Any, path: str, offset: int, last_row: LastRow) -> Generator[bytes]:
    """Text from `offset` on in blocks of whole rows, of some `_TEXT_BYTES` unless a row is longer."""
    with _open_text(filesystem, path, offset) as stream:
        data = b""
        while more := stream.read(max(_TEXT_BYTES, len(data))):  # a row that is longer is looked through few times
            data += more
            if end := last_row(data[:-1] if data.endswith(b"\r") else data):  # a line feed may be to follow
                yield data[:end]
                data = data[end:]
        if data:
            yield data


@contextmanager
def _open_text(filesystem: Any, path: str, offset: int) -> Iterator[Any]:
    """The content of a file from a byte on, unpacked if its name says that it is packed."""
    if offset and not _is_packed(path):
        with filesystem.open_input_file(path) as file:
            file.seek(offset)
            yield file
        return
    with filesystem.open_input_stream(path) as stream:
        while offset:
            read = len(stream.read(min(offset, _TEXT_BYTES)))
            if not read:
                raise ValueError("it is shorter than it was when a part of it was read")
            offset -= read
        yield stream


def _is_packed(path: str) -> bool:
    try:
        pa.Codec.detect(path)
    except (TypeError, ValueError):  # the first for names that say nothing
        return False
    return True


@dataclass(frozen=True)
class _CsvRows:
    """Where whole rows of a CSV file end: at line breaks that are not inside quotes."""

    separator: str

    def __call__(self, data: bytes) -> int:
        last = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if b'"' not in data[:last]:
            return last
        codes = np.frombuffer(data, np.uint8)
        breaks = np.flatnonzero((codes == ord("\n")) | (codes == ord("\r")))
        outside = breaks[np.searchsorted(np.flatnonzero(codes == ord('"')), breaks) % 2 == 0]
        end = int(outside[-1]) + 1 if len(outside) else 0
        if end and _quotes_in_pairs(data[:end], self.separator, 0):
            return end
        # A quote in the middle of text, or one that is astray.
        sep = re.escape(self.separator.encode())
        value = _csv_value(sep)
        row = rb"(?:(?:%s)?%s)*+(?:%s)?(?:\r\n|\n|\r)" % (value, sep, value)
        found = re.compile(rb"(?:%s)*+" % row).match(data, len(_BOM) if data.startswith(_BOM) else 0)
        assert found is not None, "it matches nothing, too"
        return found.end()


def _csv_columns(data: bytes, schema: pa.Schema, separator: str, options: Options) -> tuple[list[str], int]:
    """The names of the columns as the file has them, and where its first row begins."""
    told = options.get("header")
    told = None if told is None else str(told).lower() == "true"
    begin, end = _first_line(data)
    names = None if told is False else csv_header(data, schema, separator)
    if told and names is None and begin < end:
        raise ValueError(
            f"its header is {data[begin:end].decode(errors='replace')}, the columns of the stream are "
            f"{separator.join(schema.names)}"
        )
    return (schema.names, begin) if names is None else (names, end)


def csv_header(data: bytes, schema: pa.Schema, separator: str) -> list[str] | None:
    """The columns of `schema` in the order of the first line of a CSV file, if that names them; else None."""
    begin, end = _first_line(data)
    known = {name.lower(): name for name in schema.names}
    found = [name.strip('"').lower() for name in data[begin:end].decode(errors="replace").split(separator)]
    return [known[name] for name in found] if sorted(found) == sorted(known) else None


def _first_line(data: bytes) -> tuple[int, int]:
    """Where the first line that is not empty begins and ends; where the data ends, if there is none."""
    found = re.compile(rb"[\r\n]*([^\r\n]*)").match(data, len(_BOM) if data.startswith(_BOM) else 0)
    assert found is not None, "it matches nothing, too"
    return found.span(1)


def csv_separator(options: Options) -> str:
    separator = str(options.get("sep", options.get("delimiter", ",")))
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
        raise JobError(
            f'the separator of a CSV stream is "{separator}"',
            detail='The local runtime knows separators of one ASCII character, other than " and line breaks.',
        )
    return separator


def _csv_value(separator: bytes) -> bytes:
    return rb'"(?:[^"]++|"")*+"|[^"%s\r\n][^%s\r\n]*+' % (separator, separator)


def _refuse_stray_quotes(data: bytes, separator: str, lines: int) -> None:
    """Arrow would go on after a quote that is closed too soon, and Spark would begin anew. `lines` stand before."""
    begin = len(_BOM) if data.startswith(_BOM) else 0
    if _quotes_in_pairs(data, separator, begin):
        return
    sep = re.escape(separator.encode())
    found = re.compile(rb"(?:(?:%s)?(?:%s|\r\n|\n|\r|\Z))*+" % (_csv_value(sep), sep)).match(data, begin)
    assert found is not None, "it matches nothing, too"
    if found.end() < len(data):
        line = lines + _count_lines(data[: found.end()]) + 1
        raise ValueError(f"line {line}: a quote is not closed at the end of a value, or not at all")


def _quotes_in_pairs(data: bytes, separator: str, begin: int) -> bool:
    """Whether every other quote begins a value, or is one of two, and the quote after it ends the value, or likewise.

    Then no quote is astray. The other way round it is not so: one in the middle of text without quotes is no mistake.
    """
    codes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(codes == ord('"'))
    neighbour = np.zeros(256, bool)
    neighbour[list(f'{separator}\r\n"'.encode())] = True
    opening, closing = quotes[0::2], quotes[1::2]
    return (
        len(opening) == len(closing)
        and bool(neighbour[codes[opening[opening > begin] - 1]].all())
        and bool(neighbour[codes[closing[closing < len(data) - 1] + 1]].all())
    )


def _csv_texts(data: pa.Buffer, names: list[str], separator: str, nulls: list[str]) -> list[pa.Array]:
    def read(block_bytes: int) -> pa.Table:
        return pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(column_names=names, block_size=block_bytes),
            parse_options=pacsv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )

    try:
        table = read(_BLOCK_BYTES)
    except pa.ArrowInvalid:
        if data.size <= _BLOCK_BYTES:
            raise
        table = read(data.size)  # perhaps a row is larger than a block
    return [_one(column) for column in table.columns]


class Json:
    options: frozenset[str] = frozenset()

    def pieces(
        self, filesystem: Any, path: str, schema: pa.Schema, options: Options, start: FilePosition
    ) -> Iterator[Piece]:
        offset, rows, lines = start.offset, start.offset_rows, start.offset_lines
        for data in text_blocks(filesystem, path, offset, _last_line):
            position = FilePosition(rows, offset, rows, lines)
            table = schema.empty_table()
            if data.removeprefix(_BOM).strip():
                try:
                    table = _read_usual_json(data, schema)
                except ValueError:  # Arrow's errors among them: less usual, or wrong
                    table = _read_any_json(data, schema, lines)
            yield from _from(start, position, table)
            offset, rows, lines = offset + len(data), rows + table.num_rows, lines + _count_lines(data)


def _last_line(data: bytes) -> int:
    return data.rfind(b"\n") + 1


_NULL_FOR_AN_OBJECT = re.compile(rb"(?:\A|[\n\r}])[ \t]*+null")


def _read_usual_json(data: bytes, schema: pa.Schema) -> pa.Table:
    """By Arrow's reader. Raises a ValueError where it does not read the file, or not as an object on each line."""
    if b"null" in data and _NULL_FOR_AN_OBJECT.search(data):
        raise ValueError("null for an object")  # which Arrow's reader does not survive
    parsing = pajson.ParseOptions(
        explicit_schema=pa.schema([(field.name, _json_type(field.type)) for field in schema]),
        unexpected_field_behavior="ignore",
    )
    table = pajson.read_json(pa.BufferReader(data), parse_options=parsing)
    if table.num_rows != data.rstrip().count(b"\n") + 1:
        raise ValueError("not one object a line")
    arrays = []
    for field in schema:
        column = _one(table.column(field.name))
        as_text = pa.types.is_string(column.type)
        arrays.append(_json_column(column, field.type) if as_text else cast(column, field.type))
    return pa.Table.from_arrays(arrays, names=schema.names)


def _json_type(kind: pa.DataType) -> pa.DataType:
    """What Arrow's reader is told to make of the tokens of a column of type `kind`."""
    if pa.types.is_decimal(kind):
        return _WIDE  # it is rounded later
    return pa.string() if pa.types.is_temporal(kind) or pa.types.is_binary(kind) else kind


def _json_column(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_binary(kind):
        decode = base64.b64decode
        return pa.array([None if text is None else decode(text, validate=True) for text in texts.to_pylist()], kind)
    return from_text(texts, kind)


class _Number(str):
    """A number as it stands in the file."""


def _read_any_json(data: bytes, schema: pa.Schema, lines_before: int) -> pa.Table:
    """Object by object: what Arrow's reader refuses and Spark's does not, and errors that name the line."""
    lines: list[int] = []
    columns: list[list[str | None]] = [[] for _ in schema]
    for number, line in enumerate(data.removeprefix(_BOM).splitlines(), lines_before + 1):
        if not line.strip():
            continue
        for row in _json_objects(line, number):
            lines.append(number)
            for field, texts in zip(schema, columns, strict=True):
                token = row.get(field.name)
                text = None if token is None else _token_text(token, field.type)
                if text is None and token is not None:
                    raise ValueError(_misfit(f"line {number}", field, json.dumps(token)))
                texts.append(text)
    arrays = []
    for field, texts in zip(schema, columns, strict=True):
        try:
            arrays.append(_json_column(pa.array(texts, pa.string()), field.type))
        except UnreadableText as error:
            raise ValueError(_misfit(f"line {lines[error.row]}", field, json.dumps(error.text))) from None
    return pa.Table.from_arrays(arrays, names=schema.names)


def _json_objects(line: bytes, number: int) -> list[dict[str, Any]]:
    try:
        value = json.loads(line, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from None
    objects = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, dict) for entry in objects):
        raise ValueError(f"line {number}: neither an object nor a list of objects")
    return objects


_FLOATS = {"NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF"}


def _token_text(token: Any, kind: pa.DataType) -> str | None:
    """The text for `from_text` of a token other than null; None where no value of `kind` is read from such a token."""
    if isinstance(token, bool):
        return str(token).lower() if pa.types.is_boolean(kind) or pa.types.is_string(kind) else None
    if not isinstance(token, str):
        return None  # an object or a list
    if pa.types.is_string(kind) or pa.types.is_decimal(kind):
        return token
    if not isinstance(token, _Number):
        if pa.types.is_floating(kind):
            return token.replace("INF", "Infinity") if token in _FLOATS else None
        return token if pa.types.is_temporal(kind) or pa.types.is_binary(kind) else None
    if pa.types.is_timestamp(kind) and kind.tz:
        return _seconds(token)
    return token if pa.types.is_integer(kind) or pa.types.is_floating(kind) else None


def _seconds(token: str) -> str | None:
    """An instant from whole seconds since 1970, as Spark reads a number."""
    try:
        return (datetime(1970, 1, 1) + timedelta(seconds=int(token))).isoformat(" ")
    except (ValueError, OverflowError):
        return None


def read_bytes(filesystem: Any, path: str, at_most: int | None = None) -> bytes:
    """The content of a file, unpacked if its name says that it is packed."""
    with filesystem.open_input_stream(path) as stream:
        return stream.read(at_most)  # type: ignore[no-any-return]


def column_of_text(texts: pa.Array, field: pa.Field, rows: int = 0) -> pa.Array:
    """A column from text, which `rows` stand before; a ValueError that names the row where it does not fit."""
    try:
        return from_text(texts, field.type)
    except UnreadableText as error:
        raise ValueError(
            _misfit(f"row {rows + error.row + 1}", field, json.dumps(error.text, ensure_ascii=False))
        ) from None


def _misfit(where: str, field: pa.Field, what: str) -> str:
    return f'{where}, column "{field.name}": {what} is not read as {sql_type(field.type)}'


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


FORMATS: Mapping[str, FileFormat] = {"parquet": Parquet(), "csv": Csv(), "json": Json()}
