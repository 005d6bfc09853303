"""File sources: which files, in which order, how many a batch, and how each format is read."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.errors import InputError, JobError
from watersmeet.model.streams import Stream
from watersmeet.runtime.file_formats import csv_header
from watersmeet.runtime.local.sources import FileSource, RowsSource, probe_files
from watersmeet.runtime.source_files import SourceRoot, list_files

SCHEMA = pa.schema([("k", pa.int64()), ("name", pa.string()), ("ts", pa.int64())])
STREAM = Stream("A", SCHEMA, "ts", timedelta(0))
ROW = {"k": 1, "name": "x", "ts": 2}


def put(folder: Path, name: str, content: str | list[dict[str, Any]] = "", time: int = 0) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content)
    else:
        pq.write_table(pa.Table.from_pylist(content, schema=SCHEMA), path)
    os.utime(path, (time, time))
    return path


def rows(source: FileSource, done: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    pulled = source.pull(done)
    return [] if pulled is None else [row for batch in pulled.rows for row in batch.to_pylist()]


def read(tmp_path: Path, format: str, content: str, **options: Any) -> list[dict[str, Any]]:
    put(tmp_path, f"a.{format}", content)
    return rows(FileSource(STREAM, str(tmp_path), format, options))


def names(path: Path) -> list[str]:
    return [file.name for file in list_files(SourceRoot.of("A", str(path))).files]


def test_files_come_in_order_of_time_then_name(tmp_path: Path) -> None:
    for name, time in (("a", 30), ("c", 10), ("b", 10), ("d", 20)):
        put(tmp_path, name, time=time)
    assert names(tmp_path) == ["b", "c", "d", "a"]


def test_hidden_files_and_folders_are_passed_over(tmp_path: Path) -> None:
    for name in (".hidden", "_SUCCESS", "a.parquet", "b._COPYING_", "_temporary/c.parquet", "folder/d.parquet"):
        put(tmp_path, name)
    assert names(tmp_path) == ["a.parquet"]
    assert names(tmp_path / "a.parquet") == ["a.parquet"]


def test_as_many_files_as_asked_for_and_none_twice(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path, f"{number}.parquet", [{**ROW, "k": number}], time=number)
    source = FileSource(STREAM, str(tmp_path), "parquet", {"maxFilesPerTrigger": 2})
    done: list[str] = []
    batches = []
    while (pulled := source.pull(done)) is not None:
        done += pulled.files
        batches.append([row["k"] for batch in pulled.rows for row in batch.to_pylist()])
    assert batches == [[0, 1], [2, 3], [4]]
    put(tmp_path, "5.parquet", [{**ROW, "k": 5}], time=1)
    assert [row["k"] for row in rows(source, tuple(done))] == [5], "a file that comes later, whatever its time"


def test_without_a_limit_one_batch_takes_all(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path, f"{number}.parquet", [ROW])
    pulled = FileSource(STREAM, str(tmp_path), "parquet", {}).pull(())
    assert pulled is not None
    assert len(pulled.files) == 3


def test_a_path_may_be_one_file(tmp_path: Path) -> None:
    path = put(tmp_path, "a.parquet", [ROW])
    source = FileSource(STREAM, str(path), "parquet", {})
    assert rows(source) == [ROW]
    assert source.pull([str(path)]) is None
    assert FileSource(STREAM, str(path), "parquet", {}).pull(["a.parquet"]) is None, "a checkpoint made earlier"


@pytest.mark.parametrize("value", [0, -1, "2", 1.5])
def test_a_limit_that_is_no_number_above_zero(value: Any, tmp_path: Path) -> None:
    with pytest.raises(JobError, match='maxFilesPerTrigger of stream "A"'):
        FileSource(STREAM, str(tmp_path), "parquet", {"maxFilesPerTrigger": value})


@pytest.mark.parametrize("format, known", [("parquet", "maxFilesPerTrigger"), ("csv", "delimiter, header")])
def test_an_unknown_option(format: str, known: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match='unknown option "heder" of stream "A"') as caught:
        FileSource(STREAM, str(tmp_path), format, {"heder": True})
    assert known in (caught.value.detail or "")


def test_more_columns_than_the_schema_has_are_no_mistake(tmp_path: Path) -> None:
    table = pa.table({"extra": [1], "ts": [2], "name": ["x"], "k": pa.array([1], pa.int32())})
    pq.write_table(table, tmp_path / "a.parquet")
    assert rows(FileSource(STREAM, str(tmp_path), "parquet", {})) == [ROW]


@pytest.mark.parametrize(
    "content",
    ["k,name,ts\n1,x,2\n", "1,x,2\n", "ts,k,name\n2,1,x\n", '"k","name","ts"\n1,"x",2\n'],
    ids=["header", "none", "another order", "quoted"],
)
def test_csv_finds_out_about_its_header(content: str, tmp_path: Path) -> None:
    assert read(tmp_path, "csv", content) == [ROW]


def test_csv_is_told_about_its_header(tmp_path: Path) -> None:
    assert read(tmp_path, "csv", "1,y,2\n", header=False) == [{"k": 1, "name": "y", "ts": 2}]
    assert read(tmp_path, "csv", "k,name,ts\n1,x,2\n", header="true") == [ROW]
    with pytest.raises(InputError, match=r'cannot read "a\.csv"'):
        read(tmp_path, "csv", "k,name,ts\n1,x,2\n", header=False)


@pytest.mark.parametrize("name", ["sep", "delimiter"])
def test_csv_with_another_separator(name: str, tmp_path: Path) -> None:
    assert read(tmp_path, "csv", "k;name;ts\n1;x;2\n", **{name: ";"}) == [ROW]


def test_csv_nulls(tmp_path: Path) -> None:
    assert read(tmp_path, "csv", ",,2\n") == [{"k": None, "name": None, "ts": 2}]
    assert read(tmp_path, "csv", "NA,NA,2\n", nullValue="NA") == [{"k": None, "name": None, "ts": 2}]
    assert read(tmp_path, "csv", '1,"",2\n') == [{"k": 1, "name": None, "ts": 2}], "quoted or not, as on Spark"


def test_csv_header() -> None:
    for text in (b'ts,K,"name"\n1,2,x\n', b"\xef\xbb\xbfts,k,name", b"\r\n\nts,k,name\r\n"):
        assert csv_header(text, SCHEMA, ",") == ["ts", "k", "name"]
    for text in (b"", b"k,name\n", b"ts, k ,name\n", b"ts,k,name,k\n"):
        assert csv_header(text, SCHEMA, ",") is None


def test_json(tmp_path: Path) -> None:
    assert read(tmp_path, "json", '{"k": 1, "name": "x", "ts": 2, "more": [1]}\n') == [ROW]
    assert read(tmp_path, "json", '{"ts": 2}\n') == [{"k": None, "name": None, "ts": 2}], "a missing field is NULL"


@pytest.mark.parametrize("format", ["csv", "json"])
def test_an_empty_text_file_has_no_rows(format: str, tmp_path: Path) -> None:
    assert read(tmp_path, format, "") == []


def test_a_file_that_goes_away_is_told_and_the_next_run_goes_on(tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path, f"{number}.parquet", [{**ROW, "k": number}], time=number)
    source = FileSource(STREAM, str(tmp_path), "parquet", {"maxFilesPerTrigger": 1})
    assert source.pull(()) is not None
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(InputError, match=r'cannot read "1\.parquet" of stream "A"'):
        source.pull([str(tmp_path / "0.parquet")])
    again = FileSource(STREAM, str(tmp_path), "parquet", {"maxFilesPerTrigger": 1})
    assert [row["k"] for row in rows(again, (str(tmp_path / "0.parquet"),))] == [2]


def test_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='the path of stream "A" does not exist'):
        FileSource(STREAM, str(tmp_path / "none"), "parquet", {})


def test_probing_looks_at_every_parquet_file(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", [ROW])
    probe_files("A", str(tmp_path), "parquet", SCHEMA, {})
    pq.write_table(pa.table({"k": [1]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r'has no column "name" in "b\.parquet"'):
        probe_files("A", str(tmp_path), "parquet", SCHEMA, {})
    probe_files("A", str(tmp_path), "csv", SCHEMA, {})


def test_rows_from_memory_are_made_to_fit(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pylist(
        [ROW], schema=pa.schema([("ts", pa.int32()), ("k", pa.int64()), ("name", "string")])
    )
    source = RowsSource(STREAM, [batch])
    pulled = source.pull(())
    assert pulled is not None
    assert pulled.rows[0].schema == SCHEMA
    assert source.pull(()) is None
    with pytest.raises(InputError, match='stream "A" has no column "name"'):
        RowsSource(STREAM, [batch.drop_columns("name")]).pull(())
