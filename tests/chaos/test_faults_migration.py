"""Changes of the plan, killed, rolled back, restored, and gone on with by other settings: the answer is DuckDB's, once.

The query has a key that three of its streams share and another for the fourth, so that its plans are of all kinds: one
join by routes, joins of several inputs, pairs, bushy trees.

`WATERSMEET_SEEDS=500 pytest tests/chaos/test_faults_migration.py -k histories` draws hundreds of histories.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from judged_jobs import (
    SECOND,
    JoinCase,
    JudgedJob,
    difference,
    draw_streams,
    duckdb_answer,
    late_rows,
    write_streams,
)
from watersmeet.faults import OF_MIGRATION, POINTS
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import read_versions

CASE = JoinCase(
    {"A": ("k",), "B": ("k",), "C": ("k", "m"), "D": ("m",)},
    "A.k = B.k AND B.k = C.k AND C.m = D.m",
    window_us=3 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 7
STREAMS = draw_streams(CASE, BATCHES, 7, {"k": 5, "m": 4}, seed=11, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
PLANS = (
    "(A B C D)",  # by routes
    "((A B C) D)",
    "(((A B) C) D)",
    "((A B) (C D))",
    "(A (B (C D)))",
    "(A B (C D))",
    "(((A C) B) D)",
)
AT_ONCE = tuple(point for point in OF_MIGRATION if "advance" not in point)  # where a change is made in one step
BUDGET = "memory = 9000"
FEW = 'groups = 2\ndurability = "process"'  # groups, so that there are few rounds
SEEDS = int(os.environ.get("WATERSMEET_SEEDS", "2"))


def forced(batch: int, plan: str, more: str = "") -> str:
    return f'[[adapt.force]]\nat_batch = {batch}\nplan = "{plan}"\nby = "moving-state"\n{more}\n'


CHANGES = (
    'plan = "mjoin"\n'
    + forced(1, PLANS[1])
    + forced(3, PLANS[3], "spill_share = 0.5")
    + forced(4, PLANS[0])
    + forced(5, PLANS[6], "spill_share = 0.3")
    + forced(6, PLANS[4])
)


def write_job(home: Path, adapt: str = CHANGES, run: str = BUDGET, end: int | None = None) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in", 0, end)
    return JudgedJob.write(home, CASE, f"{run}\n{FEW}", adapt)


def versions(job: JudgedJob) -> list[Manifest]:
    return list(read_versions(Folder(str(job.home / "ck" / "state"))))


def head(job: JudgedJob) -> Manifest:
    return versions(job)[-1]


def changes(decisions: Any) -> list[str]:
    return [entry["plan"] for entry in decisions if entry["decision"] == "ChangePlan"]


def told(events: list[dict[str, Any]]) -> list[str]:
    return changes(entry for event in events for entry in event.get("decisions", ()))


def check(job: JudgedJob) -> None:
    assert difference(job.answer(), EXPECTED) == ""
    assert job.late() == late_rows(CASE, STREAMS)
    code, out, err = job.call("state", "verify", "ck")
    assert code == 0, out + err


def kill(job: JudgedJob, fault: str, *settings: str) -> None:
    """Let it die there, which must happen."""
    job.marker(fault).unlink(missing_ok=True)
    killed = job.start(*settings, fault=fault)
    assert job.marker(fault).exists(), f"{fault} was not reached: {killed.stderr}"
    assert (killed.code, killed.stderr) == (-signal.SIGKILL, "")
    assert job.answer() <= EXPECTED, "nothing twice, and nothing wrong"


def call(job: JudgedJob, *words: str) -> str:
    code, out, err = job.call("state", *words)
    assert code == 0, err
    return out


def test_the_job_changes_its_plan_and_owes_results_when_it_does(tmp_path: Path) -> None:
    assert EXPECTED.total() > 1000
    job = write_job(tmp_path)
    events = job.finish()
    assert told(events) == [PLANS[1], PLANS[3], PLANS[0], PLANS[6], PLANS[4]]
    rounds = {event["batch"] for event in events if event["event"] == "merge" and event["rows_merged"]}
    assert {2, 5} & rounds, "what is owed is emitted before the plan changes"
    assert head(job).plan == PLANS[4]
    check(job)


# --- killed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", AT_ONCE)
def test_killed_at_a_point_of_a_change(point: str, tmp_path: Path) -> None:
    """At the first change, at it again, and then at one after the other."""
    job = write_job(tmp_path)
    for nth in (1, 1, 3):
        kill(job, f"{point}:{nth}")
    job.finish()
    assert head(job).plan == PLANS[4]
    assert len(changes(head(job).decisions)) == 5, "each was made once"
    check(job)


# Those that are passed between two batches, in the rounds and commits of a change.
IN_BETWEEN = [point for point in POINTS if point.partition("-")[2] not in ("prepare", "late", "snapshot")]


IN_MAKE_TEST = ("in-merge", "in-commit", "in-delivery")


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=() if p in IN_MAKE_TEST else pytest.mark.campaign) for p in IN_BETWEEN]
)
def test_killed_at_a_point_of_a_restart_that_changes_the_plan(point: str, tmp_path: Path) -> None:
    """All input is read, so that whatever is reached is reached in the change, or in the drain at the end."""
    job = write_job(tmp_path, 'plan = "((A B) (C D))"\nmerge = "off"', "memory = 1500")
    kill(job, f"after-commit:{_commits_before_the_end(tmp_path)}")
    assert head(job).last_batch == BATCHES - 1
    for plan in (PLANS[4], PLANS[0], PLANS[2]):
        kill(job, point, f"adapt.plan={plan}", "adapt.merge=off")
    job.finish(f"adapt.plan={PLANS[2]}")
    assert head(job).plan == PLANS[2]
    check(job)


def _commits_before_the_end(folder: Path) -> int:
    """The commit of the last batch, by the same job undisturbed."""
    other = write_job(folder / "other", 'plan = "((A B) (C D))"\nmerge = "off"', "memory = 1500\nkeep_versions = 500")
    other.finish()
    return next(manifest.version for manifest in versions(other) if manifest.last_batch == BATCHES - 1)


# --- gone back, restored ---------------------------------------------------------------------------------------------


def test_rolled_back_to_before_a_change(tmp_path: Path) -> None:
    job = write_job(tmp_path, run=f"{BUDGET}\nkeep_versions = 500")
    job.finish()
    for batch in (4, 0):
        before = [manifest for manifest in versions(job) if manifest.last_batch == batch][-1]
        call(job, "rollback", "ck", "--to-version", str(before.version), "--yes")
        assert head(job).plan == before.plan
        assert head(job).last_batch == batch
        job.finish()
        assert len(changes(head(job).decisions)) == 5, "those that were undone are made again"
        check(job)


def test_rolled_back_between_a_change_and_its_batch(tmp_path: Path) -> None:
    job = write_job(tmp_path, run=f"{BUDGET}\nkeep_versions = 500")
    job.finish()
    for switch in (4, 1):
        found = versions(job)
        switches = [now.version for then, now in itertools.pairwise(found) if now.plan != then.plan]
        assert len(switches) >= 5
        for version in (switches[switch - 5], switches[switch - 5] - 1):
            call(job, "rollback", "ck", "--to-version", str(version), "--yes")
            job.finish()
            check(job)


def test_backed_up_around_a_change(tmp_path: Path) -> None:
    job = write_job(tmp_path, end=3)
    job.finish()
    call(job, "backup", "ck", "backups")
    write_streams(CASE, STREAMS, tmp_path / "in", 3, 6)
    kill(job, "after-switch")
    call(job, "backup", "ck", "backups")
    for number, plan in (("2", PLANS[3]), ("1", PLANS[1])):
        write_streams(CASE, STREAMS, tmp_path / "in")
        job.finish()
        check(job)
        shutil.rmtree(job.home / "ck")
        call(job, "restore", "backups", "ck", "--number", number, "--set-aside")
        assert head(job).plan == plan
    job.finish()
    check(job)


def test_looked_at_and_compacted_after_a_change(tmp_path: Path) -> None:
    job = write_job(tmp_path, end=4)
    job.finish()
    for end in (5, None):
        assert f"plan {head(job).plan}\n" in call(job, "show", "ck")
        assert "versions can be read" in call(job, "ls", "ck")
        call(job, "compact", "ck")
        call(job, "verify", "ck")
        write_streams(CASE, STREAMS, tmp_path / "in", 4, end)
        job.finish()
    check(job)


# --- gone on with by other settings ----------------------------------------------------------------------------------


def test_each_start_has_other_settings(tmp_path: Path) -> None:
    starts = (
        (f'plan = "{PLANS[3]}"', "slots = 1\nmemory = 1500", (PLANS[3],)),
        ('plan = "auto"', "slots = 2", ()),
        (f'plan = "{PLANS[3]}"', "", ()),  # which it has
        (f'plan = "{PLANS[5]}"\nspill = "largest"', "memory = 1", (PLANS[5],)),
        ('plan = "mjoin"\n' + forced(5, PLANS[2]), "slots = 1", (PLANS[0], PLANS[2])),
        ('plan = "mjoin"', BUDGET, ()),  # as before: the plan was changed since, by force
    )
    assert len(starts) == BATCHES - 1
    for number, (adapt, run, expected) in enumerate((('plan = "left-deep"', BUDGET, ()), *starts)):
        job = write_job(tmp_path, adapt, run, end=number + 1)
        assert told(job.finish()) == list(expected), adapt
    check(job)


def test_another_output_at_the_same_time_as_another_plan(tmp_path: Path) -> None:
    job = write_job(tmp_path, f'plan = "{PLANS[1]}"\nmerge = "off"', "memory = 1500", end=5)
    kill(job, "before-delivery:3")
    write_streams(CASE, STREAMS, tmp_path / "in")
    elsewhere = (f'sink.path="{tmp_path / "out2"}"', f'sink.late="{tmp_path / "late2"}"')
    settings = (f"adapt.plan={PLANS[3]}", "run.slots=1", "run.memory=20000", *elsewhere)
    kill(job, "before-switch", *settings)
    job.finish(*settings)
    assert head(job).plan == PLANS[3]
    assert difference(job.answer() + job.answer("out2"), EXPECTED) == ""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_histories(seed: int, tmp_path: Path) -> None:
    """Rows come bit by bit; each start has settings of its own, and dies somewhere or not; some are undone."""
    draw = random.Random(seed)
    come, starts = 0, 0
    while True:
        starts += 1
        come = min(BATCHES, come + draw.randint(0, 3))
        steps = sorted(draw.sample(range(BATCHES), 3))
        adapt = f'plan = "{draw.choice((*PLANS, "auto"))}"\nmerge = "{draw.choice(("off", "state-manager"))}"\n'
        adapt += "".join(forced(step, draw.choice(PLANS), draw.choice(("", "spill_share = 0.5"))) for step in steps)
        memory = draw.choice(("", "memory = 1", "memory = 3000", "memory = 15000"))
        job = write_job(tmp_path, adapt, f"{memory}\nslots = {draw.randint(1, 2)}\nkeep_versions = 60", end=come)
        point = draw.choice((*AT_ONCE * 4, *POINTS))
        fault = f"{point}:{draw.choice((1, 1, 2, 3))}" if draw.random() < 0.6 and starts < 15 else None
        if fault is not None:
            job.marker(fault).unlink(missing_ok=True)
        done = job.start(fault=fault) if fault is not None else job.run_here()
        assert done.code == 0 or (done.code == -signal.SIGKILL and fault is not None), done.stderr
        assert job.answer() <= EXPECTED, "nothing twice, and nothing wrong"
        if draw.random() < 0.2:
            last = head(job)
            can = [manifest.version for manifest in versions(job) if last.can_go_back_to(manifest.version)]
            call(job, "rollback", "ck", "--to-version", str(draw.choice(can)), "--yes")
        elif done.code == 0 and come == BATCHES:
            break
    check(job)
