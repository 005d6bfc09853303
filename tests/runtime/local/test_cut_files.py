"""Files that are read in several batches: whatever the limits, and wherever another run goes on, the same rows."""

from __future__ import annotations

import gzip
import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import InputError
from watersmeet.model.intake import NO_LIMITS, BatchLimits, UnfinishedIntake
from watersmeet.model.plain_json import plain, read
from watersmeet.model.streams import Stream
from watersmeet.runtime import file_formats
from watersmeet.runtime.local.sources import FileSource, RowsSource

SCHEMA = pa.schema([("name", pa.string()), ("ts", pa.int64())])
STREAM = Stream("A", SCHEMA)
FORMATS = ("parquet", "csv", "json", "csv.gz", "json.gz")

Rows = list[dict[str, Any]]
names = st.one_of(st.none(), st.text('ab",\n\r \\é', min_size=1, max_size=6), st.just("x" * 40))
some_rows = st.lists(st.fixed_dictionaries({"name": names, "ts": st.integers(0, 9)}), max_size=12)


def write(path: Path, rows: Rows, line_end: str = "\n") -> None:
    kind = path.suffixes[0]
    if kind == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, row_group_size=5)
        return
    if kind == ".json":
        text = "".join(json.dumps(row) + line_end for row in rows)
    else:
        text = line_end.join(["name,ts", *(f"{csv_text(row['name'])},{row['ts']}" for row in rows), ""])
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def csv_text(value: str | None) -> str:
    """In quotes where it must be; a quote in the middle of a text needs none."""
    if value is None:
        return ""
    plain = not value.startswith('"') and not set(value) & set(",\n\r")
    return value if plain else '"' + value.replace('"', '""') + '"'


def source(folder: Path, form: str, limits: BatchLimits = NO_LIMITS, **options: Any) -> FileSource:
    return FileSource(STREAM, str(folder), form.split(".")[0], options, limits)


def read_whole(folder: Path, form: str) -> Rows:
    pulled = source(folder, form).pull(())
    return [] if pulled is None else [row for batch in pulled.rows for row in batch.to_pylist()]


@settings(max_examples=150, deadline=None)
@given(
    form=st.sampled_from(FORMATS),
    files=st.lists(some_rows, min_size=1, max_size=3),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    block=st.integers(1, 60),
    seed=st.integers(0, 1 << 30),
)
def test_cut_anywhere_and_gone_on_by_anyone(form: str, files: list[Rows], line_end: str, block: int, seed: int) -> None:
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        for number, rows in enumerate(files):
            write(folder / f"{number}.{form}", rows, line_end)
            os.utime(folder / f"{number}.{form}", (number, number))
        expected = read_whole(folder, form)
        assert [row["ts"] for row in expected] == [row["ts"] for rows in files for row in rows]
        patch.setattr(file_formats, "_TEXT_BYTES", block)
        patch.setattr(file_formats, "_PIECE_ROWS", 3)
        found: Rows = []
        done: list[str] = []
        intake: UnfinishedIntake | None = None
        reading: FileSource | None = None
        while True:
            if reading is None or draw.random() < 0.4:  # another run, which has only what was written down
                rows_limit = draw.choice([None, 1, 2, 3, 5])
                bytes_limit = draw.choice([None, 1, 30, 60, 200])
                reading = source(folder, form, BatchLimits(rows_limit, bytes_limit))
                intake = None if intake is None else read(UnfinishedIntake, json.loads(json.dumps(plain(intake))))
            pulled = reading.pull(done, intake)
            if pulled is None:
                break
            got = [row for batch in pulled.rows for row in batch.to_pylist()]
            assert rows_limit is None or len(got) <= rows_limit
            assert bytes_limit is None or len(got) < 2 or sum(batch.nbytes for batch in pulled.rows) <= bytes_limit
            if draw.random() < 0.7:  # unless the batch was never committed
                found += got
                done += pulled.files
                intake = pulled.intake
        assert found == expected
        assert sorted(done) == sorted(str(path) for path in folder.iterdir())


