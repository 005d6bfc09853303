"""Rings on Spark: how many slots they lie over, forced and after `run.rescale`, over a restart; DuckDB is the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from function_sink import open_query
from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from watersmeet.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASE = JoinCase(
    {"A": ("k",), "B": ("k", "m"), "C": ("m",)},
    "A.k = B.k AND ABS(B.m - C.m) < 2",
    window_us=3 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 4
STREAMS = draw_streams(CASE, BATCHES, 8, 5, seed=6, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
FORCED = [{"at_batch": 1, "ring": 2, "move": ["time:0->1"]}]


def test_longer_and_shorter_while_it_runs_and_over_a_restart(tmp_path: Path, spark: Any) -> None:
    job = JudgedJob.write(tmp_path, CASE, "slots = 2\ngroups = 4", 'plan = "((A B) C)"\n', runtime="spark")
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 2)

    def start(**more: Any) -> Any:
        query, options = open_query(spark, tmp_path)
        writer = query.writeStream.options(**options).options(ringAdapt="smooth", balanceEvery=1, **more)
        writer = writer.trigger(processingTime="50 milliseconds").option("force", FORCED)
        return writer.format("parquet").option("path", str(tmp_path / "out")).start()

    def ring() -> tuple[int, set[int]]:
        placement = job.state()["placement"]
        return placement["slots"], set(placement["owners"]["time"])

    with pytest.raises(JobError, match='"ring_slots" is 3, and there are 2 slots'):
        start(ringSlots=3)
    run = start(ringSlots=1)
    run.processAllAvailable()
    run.rescale(slots=3)
    assert ring() == (3, {0, 1})
    write_streams(CASE, STREAMS, tmp_path / "in", 2, 3)
    run.processAllAvailable()
    assert [entry["slots"] for entry in run.decisions() if entry["decision"] == "ResizeRing"] == [2]
    run.stop()
    run = start(ringSlots="auto")
    write_streams(CASE, STREAMS, tmp_path / "in", 3)
    run.processAllAvailable()
    resized = [entry for entry in run.decisions() if entry["decision"] == "ResizeRing"]
    assert resized[-1]["reason"] == "the settings leave it to the cost model"
    assert ring() == (3, set(range(resized[-1]["slots"])))
    run.drain()
    run.stop()
    assert difference(job.answer(), EXPECTED) == ""
