"""A stream as a folder of numbered files (`part-00000.parquet`, ..) that a streaming reader may watch.

Invariant: a file appears whole or not at all (it is written under a hidden name that Spark and pyarrow skip, then
renamed), and modification times ascend with the number, half a second apart and in the past. Spark's file source takes
files in the order of their modification times and would otherwise be free to mix parts written within a millisecond.

Formats: parquet, csv (with a header line) and json (one object a line). The three hold the same rows; csv cannot tell
a NULL from an empty string in every reader. Flat columns only: numbers, booleans, strings, dates and timestamps.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from watersmeet.errors import JobError, did_you_mean

MOST_FILES = 100_000  # so that names of five digits sort by number
SECONDS_APART = 0.5  # MOST_FILES of them fit into the day before the files are written
_PART = re.compile(r"\.?part-\d{5}\.(parquet|csv|json)(\.tmp)?")
_JSON_ROWS = 65_536


def equal_parts(rows: int, files: int) -> list[int]:
    """The rows of each of `files` files, equal to within one.

    >>> equal_parts(10, 4)
    [2, 3, 2, 3]
    """
    if not 1 <= files <= MOST_FILES:
        raise JobError(f"cannot write {files} files", detail=f"The number of files is from 1 to {MOST_FILES}.")
    if files > rows:
        raise JobError(f"cannot divide {rows} rows into {files} files", hint="Ask for fewer files.")
    return [rows * (i + 1) // files - rows * i // files for i in range(files)]


def parts_of(rows: int, rows_per_file: int) -> list[int]:
    """The rows of each file when every file but the last has `rows_per_file`.

    >>> parts_of(10, 4)
    [4, 4, 2]
    """
    if rows_per_file < 1:
        raise JobError(f"cannot write {rows_per_file} rows per file", detail="The number of rows must be positive.")
    files = -(-rows // rows_per_file)
    if files > MOST_FILES:
        raise JobError(f"cannot write {files} files", detail=f"The number of files is from 1 to {MOST_FILES}.")
    return [min(rows_per_file, rows - i * rows_per_file) for i in range(files)]


def prepare_folder(folder: Path, *, overwrite: bool) -> None:
    """Make `folder`, or clear it of earlier parts if `overwrite` says so; files of other kinds are never deleted."""
    if folder.exists() and not folder.is_dir():
        raise JobError(f'"{folder}" is a file, not a folder')
    present = sorted(folder.iterdir()) if folder.is_dir() else []
    others = [path.name for path in present if not _PART.fullmatch(path.name)]
    if present and (others or not overwrite):
        names = ", ".join((others or [path.name for path in present])[:3])
        raise JobError(
            f'folder "{folder}" is not empty',
            detail=f"It holds {names}{', ..' if len(others or present) > 3 else ''}."
            + (" Only part files are ever overwritten." if overwrite else ""),
            hint="Choose another folder." if overwrite else "Choose another folder, or give --overwrite.",
        )
    for path in present:
        path.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def write_parts(
    batches: Iterable[pa.RecordBatch],
    sizes: Iterable[int],
    folder: Path,
    file_format: str,
    schema: pa.Schema,
    now: float,
) -> Iterator[Path]:
    """Write `batches` as one file for each of `sizes` rows, and yield each path once the file is in place.

    `now`, in seconds since 1970, is the same for all parts: modification times count from it, not from the clock.
    """
    for number, table in enumerate(_cut(batches, sizes, schema)):
        yield write_part(table, folder, number, file_format, now)


def _cut(batches: Iterable[pa.RecordBatch], sizes: Iterable[int], schema: pa.Schema) -> Iterator[pa.Table]:
    source = iter(batches)
    rest: pa.RecordBatch | None = None
    for size in sizes:
        pieces = []
        missing = size
        while missing:
            batch = rest if rest is not None else next(source, None)
            if batch is None:
                raise ValueError(f"batches end {missing} rows short of the sizes asked for")
            pieces.append(batch.slice(0, missing))
            rest = batch.slice(missing) if batch.num_rows > missing else None
            missing -= pieces[-1].num_rows
        yield pa.Table.from_batches(pieces, schema)


def check_format(name: str) -> None:
    """Refuse a format that is not known."""
    if name not in FORMATS:
        raise JobError(
            f'unknown format "{name}"', detail=f"Known are {', '.join(FORMATS)}.", hint=did_you_mean(name, FORMATS)
        )


def write_part(table: pa.Table, folder: Path, number: int, file_format: str, now: float) -> Path:
    """Write one whole file, and give it the modification time that belongs to its number, before `now`."""
    check_format(file_format)
    path = folder / f"part-{number:05}.{file_format}"
    hidden = folder / f".{path.name}.tmp"
    try:
        FORMATS[file_format](table, hidden)
        modified = now - (MOST_FILES - number) * SECONDS_APART
        os.utime(hidden, (modified, modified))
        hidden.rename(path)
    finally:
        hidden.unlink(missing_ok=True)
    return path


def _write_parquet(table: pa.Table, path: Path) -> None:
    pa.parquet.write_table(table, path)


def _write_csv(table: pa.Table, path: Path) -> None:
    pa.csv.write_csv(table, path)


def _write_json(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        for batch in table.to_batches(max_chunksize=_JSON_ROWS):
            lines = json_lines(batch)
            file.write(
                pc.binary_join(pa.LargeListArray.from_arrays([0, len(lines)], lines), _large("\n"))[0].as_buffer()
            )
            file.write(b"\n")


FORMATS: Mapping[str, Callable[[pa.Table, Path], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "json": _write_json,
}


def json_lines(batch: pa.RecordBatch) -> pa.Array:
    """Each row as a JSON object, without a loop over rows; numbers that JSON has no form for (NaN) become null.

    >>> json_lines(pa.RecordBatch.from_pydict({"k": [1, None], "name": ['say "hi"', "x"]})).to_pylist()
    ['{"k":1,"name":"say \\\\"hi\\\\""}', '{"k":null,"name":"x"}']
    """
    pieces = []
    for number, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        pieces.append(_large(("," if number else "{") + json.dumps(name) + ":"))
        pieces.append(pc.fill_null(_json_values(name, column), "null"))
    return pc.binary_join_element_wise(*pieces, _large("}"), _large(""))


def _json_values(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(_escaped(column.cast(pa.large_string())))
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        return column.cast(pa.large_string())
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _quoted(column.cast(pa.large_string()))
    raise JobError(f'column "{name}" of type {kind} cannot be written as JSON')


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_large('"'), texts, _large('"'), _large(""))


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())  # large, so that no column's text is too long for its offsets


def _escaped(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, r'[\x00-\x1f"\\]')).as_py():
        return texts
    texts = pc.replace_substring(texts, "\\", "\\\\")  # first: the others put backslashes in
    texts = pc.replace_substring(texts, '"', '\\"')
    for code in range(0x20):
        texts = pc.replace_substring(texts, chr(code), f"\\u{code:04x}")
    return texts


_TYPE_NAMES = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP",
}


def schema_text(schema: pa.Schema) -> str:
    """The schema as a job file writes it.

    >>> schema_text(pa.schema([("k", pa.int64()), ("name", pa.string())]))
    'k BIGINT, name STRING'
    """
    return ", ".join(f"{field.name} {_TYPE_NAMES[field.type]}" for field in schema)
