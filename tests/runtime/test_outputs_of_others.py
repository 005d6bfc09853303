"""A run that comes to results of another checkpoint is refused; one that comes to its own goes on, wherever it lies."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from object_server import S3Server
from rival_runs import RivalJob
from small_jobs import SmallJob, checked_main, rows_of, write_rows
from watersmeet.faults import VARIABLE
from watersmeet.state.output_names import Stamp, escaped, late_name, result_name, stamp_of

REFUSED = "the folder for results holds results of another checkpoint"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    job = SmallJob(tmp_path / "home")
    job.home.mkdir()
    return job.write()


def test_a_checkpoint_that_was_deleted(job: SmallJob, capsys: Capture) -> None:
    """It would compute all results once more."""
    job.finish()
    before = sorted(job.out.rglob("*"))
    shutil.rmtree(job.checkpoint)
    told = checked_main(job, capsys, 2, REFUSED)
    assert "existing" in told
    assert not (job.checkpoint / "state").exists(), "and nothing was made before"
    assert sorted(job.out.rglob("*")) == before
    for path in job.out.glob("*.parquet"):
        path.unlink()
    job.finish()
    assert job.answer() == job.expected()


def test_without_a_checkpoint_each_run_is_another(job: SmallJob, capsys: Capture) -> None:
    job.spoil(f'checkpoint = "{job.checkpoint}"', "")
    job.finish()
    checked_main(job, capsys, 2, REFUSED)
    assert job.answer() == job.expected()


def test_two_jobs_with_one_output(job: SmallJob, tmp_path: Path, capsys: Capture) -> None:
    """Also when the second has a checkpoint already, and only comes to the folder now."""
    job.finish()
    other = SmallJob(tmp_path / "other")
    other.home.mkdir()
    other.write().finish()
    checked_main(other, capsys, 2, REFUSED, f"sink.path={job.out}")
    other.finish()
    assert job.answer() == other.answer() == job.expected()


def test_to_append_on_purpose(job: SmallJob, capsys: Capture) -> None:
    job.finish()
    shutil.rmtree(job.checkpoint)
    job.spoil("[sink]", '[sink]\nexisting = "append"')
    job.finish()
    assert job.answer() == job.expected() + job.expected()
    job.spoil('existing = "append"', 'existing = "replace"')
    checked_main(job, capsys, 2, 'unknown existing "replace" in [sink]')


def test_late_rows_of_another_checkpoint(job: SmallJob, capsys: Capture) -> None:
    late = job.home / "late"
    late.mkdir()
    (late / late_name("A", Stamp(3, 0, "0123456789ab", 1))).touch()
    checked_main(job, capsys, 2, "the folder for late rows holds late rows of another checkpoint", f"sink.late={late}")


def test_files_of_other_programs_are_nobodys_business(job: SmallJob) -> None:
    job.out.mkdir()
    names = [
        "README",
        "_SUCCESS",
        "part-00000-0c2f9e16-7c8d-4b2e-9d3e-0123456789ab-c000.snappy.parquet",
        "part-1",
        "x.parquet",
    ]
    for name in names:
        (job.out / name).write_text("theirs")
    job.finish()
    job.finish()
    assert [(job.out / name).read_text() for name in names] == ["theirs"] * len(names)


def test_what_a_consumer_moves_away_is_not_missed(job: SmallJob, tmp_path: Path) -> None:
    """And neither is the folder where results wait, between two runs."""
    job.finish()
    taken = job.answer()
    shutil.rmtree(job.out)
    for stream in "AB":
        write_rows(job.input(stream, 4), rows_of(4))
    job.finish()
    assert taken == job.expected()
    assert job.answer()
    job.finish()


@pytest.mark.parametrize("point", ["after-commit:4", "in-delivery:3", "after-delivery:2"])
def test_a_checkpoint_that_was_moved_finds_what_waits(
    job: SmallJob, point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A death between commit and delivery; then the checkpoint lies elsewhere, and its output too."""
    monkeypatch.setenv(VARIABLE, f"{point}@{tmp_path / 'marker'}")
    assert job.start().returncode == -signal.SIGKILL
    monkeypatch.delenv(VARIABLE)
    job.checkpoint.rename(job.home / "elsewhere")
    job.spoil(str(job.checkpoint), str(job.home / "elsewhere"))
    job.out.rename(job.home / "out too")
    job.spoil(str(job.out), str(job.home / "out too"))
    job.finish()
    (job.home / "out too").rename(job.out)
    assert job.answer() == job.expected()


def test_on_a_store(s3: S3Server, tmp_path: Path, capsys: Capture) -> None:
    job = RivalJob.on("store", tmp_path, s3, files=4)
    assert job.start().end() is None
    other = s3.address(f"{s3.bucket()}/ck")
    job.job.spoil(job.checkpoint.address, other)
    checked_main(job.job, capsys, 2, REFUSED)
    job.job.spoil(other, job.checkpoint.address)
    assert job.start().end() is None
    assert job.answer() == job.expected(files=4)


@pytest.mark.parametrize(
    "stream", ["orders", "a/b", "..", ".", "", "Ä", "%2F", "\\", "x" * 300, "a-00000001", "\n", "\0", "😀" * 99]
)
def test_any_stream_has_a_name_for_its_file(stream: str) -> None:
    name = late_name(stream, Stamp(12, 34, "0123456789ab", 7))
    assert len(name.encode()) < 255
    assert not set(name) & set("/\\\0\n")
    assert stamp_of(name) == Stamp(12, 34, "0123456789ab", 7)
    assert escaped(stream) != escaped(stream + "x")


def test_names_of_others_are_told_apart() -> None:
    stamp = Stamp(123456789, 1234567890, "0123456789ab", 12345)
    assert stamp_of(result_name(12345, stamp)) == stamp
    assert stamp_of(f"{result_name(1, stamp)}.crc") is None
    assert stamp_of("part-00000003-0001-b1792a8243e1.parquet") is None
