"""Lists and binary columns in a job: read, kept, spilled, gone on with and written as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.cli.main import main
from watersmeet.config import parse_job
from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.start.former_query import query_of
from watersmeet.state.identity import identify

JOB = """
query = "SELECT A.v, A.w, A.b, B.v AS u, B.k FROM A, B WHERE A.k = B.k"
[streams.A]
format = "parquet"
path = "A"
schema = "k BIGINT, v FLOAT[2], w ARRAY<STRING>, b BINARY, ts BIGINT"
[streams.B]
format = "parquet"
path = "B"
schema = "k BIGINT, v ARRAY<FLOAT>, ts BIGINT"
[sink]
format = "parquet"
path = "out"
[run]
runtime = "local"
checkpoint = "ck"
memory = "2KB"
groups = 8
"""


def a_row(i: int) -> dict[str, Any]:
    v, w = (None, None) if i % 5 == 0 else ([float(i), -1.5], [str(i)] * (i % 3))
    return {"k": i % 4, "v": v, "w": w, "b": bytes([i, 0, 255]), "ts": i * 1_000_000}


def b_row(i: int) -> dict[str, Any]:
    return {"k": i % 4, "v": [0.5] * (i % 3), "ts": i * 1_000_000}


def write(folder: Path, number: int, fixed: bool) -> None:
    """Files have the lists of one size as lists of any, or as what they are."""
    kind = pa.list_(pa.float32(), 2) if fixed else pa.list_(pa.field("element", pa.float32()))
    a = pa.schema(
        [("k", pa.int64()), ("v", kind), ("w", pa.list_(pa.string())), ("b", pa.binary()), ("ts", pa.int64())]
    )
    b = pa.schema([("k", pa.int64()), ("v", pa.list_(pa.float32())), ("ts", pa.int64())])
    for name, schema, make in (("A", a, a_row), ("B", b, b_row)):
        (folder / name).mkdir(exist_ok=True)
        rows = [make(i) for i in range(number * 10, number * 10 + 10)]
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / name / f"{number}.parquet")


def test_lists_and_bytes_go_through_a_job_and_its_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(JOB)
    for number, fixed in enumerate((True, False)):
        write(tmp_path, number, fixed)
        assert main(["run", "job.toml", "--json"]) == 0
    found = pq.read_table("out")
    assert found.schema.field("v").type == pa.list_(pa.float32(), 2)
    expected = [
        {"v": a["v"], "w": a["w"], "b": a["b"], "u": b["v"], "k": b["k"]}
        for a in map(a_row, range(20))
        for b in map(b_row, range(20))
        if a["k"] == b["k"]
    ]
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected))
    assert main(["state", "show", "ck"]) == 0


def test_a_list_of_another_size_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(JOB.replace("FLOAT[2]", "FLOAT[3]"))
    write(tmp_path, 0, fixed=False)
    assert main(["run", "job.toml"]) == 2
    said = capsys.readouterr().err
    assert 'column "v" of stream "A" does not fit its schema' in said
    assert "The schema says FLOAT[3]" in said


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_text_files_have_no_lists(format_: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_job(JOB.replace('format = "parquet"\npath = "A"', f'format = "{format_}"\npath = "A"'), "job.toml")
    assert caught.value.primary == f'column "v" of stream "A" is of type FLOAT[2], which {format_} lacks'


def test_the_query_of_a_checkpoint_is_bound_anew_with_its_lists() -> None:
    kinds = [
        pa.list_(pa.float32(), 64),
        pa.list_(pa.decimal128(10, 2)),
        pa.list_(pa.timestamp("us", tz="UTC"), 3),
        pa.timestamp("us", tz="UTC"),
    ]
    schema = pa.schema(
        [("k", pa.int64()), *((f"odd, name {i}", kind) for i, kind in enumerate(kinds)), ("ts", pa.int64())]
    )
    schema = pa.schema([field.with_name(field.name.replace(", ", " ")) for field in schema])
    query = bind("SELECT * FROM A, B WHERE A.k = B.k", {name: Stream(name, schema) for name in "AB"})
    again = query_of(identify(query))
    assert again.inputs[0].stream.schema == schema
