"""A run on Spark whose checkpoint another one takes over: it stops, says so, and has destroyed nothing."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from object_server import S3Server
from small_jobs import QUERY, SmallJob, rows_of, write_rows
from watersmeet.state.epochs import Holder, TakenOverError
from watersmeet.state.files import Folder
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.table import FileTable

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return SmallJob(tmp_path, runtime="spark").write()


def start(spark: Any, job: SmallJob, out: str | None = None, **trigger: Any) -> Any:
    reader = spark.readStream.schema("k BIGINT, v BIGINT, ts BIGINT").option("maxFilesPerTrigger", 1)
    frames = {name: reader.parquet(str(job.home / "in" / name)) for name in "AB"}
    query = wm.sql(QUERY, **frames, time={"A": "ts", "B": "ts"})
    writer = query.writeStream.format("parquet").option("path", out or str(job.out))
    writer = writer.option("checkpointLocation", str(job.checkpoint))
    return writer.trigger(**trigger or {"availableNow": True}).start()


def take_over(job: SmallJob) -> None:
    """As a run on another host does it that sees nothing of our lock."""
    table = FileTable.open(Folder(str(job.checkpoint)).sub("state"))
    assert table is not None
    table.claim(Holder(1, "rival", "elsewhere", 7, "2026-11-17 05:00:00 UTC"))


@pytest.mark.parametrize("idle", [True, False])
def test_it_stops_and_says_who_came(idle: bool, spark: Any, job: SmallJob) -> None:
    """While it waits for rows, and when it has some."""
    run = start(spark, job, processingTime="100 milliseconds")
    run.processAllAvailable()
    take_over(job)
    if not idle:
        for stream in "AB":
            write_rows(job.input(stream, 4), rows_of(4))
    with pytest.raises(TakenOverError, match="another run has taken over the checkpoint") as caught:
        run.awaitTermination(60)
    assert 'held by process 7 on host "elsewhere" since 2026-11-17 05:00:00 UTC' in str(caught.value)
    assert not run.isActive
    assert job.answer() == job.expected()


def test_two_runs_without_a_lock(spark: Any, job: SmallJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckpointLock, "acquire", lambda self: None)
    first = start(spark, job, processingTime="100 milliseconds")
    until = time.monotonic() + 60
    while not first.recentProgress and time.monotonic() < until:
        time.sleep(0.05)
    second = start(spark, job)
    with pytest.raises(TakenOverError):
        first.awaitTermination(60)
    second.awaitTermination(60)
    start(spark, job).awaitTermination()
    assert job.answer() == job.expected()


def test_results_on_a_store(spark: Any, job: SmallJob, s3: S3Server) -> None:
    """Tasks write them there by themselves, and delivery is a copy."""
    bucket = s3.bucket()
    start(spark, job, s3.address(f"{bucket}/out", scheme="s3a")).awaitTermination()
    found = s3.objects(f"{bucket}/out")
    assert not [name for name in found if "/" in name], "nothing waits any more"
    tables = [pq.read_table(pa.BufferReader(content)) for content in found.values()]
    rows = Counter(tuple(row.values()) for table in tables for row in table.to_pylist())
    assert rows == job.expected()
