"""Files of a stream: known by their whole addresses, in partition folders, in sub-folders, far away, and too old."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from small_jobs import FILES, SmallJob, checked_main, rows_of, write_rows
from small_s3 import small_s3
from watersmeet.cli.main import main
from watersmeet.errors import InputError, JobError
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.runtime.local.sources import FileSource, known_before, probe_files
from watersmeet.runtime.source_files import SourceRoot, list_files

DAY = 86_400


def stream(schema: str = "k BIGINT, ts BIGINT") -> Stream:
    return Stream("A", parse_schema(schema), "ts", timedelta(0))


def put(path: Path, text: str = "1,2\n", time: float = 0) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time, time))
    return str(path)


def source(path: Path | str, schema: str = "k BIGINT, ts BIGINT", form: str = "csv", **options: Any) -> FileSource:
    return FileSource(stream(schema), str(path), form, options)


def pull(source: FileSource, done: Iterable[str] = ()) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    batch = source.pull(set(done))
    assert batch is not None
    return [row for part in batch.rows for row in part.to_pylist()], batch.files


def keys(source: FileSource, done: Iterable[str] = ()) -> list[Any]:
    return [row["k"] for row in pull(source, done)[0]]


# Whole addresses


def test_files_of_the_same_name_under_another_path_are_other_files(tmp_path: Path) -> None:
    first, second = put(tmp_path / "a" / "x.csv"), put(tmp_path / "b" / "x.csv", "3,4\n")
    _, files = pull(source(tmp_path / "a"))
    assert files == (first,)
    assert pull(source(tmp_path / "b"), files) == ([{"k": 3, "ts": 4}], (second,))


def test_a_job_with_another_path_on_its_checkpoint_reads_it(tmp_path: Path) -> None:
    job = SmallJob(tmp_path).write()
    job.finish()
    assert job.answer() == job.expected()
    write_rows(tmp_path / "more" / "0.parquet", rows_of(FILES))
    assert main(job.arguments(f"streams.A.path={tmp_path}/more")) == 0
    assert {row[1] for row in job.answer() - job.expected()} == {row["v"] for row in rows_of(FILES)}


def test_a_path_may_be_written_in_many_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = put(tmp_path / "in" / "x.csv")
    monkeypatch.chdir(tmp_path)
    for path in ("in", "./in/", "in/../in", f"file://{tmp_path}/in", f"file:{tmp_path}/in/", f"{tmp_path}/in"):
        assert pull(source(path))[1] == (address,)
        assert source(path).pull([address]) is None


def test_names_of_checkpoints_made_earlier_count(tmp_path: Path) -> None:
    address = put(tmp_path / "in" / "x.csv")
    root = SourceRoot.of("A", str(tmp_path / "in"))
    assert known_before(address, root, {"x.csv"})
    assert known_before(address, root, {address})
    assert not known_before(address, root, {str(tmp_path / "x.csv")})
    put(tmp_path / "in" / "y.csv", "3,4\n")
    assert keys(source(tmp_path / "in"), ["x.csv"]) == [3]


# Partition folders


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("STRING", "05", "05"),
        ("STRING", "a%2Fb%3Dc d=e 100%", "a/b=c d=e 100%"),
        ("STRING", "__HIVE_DEFAULT_PARTITION__", None),
        ("INT", "05", 5),
        ("INT", "__HIVE_DEFAULT_PARTITION__", None),
        ("DOUBLE", "1.5", 1.5),
        ("DECIMAL(10, 2)", "1.505", Decimal("1.51")),
        ("BOOLEAN", "TRUE", True),
        ("DATE", "2026-01-01", date(2026, 1, 1)),
        ("TIMESTAMP", "2026-01-01 10%3A00%3A00", datetime(2026, 1, 1, 10, tzinfo=UTC)),
        ("TIMESTAMP_NTZ", "2026-01-01 10%3A00%3A00.5", datetime(2026, 1, 1, 10, 0, 0, 500_000)),
        ("BINARY", "ab", b"ab"),
    ],
)
def test_a_partition_folder_says_the_value_of_a_column(kind: str, text: str, value: Any, tmp_path: Path) -> None:
    put(tmp_path / f"p={text}" / "x.csv", "1,2\n3,4\n")
    rows, files = pull(source(tmp_path, f"k BIGINT, p {kind}, ts BIGINT"))
    assert rows == [{"k": 1, "p": value, "ts": 2}, {"k": 3, "p": value, "ts": 4}]
    assert files == (str(tmp_path / f"p={text}" / "x.csv"),)


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_what_the_folder_says_goes_before_what_the_file_says(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "P=7" / "q%20r=x"
    put(folder / "a.json", '{"k": 1, "p": 2, "ts": 3}\n')
    if form == "parquet":
        (folder / "a.json").unlink()
        pq.write_table(pa.table({"k": [1], "p": [2], "ts": [3]}), folder / "a.parquet")
    schema = "k BIGINT, p INT, `q r` STRING, ts BIGINT"
    assert pull(source(tmp_path, schema, form))[0] == [{"k": 1, "p": 7, "q r": "x", "ts": 3}]
    probe_files("A", str(tmp_path), form, parse_schema(schema), {})


def test_a_folder_that_names_no_column_says_nothing(tmp_path: Path) -> None:
    put(tmp_path / "other=1" / "x.csv", "k,ts\n1,2\n")
    assert pull(source(tmp_path))[0] == [{"k": 1, "ts": 2}]


def test_a_value_that_does_not_fit(tmp_path: Path) -> None:
    put(tmp_path / "p=soon" / "x.csv")
    with pytest.raises(InputError, match=r'cannot read "x.csv" of stream "A"') as caught:
        pull(source(tmp_path, "k BIGINT, p DATE, ts BIGINT"))
    assert 'column "p": "soon" is not read as DATE' in str(caught.value.detail)


@pytest.mark.parametrize(
    "others", ["x.csv", "sub/x.csv", "q=1/x.csv", "p=2/q=1/x.csv"], ids=["beside", "plain", "another", "deeper"]
)
def test_mixed_folders_are_refused(others: str, tmp_path: Path) -> None:
    put(tmp_path / "p=1" / "x.csv")
    put(tmp_path / others)
    schema = "k BIGINT, p INT, q INT, ts BIGINT"
    for check in (
        lambda: source(tmp_path, schema).pull(()),
        lambda: probe_files("A", str(tmp_path), "csv", parse_schema(schema), {}),
    ):
        with pytest.raises(InputError, match="not all in the same kind of partition"):
            check()


def test_a_partition_folder_without_a_value(tmp_path: Path) -> None:
    put(tmp_path / "p=" / "x.csv")
    with pytest.raises(InputError, match='a partition folder of stream "A" lacks a name or a value'):
        source(tmp_path).pull(())


# Plain sub-folders


def test_files_in_sub_folders_alone_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "sub" / "x.csv")
    with pytest.raises(InputError, match="are in sub-folders, which are not read") as caught:
        source(tmp_path).pull(())
    assert "recursiveFileLookup = true" in str(caught.value.hint)
    with pytest.raises(InputError, match="are in sub-folders, which are not read"):
        probe_files("A", str(tmp_path), "csv", stream().schema, {})
    probe_files("A", str(tmp_path), "csv", stream().schema, {}, fresh=False)


def test_files_in_sub_folders_are_passed_over_beside_others(tmp_path: Path) -> None:
    put(tmp_path / "sub" / "x.csv", "9,9\n")
    put(tmp_path / "y.csv")
    assert keys(source(tmp_path)) == [1]


def test_files_that_were_moved_to_a_sub_folder_after_they_were_read(tmp_path: Path) -> None:
    running = source(tmp_path)
    address = put(tmp_path / "x.csv")
    assert keys(running) == [1]
    (tmp_path / "done").mkdir()
    (tmp_path / "x.csv").rename(tmp_path / "done" / "x.csv")
    assert running.pull([address]) is None
    assert source(tmp_path).pull([address]) is None


def test_all_folders_if_asked_for(tmp_path: Path) -> None:
    put(tmp_path / "sub" / "deep" / "x.csv", "1,2\n", 1)
    put(tmp_path / "k=7" / "y.csv", "3,4\n", 2)
    put(tmp_path / "z.csv", "5,6\n", 3)
    assert keys(source(tmp_path, recursiveFileLookup=True)) == [1, 3, 5]
    assert keys(source(tmp_path, recursiveFileLookup="true")) == [1, 3, 5]


# Many files, and old ones


def test_the_folder_is_listed_when_what_was_found_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = 0

    def counting(root: SourceRoot, recursive: bool = False) -> Any:
        nonlocal listed
        listed += 1
        return list_files(root, recursive)

    monkeypatch.setattr("watersmeet.runtime.local.sources.list_files", counting)
    for number in range(20):
        put(tmp_path / f"{number:02}.csv", f"{number},0\n", time=100 - number)
    running = source(tmp_path, maxFilesPerTrigger=3)
    done: set[str] = set()
    seen: list[int] = []
    while (batch := running.pull(done)) is not None:
        seen += [row["k"] for part in batch.rows for row in part.to_pylist()]
        done |= set(batch.files)
        if len(seen) == 3:
            put(tmp_path / "late.csv", "99,0\n", time=1)
    assert seen == [*reversed(range(20)), 99]
    assert listed == 3, "at first, for what had come in between, and in vain"


def test_a_batch_that_was_not_done_is_given_again(tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path / f"{number}.csv", f"{number},0\n", time=number)
    running = source(tmp_path, maxFilesPerTrigger=2)
    assert keys(running) == [0, 1]
    assert keys(running) == [0, 1]
    assert keys(running, [str(tmp_path / name) for name in ("0.csv", "1.csv")]) == [2, 3]


def test_files_that_come_too_old_are_passed_over(tmp_path: Path) -> None:
    now = 1_700_000_000
    first = [put(tmp_path / "a.csv", "1,0\n", now - 30 * DAY), put(tmp_path / "b.csv", "2,0\n", now)]
    running = source(tmp_path)
    batch = running.pull(())
    assert batch is not None
    assert batch.files == tuple(first), "what is there at first is read, however old"
    assert batch.modified_us == ((now - 30 * DAY) * 1_000_000, now * 1_000_000)
    assert batch.ignored_before_us == (now - 7 * DAY) * 1_000_000
    put(tmp_path / "c.csv", "3,0\n", now - 8 * DAY)
    put(tmp_path / "d.csv", "4,0\n", now - 6 * DAY)
    assert keys(running, first) == [4]
    # A later run that is told need not be told of files as old as that.
    later = source(tmp_path)
    later.ignored_before_us = batch.ignored_before_us
    assert keys(later, [first[1]]) == [4]


@pytest.mark.parametrize(
    ("age", "seconds"),
    [("1h", 3600), ("90s", 90), ("2min", 120), ("2m", 120), ("1500ms", 1.5), (500, 0.5), ("1d", DAY)],
)
def test_ages_are_written_as_on_spark(age: Any, seconds: float, tmp_path: Path) -> None:
    put(tmp_path / "a.csv", time=DAY)
    batch = source(tmp_path, maxFileAge=age).pull(())
    assert batch is not None
    assert batch.ignored_before_us == (DAY - seconds) * 1_000_000


@pytest.mark.parametrize("age", ["7 days", "soon", "-1d", True, 1.5, ""])
def test_an_age_that_is_none(age: Any, tmp_path: Path) -> None:
    with pytest.raises(JobError, match='maxFileAge of stream "A" is'):
        source(tmp_path, maxFileAge=age)


# Far away


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the query that leads an address in the bucket "far" to it."""
    (tmp_path / "s3" / "far").mkdir(parents=True)
    with small_s3(tmp_path / "s3") as query:
        yield tmp_path / "s3" / "far", query


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_files_far_away_have_addresses_without_secrets(scheme: str, bucket: tuple[Path, str]) -> None:
    folder, query = bucket
    put(folder / "in" / "p=1" / "x.csv", time=5)
    put(folder / "in" / "p=2" / "_x.csv")
    put(folder / "in" / "p=2" / "a.csv", "3,4\n", time=4)
    running = source(f"{scheme}://key:secret@far/in/?{query}", "k BIGINT, p INT, ts BIGINT")
    rows, files = pull(running)
    assert rows == [{"k": 3, "p": 2, "ts": 4}, {"k": 1, "p": 1, "ts": 2}]
    assert files == (f"{scheme}://far/in/p=2/a.csv", f"{scheme}://far/in/p=1/x.csv")
    assert running.pull(files) is None


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_every_format_is_read_from_far_away(form: str, bucket: tuple[Path, str]) -> None:
    folder, query = bucket
    put(folder / "x.csv", "k,ts\n1,2\n")
    put(folder / "x.json", '{"k": 1, "ts": 2}\n')
    pq.write_table(pa.table({"k": [1], "ts": [2]}), folder / "x.parquet")
    found = pull(source(f"s3://key:secret@far/x.{form}?{query}", form=form))
    assert found == ([{"k": 1, "ts": 2}], (f"s3://far/x.{form}",))


def test_a_missing_path_far_away(bucket: tuple[Path, str]) -> None:
    with pytest.raises(InputError, match='the path of stream "A" does not exist') as caught:
        source(f"s3://key:secret@far/none?{bucket[1]}")
    assert caught.value.detail == "s3://far/none is neither a folder nor a file."


def test_an_address_that_nobody_reaches_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match='cannot reach the path of stream "A"') as caught:
        source("nowhere://bucket/in")
    assert str(caught.value.detail).startswith("nowhere://bucket/in: ")
    checked_main(
        SmallJob(tmp_path).write(), capsys, 2, 'cannot reach the path of stream "A"', "streams.A.path=nowhere://bucket"
    )
