"""Streaming DataFrames that come with a watermark of their own: it says what event time and lateness are."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.errors import JobError

pytestmark = pytest.mark.spark

SCHEMA = "k BIGINT, at TIMESTAMP, seen TIMESTAMP"
TEXT = "SELECT A.k, B.k AS other FROM A [RANGE 1 MINUTE], B [RANGE 1 MINUTE] WHERE A.k = B.k"
# Keys and seconds, a file for each batch; the second file of each stream is 8 seconds behind the first.
FILES = [[(1, 20), (2, 20)], [(1, 12), (2, 12)], [(1, 40)]]


def write(folder: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for name in "AB":
        (folder / name).mkdir()
        for number, rows in enumerate(FILES):
            times = pa.array([start + timedelta(seconds=at) for _, at in rows], pa.timestamp("us", "UTC"))
            table = pa.table({"k": [key for key, _ in rows], "at": times, "seen": times})
            path = folder / name / f"{number}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_700_000_000 + number,) * 2)  # Spark reads files in the order of their times


def frames(spark: Any, folder: Path) -> dict[str, Any]:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return {name: reader.parquet(str(folder / name)) for name in "AB"}


def empty(spark: Any, tmp_path: Path) -> dict[str, Any]:
    for name in "AB":
        (tmp_path / name).mkdir()
    return frames(spark, tmp_path)


def settings(query: Any) -> dict[str, tuple[str, timedelta]]:
    return {entry.stream.name: (entry.stream.time, entry.stream.lateness) for entry in query.query.inputs}


def finish(query: Any, folder: Path) -> tuple[Counter[tuple[Any, ...]], list[int], Mapping[str, Any]]:
    """Rows and batch ids that a function was given, and the last event."""
    seen: Counter[tuple[Any, ...]] = Counter()
    ids: list[int] = []
    events: list[Mapping[str, Any]] = []

    def take(frame: Any, batch_id: int) -> None:
        ids.append(batch_id)
        seen.update(tuple(row) for row in frame.collect())

    writer = query.writeStream.foreachBatch(take).report(events.append).option("checkpointLocation", str(folder / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return seen, ids, events[-1]


def test_rows_within_the_delay_are_not_late(spark: Any, tmp_path: Path) -> None:
    """Spark's own operator stays in the plan below the union; it drops nothing and adds no batch."""
    write(tmp_path)
    marked = {name: frame.withWatermark("at", "10 seconds") for name, frame in frames(spark, tmp_path).items()}
    query = wm.sql(TEXT, **marked)
    assert settings(query) == dict.fromkeys("AB", ("at", timedelta(seconds=10)))
    seen, ids, end = finish(query, tmp_path)
    # Of key 1 all three rows of A meet all three of B, of key 2 two meet two.
    assert seen == Counter({(1, 1): 9, (2, 2): 4})
    assert ids == [0, 1, 2]
    assert end["rows_late"] == 0


def test_rows_beyond_the_delay_are_late(spark: Any, tmp_path: Path) -> None:
    write(tmp_path)
    given = frames(spark, tmp_path)
    # Another delay and another column for each stream, which share a column of the union.
    query = wm.sql(TEXT, A=given["A"].withWatermark("at", "1 second"), B=given["B"].withWatermark("seen", "1 hour"))
    assert settings(query) == {"A": ("at", timedelta(seconds=1)), "B": ("seen", timedelta(hours=1))}
    seen, ids, end = finish(query, tmp_path)
    assert seen == Counter({(1, 1): 6, (2, 2): 2})
    assert ids == [0, 1, 2]
    assert end["rows_late"] == 2


def test_arguments_go_before_the_watermark(spark: Any, tmp_path: Path) -> None:
    given = empty(spark, tmp_path)
    marked = {name: frame.withWatermark("at", "10 seconds") for name, frame in given.items()}
    five, ten = timedelta(seconds=5), timedelta(seconds=10)
    assert settings(wm.sql(TEXT, **marked, lateness={"A": five})) == {"A": ("at", five), "B": ("at", ten)}
    assert settings(wm.sql(TEXT, **marked, time="at")) == {"A": ("at", ten), "B": ("at", ten)}
    query = wm.sql(TEXT, **marked, time={"B": "seen"}, lateness={"B": five})
    assert settings(query) == {"A": ("at", ten), "B": ("seen", five)}
    renamed = {name: frame.withColumnRenamed("at", "ts") for name, frame in marked.items()}
    assert settings(wm.sql(TEXT, **renamed)) == dict.fromkeys("AB", ("ts", ten))


def test_conflicts_are_refused(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    given = empty(spark, tmp_path)
    marked = given["A"].withWatermark("at", "10 seconds")
    plain = given["B"].withColumnRenamed("at", "ts")

    with pytest.raises(JobError) as caught:
        wm.sql(TEXT, A=marked, B=plain, time={"A": "seen"})
    assert caught.value.primary == 'stream "A" has its watermark on another column than its event time'
    assert caught.value.detail == 'withWatermark names "at", and time names "seen".'

    twice = marked.withColumn("copy", F.col("at"))
    with pytest.raises(JobError) as caught:
        wm.sql(TEXT, A=twice, B=plain)
    assert caught.value.primary == 'stream "A" has 2 columns with a watermark'
    assert caught.value.hint == 'Name the one to go by: time={"A": "at"}.'
    assert settings(wm.sql(TEXT, A=twice, B=plain, time={"A": "copy"}))["A"] == ("copy", timedelta(seconds=10))

    windows = marked.select("k", F.window("at", "1 minute").alias("w"))
    with pytest.raises(JobError) as caught:
        wm.sql(TEXT, A=windows, B=plain)
    assert caught.value.primary.startswith('the watermark of stream "A" is on column "w" of type struct<')
