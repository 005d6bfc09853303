"""A disk that fails while garbage is deleted: told as any other failure of the disk, and the next run goes on.

Found by `python -m chaos --shape tree-budget --seed 1 --actions 150`: the error came as a traceback.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from small_jobs import SmallJob, checked_main


def test_told_and_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = SmallJob(tmp_path).write()
    job.finish()
    orphan = job.checkpoint / "state" / "segments" / "00000000-e1-0123456789abcdef.arrow"
    orphan.write_bytes(b"left by a task that failed")
    unlink = os.unlink

    def fail(path: Any, **options: Any) -> None:
        if str(path) == str(orphan):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        unlink(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        said = checked_main(job, capsys, 1, "cannot delete")
    assert "What was committed stays committed" in said
    job.finish()
    assert not orphan.exists()
    assert job.answer() == job.expected()
