"""The roads from one plan to another, through the command line, on jobs that DuckDB judges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from watersmeet.adapt.policies.migrate import ROADS, seeded
from watersmeet.faults import OF_MIGRATION

KILLED = -9
WINDOW = 3 * SECOND
CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)},
    "A.x = B.x AND B.y = C.y AND C.z = D.z",
    WINDOW,
    lateness_us=SECOND,
)
BATCHES = 16
STREAMS = draw_streams(CASE, BATCHES, 8, 5, seed=4, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
ALL = [road.name for road in ROADS]
PLANS = ["(A B C D)", "((A B) (C D))", "(A (B (C D)))", "(((A B) C) D)", "((A B) C D)"]
BUDGETS = ["", "memory = 6000"]


def forced(batch: int, plan: str, by: str) -> str:
    return f'[[adapt.force]]\nat_batch = {batch}\nplan = "{plan}"\nby = "{by}"\n'


def decisions(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] == kind]


@pytest.fixture(autouse=True)
def small_steps() -> Iterator[None]:
    """So that seeding takes some of them."""
    with mock.patch.object(seeded, "_rows_allowed", lambda standing: 40):
        yield


def job_with(home: Path, adapt: str, run: str = "") -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in")
    return JudgedJob.write(home, CASE, run, adapt)


def check_answer(job: JudgedJob) -> None:
    assert EXPECTED.total() > 100
    assert not difference(job.answer(), EXPECTED)


def ends(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(entry["plan"], entry["by"]) for entry in decisions(events, "ChangePlan")]


@pytest.mark.parametrize("by", ALL)
@pytest.mark.parametrize("former, new, budget", list(zip(PLANS, PLANS[1:] + PLANS[:1], BUDGETS * 3, strict=False)))
def test_every_road_leads_to_the_other_plan(tmp_path: Path, former: str, new: str, budget: str, by: str) -> None:
    job = job_with(tmp_path, f'plan = "{former}"\n' + forced(3, new, by=by), budget)
    events = job.run_here().events
    assert ends(events) == [(new, by)]
    check_answer(job)


def test_seeding_goes_on_beside_batches_and_is_told(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "(A B C D)"\n' + forced(4, "((A B) (C D))", by="seeded"))
    slowly = {"_rows_allowed": lambda standing: 15, "AT_LEAST": 1.2, "BEHIND": 1.2}  # on a machine that is slow, too
    with mock.patch.multiple(seeded, **slowly):
        events = job.run_here().events
    (begun,) = decisions(events, "BeginMigration")
    assert (begun["from"], begun["plan"], begun["by"]) == ("(A B C D)", "((A B) (C D))", "seeded")
    told = [event["migration"] for event in events if event.get("migration")]
    assert len(told) >= 3
    assert [entry["seeded"] for entry in told] == sorted(entry["seeded"] for entry in told)
    assert any(0 < entry["seeded"] < 1 for entry in told)
    assert all(event["rows_out"] >= 0 for event in events if event["event"] == "batch")
    (end,) = decisions(events, "ChangePlan")
    assert end["batches"] == len(told)
    check_answer(job)


def test_a_parallel_track_ends_one_window_later(tmp_path: Path) -> None:
    """Trap 2: at any height of the tree. Batches are a second of event time, and watermarks lag by one."""
    job = job_with(tmp_path, 'plan = "(A B C D)"\n' + forced(5, "(((A B) C) D)", by="parallel-track"))
    events = job.run_here().events
    waits = [event["migration"]["waits_for"] for event in events if event.get("migration")]
    assert any("rows from before it began have not expired" in text for text in waits)
    (end,) = decisions(events, "ChangePlan")
    marks = {event["batch"]: min(s["watermark"] for s in event["streams"].values()) for event in events[1:-1]}
    begun, over = marks[4], marks[4 + end["batches"]]
    newest = max(row["ts"] for stream in STREAMS.values() for row in stream[4])
    assert over >= newest + WINDOW > marks[3 + end["batches"]], "not before, and not after"
    assert over - begun <= WINDOW + 3 * SECOND
    check_answer(job)


@pytest.mark.parametrize("by", ALL)
def test_two_at_once(tmp_path: Path, by: str) -> None:
    second = forced(6, "(A (B (C D)))", by=by)
    job = job_with(tmp_path, 'plan = "(A B C D)"\n' + forced(5, "((A B) (C D))", by="parallel-track") + second)
    events = job.run_here().events
    (abandoned,) = decisions(events, "MigrationAbandoned")
    assert abandoned["reason"] == "forced: another change of the plan is under way"
    assert ends(events) == [("((A B) (C D))", "parallel-track")]
    check_answer(job)


def test_a_parallel_track_is_refused_where_rows_never_expire(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "(A B C D)"\n' + forced(5, "((A B) (C D))", by="parallel-track"))
    path = job.home / "job.toml"
    text = path.read_text()
    path.write_text(text.replace("FROM A [RANGE 3000000 MICROSECONDS]", "FROM A"))
    assert path.read_text() != text
    code, _, err = job.call("run", "job.toml")
    assert code == 2
    assert "the plan of this query cannot be changed by parallel-track" in err
    assert "detail: Rows of A never expire, so that it would wait for ever." in err


@pytest.mark.parametrize(
    "point, by",
    [(point, by) for point in OF_MIGRATION for by in ALL if "advance" not in point or by == "parallel-track"],
)
@pytest.mark.parametrize("budget", BUDGETS, ids=["no limit", "a budget"])
@pytest.mark.share(2)
def test_killed_on_the_way(tmp_path: Path, point: str, by: str, budget: str) -> None:
    """The old plan answers, and the next run goes on with the change. (Steps of seeding: `chaos/plans.py`.)"""
    job = job_with(tmp_path, 'plan = "((A B) (C D))"\n' + forced(4, "(((A B) C) D)", by=by), budget)
    for count in (1, 2) if point in ("before-advance", "after-advance") else (1,):
        fault = f"{point}:{count}"
        assert job.start(fault=fault).code == KILLED
        assert job.marker(fault).exists()
    ended = job.start()
    assert ended.code == 0, ended.stderr
    assert job.state()["plan"] == "(((A B) C) D)"
    check_answer(job)


def test_another_plan_at_a_restart_puts_an_end_to_a_change(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "(A B C D)"\n' + forced(4, "((A B) (C D))", by="parallel-track"))
    assert job.start(fault="after-advance:1").code == KILLED
    events = job.run_here("adapt.plan=(A (B (C D)))").events
    (abandoned,) = decisions(events, "MigrationAbandoned")
    assert abandoned["reason"].endswith(": the settings name another plan")
    assert ends(events) == [("(A (B (C D)))", "moving-state")]
    held = {segment["state"] for segment in job.state()["segments"]}
    assert held == set(events[-2]["states"]), "nothing of the other is left"
    check_answer(job)
