"""A run whose rows were combined, started again with a plan that does not combine them: they go on with their weights.

What is said beforehand is what then happens, also where the query is another one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judged_groups import GroupedCase
from judged_jobs import SECOND, JudgedJob, decisions, difference, draw_streams, duckdb_answer, write_streams

CASE = GroupedCase(
    {"A": ("k",), "B": ("k", "m"), "C": ("m",)},
    "A.k = B.k AND B.m = C.m",
    3 * SECOND,
    by="B.k",
    slide_us=SECOND,
)
STREAMS = draw_streams(CASE, 6, 8, 4)


def job_that_died(home: Path) -> JudgedJob:
    """After a batch or two, with all of its input still there."""
    write_streams(CASE, STREAMS, home / "in")
    job = JudgedJob.write(home, CASE, adapt='plan = "((A{} B) C)"')
    assert job.start(fault="after-commit:4").code == -9
    return job


@pytest.mark.parametrize("plan, tree", [("mjoin", "(A{1} B C)"), ("(A (B C{}))", "(A{1} (B C{}))")])
def test_what_is_said_beforehand_is_what_happens(tmp_path: Path, plan: str, tree: str) -> None:
    job, chosen = job_that_died(tmp_path), f"adapt.plan={plan}"
    told = json.loads(job.call("explain", "job.toml", "--against", "ck", "--json", "--set", chosen)[1])
    explained = json.loads(job.call("explain", "job.toml", "--json", "--set", chosen)[1])
    assert told["plan"] == explained["plan"] == tree
    (change,) = decisions(job.finish(chosen), "ChangePlan")
    assert (change["plan"], change["states_kept"]) == (tree, sum(s["what"] == "kept" for s in told["states"]))
    assert not difference(job.answer(), duckdb_answer(CASE, STREAMS))


def test_the_plan_that_there_is_but_for_weights_is_no_change(tmp_path: Path) -> None:
    job = job_that_died(tmp_path)
    assert job.start("adapt.plan=mjoin", fault="after-commit:3").code == -9
    told = job.call("explain", "job.toml", "--against", "ck", "--set", "adapt.plan=(A B C)")[1]
    assert "the plan stays (A{1} B C), with all of its state\n" in told
    assert not decisions(job.finish("adapt.plan=(A B C)"), "ChangePlan")
    assert not difference(job.answer(), duckdb_answer(CASE, STREAMS))


def test_another_query_and_another_plan(tmp_path: Path) -> None:
    job = job_that_died(tmp_path)
    query = f"{CASE.query} HAVING COUNT(*) > 0"
    chosen = ("--set", f"query={query}", "--set", "adapt.plan=mjoin")
    code, out, err = job.call("explain", "job.toml", "--against", "ck", *chosen)
    assert (code, err) == (0, "")
    assert "to (A{1} B C)" in out
    job.finish(f"query={query}", "adapt.plan=mjoin")
    assert not difference(job.answer(), duckdb_answer(CASE, STREAMS))
