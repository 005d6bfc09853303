"""SIGTERM ends a run between two batches, with an exit code of its own, and lets the checkpoint go.

Was: the local runtime died of it wherever it was, without a word, and a run that waited for its trigger heard nothing.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from small_jobs import FILES, SmallJob
from watersmeet.state.files import Folder
from watersmeet.state.lock import CheckpointLock

RUNTIMES = ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.campaign])]


def start(job: SmallJob, trigger: str, *arguments: str) -> subprocess.Popen[str]:
    words = [*job.command(f"run.trigger={trigger}"), *arguments]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_batches(run: subprocess.Popen[str], batches: int) -> None:
    assert run.stdout is not None
    assert json.loads(run.stdout.readline())["event"] == "start"
    for number in range(batches):
        line = run.stdout.readline()
        assert line, run.communicate()
        assert json.loads(line)["batch"] == number


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("batches", [1, FILES])
def test_a_run_that_is_told_to_end(runtime: str, batches: int, tmp_path: Path) -> None:
    job = SmallJob(tmp_path, runtime).write()
    run = start(job, "100 milliseconds")
    try:
        wait_for_batches(run, batches)
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=120)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 143, err
    assert "terminated" in err.splitlines()
    assert "Traceback" not in err
    if runtime == "local":
        assert json.loads(out.splitlines()[-1])["event"] == "end"
    lock = CheckpointLock(Folder(str(job.checkpoint)))
    lock.acquire()
    lock.release()
    done = job.start()
    assert done.returncode == 0, done.stderr
    assert job.answer() == job.expected()


@pytest.mark.parametrize("arguments", [(), ("--drain",)])
def test_one_that_waits_hears_it(arguments: tuple[str, ...], tmp_path: Path) -> None:
    run = start(SmallJob(tmp_path).write(), "10 minutes", *arguments)
    try:
        wait_for_batches(run, 1)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=30)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == (0 if arguments else 143)


def test_a_trigger_of_no_time_keeps_no_core_busy(tmp_path: Path) -> None:
    run = start(SmallJob(tmp_path).write(), "0 seconds")
    try:
        wait_for_batches(run, FILES)
        before = cpu_seconds(run.pid)
        time.sleep(2)
        used = cpu_seconds(run.pid) - before
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=30)
    finally:
        run.kill()
        run.wait()
    assert used < 0.5, "of two seconds"


def cpu_seconds(process: int) -> float:
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / 100
