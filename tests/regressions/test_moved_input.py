"""Input that lies elsewhere at a restart: a job folder that was moved as a whole, or another path in the job file.

Files were known by their whole addresses, so that all of them were read again, and every result was there twice.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, late_rows, write_streams
from small_jobs import SmallJob, write_rows

GOLDENS = Path(__file__).parent.parent / "golden" / "checkpoints"
CASE = JoinCase({"A": ("k",), "B": ("k",)}, "A.k = B.k", window_us=20 * SECOND, lateness_us=SECOND)
STREAMS = draw_streams(CASE, 6, 20, 12, seed=8, late=2)


def begin(home: Path, runtime: str = "local") -> JudgedJob:
    """A job that has read half of its input."""
    job = JudgedJob.write(home, CASE, run='durability = "process"', runtime=runtime)
    write_streams(CASE, STREAMS, home / "in", 0, 3)
    job.finish()
    return job


def go_on(job: JudgedJob, *settings: str, folder: str = "in") -> str:
    """The other half comes, and the job runs; what it tells the user."""
    write_streams(CASE, STREAMS, job.home / folder, 3, 6)
    done = job.start(*settings)
    assert done.code == 0, done.stderr
    return done.stderr


def check(job: JudgedJob) -> None:
    assert difference(job.answer(), duckdb_answer(CASE, STREAMS)) == ""
    assert job.late() == late_rows(CASE, STREAMS)


def paths(folder: Path) -> list[str]:
    return [f"streams.{name}.path={folder / name}" for name in CASE.streams]


def test_a_job_that_was_moved_as_a_whole(tmp_path: Path) -> None:
    begin(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "two")
    job = JudgedJob(tmp_path / "two")
    said = go_on(job)
    assert f'stream "A" has moved from {tmp_path}/one/in/A to {tmp_path}/two/in/A: 3 files there were read' in said
    check(job)
    assert "has moved" not in go_on(job)  # it is known from then on
    (tmp_path / "two").rename(tmp_path / "one")
    assert "has moved" in go_on(JudgedJob(tmp_path / "one"))
    check(JudgedJob(tmp_path / "one"))


def test_a_copy_that_keeps_times(tmp_path: Path) -> None:
    job = begin(tmp_path)
    shutil.copytree(tmp_path / "in", tmp_path / "copy")
    go_on(job, *paths(tmp_path / "copy"), folder="copy")
    check(job)


def test_a_copy_with_other_times(tmp_path: Path) -> None:
    job = begin(tmp_path)
    shutil.copytree(tmp_path / "in", tmp_path / "copy", copy_function=shutil.copyfile)
    write_streams(CASE, STREAMS, tmp_path / "copy", 3, 6)
    settings = paths(tmp_path / "copy")
    refused = job.run_here(*settings)
    assert refused.code == 2
    assert 'stream "A" has another path, where files of the same names lie as were read before' in refused.stderr
    assert "moved = true in [streams.A]" in refused.stderr
    job.finish(*settings, *(f"streams.{name}.moved=true" for name in CASE.streams))
    check(job)
    job.finish(*settings)
    check(job)


def test_other_files_of_the_same_names(tmp_path: Path) -> None:
    job = begin(tmp_path)
    for name in CASE.streams:
        (tmp_path / "next" / name).mkdir(parents=True)
        for number, file in enumerate(sorted((tmp_path / "in" / name).iterdir())):
            write_streams(CASE, STREAMS, tmp_path / "more", 3, 6)
            shutil.copyfile(sorted((tmp_path / "more" / name).iterdir())[number], tmp_path / "next" / name / file.name)
            os.utime(tmp_path / "next" / name / file.name, ns=(1_900_000_000_000_000_000 + number * 1000,) * 2)
    settings = paths(tmp_path / "next")
    assert job.run_here(*settings).code == 2
    job.finish(*settings, *(f"streams.{name}.moved=false" for name in CASE.streams))
    check(job)


def test_another_folder_with_other_files(tmp_path: Path) -> None:
    job = begin(tmp_path)
    said = go_on(job, *paths(tmp_path / "next"), folder="next")
    assert "has another path" in said and "where no file lies that was read" in said
    check(job)


@pytest.mark.parametrize("moved", [None, "true"])
def test_there_and_back_without_times(tmp_path: Path, moved: str | None) -> None:
    """Files that were read there were read again here, as some others had been read here before."""
    patient = replace(CASE, window_us=None, lateness_us=100 * SECOND)
    job = JudgedJob.write(tmp_path, patient, run='durability = "process"')
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 3)
    job.finish()
    (tmp_path / "in").rename(tmp_path / "there")
    go_on(job, *paths(tmp_path / "there"), folder="there")
    shutil.copytree(tmp_path / "there", tmp_path / "in", copy_function=shutil.copyfile)
    if moved is None:
        refused = job.run_here()
        assert refused.code == 2 and "moved = true in [streams.A]" in refused.stderr
    else:
        job.finish(*(f"streams.{name}.moved={moved}" for name in CASE.streams))
        job.finish()
    assert difference(job.answer(), duckdb_answer(patient, STREAMS)) == ""


def test_a_new_file_of_the_name_of_one_that_lies_deeper(tmp_path: Path) -> None:
    """It was taken for that one, and its rows were missing."""
    job = JudgedJob.write(tmp_path, CASE, run='durability = "process"')
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(text.replace("options = { ", "options = { recursiveFileLookup = true, "))
    write_streams(CASE, STREAMS, tmp_path / "first", 0, 3)
    write_streams(CASE, STREAMS, tmp_path / "next", 3, 6)
    for name in CASE.streams:
        shutil.copytree(tmp_path / "first" / name, tmp_path / "in" / name / "deeper")
    job.finish()
    for name in CASE.streams:
        shutil.copytree(tmp_path / "in" / name, tmp_path / "copy" / name, copy_function=shutil.copyfile)
        for number, file in enumerate(sorted((tmp_path / "next" / name).iterdir())):
            file.rename(tmp_path / "copy" / name / f"{number:05d}.parquet")
    job.finish(*paths(tmp_path / "copy"), *(f"streams.{name}.moved=true" for name in CASE.streams))
    check(job)


@pytest.mark.parametrize("rows", [7, 20, 33])
def test_a_file_that_was_read_in_part(tmp_path: Path, rows: int) -> None:
    home = tmp_path / "one"
    limit = f"run.max_batch_rows={rows}"
    job = JudgedJob.write(home, CASE, run='durability = "process"')
    text = (home / "job.toml").read_text().replace("options = { maxFilesPerTrigger = 1 }", "")
    (home / "job.toml").write_text(text)
    write_streams(CASE, STREAMS, home / "in")
    assert job.start(limit, fault="after-commit:4").code
    before = Path(home).rename(tmp_path / "two")
    moved = JudgedJob(before)
    done = moved.start(limit)
    assert done.code == 0 and "has moved" in done.stderr
    whole = JudgedJob.write(tmp_path / "whole", CASE)
    (tmp_path / "whole" / "job.toml").write_text(text)
    write_streams(CASE, STREAMS, tmp_path / "whole" / "in")
    whole.finish()
    assert difference(moved.answer(), whole.answer()) == ""
    assert moved.late() == whole.late()


def test_files_read_in_part_that_have_lost_their_times(tmp_path: Path) -> None:
    """They are read in the order of their times: some were read again with moved = true, or the run never ended."""
    job = JudgedJob.write(tmp_path, CASE, run='durability = "process"')
    text = (tmp_path / "job.toml").read_text().replace("options = { maxFilesPerTrigger = 1 }", "")
    (tmp_path / "job.toml").write_text(text)
    write_streams(CASE, STREAMS, tmp_path / "in")
    assert job.start("run.max_batch_rows=7", fault="after-commit:5").code
    for name in CASE.streams:
        (tmp_path / "copy" / name).mkdir(parents=True)
        for number, file in enumerate(sorted((tmp_path / "in" / name).iterdir(), reverse=True)):
            shutil.copyfile(file, tmp_path / "copy" / name / file.name)
            os.utime(tmp_path / "copy" / name / file.name, (1_800_000_000 + number,) * 2)
    refused = job.run_here(*paths(tmp_path / "copy"), *(f"streams.{name}.moved=true" for name in CASE.streams))
    assert refused.code == 2 and 'stream "A" was read in part, and its files have lost their times' in refused.stderr
    shutil.rmtree(tmp_path / "copy")
    shutil.copytree(tmp_path / "in", tmp_path / "copy")
    job.finish(*paths(tmp_path / "copy"))
    whole = JudgedJob.write(tmp_path / "whole", CASE)
    (tmp_path / "whole" / "job.toml").write_text(text)
    write_streams(CASE, STREAMS, tmp_path / "whole" / "in")
    whole.finish()
    assert difference(job.answer(), whole.answer()) == ""


def test_a_copy_whose_original_was_written_anew(tmp_path: Path) -> None:
    """What lies there now is not what was read: it tells nothing of the copy. That was read again."""
    job = begin(tmp_path)
    shutil.copytree(tmp_path / "in", tmp_path / "copy")
    for name in CASE.streams:
        for number, file in enumerate(sorted((tmp_path / "in" / name).iterdir())):
            file.write_bytes(b"of another time")
            os.utime(file, (1_900_000_000 + number,) * 2)
    go_on(job, *paths(tmp_path / "copy"), folder="copy")
    check(job)


def test_files_that_share_name_and_time_and_move_later(tmp_path: Path) -> None:
    """Two that were read share a name and a time, one of them moves: it was compared with the other, and read again."""
    job = begin(tmp_path)
    write_streams(CASE, STREAMS, tmp_path / "more", 3, 6)
    for name in CASE.streams:
        (tmp_path / "next" / name).mkdir(parents=True)
        others = sorted((tmp_path / "more" / name).iterdir())
        for file, other in zip(sorted((tmp_path / "in" / name).iterdir()), others, strict=True):
            target = shutil.copyfile(other, tmp_path / "next" / name / file.name)
            os.utime(target, ns=(file.stat().st_mtime_ns,) * 2)
    job.finish(*paths(tmp_path / "next"))
    check(job)
    (tmp_path / "next").rename(tmp_path / "third")
    job.finish(*paths(tmp_path / "third"))
    check(job)


def test_large_files_that_differ_in_the_middle_alone(tmp_path: Path) -> None:
    """Their beginnings and ends were compared, and the rows of one were missing."""
    job = SmallJob(tmp_path, format="csv").write()
    shutil.rmtree(tmp_path / "in")
    count = 20_000
    for folder, value in (("in", 1), ("next", 2)):
        for place, stream in enumerate("AB"):  # no two rows meet
            rows = [{"k": 2 * number + place, "v": 0, "ts": number} for number in range(100_000, 100_000 + count)]
            rows[count // 2]["v"] = value
            write_rows(tmp_path / folder / stream / "0.csv", rows)
    one, other = ((tmp_path / folder / "A" / "0.csv").read_bytes() for folder in ("in", "next"))
    assert len(one) == len(other) > 3 * (1 << 16)
    told = [json.loads(job.start(*more).stdout.splitlines()[-1]) for more in ((), paths(tmp_path / "next"))]
    assert [event["rows_in"] for event in told] == [2 * count] * 2


def test_on_spark_it_is_told_before_a_jvm_starts(tmp_path: Path) -> None:
    home = tmp_path / "golden"
    shutil.copytree(GOLDENS / "spark-undelivered", home)  # its notes name the place that it was made in
    refused = JudgedJob(home).start()
    assert refused.code == 2
    assert 'stream "A" has another path, and Spark goes on with files at their former one alone' in refused.stderr
    assert "incubator" not in refused.stderr  # which every JVM says


@pytest.mark.spark
@pytest.mark.campaign
def test_on_spark_with_a_link_at_the_former_path(tmp_path: Path) -> None:
    begin(tmp_path / "one", "spark")
    (tmp_path / "one").rename(tmp_path / "two")
    job = JudgedJob(tmp_path / "two")
    assert job.start().code == 2
    (tmp_path / "one").symlink_to(tmp_path / "two")
    go_on(job, *paths(tmp_path / "one" / "in"))
    check(job)
