"""Groups that run trees of their own, on Spark: by hand and by force, by both ways, and the answer is DuckDB's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from function_sink import open_query
from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from watersmeet.errors import JobError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASE = JoinCase({"A": ("k",), "B": ("k",), "C": ("k",)}, "A.k = B.k AND B.k = C.k", window_us=2 * SECOND)
STREAMS = draw_streams(CASE, 7, 8, 6, seed=3)
LEFT, RIGHT, OTHER = "((A B) C)", "(A (B C))", "((A C) B)"


def arrive(home: Path, batch: int) -> None:
    """With the time that it has: Spark passes over what is much older than what it has seen."""
    for name in CASE.streams:
        file = f"{batch:05d}.parquet"
        (home / "to come" / name / file).rename(home / "in" / name / file)


def test_some_groups_by_hand_and_some_by_force(spark: Any, tmp_path: Path) -> None:
    home = JudgedJob.write(tmp_path, CASE, "slots = 2\ngroups = 6", f'plan = "{LEFT}"', runtime="spark").home
    write_streams(CASE, STREAMS, home / "to come")
    for name in CASE.streams:
        (home / "in" / name).mkdir(parents=True)
    query, options = open_query(spark, home)
    step = {"at_batch": 1, "plan": RIGHT, "groups": "0-2", "by": "parallel-track", "spill_share": 0.5}
    writer = query.writeStream.format("parquet").options(plan=LEFT, force=[step])
    run = writer.option("path", str(home / "out")).options(**options).trigger(processingTime="100 milliseconds").start()
    for batch in range(6):
        arrive(home, batch)
        run.processAllAvailable()
    assert run.plan == f"{LEFT}, and {RIGHT} in groups 0-2"
    with pytest.raises(JobError) as caught:
        run.migrate(OTHER, by="moving-state", groups="5-6")
    assert caught.value.primary == "there are no groups 5-6"
    told = run.migrate(OTHER, by="moving-state", groups="2-3")
    assert (told["decision"], told["from"], told["within"]) == ("ChangePlan", f"{LEFT} and {RIGHT}", [[2, 4]])
    arrive(home, 6)
    run.processAllAvailable()
    assert run.plan == f"{LEFT}, and {RIGHT} in groups 0-1, and {OTHER} in groups 2-3"
    assert f"groups 2-3 run {OTHER}:" in run.explain()
    assert [entry["groups"] for entry in run.lastProgress["shapes"]] == ["4-5", "0-1", "2-3"]
    run.drain()
    run.stop()
    assert not difference(JudgedJob(home).answer(), duckdb_answer(CASE, STREAMS))
