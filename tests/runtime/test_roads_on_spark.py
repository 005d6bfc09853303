"""Roads that take steps, on Spark: each step is a job over the slots, and the answer is DuckDB's."""

from __future__ import annotations

from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

pytestmark = pytest.mark.spark

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y",)},
    "A.x = B.x AND B.y = C.y",
    2 * SECOND,
)
STREAMS = draw_streams(CASE, 9, 8, 5, seed=4)


@pytest.mark.campaign
def test_a_parallel_track_with_an_exchange(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in")
    force = '[[adapt.force]]\nat_batch = 2\nplan = "(A (B C))"\nby = "parallel-track"\n'
    job = JudgedJob.write(tmp_path, CASE, "slots = 2", 'plan = "((A B) C)"\n' + force, runtime="spark")
    events = job.finish()
    kinds = [entry["decision"] for event in events for entry in event.get("decisions", ())]
    assert kinds == ["BeginMigration", "ChangePlan"]
    assert any(event["migration"]["rows"] for event in events if event.get("migration"))
    assert job.state()["plan"] == "(A (B C))"
    assert not difference(job.answer(), duckdb_answer(CASE, STREAMS))
