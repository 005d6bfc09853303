"""Batches that take a part of a file: killed and started again with other limits, they give what whole files give.

Rows stand in any order in their files, and files are an intake each. So if the watermark moved inside a file, rows
would be late that are not.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from judged_jobs import (
    SECOND,
    JoinCase,
    JudgedJob,
    Rows,
    difference,
    draw_streams,
    duckdb_answer,
    late_rows,
    oracle_answer,
    set_time,
)
from watersmeet.kernel import pieces, step
from watersmeet.runtime import spool

CASE = JoinCase({"A": ("k",), "B": ("k", "j"), "C": ("j",)}, "A.k = B.k AND B.j = C.j", 3 * SECOND, SECOND // 2)
BATCHES, ROWS = 5, 40
FAULTS = ("before-prepare", "in-segment", "in-result", "before-commit", "in-commit", "after-commit", "in-delivery")


def shuffled(seed: int) -> dict[str, list[Rows]]:
    streams = draw_streams(CASE, BATCHES, ROWS, domain=8, seed=seed, late=4)
    draw = random.Random(seed)
    return {name: [draw.sample(rows, len(rows)) for rows in batches] for name, batches in streams.items()}


def write_files(streams: dict[str, list[Rows]], folder: Path, form: str) -> None:
    for name, batches in streams.items():
        (folder / name).mkdir(parents=True)
        for number, rows in enumerate(batches):
            path = folder / name / f"{number:05d}.{form}"
            table = pa.Table.from_pylist(rows, schema=CASE.schema(name))
            if form == "parquet":
                pq.write_table(table, path, row_group_size=7)
            elif form == "csv":
                pacsv.write_csv(table, path)
            else:
                path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            set_time(path)


def make_job(home: Path, streams: dict[str, list[Rows]], form: str, runtime: str = "local") -> JudgedJob:
    write_files(streams, home / "in", form)
    job = JudgedJob.write(home, CASE, runtime=runtime)
    text = (home / "job.toml").read_text().replace('format = "parquet"\npath = "in/', f'format = "{form}"\npath = "in/')
    (home / "job.toml").write_text(text)
    return job


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
def test_killed_and_gone_on_with_other_limits(form: str, seed: int, tmp_path: Path) -> None:
    streams = shuffled(seed)
    job = make_job(tmp_path, streams, form)
    draw = random.Random(f"{seed}{form}")
    expected = duckdb_answer(CASE, streams)
    fired = 0
    for fault in draw.sample(FAULTS, 5):
        limit = draw.choice(
            [f"run.max_batch_rows={draw.randint(3, 30)}", f"run.max_batch_bytes={draw.randint(90, 900)}"]
        )
        done = job.start(limit, fault=f"{fault}:{draw.randint(1, 4)}")
        assert done.code in (0, -9), done.stderr
        fired += done.code == -9
        assert job.answer() <= expected
    assert fired, "no fault was reached"
    events = job.finish("run.max_batch_rows=9")
    assert difference(job.answer(), expected) == ""
    assert job.late() == late_rows(CASE, streams)
    assert all(sum(s["rows"] for s in e["streams"].values()) for e in events if e["event"] == "batch")
    assert all(progress["intake"] is None for progress in job.state()["streams"].values())


def progress(event: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Of the streams, without what goes by the clock, and what is yet to be read, which only batches with rows say."""
    return {
        name: {key: value for key, value in stream.items() if key != "backlog" and not key.endswith("_seconds")}
        for name, stream in event["streams"].items()
    }


