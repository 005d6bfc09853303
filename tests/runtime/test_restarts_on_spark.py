"""Restarts on Spark with another query, and with other groups: as on the local runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from changed_queries import ANY, BEFORE, CASE, CHANGES, STREAMS, answer, due, expected_after, start, text, with_query
from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TIGHT = "memory = 3000"
CAMPAIGN = pytest.mark.campaign


def kinds(events: list[dict[str, Any]]) -> list[str]:
    told = [entry["decision"] for event in events for entry in event.get("decisions", ())]
    return [kind for kind in told if kind in ("ChangePlan", "Regroup")]


def begun(home: Path, plan: str = "((A B) C)", run: str = TIGHT, query: str = text()) -> JudgedJob:
    job = start(home, query, f'plan = "{plan}"', run, runtime="spark")
    job.finish()
    write_streams(CASE, STREAMS, home / "in")
    return job


@pytest.mark.parametrize(
    "change, plan, run",
    [
        *(
            pytest.param(change, plan, run, marks=CAMPAIGN)
            for change in CHANGES
            for plan, run in (("((A B) C)", TIGHT), ("(A B C)", ""), ("auto", ""))
        ),
    ],
)
def test_another_query_and_other_groups_at_once(tmp_path: Path, change: str, plan: str, run: str) -> None:
    job = begun(tmp_path, plan, run)
    with_query(job, CHANGES[change][0])
    told = job.call("explain", "job.toml", "--against", "ck", "--set", "run.groups=4")[1]
    assert "the query was changed: " in told
    assert "\ngroups: 6 become 4: " in told
    assert kinds(job.finish("run.groups=4", "run.slots=3")) == ["ChangePlan", "Regroup"]
    assert answer(job) == expected_after(change)
    assert job.state()["placement"]["groups"] == 4
    code, out, err = job.call("state", "verify", "ck")
    assert code == 0, out + err


@pytest.mark.campaign
@pytest.mark.parametrize("point", ["before-switch", "after-switch", "before-regroup", "after-regroup", "after-commit"])
def test_killed_on_the_way(tmp_path: Path, point: str) -> None:
    job = begun(tmp_path)
    with_query(job, CHANGES["all of it"][0])
    assert job.start("run.groups=4", fault=point).code == -9
    job.finish("run.groups=4")
    assert answer(job) == expected_after("all of it")


@pytest.mark.campaign
def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    job = begun(tmp_path)
    before = job.state()
    for query, message in (
        (text(a=5), "rows that [RANGE 5 SECONDS] needs have gone"),
        (text("A.v AS a, B.v AS b, C.ts AS c"), "Of the rows that it keeps it has no"),
    ):
        with_query(job, query)
        done = job.start()
        assert (done.code, message in done.stderr) == (2, True), done.stderr
    assert job.state() == before
    with_query(job, text())
    job.finish()
    assert answer(job) == due(*ANY, lambda batch: True)


@pytest.mark.campaign
def test_a_run_that_was_killed_and_whose_query_was_changed_then(tmp_path: Path) -> None:
    """Spark has planned a batch that the state does not have, and the next run joins it by the new query."""
    job = start(tmp_path, text(), 'plan = "((A B) C)"', TIGHT, end=BEFORE, runtime="spark")
    job.finish()
    write_streams(CASE, STREAMS, tmp_path / "in")
    assert job.start(fault="before-commit").code == -9
    with_query(job, CHANGES["one more filter"][0])
    job.finish()
    assert answer(job) == expected_after("one more filter")


@pytest.mark.campaign
def test_a_plan_that_follows_its_streams_and_is_told(tmp_path: Path) -> None:
    """A first look finds a plan that is far from the best, changes it, and the next one says how that turned out."""
    case = JoinCase({"A": ("x",), "B": ("x", "y"), "C": ("y",)}, "A.x = B.x AND B.y = C.y", 3 * SECOND)
    streams = draw_streams(case, 9, 300, {"x": 6, "y": 5000}, seed=3)
    write_streams(case, streams, tmp_path / "in")
    settings = 'plan = "((A B) C)"\nreplan = "refined"\nreplan_every = 3'
    job = JudgedJob.write(tmp_path, case, "slots = 2", settings, runtime="spark")
    told = [entry for event in job.finish() for entry in event.get("decisions", ())]
    (change,) = [entry for entry in told if entry["decision"] == "ChangePlan"]
    assert (change["plan"], change["found_by"]) == ("(A (B C))", "search")
    (review,) = [entry for entry in told if entry["decision"] == "ReviewPlan"]
    assert review["figures"].keys() >= {"cpu", "cpu_predicted", "cpu_found", "price_seconds", "price_found"}
    assert not difference(job.answer(), duckdb_answer(case, streams))
