"""The local runtime, killed at every fault point and at random moments: after a restart the output is the same."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from watersmeet.faults import POINTS

# Those of runs with a memory budget: test_faults_memory.py.
OF_MEMORY = ("in-merge", "before-spill", "after-spill")

# In `make test`: what a commit and a delivery do. All others are there with a memory budget, and in the campaign here.
IN_CI = ("in-commit", "after-commit", "before-snapshot", "in-delivery", "after-delivery")

# Which reach of a point kills, so that deaths are spread over the run. Elsewhere the first and a later one.
ONLY_ONCE = ("before-snapshot", "after-snapshot")  # version 20 alone


def occurrences(point: str) -> tuple[int, ...]:
    return (1,) if point in ONLY_ONCE else (1, 4)


@pytest.mark.parametrize(
    "point",
    [
        point if point in IN_CI else pytest.param(point, marks=pytest.mark.campaign)
        for point in POINTS
        if point not in OF_MEMORY
    ],
)
def test_killed_at_a_point(point: str, make_chaos_job, undisturbed, tmp_path: Path) -> None:
    job = make_chaos_job(tmp_path / "run")
    for nth in occurrences(point):
        marker = tmp_path / f"reached-{nth}"
        killed = job.start(fault=f"{point}:{nth}", marker=marker)
        assert marker.exists(), f"{point} was not reached {nth} times: {killed.stderr}"
        assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, "")
        assert job.answer() <= undisturbed
    job.finish()
    assert job.answer() == undisturbed
    job.check_tidy()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
def test_killed_at_random_moments(seed: int, make_chaos_job, undisturbed, tmp_path: Path) -> None:
    job = make_chaos_job(tmp_path / "run")
    moments = random.Random(seed)
    for _ in range(4):
        process = subprocess.Popen(
            job.command(), cwd=job.home, env=job.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        for _ in range(2):  # the start and the first batch of this run, so that each run comes on a little
            process.stdout.readline()
        time.sleep(moments.uniform(0, 0.15))
        process.kill()
        process.wait()
        assert job.answer() <= undisturbed
    job.finish()
    assert job.answer() == undisturbed
    job.check_tidy()


def test_killed_and_gone_on_with_other_slots(make_chaos_job, undisturbed, tmp_path: Path) -> None:
    job = make_chaos_job(tmp_path / "run")
    for slots, fault in ((2, "after-delivery:5"), (3, "before-commit:4"), (1, "after-commit:6"), (6, "in-delivery:3")):
        killed = job.start(f"run.slots={slots}", fault=fault, marker=tmp_path / f"reached-{slots}")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert job.answer() <= undisturbed
    job.finish("run.slots=4")
    answer = job.answer()
    assert (answer.rows, answer.late) == (undisturbed.rows, undisturbed.late)
    job.check_tidy()


def test_a_checkpoint_may_be_named_in_other_words(make_chaos_job, undisturbed, tmp_path: Path) -> None:
    """Killed before a delivery, then gone on with from another spelling of the same folder."""
    job = make_chaos_job(tmp_path / "run")
    for number, spelling in enumerate(("ck", "./ck", str(job.home / "ck"), f"file://{job.home}/ck")):
        marker = tmp_path / f"reached-{number}"
        killed = job.start(f"run.checkpoint={spelling}", fault="in-delivery:3", marker=marker)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    job.finish()
    assert job.answer() == undisturbed
    job.check_tidy()
