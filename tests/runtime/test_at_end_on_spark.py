"""`atEnd` on Spark: boundaries of groups wait from one `availableNow` to the next, unless the end closes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from function_sink import open_query
from judged_groups import GroupedCase
from judged_jobs import SECOND, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASE = GroupedCase(
    {"A": ("k",), "B": ("k",)}, "A.k = B.k", window_us=2 * SECOND, lateness_us=2 * SECOND, by="A.v % 5", slide_us=SECOND
)
STREAMS = draw_streams(CASE, 5, 8, 4, seed=3, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)


def test_boundaries_wait_for_the_next_run(tmp_path: Path, spark: Any) -> None:
    job = JudgedJob.write(tmp_path, CASE, "slots = 2", runtime="spark")

    def run(**more: Any) -> None:
        query, options = open_query(spark, tmp_path)
        writer = query.writeStream.options(**options, **more).format("parquet").option("path", str(tmp_path / "out"))
        writer.trigger(availableNow=True).start().awaitTermination()

    write_streams(CASE, STREAMS, tmp_path / "in", 0, 3)
    run(atEnd="wait")
    first = job.answer()
    write_streams(CASE, STREAMS, tmp_path / "in", 3)
    run(atEnd="wait")
    assert first < job.answer() < EXPECTED
    run()
    assert EXPECTED.total() > 10
    assert difference(job.answer(), EXPECTED) == ""
