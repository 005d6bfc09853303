"""`watersmeet state set-watermark`: what comes back after a wrong time has moved a watermark, and what is refused."""

from __future__ import annotations

import errno
import fcntl
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, draw_streams, duckdb_answer, write_streams
from watersmeet.state.files import Folder
from watersmeet.state.lock import CheckpointLock

CASE = JoinCase({"A": ("k",), "B": ("k",)}, "A.k = B.k", window_us=2 * SECOND, lateness_us=SECOND // 2)
ROWS, BATCHES = 20, 6
YEAR_2100 = 4_102_444_800 * SECOND
RIGHT = draw_streams(CASE, BATCHES, ROWS, 4)
WRONG = {name: [list(rows) for rows in batches] for name, batches in RIGHT.items()}
WRONG["A"][2].append({"k": 9, "v": 999, "ts": YEAR_2100})


def moved(folder: Path) -> JudgedJob:
    """A job that has read three batches, the last of them with a row of A in 2100."""
    job = JudgedJob.write(folder, CASE)
    write_streams(CASE, WRONG, folder / "in", 0, 3)
    job.finish()
    return job


@pytest.fixture
def job(tmp_path: Path) -> JudgedJob:
    return moved(tmp_path)


def set_back(job: JudgedJob, *arguments: str, stream: str = "A", to: str = "2500000") -> tuple[int, str, str]:
    return job.call("state", "set-watermark", "ck", "--stream", stream, "--to", to, *arguments)


def expected() -> Counter[tuple[Any, ...]]:
    """All but combinations of rows of A that came later with rows of B that were dropped in the third batch."""
    later, dropped = range(3 * ROWS, BATCHES * ROWS), range(3 * ROWS)
    whole = duckdb_answer(CASE, RIGHT)
    return Counter({pair: n for pair, n in whole.items() if not (pair[0] in later and pair[1] in dropped)})


def test_later_rows_join_again_with_what_is_kept(job: JudgedJob) -> None:
    before = job.state()
    code, out, err = set_back(job)
    assert (code, err) == (0, "")
    assert 'stream "A" set back from 2099-12-31 23:59:59.500000 to 1970-01-01 00:00:02.500000, with version' in out
    assert "what is gone stays gone" in out
    after = job.state()
    assert after["version"] == before["version"] + 1
    assert after["streams"]["A"] == {**before["streams"]["A"], "newest_us": 3 * SECOND}
    assert after["streams"]["B"] == before["streams"]["B"]
    assert after["holder"]["epoch"] == before["holder"]["epoch"] + 1
    assert after["holder"]["waiting"] == before["holder"]["waiting"]
    assert job.call("state", "verify", "ck")[0] == 0
    assert "SetWatermark: asked for; it was 2099-12-31" in job.call("state", "show", "ck")[1]
    write_streams(CASE, WRONG, job.home / "in", 3)
    end = job.finish()[-1]
    assert end["rows_late"] == 0
    assert job.answer() == expected()
    assert expected().total() < duckdb_answer(CASE, RIGHT).total(), "something was dropped"


def test_without_it_all_that_follows_is_late(job: JudgedJob) -> None:
    write_streams(CASE, WRONG, job.home / "in", 3)
    assert job.finish()[-1]["rows_late"] == 3 * ROWS


def test_json_tells_what_was_changed(job: JudgedJob) -> None:
    code, out, _ = set_back(job, "--json")
    assert code == 0
    assert json.loads(out) == {
        "stream": "A",
        "before_us": YEAR_2100 - SECOND // 2,
        "after_us": 2_500_000,
        "version": job.state()["version"],
        "before": "2099-12-31 23:59:59.500000",
        "after": "1970-01-01 00:00:02.500000",
    }


@pytest.mark.parametrize(
    ("stream", "to", "primary"),
    [
        ("A", "2100-01-01", 'the watermark of stream "A" can be set back only'),
        ("A", str(YEAR_2100 - SECOND // 2), 'the watermark of stream "A" can be set back only'),
        ("B", "1970-01-02", 'the watermark of stream "B" can be set back only'),
        ("C", "0", 'the query of the checkpoint has no stream "C"'),
        ("A", "yesterday", 'time "yesterday" is not a time'),
        ("A", "-9" * 12, f'time "{"-9" * 12}" is not a time'),
        ("A", "-" + "9" * 30, f'time "-{"9" * 30}" is out of range'),
    ],
)
def test_mistakes_are_told_and_change_nothing(job: JudgedJob, stream: str, to: str, primary: str) -> None:
    before = job.state()
    code, out, err = job.call("state", "set-watermark", "ck", f"--stream={stream}", f"--to={to}")
    assert (code, out) == (2, "")
    assert primary in err.splitlines()[0]
    assert job.state() == before


def test_dates_are_for_every_stream(job: JudgedJob) -> None:
    assert set_back(job, to="1970-01-01T01:00:02+01:00")[0] == 0
    assert job.state()["streams"]["A"]["newest_us"] == 2 * SECOND + SECOND // 2


def test_it_may_be_done_again_further_back(job: JudgedJob) -> None:
    assert [set_back(job, to=to)[0] for to in ("2500000", "2500000", "2400000", "2450000")] == [0, 2, 0, 2]


def test_a_stream_without_rows_has_none(tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, CASE)
    write_streams(CASE, {"A": RIGHT["A"][:1], "B": [[]]}, tmp_path / "in")
    job.finish()
    code, _, err = set_back(job, stream="B")
    assert code == 2
    assert 'stream "B" has no watermark yet' in err


def test_a_checkpoint_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, CASE)
    code, _, err = set_back(job)
    assert code == 2
    assert 'there is no checkpoint "ck"' in err
    assert not (tmp_path / "ck").exists()


def test_a_run_that_has_the_checkpoint_keeps_it(job: JudgedJob) -> None:
    before = job.state()
    lock = CheckpointLock(Folder(str(job.home / "ck")))
    lock.acquire()
    try:
        code, _, err = set_back(job)
    finally:
        lock.release()
    assert code == 2
    assert "another run is using the checkpoint" in err
    assert job.state() == before


def test_where_there_are_no_locks_it_must_be_said(job: JudgedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    before = job.state()
    code, _, err = set_back(job)
    assert code == 2
    assert "--take-over" in err
    assert job.state() == before
    assert set_back(job, "--take-over")[0] == 0


@pytest.mark.parametrize(("point", "done"), [("before-commit", False), ("in-commit", False), ("after-commit", True)])
def test_killed_on_the_way(job: JudgedJob, point: str, done: bool) -> None:
    command = [sys.executable, "-m", "watersmeet", "state", "set-watermark", "ck", "--stream", "A", "--to", "2500000"]
    killed = subprocess.run(command, cwd=job.home, env=job.environment(f"{point}:1"), timeout=240, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert job.state()["streams"]["A"]["newest_us"] == (3 * SECOND if done else YEAR_2100)
    if not done:
        assert set_back(job)[0] == 0
    write_streams(CASE, WRONG, job.home / "in", 3)
    job.finish()
    assert job.answer() == expected()
