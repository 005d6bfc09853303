"""Groups that change the shape of their plan, killed, rolled back, compacted: the answer is DuckDB's, once."""

from __future__ import annotations

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
from watersmeet.faults import OF_MIGRATION
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import read_versions

CASE = JoinCase(
    {"A": ("k",), "B": ("k",), "C": ("k",), "D": ("k",)},
    "A.k = B.k AND B.k = C.k AND C.k = D.k",
    window_us=2 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 9
STREAMS = draw_streams(CASE, BATCHES, 6, {"k": 7}, seed=5, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
FIRST = "(((A B) C) D)"


def forced(batch: int, plan: str, groups: str, by: str, more: str = "") -> str:
    named = f'groups = "{groups}"\n' if groups else ""
    return f'[[adapt.force]]\nat_batch = {batch}\nplan = "{plan}"\n{named}by = "{by}"\n{more}\n'


CHANGES = (
    f'plan = "{FIRST}"\n'
    + forced(1, "((A B) (C D))", "0-2", "moving-state", "spill_share = 0.5")
    + forced(2, "(A ((B C) D))", "2-3", "parallel-track", "slots = 3")
    + '[[adapt.force]]\nat_batch = 4\nspill_share = 0.5\nmove = ["J1:0->1"]\n'
    + forced(7, "(A B C D)", "0, 5", "moving-state", "slots = 2")
    + forced(8, "((A B C) D)", "1-4", "moving-state", "spill_share = 0.3")
)
AFTER = 'plan = "auto"\nreplan = "off"'


def write_job(home: Path, adapt: str = CHANGES, run: str = "memory = 9000", end: int | None = None) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in", 0, end)
    return JudgedJob.write(home, CASE, f'{run}\ngroups = 6\ndurability = "process"', adapt)


def versions(job: JudgedJob) -> list[Manifest]:
    return list(read_versions(Folder(str(job.home / "ck" / "state"))))


def changes(decisions: Any) -> list[str]:
    return [entry["plan"] for entry in decisions if entry["decision"] == "ChangePlan"]


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


def test_groups_change_their_shapes(tmp_path: Path) -> None:
    assert EXPECTED.total() > 300
    job = write_job(tmp_path)
    events = job.finish()
    made = changes(entry for event in events for entry in event.get("decisions", ()))
    assert made == ["((A B) (C D))", "(A ((B C) D))", "(A B C D)", "((A B C) D)"]
    shapes = versions(job)[-1].shapes
    assert {str(track.spec.tree): track.within for track in shapes} == {
        "(A B C D)": ((0, 1), (5, 6)),
        "((A B C) D)": ((1, 5),),
    }
    last = [event for event in events if event["event"] == "batch"][-1]
    assert [(entry["plan"], entry["groups"]) for entry in last["shapes"]] == [
        ("(A B C D)", "0, 5"),
        ("((A B C) D)", "1-4"),
    ]
    _, shown, _ = job.call("state", "show", "ck")
    assert "plan (A B C D), and ((A B C) D) in groups 1-4\n" in shown
    assert "plan of groups 0-2 changed to ((A B) (C D)) by moving-state" in shown
    check(job)


@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=() if p == "after-switch" else pytest.mark.campaign) for p in OF_MIGRATION]
)
def test_killed_at_a_point_of_a_change(point: str, tmp_path: Path) -> None:
    job = write_job(tmp_path)
    # The track that advances has no more than three steps, of which the first two runs take one each.
    for nth in (1, 1, 1 if point == "after-advance" else 2):
        kill(job, f"{point}:{nth}")
    job.finish()
    assert len(changes(versions(job)[-1].decisions)) == 4, "each was made once"
    check(job)


def test_gone_on_with_compacted_regrouped_and_united(tmp_path: Path) -> None:
    """A restart goes on with the shapes; other groups unite them first, and so does a plan that settings name."""
    job = write_job(tmp_path, end=3)
    job.finish()
    assert len(versions(job)[-1].shapes) > 1
    code, _, err = job.call("state", "compact", "ck")
    assert code == 0, err
    _, explained, _ = job.call("explain", "job.toml")
    assert "groups 0-2 run ((A B) (C D)):" in explained
    write_job(tmp_path, AFTER, end=5)
    job.finish()
    assert len(versions(job)[-1].shapes) > 1
    write_job(tmp_path, 'plan = "((A C) (B D))"', "slots = 3", end=6)
    job.finish()
    assert versions(job)[-1].plan == "((A C) (B D))"
    write_job(tmp_path, 'plan = "((A C) (B D))"\n' + forced(6, "(A B C D)", "3-5", "moving-state"), end=7)
    job.finish()
    assert versions(job)[-1].plan == "((A C) (B D)), and (A B C D) in groups 3-5"
    write_job(tmp_path, AFTER)
    job.finish("run.groups=4")
    assert versions(job)[-1].plan == "((A C) (B D))"
    assert versions(job)[-1].placement.groups == 4
    check(job)


@pytest.mark.campaign
def test_rolled_back_to_other_shapes(tmp_path: Path) -> None:
    job = write_job(tmp_path, run="memory = 9000\nkeep_versions = 500")
    job.finish()
    for batch in (7, 1):
        before = [manifest for manifest in versions(job) if manifest.last_batch == batch][-1]
        assert len(before.shapes) > 1
        code, _, err = job.call("state", "rollback", "ck", "--to-version", str(before.version), "--yes")
        assert code == 0, err
        assert versions(job)[-1].plan == before.plan
        job.finish()
        check(job)
