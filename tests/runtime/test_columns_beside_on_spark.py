"""Restarts on Spark whose streams have other columns beside those that the query reads: as on the local runtime."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from changed_columns import BESIDE, QUERIES, READ, ChangedJob, Columns, draw_columns, late_values, run
from small_jobs import FILES
from watersmeet.errors import CheckpointError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SAME: Columns = {"A": READ, "B": READ}


def start(spark: Any, job: ChangedJob, columns: Columns) -> None:
    """Run the query over DataFrames with these columns, to the end of what there is."""
    frames = {
        name: spark.readStream.schema(", ".join(f"`{column}` {kind}" for column, kind in each.items()))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(job.home / "in" / name))
        for name, each in columns.items()
    }
    writer = wm.sql(job.query, streams=frames, time="ts").writeStream.format("parquet")
    writer = writer.option("path", str(job.out)).option("checkpointLocation", str(job.checkpoint)).option("slots", 2)
    if (job.home / "keeps-late").exists():
        writer = writer.option("latePath", str(job.home / "late"))
    writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.parametrize(
    ("query", "late"),
    [
        ("a computed key", True),
        *(pytest.param(query, late, marks=pytest.mark.campaign) for query in QUERIES for late in (False, True)),
    ],
)
def test_data_frames(spark: Any, tmp_path: Path, query: str, late: bool) -> None:
    draw = random.Random(query)
    changed, same = (ChangedJob(tmp_path / name, query=QUERIES[query]) for name in ("changed", "same"))
    for job, stages in ((changed, [{name: draw_columns(draw) for name in "AB"} for _ in range(2)]), (same, [SAME] * 2)):
        job.home.mkdir()
        if late:
            (job.home / "keeps-late").touch()
        for number, columns in enumerate(stages):
            job.add(range(number * FILES // 2, (number + 1) * FILES // 2), columns)
            start(spark, job, columns)
    assert changed.answer() == same.answer()
    assert changed.answer()
    assert late_values(changed) == late_values(same)
    if late:
        kept = {name for path in (changed.home / "late").glob("*.parquet") for name in pq.read_schema(path).names}
        assert kept & BESIDE.keys(), "late rows are kept whole"


def test_a_column_that_is_read_gets_another_type(spark: Any, tmp_path: Path) -> None:
    job = ChangedJob(tmp_path, query=QUERIES["a join"])
    job.add(range(FILES), SAME)
    start(spark, job, SAME)
    with pytest.raises(CheckpointError) as caught:
        start(spark, job, {"A": {**READ, "v": "STRING"}, "B": READ})
    assert caught.value.detail == 'Column "v" of stream "A" was BIGINT, and this run has STRING.'


@pytest.mark.campaign
def test_a_job_file(tmp_path: Path) -> None:
    moved: Columns = {"A": {"x": "STRING", **dict(reversed(READ.items()))}, "B": {**READ, "a b": "ARRAY<INT>"}}
    stages = [SAME, moved, SAME]
    job = ChangedJob(tmp_path / "changed", runtime="spark", query=QUERIES["a join"])
    job.home.mkdir()
    for number, columns in enumerate(stages):
        job.declare(columns)
        job.add(range(number * FILES // 3, (number + 1) * FILES // 3), columns)
        done = job.start()
        assert done.returncode == 0, done.stderr
    same = run(tmp_path / "same", QUERIES["a join"], (), [SAME] * 3)
    assert job.answer() == same.answer()
