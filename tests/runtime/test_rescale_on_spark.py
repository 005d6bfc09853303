"""`run.rescale` and forced moves on Spark, on a running query and over restarts; DuckDB is the judge."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from function_sink import open_query
from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from watersmeet.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASE = JoinCase(
    {"A": ("k",), "B": ("k",), "C": ("k", "m"), "D": ("m",)},
    "A.k = B.k AND B.k = C.k AND C.m = D.m",
    window_us=3 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 5
STREAMS = draw_streams(CASE, BATCHES, 8, 5, seed=6, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
# A whole key to one slot, and later a routed join, which has two.
FORCED = [
    {"at_batch": 1, "move": ["k0:*->0"]},
    {"at_batch": BATCHES - 1, "plan": "mjoin", "by": "moving-state", "move": ["J1:*->1"]},
]


def test_on_a_running_query_and_over_restarts(tmp_path: Path, spark: Any) -> None:
    plan = 'plan = "((A B C) D)"\n'
    job = JudgedJob.write(tmp_path, CASE, "slots = 2\ngroups = 4", plan, runtime="spark")
    for name in CASE.streams:
        (tmp_path / "in" / name).mkdir(parents=True)

    def start() -> Any:
        query, options = open_query(spark, tmp_path)
        writer = query.writeStream.options(**options).option("memory", "4000").trigger(processingTime="50 milliseconds")
        return writer.option("force", FORCED).format("parquet").option("path", str(tmp_path / "out")).start()

    run = start()
    assert run.rescale(slots=2) == {
        "decision": "Rescale",
        "from_slots": 2,
        "slots": 2,
        "before_batch": 0,
        "reason": "asked for by hand",
        "figures": {},
        "origin": {"by": "hand"},
    }
    for batch, slots in enumerate((4, 1)):
        threads = [threading.Thread(target=run.rescale, args=(slots,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        write_streams(CASE, STREAMS, tmp_path / "in", batch, batch + 1)
        for thread in threads:
            thread.join()
        run.processAllAvailable()
    rescaled = [entry for entry in run.decisions() if entry["decision"] == "Rescale"]
    assert [(entry["from_slots"], entry["slots"]) for entry in rescaled] == [(2, 4), (4, 1)], "none where there is none"
    for slots, message in ((0, "0 slots cannot share 4 groups"), (5, "5 slots cannot share 4 groups")):
        with pytest.raises(JobError) as caught:
            run.rescale(slots=slots)
        assert caught.value.primary == message
    with pytest.raises(JobError, match="rescale\\(\\) was given slots = '3'"):
        run.rescale(slots="3")
    run.rescale(3)
    write_streams(CASE, STREAMS, tmp_path / "in", 2, 3)
    run.processAllAvailable()
    run.stop()
    with pytest.raises(JobError, match="the run has ended"):
        run.rescale(slots=2)
    assert job.state()["placement"]["slots"] == 3
    run = start()  # with the settings of before
    write_streams(CASE, STREAMS, tmp_path / "in", 3)
    run.processAllAvailable()
    assert job.state()["placement"]["slots"] == 3
    run.drain()
    moved = [entry["moves"] for entry in run.decisions() if entry["decision"] == "MoveGroups"]
    assert moved[-1] == [[key, group, 1] for key in ("k0", "k1") for group in range(4)]
    run.stop()
    assert difference(job.answer(), EXPECTED) == ""
