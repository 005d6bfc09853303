"""The lock: one holder at a time, who is named; released with its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from watersmeet.errors import AddressError, CheckpointError
from watersmeet.state.files import Folder
from watersmeet.state.lock import CheckpointLock

HOLD = """
import sys
from watersmeet.state.files import Folder
from watersmeet.state.lock import CheckpointLock
lock = CheckpointLock(Folder(sys.argv[1]))
lock.acquire()
print("held", flush=True)
"""


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "ck"))
    first, second = CheckpointLock(folder), CheckpointLock(folder)
    first.acquire()
    with pytest.raises(CheckpointError) as caught:
        second.acquire()
    assert caught.value.primary == "another run is using the checkpoint"
    assert f'"pid": {os.getpid()}' in (caught.value.detail or "")
    assert (tmp_path / "ck" / "lock").read_text().endswith(f'"pid": {os.getpid()}}}')
    second.release()
    first.release()
    first.release()
    second.acquire()
    second.release()


@pytest.mark.parametrize("wait", [False, True])
def test_another_process_holds_it_for_as_long_as_it_lives(wait: bool, tmp_path: Path) -> None:
    script = HOLD + ("sys.stdin.read()" if wait else "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    lock = CheckpointLock(Folder(str(tmp_path)))
    if wait:
        with pytest.raises(CheckpointError, match=f'"pid": {process.pid}'):
            lock.acquire()
    process.communicate("")
    lock.acquire()
    lock.release()


def test_far_away_there_is_no_lock() -> None:
    lock = CheckpointLock(Folder("s3://bucket/ck"))
    lock.acquire()
    lock.release()


def test_a_checkpoint_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "ck").write_text("")
    with pytest.raises(AddressError, match="is not a folder"):
        CheckpointLock(Folder(str(tmp_path / "ck"))).acquire()