@pytest.mark.parametrize("form", FORMATS)
def test_an_intake_ends_with_its_last_file(form: str, tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.{form}", [{"name": "x", "ts": number * 10 + i} for i in range(4)])
        os.utime(tmp_path / f"{number}.{form}", (number, number))
    reading = source(tmp_path, form, BatchLimits(3, None), maxFilesPerTrigger=2)
    done: list[str] = []
    intake, seen = None, []
    while (pulled := reading.pull(done, intake)) is not None:
        done += pulled.files
        intake = pulled.intake
        seen.append(([row["ts"] for batch in pulled.rows for row in batch.to_pylist()], intake is None))
    assert seen == [([0, 1, 2], False), ([3, 10, 11], False), ([12, 13], True), ([20, 21, 22], False), ([23], True)]


@pytest.mark.parametrize("what", ["gone", "changed"])
def test_a_file_that_is_not_there_to_go_on_with(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, [{"name": "x", "ts": i} for i in range(10)])
    pulled = source(tmp_path, "parquet", BatchLimits(3, None)).pull(())
    assert pulled is not None
    assert pulled.intake is not None
    if what == "gone":
        path.unlink()
    else:
        os.utime(path, (5, 5))
    with pytest.raises(InputError, match=f'"a.parquet" of stream "A" was read in part, and has {what} since') as caught:
        source(tmp_path, "parquet").pull((), pulled.intake)
    assert "3 rows of it were read" in str(caught.value.detail)


def test_an_older_file_that_comes_in_between(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", [{"name": "b", "ts": i} for i in range(5)])
    pulled = source(tmp_path, "parquet", BatchLimits(3, None)).pull(())
    assert pulled is not None
    write(tmp_path / "a.parquet", [{"name": "a", "ts": 9}])
    os.utime(tmp_path / "a.parquet", (5, 5))
    again = source(tmp_path, "parquet").pull((), pulled.intake)
    assert again is not None
    assert [row["ts"] for batch in again.rows for row in batch.to_pylist()] == [3, 4, 9]
    assert again.intake is None


@pytest.mark.parametrize(
    ("form", "text", "detail"),
    [
        ("csv", "name,ts\n" + "a,1\n" * 9 + "b,x\n", 'row 10, column "ts": "x" is not read as BIGINT'),
        ("csv", "name,ts\n" + "a,1\n" * 9 + '"b"c,1\n', "line 11: a quote is not closed"),
        ("csv", "name,ts\n" + "a,1\n" * 9 + "b,1,2\n", "Expected 2 columns, got 3"),
        ("json", '{"ts": 1}\n' * 9 + '{"ts": "x"}\n', 'line 10, column "ts"'),
    ],
)
@pytest.mark.parametrize("resumed", [False, True])
def test_a_mistake_in_a_later_piece_is_named_by_its_place(
    form: str, text: str, detail: str, resumed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats, "_TEXT_BYTES", 12)
    (tmp_path / f"a.{form}").write_text(text)
    reading, intake = source(tmp_path, form, BatchLimits(4, None)), None
    with pytest.raises(InputError) as caught:
        for _ in range(10):
            pulled = reading.pull((), intake)
            assert pulled is not None
            intake = pulled.intake
            reading = source(tmp_path, form, BatchLimits(4, None)) if resumed else reading
    assert detail in str(caught.value.detail)


def test_rows_in_memory_are_cut_too() -> None:
    batch = pa.RecordBatch.from_pylist([{"name": "x", "ts": i} for i in range(7)], schema=SCHEMA)
    reading = RowsSource(STREAM, [batch, batch.slice(0, 2)], BatchLimits(3, None))
    seen = []
    while (pulled := reading.pull(())) is not None:
        seen.append((sum(part.num_rows for part in pulled.rows), pulled.intake is None))
    assert seen == [(3, False), (3, False), (1, True), (2, True)]
