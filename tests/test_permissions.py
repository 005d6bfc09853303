"""Who may read what a run leaves: its checkpoint and its copies the user alone, its results whom the umask says."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from object_server import S3Server
from small_jobs import OPEN_TO_A_GROUP, SmallJob, check_modes, mode
from watersmeet.state.caches import cache_folder
from watersmeet.state.files import Folder


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(OPEN_TO_A_GROUP)
    try:
        yield
    finally:
        os.umask(before)


def test_a_new_checkpoint_is_the_users_alone(tmp_path: Path) -> None:
    """And what is in it is reached through its folder; results are there to be read. On Spark: cli/test_secrets.py."""
    job = SmallJob(tmp_path).write()
    job.finish()
    check_modes(job, 0o700)


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    """So that executors of another user, or a group, can be let in."""
    job = SmallJob(tmp_path).write()
    job.checkpoint.mkdir()
    job.checkpoint.chmod(0o770)
    job.finish()
    check_modes(job, 0o770)


@pytest.mark.parametrize("there", [False, True], ids=["new", "open to others"])
def test_copies_of_remote_files(there: bool, tmp_path: Path, s3: S3Server) -> None:
    cache = tmp_path / "cache"
    if there:
        cache.mkdir(mode=0o777)
    bucket = s3.bucket()
    folder = Folder(s3.address(f"{bucket}/x"), str(cache))
    folder.write("kept", lambda sink: sink.write(b"written"), keep_copy=True)
    s3.client(bucket).put("x/read", b"read")
    assert folder.open("read").read() == b"read"
    assert folder.open("kept").read() == b"written"
    files = sorted(cache.glob("*/*"))
    assert len(files) == 2
    assert {mode(path) for path in (*files, cache / ".looked")} == {0o600}
    assert {mode(path.parent) for path in files} == {0o700}
    assert there or mode(Path(cache_folder(str(cache)))) == 0o700


_AS_ANOTHER = """
import os, sys
from watersmeet.cli.main import main
assert main(["state", "show", sys.argv[1]]) == 0  # with all its modules, which others may be unable to read
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.exit(main(["state", "show", sys.argv[1]]))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_is_told() -> None:
    """One who may not read a checkpoint is not told that there is none."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        job = SmallJob(Path(name)).write()
        job.finish()
        words = [sys.executable, "-c", _AS_ANOTHER, str(job.checkpoint)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr
