"""The power goes from a real filesystem: ext4 in a file, copied while the run on it stands still.

The copy has what had reached the disk, as after a power loss: what the system still held in memory is not in it. Runs
in processes of their own, so Spark's workers are under test too. Needs root, to mount. `power_loss.py` draws many more
images, and stranger ones.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, Result, difference, draw_streams, duckdb_answer, late_rows
from judged_jobs import write_streams as write_case
from watersmeet.state.syncing import POWER_LOSS, PROCESS

CASE = JoinCase(
    {"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m", 3 * SECOND, lateness_us=SECOND // 2
)
COPIES = 6


class Disk:
    """An ext4 filesystem in a file, which has names on disk by itself every so many seconds, and contents later."""

    commit = 600

    def __init__(self, home: Path) -> None:
        self.image, self.folder = home / "image", home / "disk"
        self.folder.mkdir()
        with self.image.open("wb") as file:
            file.truncate(48 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self.image)], check=True)

    def mount(self, image: Path | None = None) -> bool:
        command = ["mount", "-o", f"loop,commit={self.commit}", str(image or self.image), str(self.folder)]
        return subprocess.run(command, capture_output=True).returncode == 0

    def unmount(self) -> None:
        for _ in range(50):  # a process that was killed may take a moment to let go
            if subprocess.run(["umount", str(self.folder)], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        raise TimeoutError(self.folder)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if shutil.which("mkfs.ext4") is None or os.getuid() != 0:
        pytest.skip("mounting a filesystem needs root, and mkfs.ext4")
    found = Disk(tmp_path)
    if not found.mount():
        pytest.skip("no filesystem in a file can be mounted here")
    found.unmount()
    yield found
    subprocess.run(["umount", "-l", str(found.folder)], capture_output=True)


def lose_power(disk: Disk, runtime: str, durability: str, batches: int) -> Counter[str]:
    """Copies of the disk at moments of a run, and what comes of going on from each.

    A batch that was reported is to be in the copy.
    """
    streams = draw_streams(CASE, batches, 40, 20, seed=5, late=2)
    expected, late = duckdb_answer(CASE, streams), late_rows(CASE, streams)
    assert disk.mount()
    job = JudgedJob.write(disk.folder / "job", CASE, runtime=runtime)
    write_case(CASE, streams, job.home / "in")
    os.sync()
    command = job.command(f"run.durability={durability}")
    run = subprocess.Popen(
        command, cwd=job.home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert run.stdout is not None
    copies: dict[Path, int] = {}  # with the last batch that was reported before
    moments = random.Random(2)
    for line in run.stdout:
        event = json.loads(line)
        if event["event"] == "batch" and len(copies) < COPIES and moments.random() < 0.4:
            time.sleep(moments.uniform(0, 0.1))
            os.killpg(run.pid, signal.SIGSTOP)  # the JVM and its workers too
            copy = disk.image.with_name(f"copy-{len(copies)}")
            subprocess.run(["cp", "--sparse=always", str(disk.image), str(copy)], check=True)
            copies[copy] = event["batch"]
            os.killpg(run.pid, signal.SIGCONT)
    assert run.wait() == 0
    assert difference(job.answer(), expected) == ""
    disk.unmount()
    found: Counter[str] = Counter()
    for copy, reported in copies.items():
        assert disk.mount(copy)
        sizes = [path.stat().st_size for path in (job.home / "ck/state/segments").glob("*.arrow")]
        kept = last_batch(job)
        done = job.start("run.durability=process")
        outcome = "refused" if done.code else "right" if is_right(job, expected, late) else "wrong"
        outcome = "lost a batch" if outcome == "right" and kept < reported else outcome
        print(f"{durability}, {runtime}: batch {reported} reported, {kept} kept,", end=" ")
        print(f"{sizes.count(0)} of {len(sizes)} segments empty: {outcome}")
        found[outcome] += 1
        disk.unmount()
    return found


def last_batch(job: JudgedJob) -> int:
    """Of the newest version that can be read."""
    for path in sorted((job.home / "ck/state/versions").glob("*.json"), reverse=True):
        with suppress(ValueError):
            return int(json.loads(path.read_text())["batch"])
    return -1


def is_right(job: JudgedJob, expected: Result, late: int) -> bool:
    try:
        return (job.answer(), job.late()) == (expected, late)
    except pa.ArrowInvalid:
        return False


@pytest.mark.timeout(300)
def test_local(disk: Disk) -> None:
    found = lose_power(disk, "local", POWER_LOSS, 30)
    assert found == {"right": COPIES}


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_without_it_the_same_goes_wrong(disk: Disk) -> None:
    disk.commit = 1
    found = lose_power(disk, "local", PROCESS, 60)
    assert found["right"] == 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_spark(disk: Disk) -> None:
    found = lose_power(disk, "spark", POWER_LOSS, 12)
    assert found.total() > 1
    assert found["right"] == found.total()
