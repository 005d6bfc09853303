"""Filters above joins on Spark: they go up and down between batches, and are measured where they stand."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASE = JoinCase(
    {"A": ("x", "p"), "B": ("x", "y"), "C": ("y",)},
    "A.x = B.x AND B.y = C.y AND A.p < 3 AND B.y > 0",
    4 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 7
STREAMS = draw_streams(CASE, BATCHES, 10, 5, seed=4, late=1)
STEPS = [(2, "((A B)[A] C)[B]", "moving-state"), (4, "(A B C)[A]", "seeded"), (5, "((A B) C)", "moving-state")]


def test_filters_move_on_spark_too(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in")
    forced = "".join(f'[[adapt.force]]\nat_batch = {n}\nplan = "{plan}"\nby = "{by}"\n' for n, plan, by in STEPS)
    job = JudgedJob.write(tmp_path, CASE, "slots = 2\ngroups = 4", f'plan = "((A B) C)"\n{forced}', runtime="spark")
    ended = job.start(timeout=500)
    assert ended.code == 0, ended.stderr
    told = [entry for event in ended.events for entry in event.get("decisions", ())]
    assert [entry["plan"] for entry in told if entry["decision"] == "ChangePlan"] == [plan for _, plan, _ in STEPS]
    expected = duckdb_answer(CASE, STREAMS)
    assert expected.total() > 50
    assert not difference(job.answer(), expected)
    assert pq.read_schema(next((tmp_path / "out").glob("*.parquet"))).names == ["a", "b", "c"]
    seen = {(entry["alias"], entry["filter"]) for entry in job.state()["measured"]["filters"]}
    assert seen == {("A", "less(A.p, 3)"), ("B", "greater(B.y, 0)")}
