"""A backup of a query whose results go to a function of `foreachBatch`, and what the function gets after a restore.

As docs/operations.md has it: what was delivered before the backup does not come again. What came since does, under the
ids from the one that `restore` prints on: a function that takes back what it did for these first has each row once.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from function_sink import CALLS, FunctionSink, calls, open_query, taken
from judged_jobs import JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign, pytest.mark.timeout(600)]

CASE = JoinCase({"A": ("k",), "B": ("k",)}, "A.k = B.k")
STREAMS = draw_streams(CASE, 3, 20, 12, seed=12)


def run(spark: Any, job: JudgedJob) -> None:
    query, options = open_query(spark, job.home)
    sink = FunctionSink(job.home)
    query.writeStream.options(**options).foreachBatch(sink).trigger(availableNow=True).start().awaitTermination()


def call(job: JudgedJob, *words: str) -> str:
    code, out, err = job.call("state", *words)
    assert code == 0, err
    return " ".join(out.split())


def test_what_comes_again_and_what_does_not(spark: Any, tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, CASE, runtime="spark")
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 1)
    run(spark, job)
    before = calls(tmp_path)
    call(job, "backup", "ck", "backups")
    write_streams(CASE, STREAMS, tmp_path / "in", 1, 3)
    run(spark, job)
    since = calls(tmp_path)[len(before) :]
    assert since and all(made.took for made in since)
    shutil.rmtree(tmp_path / "ck")
    said = call(job, "restore", "backups", "ck")
    [first] = map(int, re.findall(r"foreachBatch gets ids from (\d+) on", said))
    assert [made.id for made in before] == list(range(first)), "what was delivered before the backup"
    assert min(made.id for made in since) == first
    (tmp_path / CALLS).unlink()  # it takes back what it did since
    run(spark, job)
    again = calls(tmp_path)
    assert [made.id for made in again] == list(range(first, first + len(again)))
    assert difference(taken([*before, *again]), duckdb_answer(CASE, STREAMS)) == ""
