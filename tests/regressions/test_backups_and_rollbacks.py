"""Backups, rollbacks and outputs that change, one after the other: what comes out is the answer, once.

Rows were there twice after a backup among merges, whose files have the batch of those before them in their names, with
a log of versions too short to tell; after a rollback of results that had gone to another folder; and were missing after
a rollback behind a backup that was then restored.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, late_rows, write_streams
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.output_names import stamp_of
from watersmeet.state.table import read_versions

CASE = JoinCase({"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m", lateness_us=SECOND)
STREAMS = draw_streams(CASE, 6, 60, 40, seed=5, late=2)
EXPECTED = duckdb_answer(CASE, STREAMS)
SPILLS = 'memory = 1500\ndurability = "process"'


def call(job: JudgedJob, *words: str) -> str:
    code, out, err = job.call("state", *words)
    assert code == 0, err
    return out


def restore(job: JudgedJob, *words: str) -> str:
    shutil.rmtree(job.home / "ck")
    return call(job, "restore", "backups", "ck", *words)


def head(job: JudgedJob) -> Manifest:
    return list(read_versions(Folder(str(job.home / "ck" / "state"))))[-1]


def check(job: JudgedJob) -> None:
    assert difference(job.answer(), EXPECTED) == ""
    assert job.late() == late_rows(CASE, STREAMS)


@pytest.mark.parametrize("left", [5, 9, 13])
@pytest.mark.parametrize("settings", [(), ("sink.deliver_every=1 hour",)], ids=["at once", "gathered"])
def test_a_backup_among_merges(tmp_path: Path, left: int, settings: tuple[str, ...]) -> None:
    job, other = (
        JudgedJob.write(tmp_path / name, CASE, run=f"{SPILLS}\nkeep_versions = 1") for name in ("one", "other")
    )
    for some in (job, other):
        write_streams(CASE, STREAMS, some.home / "in")
    other.finish(*settings)
    assert job.start(*settings, fault=f"after-commit:{head(other).version - left}").code
    last = head(job).batch
    assert last is not None and last.number == 5 and last.round, "it died among merges"
    call(job, "backup", "ck", "backups")
    job.finish(*settings)
    check(job)
    delivered = set((job.home / "out").glob("*.parquet"))
    assert "that were delivered since" in restore(job, "--set-aside")
    assert set((job.home / "out").glob("*.parquet")) < delivered
    job.finish(*settings)
    check(job)


def test_a_rollback_of_results_that_went_elsewhere(tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, CASE, run='durability = "process"\nkeep_versions = 60')
    first, second = ((f'sink.path="{tmp_path / name}"', f'sink.late="{tmp_path / name}-late"') for name in "12")
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 2)
    job.finish(*first)
    version = head(job).version
    write_streams(CASE, STREAMS, tmp_path / "in", 2, 4)
    job.finish(*first)
    write_streams(CASE, STREAMS, tmp_path / "in", 4, 6)
    job.finish(*second)
    said = call(job, "rollback", "ck", "--to-version", str(version), "--yes")
    assert f"{tmp_path / '1'}: part-" in said and f"{tmp_path / '2'}: part-" in said
    job.finish(*second)
    assert difference(job.answer("1") + job.answer("2"), EXPECTED) == ""


@pytest.mark.parametrize("run", ['durability = "process"', SPILLS], ids=["unlimited", "budget"])
def test_a_backup_that_a_rollback_went_back_behind(tmp_path: Path, run: str) -> None:
    job = JudgedJob.write(tmp_path, CASE, run=f"{run}\nkeep_versions = 500")
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 1)
    job.finish()
    version = head(job).version
    write_streams(CASE, STREAMS, tmp_path / "in", 1, 4)
    job.finish()
    call(job, "backup", "ck", "backups")
    write_streams(CASE, STREAMS, tmp_path / "in", 4, 5)
    job.finish()
    call(job, "rollback", "ck", "--to-version", str(version), "--yes")
    job.finish()
    write_streams(CASE, STREAMS, tmp_path / "in", 5, 6)
    job.finish()
    check(job)
    said = restore(job)
    assert "are missing from the output, and do not come again" in said
    said = restore(job, "--set-aside")
    assert "that were delivered before the backup" in said
    job.finish()
    check(job)


@pytest.mark.parametrize("how", ["an old copy", "restored"])
def test_a_checkpoint_that_is_older_than_its_results(tmp_path: Path, how: str) -> None:
    """It knew nothing of them, and delivered their rows a second time, with exit code 0."""
    job = JudgedJob.write(tmp_path, CASE, run='durability = "process"')
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 3)
    job.finish()
    shutil.copytree(tmp_path / "ck", tmp_path / "old")
    call(job, "backup", "ck", "backups")
    write_streams(CASE, STREAMS, tmp_path / "in", 3, 6)
    job.finish()
    check(job)
    if how == "restored":
        assert "will be there twice" in " ".join(restore(job).split())
    else:
        shutil.rmtree(tmp_path / "ck")
        (tmp_path / "old").rename(tmp_path / "ck")
    refused = job.run_here()
    assert refused.code == 2
    assert "holds results that the checkpoint knows nothing of" in refused.stderr
    check(job)
    for path in [*(tmp_path / "out").glob("*.parquet"), *(tmp_path / "late").glob("*.parquet")]:
        stamp = stamp_of(path.name)
        assert stamp is not None and stamp.delivery is not None
        if stamp.delivery >= head(job).next_delivery:
            path.unlink()
    job.finish()
    check(job)