def test_limits_change_batches_and_nothing_else(tmp_path: Path) -> None:
    streams = shuffled(3)
    whole = make_job(tmp_path / "whole", streams, "parquet")
    cut = make_job(tmp_path / "cut", streams, "parquet")
    few = [event for event in whole.finish() if event["event"] == "batch"]
    many = [e for e in cut.finish("run.max_batch_rows=7", "streams.C.max_batch_rows=off") if e["event"] == "batch"]
    assert len(few) == BATCHES
    assert len(many) == BATCHES * -(-ROWS // 7), "the longest stream decides"
    assert max(event["rows_in"] for event in many) == 7 + 7 + ROWS
    assert cut.answer() == whole.answer() == oracle_answer(CASE, streams)
    assert cut.late() == whole.late() == late_rows(CASE, streams) > 0
    assert progress(many[-1]) == progress(few[-1])


def test_the_watermark_waits_for_the_end_of_an_intake(tmp_path: Path) -> None:
    job = make_job(tmp_path, shuffled(4), "parquet")
    events = [event for event in job.finish("run.max_batch_rows=10") if event["event"] == "batch"]
    marks = [event["streams"]["A"]["watermark"] for event in events]
    assert marks[:3] == [None] * 3
    assert [mark for place, mark in enumerate(marks) if place == 0 or mark != marks[place - 1]] == [
        None,
        *marks[3::4],
    ], "it moves with every fourth batch"


@pytest.mark.parametrize("limits", [{"max_batch_rows": 6}, {"max_batch_bytes": 200}, {"max_batch_bytes": "1 KB"}])
@pytest.mark.parametrize("memory", [None, "4 KB"])
def test_tables_of_the_api_are_cut_and_answer_the_same(limits: dict[str, int], memory: str | None) -> None:
    streams = shuffled(5)
    tables = {
        name: [pa.RecordBatch.from_pylist(rows, schema=CASE.schema(name)) for rows in batches]
        for name, batches in streams.items()
    }
    query = wm.sql(CASE.query, streams=tables, lateness=f"{CASE.lateness_us} microseconds")
    assert isinstance(query, wm.LocalQuery)
    events: list[dict[str, object]] = []
    found = query.run(report=events.append, memory=memory, **limits)
    rows = sorted(tuple(row.values()) for row in found.to_pylist())
    assert rows == sorted(duckdb_answer(CASE, streams).elements())
    assert sum(event["event"] == "batch" for event in events) > BATCHES


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("run.max_batch_rows=0", "max_batch_rows in [run] is 0"),
        ("streams.A.max_batch_rows=many", "max_batch_rows in [streams.A] is 'many'"),
        ("run.max_batch_bytes=lots", 'max_batch_bytes in [run] "lots" is not a size'),
    ],
)
def test_limits_that_are_none(setting: str, message: str, tmp_path: Path) -> None:
    done = make_job(tmp_path, shuffled(6), "parquet").run_here(setting)
    assert done.code == 2
    assert message in done.stderr


@pytest.mark.parametrize("memory", ["1GB", "3KB"])
@pytest.mark.parametrize("plan", ["mjoin", "((A B) C)"])
def test_a_state_that_was_written_in_pieces_is_as_good_as_one_that_was_not(
    plan: str, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of small pieces, one of large ones, verified and compacted in between, and small ones again."""
    streams = shuffled(8)
    job = make_job(tmp_path, streams, "parquet")
    settings = ("run.max_batch_rows=off", f'adapt.plan="{plan}"', f"run.memory={memory}")

    def run_on(batches: int, piece_bytes: int) -> None:
        for name in CASE.streams:
            for path in (tmp_path / "later" / name).glob(f"0000[0-{batches - 1}].parquet"):
                path.rename(tmp_path / "in" / name / path.name)
        monkeypatch.setattr(pieces, "PIECE_BYTES", piece_bytes)
        monkeypatch.setattr(pieces, "JOINED_BYTES", piece_bytes)
        monkeypatch.setattr(step, "BENCH_BYTES", piece_bytes)
        monkeypatch.setattr(spool, "KEPT_BYTES", piece_bytes)
        job.finish(*settings)
        code, _, err = job.call("state", "verify", "ck")
        assert code == 0, err

    (tmp_path / "in").rename(tmp_path / "later")
    for name in CASE.streams:
        (tmp_path / "in" / name).mkdir(parents=True)
    run_on(2, 300)
    assert "2" in formats(tmp_path), "there are segments of several pieces"
    run_on(3, 32 << 20)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 300)
    code, _, err = job.call("state", "compact", "ck")
    assert code == 0, err
    run_on(BATCHES, 200)
    assert difference(job.answer(), duckdb_answer(CASE, streams)) == ""
    assert job.late() == late_rows(CASE, streams)


def formats(home: Path) -> set[str]:
    """Of the segments that there are."""
    headers = [pa.ipc.open_file(path).schema.metadata[b"watersmeet"] for path in (home / "ck").rglob("*.arrow")]
    return {str(json.loads(header)["format"]) for header in headers}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.campaign
def test_on_spark_the_source_cuts_and_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    """There a batch takes whole files, and one at least: a limit of a byte is a file of each stream."""
    streams = shuffled(6)
    job = make_job(tmp_path, streams, "parquet", runtime="spark")
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(text.replace("options = { maxFilesPerTrigger = 1 }\n", ""))
    expected = duckdb_answer(CASE, streams)
    done = job.start("run.max_batch_bytes=1", fault="before-commit:3")
    assert done.code != 0
    assert job.marker("before-commit:3").exists(), "it died there"
    assert job.answer() <= expected
    events = done.events + job.finish("run.max_batch_bytes=1")
    batches = [event for event in events if event["event"] == "batch"]
    assert [event["rows_in"] for event in batches if event["rows_in"]] == [3 * ROWS] * BATCHES
    assert difference(job.answer(), expected) == ""
    assert job.late() == late_rows(CASE, streams) > 0
