"""Backups that are restored more than once, or after a move: what lies in the output is known for what it is.

A restored checkpoint counts versions and deliveries from its backup on. So files that had been set aside by a restore,
or by a rollback before it, bore numbers that later deliveries bore as well; when a backup of these was restored they
were taken for its own and put back into the output, with rows that were there already. And where a job had been moved
as a whole, nothing that was delivered after a backup was found, nor was that said.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from judged_jobs import JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

CASE = JoinCase({"A": ("k",), "B": ("k",)}, "A.k = B.k")
STREAMS = draw_streams(CASE, 6, 20, 12, seed=3)


def begin(home: Path) -> JudgedJob:
    return JudgedJob.write(home, CASE, run='durability = "process"\nkeep_versions = 50')


def run(job: JudgedJob, batches: int) -> None:
    """Run it over so many batches, after which their answer is there."""
    write_streams(CASE, STREAMS, job.home / "in", 0, batches)
    job.finish()
    expected = duckdb_answer(CASE, {name: found[:batches] for name, found in STREAMS.items()})
    assert difference(job.answer(), expected) == ""


def call(job: JudgedJob, *words: str) -> str:
    code, out, err = job.call("state", *words)
    assert code == 0, err
    return out


def back_up(job: JudgedJob) -> None:
    call(job, "backup", "ck", "backups", "--keep", "9")


def restore(job: JudgedJob, number: int) -> str:
    shutil.rmtree(job.home / "ck")
    return call(job, "restore", "backups", "ck", "--number", str(number), "--set-aside")


def roll_back(job: JudgedJob, version: int) -> None:
    call(job, "rollback", "ck", "--to-version", str(version), "--yes")


def test_a_backup_of_a_restored_checkpoint(tmp_path: Path) -> None:
    job = begin(tmp_path)
    run(job, 2)
    back_up(job)
    run(job, 4)
    restore(job, 1)
    run(job, 5)
    back_up(job)
    run(job, 6)
    assert "delivered before the backup" not in restore(job, 2)
    run(job, 6)


def test_a_backup_of_a_restored_checkpoint_that_a_rollback_came_before(tmp_path: Path) -> None:
    job = begin(tmp_path)
    run(job, 1)
    version = int(job.state()["version"])
    back_up(job)
    run(job, 4)
    roll_back(job, version)
    restore(job, 1)
    run(job, 4)
    back_up(job)
    roll_back(job, version)  # a version of the same number as before
    run(job, 5)
    restore(job, 2)
    run(job, 6)


def test_the_wrong_backup_was_restored_first(tmp_path: Path) -> None:
    job = begin(tmp_path)
    run(job, 1)
    back_up(job)
    run(job, 3)
    back_up(job)
    run(job, 4)
    restore(job, 1)
    restore(job, 2)
    run(job, 6)


def test_the_same_backup_twice(tmp_path: Path) -> None:
    job = begin(tmp_path)
    run(job, 1)
    back_up(job)
    for batches in (3, 4, 4):
        run(job, batches)
        restore(job, 1)
    run(job, 4)
    back_up(job)
    restore(job, 1)
    restore(job, 2)
    run(job, 6)


def test_a_job_that_was_moved_as_a_whole(tmp_path: Path) -> None:
    job = begin(tmp_path / "one")
    run(job, 2)
    back_up(job)
    run(job, 4)
    moved = JudgedJob(job.home.rename(tmp_path / "two"))
    assert f"delivered since to {moved.home}/out/_set-aside-" in restore(moved, 1)
    run(moved, 5)


def test_an_output_that_is_not_there(tmp_path: Path) -> None:
    job = begin(tmp_path)
    run(job, 2)
    back_up(job)
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    said = restore(job, 1)
    assert f"warning: {tmp_path}/out, where its results went, is not there" in said
    assert f"{tmp_path}/late" not in said
