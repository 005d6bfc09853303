"""`watersmeet explain --against CHECKPOINT`: what a run would do with it, which is what it then does."""

from __future__ import annotations

import json
from pathlib import Path

from judged_jobs import SECOND, JoinCase, JudgedJob, draw_streams, write_streams

CASE = JoinCase({"A": ("x",), "B": ("x", "y"), "C": ("y",)}, "A.x = B.x AND B.y = C.y", 3 * SECOND)
STREAMS = draw_streams(CASE, 6, 8, 5, seed=2)


def job_after(home: Path, batches: int, adapt: str = 'plan = "((A B) C)"', run: str = "") -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in", 0, batches)
    job = JudgedJob.write(home, CASE, run, adapt)
    job.finish()
    return job


def against(job: JudgedJob, *settings: str) -> str:
    chosen = [part for setting in settings for part in ("--set", setting)]
    code, out, err = job.call("explain", "job.toml", "--against", "ck", *chosen)
    assert (code, err) == (0, "")
    return out


def test_the_same_job(tmp_path: Path) -> None:
    job = job_after(tmp_path, 3)
    before = job.state()
    told = against(job)
    assert ", after batch 2\n" in told
    assert "the plan stays ((A B) C), with all of its state\nslots: " in told
    assert job.state() == before, "it looks only"


def test_another_plan_and_other_slots(tmp_path: Path) -> None:
    job = job_after(tmp_path, 3)
    told = against(job, "adapt.plan=(A (B C))", "run.slots=3")
    assert (
        "the plan is changed from ((A B) C) to (A (B C)), with what it needs of the state: between two batches\n"
        in told
    )
    lines = [line.split()[:2] for line in told.splitlines() if line.startswith("  ")]
    what = {state.split("#")[0]: word for word, state in lines}
    assert what == {
        "A@A.x": "kept",
        "C@C.y": "kept",
        "B@B.y": "made",
        "B+C@B.x": "made",
        "B@B.x": "dropped",
        "A+B@B.y": "dropped",
    }
    assert told.splitlines()[-1].endswith(" become 3")
    write_streams(CASE, STREAMS, tmp_path / "in", 3)
    events = job.finish("adapt.plan=(A (B C))", "run.slots=3")
    (change,) = [e for event in events for e in event.get("decisions", ()) if e["decision"] == "ChangePlan"]
    assert (change["states_kept"], change["states_made"]) == (2, 2), "as it said"


def test_what_is_owed_is_told(tmp_path: Path) -> None:
    job = job_after(tmp_path, 4, 'plan = "((A B) C)"\nmerge = "off"', "memory = 1500")
    owing = json.loads(job.call("explain", "job.toml", "--against", "ck", "--json")[1])["owing"]
    told = against(job, "adapt.plan=(A (B C))")
    assert ("groups owe is emitted" in told) == bool(owing)


def test_what_is_refused_is_told_as_the_run_would(tmp_path: Path) -> None:
    job = job_after(tmp_path, 3)
    wider = f"query={CASE.query.replace(str(3 * SECOND), str(4 * SECOND))}"
    _, _, refused = job.call("run", "job.toml", "--json", "--set", wider)
    code, out, err = job.call("explain", "job.toml", "--against", "ck", "--set", wider)
    assert (code, out, err) == (2, "", refused)
    code, out, err = job.call("explain", "job.toml", "--against", "ck", "--json", "--set", wider)
    found = json.loads(out)
    assert (code, found["goes_on"], found["refused"]["error"]) == (2, False, "the checkpoint belongs to another query")


def test_forced_steps_that_are_refused(tmp_path: Path) -> None:
    job = job_after(tmp_path, 3, 'plan = "((A B) C)"')
    steps = 'adapt.force=[{at_batch = 4, move = ["J1:0->7"]}]'
    code, _, refused = job.call("run", "job.toml", "--json", "--set", steps)
    assert (code, "to slot 7, which is not there" in refused) == (2, True)
    assert job.call("explain", "job.toml", "--against", "ck", "--set", steps) == (2, "", refused)


def test_slots_that_a_run_has_come_to(tmp_path: Path) -> None:
    steps = '[[adapt.force]]\nat_batch = 1\nslots = 5\nmove = ["J1:*->3"]'
    job = job_after(tmp_path, 3, 'plan = "((A B) C)"\n' + steps, "slots = 2\ngroups = 6")
    assert "slots: 5, as before\n" in against(job)
    assert "slots: 5 become 2\ngroups: 6 become 3: " in against(job, "run.groups=3"), "as those would be too many"
    owners = job.state()["placement"]["owners"]
    shown = job.call("explain", "job.toml", "--set", "run.slots=5")[1]
    assert any(set(placed) == {3} for placed in owners.values())
    job.finish("run.slots=5")
    assert job.state()["placement"]["owners"] == owners, "they are what is asked for now, and stay"
    assert shown == job.call("explain", "job.toml", "--set", "run.slots=5")[1]


def test_other_groups(tmp_path: Path) -> None:
    job = job_after(tmp_path, 3)
    told = against(job, "run.groups=7")
    assert told.endswith("\ngroups: 6 become 7: the files of the state are counted by these\n")
    assert "the plan stays ((A B) C), with all of its state\n" in told
    shown = json.loads(job.call("explain", "job.toml", "--against", "ck", "--json", "--set", "run.groups=7")[1])
    assert (shown["goes_on"], shown["groups"]) == (True, [6, 7])


def test_a_change_that_is_under_way_is_told(tmp_path: Path) -> None:
    force = '[[adapt.force]]\nat_batch = 2\nplan = "(A (B C))"\nby = "parallel-track"'
    job = job_after(tmp_path, 4, 'plan = "((A B) C)"\n' + force)
    assert "a change of the plan to (A (B C)) is under way, and goes on\n" in against(job)
    assert "a change of the plan to (A (B C)) is under way, and is dropped\n" in against(job, "adapt.plan=mjoin")


def test_there_is_none(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 1)
    job = JudgedJob.write(tmp_path, CASE)
    code, _, err = job.call("explain", "job.toml", "--against", "nowhere")
    assert code == 2
    assert err.startswith('error: there is no checkpoint in "')
