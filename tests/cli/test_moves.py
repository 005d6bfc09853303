"""Other slots, and groups that go from one to the other, through the command line, on jobs that DuckDB judges."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

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

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)},
    "A.x = B.x AND B.y = C.y AND C.z = D.z",
    4 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 12
STREAMS = draw_streams(CASE, BATCHES, 10, 6, seed=5, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
GROUPS = 8


def step(batch: int, **forced: object) -> str:
    return f"[[adapt.force]]\nat_batch = {batch}\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in forced.items())


def write_job(home: Path, *steps: str, run: str = "", plan: str = "((A B) (C D))") -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in")
    return JudgedJob.write(home, CASE, f"groups = {GROUPS}\n{run}", f'plan = "{plan}"\n' + "".join(steps))


def check(job: JudgedJob, slots: int) -> None:
    check_answer(job, CASE, STREAMS, EXPECTED)
    assert job.state()["placement"]["slots"] == slots


def test_slots_come_and_go_and_groups_move(tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        step(2, slots=4),
        step(4, move=["J1:0->3", "J2:7->1"]),
        step(6, cut=["J1:0"], move=["J1:1->0"]),
        step(8, slots=1),
        step(9, slots=3, move=["J3:5->2"], spill=["J3:5"]),
    )
    events = job.finish()
    assert [(e["from_slots"], e["slots"], e["before_batch"]) for e in decisions(events, "Rescale")] == [
        (2, 4, 2),
        (4, 1, 8),
        (1, 3, 9),
    ]
    assert [entry["moves"] for entry in decisions(events, "MoveGroups")] == [
        [["J1", 0, 3], ["J2", 7, 1]],
        [["J1", 1, 0]],
        [["J3", 5, 2]],
    ]
    check(job, 3)
    code, out, _ = job.call("state", "show", "ck")
    assert code == 0
    assert "3 slots in the place of 1: forced" in out
    assert re.search(r"move \S+:0->3, \S+:7->1: forced", out)


@pytest.mark.parametrize("plan", ["(A B C D)", "((A B) (C D))", "(((A B) C) D)"])
@pytest.mark.parametrize("run", ["", "memory = 4000"], ids=["no budget", "a budget"])
@pytest.mark.parametrize("by", ["moving-state", "seeded", "parallel-track"])
def test_at_any_batch_beside_changes_of_the_plan_and_kills(tmp_path: Path, plan: str, run: str, by: str) -> None:
    random = Random(f"{plan}{run}{by}")
    steps = [step(batch, slots=random.randint(1, 4)) for batch in range(1, BATCHES) if batch != 5]
    steps.append(step(5, plan="(A (B (C D)))", by=by, slots=2, move=["J1:3->0", "J2:0->1"]))
    job = write_job(tmp_path, *steps, run=run, plan=plan)
    killed = 0
    for place in sorted(random.sample(range(2, 40), 4)):
        killed += job.start(fault=f"{random.choice(['before', 'after'])}-commit:{place}").code == -9
    assert killed
    events = job.finish()
    assert all(event["event"] != "error" for event in events)
    check(job, job.state()["placement"]["slots"])


def test_a_restart_goes_on_with_what_was_come_to(tmp_path: Path) -> None:
    """With the settings of before; with others it has those."""
    job = write_job(tmp_path, step(2, slots=4))
    assert job.start(fault="after-commit:9").code == -9
    for settings, foreseen, slots in (((), [4, 4], 4), (("run.slots=3",), [4, 3], 3), ((), [3, 2], 2)):
        sets = [word for setting in settings for word in ("--set", setting)]
        code, out, err = job.call("explain", "job.toml", "--against", "ck", "--json", *sets)
        assert code == 0, err
        assert json.loads(out)["slots"] == foreseen
        job.finish(*settings)
        assert job.state()["placement"]["slots"] == slots
    check(job, 2)


def test_more_slots_than_there_will_be_groups(tmp_path: Path) -> None:
    job = write_job(tmp_path, step(2, slots=6))
    assert job.start(fault="after-commit:9").code == -9
    job.finish("run.groups=4")
    check(job, 2)
