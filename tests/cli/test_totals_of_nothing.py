"""An aggregate without GROUP BY and without windows has one row over no rows: at the end of the input, and once."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from forked_runs import run_apart
from small_jobs import FILES, SmallJob, rows_of, write_rows
from watersmeet.cli.main import main

QUERY = "SELECT COUNT(*) AS n, SUM(A.v) AS s FROM A, B WHERE A.k = B.k AND A.v < 0"
NOTHING = {(0, None): 1}
FAULTS = [
    *("in-task:1", "in-task:2", "in-result:1", "after-result:1", "before-commit:1", "after-commit:1"),
    *("before-delivery:1", "after-delivery:1"),
]


def job_over(home: Path, query: str = QUERY, files: int = FILES, runtime: str = "local") -> SmallJob:
    job = SmallJob(home, query=query, runtime=runtime).write()
    job.spoil("[run]", 'mode = "update"\n[run]\nslots = 3')
    for stream in "AB":
        for number in range(files, FILES):
            job.input(stream, number).unlink()
    return job


@pytest.mark.parametrize("files", [FILES, 0], ids=["filtered", "no files"])
def test_it_is_emitted_at_the_end_and_once(tmp_path: Path, files: int, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_over(tmp_path, files=files)
    job.finish()
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["rows_out"] for event in events if event["event"] in ("batch", "merge")] == [0] * files + [1]
    assert job.answer() == NOTHING
    job.finish()
    assert job.answer() == NOTHING
    for command in ("verify", "show", "ls"):
        assert main(["state", command, str(job.checkpoint)]) == 0


def test_rows_that_come_later_are_counted_as_ever(tmp_path: Path) -> None:
    job = job_over(tmp_path, files=0)
    job.finish()
    for stream in "AB":
        write_rows(job.input(stream, 1), [{**row, "v": -1} for row in rows_of(1, count=7)])
    job.finish()
    assert job.answer() == NOTHING | {(7, -7): 1}
    write_rows(job.input("A", 2), rows_of(2))
    job.finish()
    assert job.answer() == NOTHING | {(7, -7): 1}


def test_late_rows_are_no_rows(tmp_path: Path) -> None:
    job = job_over(tmp_path, "SELECT COUNT(*) AS n, MAX(v) AS s FROM A WHERE v < 0", files=1)
    assert main(job.arguments('run.at_end="wait"')) == 0
    write_rows(job.input("A", 1), [{"k": 1, "v": -1, "ts": -(10**9)}])
    job.finish()
    assert job.answer() == NOTHING


def test_an_end_that_waits_is_none(tmp_path: Path) -> None:
    job = job_over(tmp_path)
    assert main(job.arguments('run.at_end="wait"')) == 0
    assert not job.answer()
    job.finish()
    assert job.answer() == NOTHING


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("files", [1, 0])
def test_it_is_emitted_once_whatever_dies(tmp_path: Path, fault: str, files: int) -> None:
    job = job_over(tmp_path, files=files)
    assert run_apart(job.path, fault=fault) != 0
    job.finish()
    assert job.answer() == NOTHING


@pytest.mark.parametrize(
    ("select", "where", "expected"),
    [
        ("COUNT(*) AS n, COUNT(v) AS m, SUM(d) AS s, MIN(t) AS lo, MAX(f) AS hi", "v > 9", [(0, 0, None, None, None)]),
        ("AVG(d) AS a, AVG(v) AS b, AVG(f) AS c", "v > 9", [(None, None, None)]),
        ("COUNT(*) + 1 AS n, COALESCE(SUM(v), 0) AS s", "v > 9", [(1, 0)]),
        ("COUNT(*) AS n", "v > 9 HAVING COUNT(*) > 0", []),
        ("1 AS one", "v > 9 HAVING COUNT(*) = 0", [(1,)]),
        ("COUNT(*) AS n", "v > 9 GROUP BY v", []),
        ("COUNT(*) AS n", "v > 9 GROUP BY 1 + 1", []),
        ("DISTINCT v", "v > 9", []),
        ("COUNT(*) AS n, SUM(d) AS s", "v > 0", [(1, Decimal("1.50"))]),
    ],
)
def test_what_it_is(select: str, where: str, expected: list[tuple[Any, ...]]) -> None:
    rows = pa.table({"v": [1, 0], "d": pa.array([Decimal("1.5")] * 2, pa.decimal128(4, 2)), "t": ["a", "b"]})
    rows = rows.append_column("f", pa.array([0.5, 1.5])).append_column("ts", pa.array([0, 1]))
    for given in (rows, rows.slice(0, 0)) if "v > 9" in where else (rows,):
        found = wm.sql(f"SELECT {select} FROM S WHERE {where}", S=given).run(output_mode="update", batch_rows=1)
        assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected


def test_groups_at_boundaries_have_none() -> None:
    rows = pa.table({"v": [1], "ts": [0]})
    found = wm.sql("SELECT COUNT(*) AS n FROM S [RANGE 1 SECOND SLIDE 1 SECOND] WHERE v > 9", S=rows).run()
    assert found.num_rows == 0


@pytest.mark.spark
@pytest.mark.parametrize(("files", "then"), [(1, (27, -27)), (0, (7, -7))])
def test_on_spark(tmp_path: Path, files: int, then: tuple[int, int]) -> None:
    job = job_over(tmp_path, files=files, runtime="spark")
    for _ in range(2):
        done = job.start()
        assert done.returncode == 0, done.stderr
        assert job.answer() == NOTHING
    for stream in "AB":
        write_rows(job.input(stream, 1), [{**row, "v": -1} for row in rows_of(1, count=7)])
    assert job.start().returncode == 0
    assert job.answer() == NOTHING | {then: 1}
