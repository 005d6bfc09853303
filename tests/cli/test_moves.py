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
@pytest.mark.share(3)
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


def test_whole_operators_and_routed_joins(tmp_path: Path) -> None:
    """A routed join is moved by its keys, group by group or as a whole; so is any other."""
    job = write_job(
        tmp_path,
        step(2, move=["J1:*->1", "k2:0-3->1"]),
        step(4, slots=3, move=["k0:2->2", "k1:*->0"]),
        step(6, plan="((A B) (C D))", by="moving-state", move=["J3:*->2", "J1:0-6->0"]),
        step(8, plan="(A B C D)", by="moving-state", move=["J1:*->2"]),
        plan="((A B C) D)",
    )
    events = job.finish()
    moved = decisions(events, "MoveGroups")
    assert [len(entry["moves"]) for entry in moved] == [20, 9, 15, 24]
    assert moved[0]["moves"][0] == ["k0", 0, 1]
    held = [entry for event in events for entry in event.get("slots", ()) if event["batch"] == BATCHES - 1]
    assert [bool(entry["rows_in"]) for entry in held] == [False, False, True], "all of it is with slot 2"
    check(job, 3)


@pytest.mark.parametrize(
    "steps, message",
    [
        ([{"slots": 0}], '"slots" in [[adapt.force]] is 0'),
        ([{"slots": 9}], "9 slots cannot share 8 groups"),
        ([{"move": ["J1:8->1"]}], 'names "J1:8", which the plan does not have'),
        ([{"move": ["J1:2-8->1"]}], 'names "J1:2-8", which the plan does not have'),
        ([{"move": ["J1:5-2->1"]}], "The range ends before it begins."),
        ([{"move": ["J9:*->1"]}], 'names "J9:*", which the plan does not have'),
        ([{"move": ["J1:0->2"]}], 'moves "J1:0" to slot 2, which is not there'),
        ([{"move": ["J1:-1->1"]}], "names 'J1:-1->1'"),
        ([{"plan": "(A B C D)", "move": ["J1:0->1"]}], 'moves "J1:0", and J1 is routed over several keys'),
    ],
)
def test_mistakes(tmp_path: Path, steps: list[dict[str, object]], message: str) -> None:
    job = write_job(tmp_path, *(step(3, **forced) for forced in steps))
    code, _, err = job.call("run", "job.toml")
    assert code == 2
    assert message in err


def test_a_move_of_groups_that_a_restart_has_fewer_of(tmp_path: Path) -> None:
    job = write_job(tmp_path, step(9, move=["J1:6->1"]))
    assert job.start(fault="after-commit:4").code == -9
    code, _, err = job.call("run", "job.toml", "--set", "run.groups=4")
    assert code == 2
    assert 'names "J1:6", which the plan does not have' in err
    assert "with groups 0 to 3" in err
    job.finish()
    check(job, 2)
