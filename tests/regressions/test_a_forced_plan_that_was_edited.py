"""A run that died between a forced change of the plan and its batch, started again with another plan for that batch."""

from __future__ import annotations

from pathlib import Path

from judged_jobs import SECOND, JoinCase, JudgedJob, decisions, difference, draw_streams, duckdb_answer, write_streams

CASE = JoinCase(dict.fromkeys("ABC", ("k",)), "A.k = B.k AND B.k = C.k", 3 * SECOND)
STREAMS = draw_streams(CASE, 5, 6, 4)


def forced(plan: str) -> str:
    return f'adapt.force=[{{at_batch = 2, plan = "{plan}", by = "moving-state"}}]'


def test_the_plan_that_is_asked_for_now_is_come_to(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in")
    job = JudgedJob.write(tmp_path, CASE, adapt='plan = "(A B C)"')
    for plan in ("((A B) C)", "(A (B C))"):
        assert job.start(forced(plan), fault="after-switch").code == -9
        assert job.state()["plan"] == plan
        job.marker("after-switch").unlink()
    assert not decisions(job.finish(forced("(A (B C))")), "ChangePlan"), "it is there"
    assert job.state()["plan"] == "(A (B C))"
    assert not difference(job.answer(), duckdb_answer(CASE, STREAMS))
