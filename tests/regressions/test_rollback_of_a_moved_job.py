"""Rollbacks of a job that was moved as a whole, and where they say that results are put.

Its files were said to be missing, which the next run found, and its results to have been taken from the output; they
were announced in a folder that they were not moved to.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, late_rows, write_streams
from watersmeet.state.files import Folder
from watersmeet.state.table import read_versions

CASE = JoinCase({"A": ("k",), "B": ("k",)}, "A.k = B.k", window_us=20 * SECOND, lateness_us=SECOND)
STREAMS = draw_streams(CASE, 6, 20, 12, seed=8, late=2)


def begin(home: Path) -> JudgedJob:
    job = JudgedJob.write(home, CASE, run='durability = "process"\nkeep_versions = 60')
    write_streams(CASE, STREAMS, home / "in", 0, 4)
    job.finish()
    return job


def roll_back(job: JudgedJob, batch: int) -> str:
    """To the last version after a batch; what is said of it, in one line."""
    found = list(read_versions(Folder(str(job.home / "ck" / "state"))))
    can = [m.version for m in found if m.last_batch == batch and found[-1].can_go_back_to(m.version)]
    code, out, err = job.call("state", "rollback", "ck", "--to-version", str(can[-1]), "--yes")
    assert code == 0, err
    return " ".join(out.split())


def finish(job: JudgedJob) -> None:
    write_streams(CASE, STREAMS, job.home / "in")
    job.finish()
    assert difference(job.answer(), duckdb_answer(CASE, STREAMS)) == ""
    assert job.late() == late_rows(CASE, STREAMS)


@pytest.mark.parametrize("run_since", [False, True])
def test_its_files_and_results_are_found(run_since: bool, tmp_path: Path) -> None:
    begin(tmp_path / "one")
    job = JudgedJob((tmp_path / "one").rename(tmp_path / "two"))
    if run_since:
        write_streams(CASE, STREAMS, job.home / "in", 4, 5)
        job.finish()
    before = set((job.home / "out").glob("*.parquet"))
    said = roll_back(job, 1)
    assert "missing" not in said and "do not lie" not in said
    assert f"in {3 if run_since else 2} files ({job.home}/in/A/" in said
    assert f"{job.home}/out: part-" in said
    left = set((job.home / "out").glob("*.parquet"))
    assert left < before
    aside = set((job.home / "out").glob("_rolled-back-*/*.parquet"))
    assert {path.name for path in aside} == {path.name for path in before - left}
    finish(job)


def test_a_file_that_has_gone(tmp_path: Path) -> None:
    begin(tmp_path / "one")
    job = JudgedJob((tmp_path / "one").rename(tmp_path / "two"))
    [gone] = (job.home / "in" / "A").glob("*3.parquet")
    gone.unlink()
    said = roll_back(job, 1)
    assert f"unless the job has another path for them: {tmp_path}/one/in/A/{gone.name}" in said
    assert said.count("missing") == 1


def test_the_folder_that_is_announced_is_the_one(tmp_path: Path) -> None:
    job = begin(tmp_path)
    versions = [manifest.version for manifest in read_versions(Folder(str(tmp_path / "ck" / "state")))]
    other = tmp_path / "out" / f"_rolled-back-{versions[-1] + 1}" / "of another.parquet"
    other.parent.mkdir()
    other.touch()
    said = roll_back(job, 1)
    [name] = set(re.findall(r"moved aside, to (\S+) there", said.partition("late:")[0]))
    assert name == f"{other.parent.name}-2"
    assert list((tmp_path / "out" / name).glob("part-*.parquet"))
    finish(job)
