"""Whether a memory budget fits is said by the ring that a run will have, which a checkpoint may know alone."""

from __future__ import annotations

from pathlib import Path

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

CASE = JoinCase({"A": ("k",), "B": ("k",), "C": ()}, "A.k = B.k AND abs(B.v - C.v) < 3", 4 * SECOND)
STREAMS = draw_streams(CASE, 6, 6, 2)
BUDGET = "run.memory=2000"
REFUSED = "a memory budget cannot be kept where no equality joins the inputs"


def test_a_restart_that_does_not_name_the_ring_keeps_its_budget(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 3)
    job = JudgedJob.write(tmp_path, CASE)
    job.finish(BUDGET, "adapt.ring=atr")
    code, _, err = job.call("explain", "job.toml", "--against", "ck", "--set", BUDGET)
    assert (code, err) == (0, "")
    write_streams(CASE, STREAMS, tmp_path / "in", 3)
    events = job.finish(BUDGET)
    assert any(event["cold_bytes"] for event in events if event["event"] == "batch"), "it spills"
    assert not difference(job.answer(), duckdb_answer(CASE, STREAMS))


def test_what_a_changed_query_is_refused_for_is_foreseen(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 3)
    job = JudgedJob.write(tmp_path, CASE)
    job.finish()
    chosen = ("--set", BUDGET, "--set", f"query={CASE.query.replace('4000000', '2000000')}")
    code, _, refused = job.call("run", "job.toml", "--json", *chosen)
    assert (code, refused.splitlines()[0]) == (2, f"error: {REFUSED}")
    assert job.call("explain", "job.toml", "--against", "ck", *chosen) == (2, "", refused)
