"""`state rollback` and `state compact` of a checkpoint and an output on an object store, through the command line."""

from __future__ import annotations

from pathlib import Path

import obstore
import pytest

from object_server import S3Server
from rival_runs import RivalJob
from small_jobs import FILES, rows_of, write_rows
from watersmeet.cli.main import main
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import read_versions

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def rival(tmp_path: Path, s3: S3Server) -> RivalJob:
    """All of its input is read, and all versions can be gone back to."""
    made = RivalJob.on("store", tmp_path / "job", s3, files=FILES)
    made.job.spoil("[run]", "[run]\nkeep_versions = 60")
    made.job.finish()
    assert made.answer() == made.expected(FILES)
    return made


def versions(rival: RivalJob) -> list[Manifest]:
    return list(read_versions(rival.checkpoint.sub("state")))


def files(rival: RivalJob) -> set[str]:
    return {name for name in rival.out.names() if name.endswith(".parquet")}


def after_batch(rival: RivalJob, batch: int) -> int:
    found = versions(rival)
    return [m.version for m in found if m.last_batch == batch and found[-1].can_go_back_to(m.version)][-1]


def go_on(rival: RivalJob) -> None:
    """What was undone comes again, and so does more input."""
    rival.job.finish()
    assert rival.answer() == rival.expected(FILES)
    for stream in "AB":
        write_rows(rival.job.input(stream, FILES), rows_of(FILES))
    rival.job.finish()
    assert rival.answer() == rival.expected(FILES + 1)


@pytest.mark.parametrize("how", ["aside", "remove"])
def test_a_rollback(how: str, rival: RivalJob, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(rival)
    words = ["--to-version", str(after_batch(rival, 1)), "--yes", "--results", how]
    assert main(["state", "rollback", rival.checkpoint.address, *words]) == 0
    said = capsys.readouterr().out
    assert "verysecret" not in said
    left = files(rival)
    assert left < before
    assert f"of which {len(before - left):,} lie in the output now" in said
    aside = rival.out.sub(f"_rolled-back-{versions(rival)[-1].version}")
    assert set(aside.names()) == (before - left if how == "aside" else set())
    assert ("moved aside, to " + aside.path().rpartition("/")[2] in said) == (how == "aside")
    go_on(rival)


def test_a_second_rollback_to_the_same_number(rival: RivalJob) -> None:
    """What lies aside from another one stays as it is."""
    for _ in range(2):
        words = ["--to-version", str(after_batch(rival, 1)), "--yes"]
        assert main(["state", "rollback", rival.checkpoint.address, *words]) == 0
        rival.job.finish()
    go_on(rival)


def test_a_backup_from_before_a_rollback(
    rival: RivalJob, s3: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the rollback took out counts as delivered in the backup: it comes back, and did so on disks alone."""
    address, backups = rival.checkpoint.address, str(tmp_path / "backups")
    assert main(["state", "backup", address, backups]) == 0
    assert main(["state", "rollback", address, "--to-version", str(after_batch(rival, 1)), "--yes"]) == 0
    place = rival.checkpoint.path().partition("://")[2]
    bucket, _, key = place.partition("/")
    obstore.delete(s3.client(bucket), [f"{key}/{name}" for name in s3.objects(place)])
    capsys.readouterr()
    assert main(["state", "restore", backups, address, "--set-aside"]) == 0
    assert "that were delivered before the backup" in " ".join(capsys.readouterr().out.split())
    go_on(rival)


def test_a_compaction(rival: RivalJob, capsys: pytest.CaptureFixture[str]) -> None:
    segments = len(versions(rival)[-1].segments)
    assert main(["state", "compact", rival.checkpoint.address]) == 0
    said = capsys.readouterr().out
    assert "verysecret" not in said and " after, in version " in said
    assert len(versions(rival)[-1].segments) < segments
    assert main(["state", "verify", rival.checkpoint.address]) == 0
    go_on(rival)
