"""A restart with more or fewer groups goes on with the state: through the command line, and DuckDB is the judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judged_jobs import (
    SECOND,
    JoinCase,
    JudgedJob,
    check_answer,
    decisions,
    draw_streams,
    duckdb_answer,
    write_streams,
)
from watersmeet.faults import OF_REGROUPING

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)},
    "A.x = B.x AND B.y = C.y AND C.z = D.z",
    4 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 12
STREAMS = draw_streams(CASE, BATCHES, 10, 6, seed=3, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
# A budget that holds about a third of the state, so that much of it is cold, in parts of files, and owes results.
TIGHT = "memory = 4000"


def start(home: Path, groups: int, run: str = "", adapt: str = 'plan = "((A B) (C D))"', end: int = 6) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in", 0, end)
    job = JudgedJob.write(home, CASE, f"groups = {groups}\n{run}", adapt)
    job.finish()
    return job


def stop_midway(home: Path, groups: int, run: str = "", adapt: str = 'plan = "((A B) (C D))"') -> JudgedJob:
    """A run that was killed, and has not emitted what it owes."""
    write_streams(CASE, STREAMS, home / "in")
    job = JudgedJob.write(home, CASE, f"groups = {groups}\n{run}", adapt)
    assert job.start(fault="after-commit:40").code == -9
    return job


def check(job: JudgedJob, groups: int) -> None:
    check_answer(job, CASE, STREAMS, EXPECTED)
    assert job.state()["placement"]["groups"] == groups


@pytest.mark.parametrize("run", ["", TIGHT], ids=["no budget", "a budget"])
@pytest.mark.parametrize("before, after", [(6, 12), (12, 6), (6, 4), (4, 7), (30, 1), (2, 300)])
@pytest.mark.share(2)
def test_more_or_fewer_groups(tmp_path: Path, before: int, after: int, run: str) -> None:
    job = start(tmp_path, before, run, 'plan = "((A B) (C D))"\nmerge = "off"')
    write_streams(CASE, STREAMS, tmp_path / "in", 6)
    slots = f"run.slots={min(2, after)}"
    events = job.finish(f"run.groups={after}", slots)
    (told,) = decisions(events, "Regroup")
    assert (told["from_groups"], told["to_groups"], told["before_batch"]) == (before, after, 6)
    check(job, after)
    assert not decisions(job.finish(f"run.groups={after}", slots), "Regroup"), "once"


@pytest.mark.parametrize("plan", ["(A B C D)", "mjoin", "(((A B) C) D)", "auto"])
def test_any_plan(tmp_path: Path, plan: str) -> None:
    job = start(tmp_path, 6, adapt=f'plan = "{plan}"')
    write_streams(CASE, STREAMS, tmp_path / "in", 6)
    job.finish("run.groups=9", "run.slots=3")
    check(job, 9)


@pytest.mark.parametrize("after", [5, 12])
def test_what_is_owed_is_emitted_first(tmp_path: Path, after: int) -> None:
    job = stop_midway(tmp_path, 6, TIGHT)
    known = json.loads(job.call("explain", "job.toml", "--against", "ck", "--json")[1])
    assert known["owing"], "it owes something"
    _, told, _ = job.call("explain", "job.toml", "--against", "ck", "--set", f"run.groups={after}")
    owed = f"what {known['owing']:,} groups owe is emitted first, "
    assert f"groups: 6 become {after}: {owed}the files of the state are counted by these\n" in told
    job.finish(f"run.groups={after}")
    check(job, after)


@pytest.mark.parametrize("point", [*OF_REGROUPING, "before-segment:2", "in-commit:2", "after-commit:3"])
def test_killed_on_the_way(tmp_path: Path, point: str) -> None:
    job = start(tmp_path, 6, TIGHT, 'plan = "((A B) (C D))"\nmerge = "off"')
    write_streams(CASE, STREAMS, tmp_path / "in", 6)
    assert job.start("run.groups=5", fault=point).code == -9
    job.finish("run.groups=5")
    check(job, 5)


def test_there_and_back_with_another_plan_and_other_slots(tmp_path: Path) -> None:
    job = start(tmp_path, 6, TIGHT, end=4)
    for batch, groups, plan in ((4, 10, "mjoin"), (6, 3, "(((A B) C) D)"), (8, 6, "((A B) (C D))")):
        write_streams(CASE, STREAMS, tmp_path / "in", batch, batch + 2)
        events = job.finish(f"run.groups={groups}", f"adapt.plan={plan}", f"run.slots={min(groups, 4)}")
        assert [len(decisions(events, kind)) for kind in ("ChangePlan", "Regroup")] == [1, 1]
    write_streams(CASE, STREAMS, tmp_path / "in", 10)
    job.finish("run.groups=6")
    check(job, 6)


def test_a_change_of_the_plan_that_is_under_way_is_dropped(tmp_path: Path) -> None:
    force = '[[adapt.force]]\nat_batch = 4\nplan = "(((A B) C) D)"\nby = "parallel-track"'
    job = start(tmp_path, 6, "", 'plan = "((A B) (C D))"\n' + force)
    told = job.call("explain", "job.toml", "--against", "ck", "--set", "run.groups=8")[1]
    assert "a change of the plan to (((A B) C) D) is under way, and is dropped\n" in told
    write_streams(CASE, STREAMS, tmp_path / "in", 6)
    events = job.finish("run.groups=8")
    (dropped,) = decisions(events, "MigrationAbandoned")
    assert dropped["reason"].endswith("the number of groups is changed")
    check(job, 8)


def test_after_cuts(tmp_path: Path) -> None:
    force = '[[adapt.force]]\nat_batch = 2\ncut = ["J1:3", "J2:1"]'
    job = start(tmp_path, 6, TIGHT, 'plan = "((A B) (C D))"\n' + force)
    write_streams(CASE, STREAMS, tmp_path / "in", 6)
    job.finish("run.groups=5")
    assert not job.state()["placement"].get("cuts"), "there are five, and no more"
    check(job, 5)


def test_before_the_first_row(tmp_path: Path) -> None:
    for name in CASE.streams:
        (tmp_path / "in" / name).mkdir(parents=True)
    job = JudgedJob.write(tmp_path, CASE, "groups = 6")
    job.finish()
    write_streams(CASE, STREAMS, tmp_path / "in")
    job.finish("run.groups=8")
    check(job, 8)


def test_a_rollback_goes_back_to_the_former_groups(tmp_path: Path) -> None:
    job = start(tmp_path, 6, "keep_versions = 100")
    version = job.state()["version"]
    write_streams(CASE, STREAMS, tmp_path / "in", 6)
    job.finish("run.groups=9")
    code, _, err = job.call("state", "rollback", "ck", "--to-version", str(version), "--yes")
    assert code == 0, err
    assert job.state()["placement"]["groups"] == 6
    job.finish("run.groups=4")
    check(job, 4)


def test_numbers_that_cannot_be(tmp_path: Path) -> None:
    job = start(tmp_path, 6)
    before = job.state()
    for groups, message in ((1, "2 slots cannot share 1 groups"), (1 << 20, "1,048,576 groups are too many")):
        code, _, err = job.call("run", "job.toml", "--set", f"run.groups={groups}")
        assert (code, message in err) == (2, True), err
    assert job.state() == before
