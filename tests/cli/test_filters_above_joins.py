"""Filters above joins through the command line: by every road, under a budget, killed, restarted, rolled back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

# What filters read (A.p, C.q) nothing else does; B.y is a key too.
CASE = JoinCase(
    {"A": ("x", "p"), "B": ("x", "y"), "C": ("y", "q")},
    "A.x = B.x AND B.y = C.y AND A.p < 3 AND A.v % 7 <> 0 AND B.y > 0 AND C.q <> 2",
    4 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 12
KILLED = -9
STREAMS = draw_streams(CASE, BATCHES, 12, 5, seed=4, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
ROADS = ["moving-state", "seeded", "parallel-track"]
MOVES = [
    ("((A B) C)", "((A B)[A] C)"),
    ("((A B)[A] C)", "((A B) C)"),
    ("((A B)[A.1 B] C)[A.2]", "(A (B C)[C])[B]"),
    ("(A B C)[A C]", "((A B)[A.2] C)"),
    ("(A (B C))", "(A B C)[A B C]"),
]


def forced(batch: int, plan: str, by: str) -> str:
    return f'[[adapt.force]]\nat_batch = {batch}\nplan = "{plan}"\nby = "{by}"\n'


def job_with(home: Path, adapt: str = "", run: str = "", end: int | None = None) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in", 0, end)
    return JudgedJob.write(home, CASE, run, adapt)


def check_answer(job: JudgedJob) -> None:
    assert EXPECTED.total() > 50
    assert not difference(job.answer(), EXPECTED)


def plans(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    found = [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] == "ChangePlan"]
    return [(entry["from"], entry["plan"]) for entry in found]


@pytest.mark.parametrize("by", ROADS)
@pytest.mark.parametrize(
    "former, new, budget", [(*move, ("", 'memory = "2KB"')[i % 2]) for i, move in enumerate(MOVES)]
)
@pytest.mark.share(2)
def test_filters_move_by_every_road(tmp_path: Path, former: str, new: str, budget: str, by: str) -> None:
    back = forced(9, former, "moving-state") if by != "parallel-track" else ""
    job = job_with(tmp_path, f'plan = "{former}"\n' + forced(3, new, by) + back, budget)
    events = job.run_here().events
    assert plans(events)[0] == (former, new)
    if back:
        assert plans(events)[1] == (new, former)
    check_answer(job)


@pytest.mark.parametrize("point", ["before-migration", "before-switch", "after-switch"])
def test_killed_while_a_filter_moves(tmp_path: Path, point: str) -> None:
    former, new = MOVES[2]
    job = job_with(tmp_path, f'plan = "{former}"\n' + forced(4, new, "seeded"))
    assert job.start(fault=f"{point}:1").code == KILLED
    ended = job.start()
    assert ended.code == 0, ended.stderr
    assert job.state()["plan"] == new
    check_answer(job)


def test_a_restart_with_another_place_says_beforehand_what_it_makes(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "((A B) C)"', end=5)
    job.run_here()
    write_streams(CASE, STREAMS, tmp_path / "in", 5)
    code, out, _ = job.call("explain", "job.toml", "--against", "ck", "--set", "adapt.plan=((A B)[A] C)")
    assert code == 0
    lines = out.splitlines()
    assert any("the plan is changed from ((A B) C) to ((A B)[A] C)" in line for line in lines)
    made = [line.split()[1].partition("@")[0] for line in lines if line.startswith("  made")]
    assert made == ["A"]
    assert sum(line.startswith("  kept") for line in lines) == 3
    events = job.run_here("adapt.plan=((A B)[A] C)").events
    assert plans(events) == [("((A B) C)", "((A B)[A] C)")]
    code, out, _ = job.call("explain", "job.toml", "--set", "adapt.plan=auto")
    assert "plan ((A B)[A] C)" in out.splitlines()[0], "a setting that names no single plan leaves it as it is"
    check_answer(job)


def test_a_rollback_goes_back_to_where_filters_stood(tmp_path: Path) -> None:
    job = job_with(
        tmp_path, 'plan = "((A B) C)"\n' + forced(6, "((A B)[A] C)", "moving-state"), "keep_versions = 100", 4
    )
    job.run_here()
    before = job.state()["version"]
    write_streams(CASE, STREAMS, tmp_path / "in", 4)
    job.run_here()
    assert job.state()["plan"] == "((A B)[A] C)"
    check_answer(job)
    code, _, err = job.call("state", "rollback", "ck", "--to-version", str(before), "--yes")
    assert code == 0, err
    assert job.state()["plan"] == "((A B) C)"
    job.run_here()
    assert job.state()["plan"] == "((A B)[A] C)"
    check_answer(job)


def test_a_filter_that_is_not_there_is_refused_at_the_start(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "((A B) C)"\n' + forced(4, "((A B)[C] C)", "auto"))
    code, _, err = job.call("run", "job.toml")
    assert code == 2
    assert 'error: plan "((A B)[C] C)" places filters of "C" above a join that does not have it' in err


def test_what_a_filter_above_a_join_reads_does_not_count_as_held(tmp_path: Path) -> None:
    """Rows that had passed it do not have it."""
    job = job_with(tmp_path, 'plan = "((A B) C)"\n' + forced(3, "((A B)[A] C)", "moving-state"), end=6)
    job.run_here()
    path = tmp_path / "job.toml"
    path.write_text(path.read_text().replace("SELECT A.v AS a", "SELECT A.p AS a"))
    path.write_text(path.read_text().replace('plan = "((A B)[A] C)"\nby', 'plan = "((A B) C)"\nby'))
    code, _, err = job.call("run", "job.toml", "--set", "adapt.plan=auto")
    assert code == 2
    assert "detail: Of the rows that it keeps it has no A.p." in err
