"""Jobs whose streams, checkpoint and outputs are on an object store: what they answer, ask for, keep and say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from object_server import S3Server, s3_proxy
from rival_runs import RivalJob
from small_jobs import SmallJob, checked_main
from watersmeet.cli.main import main


def test_everything_is_on_a_store(s3: S3Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Under addresses of several kinds; and no secret is anywhere but in the job file."""
    job = RivalJob.on("store", tmp_path, s3, files=4)
    bucket = s3.bucket()
    client = s3.client(bucket)
    for stream in "AB":
        for number in range(4):
            client.put(f"in/{stream}/{number}.parquet", job.job.input(stream, number).read_bytes())
        job.job.spoil(f"{job.job.home}/in/{stream}", s3.address(f"{bucket}/in/{stream}", scheme="s3a"))
    assert main(job.job.arguments()) == 0
    assert job.answer() == job.expected(files=4)
    assert main(["state", "ls", job.checkpoint.address]) == 0
    assert main(["state", "show", job.checkpoint.address, "--json"]) == 0
    told = "".join(capfd.readouterr())
    kept = s3.objects(job.checkpoint.path().removeprefix("s3://"))
    assert [name for name in kept if name.startswith("state/versions/")]
    assert not [name for name, content in kept.items() if b"verysecret" in content]
    assert "verysecret" not in told


def test_what_a_batch_asks_of_a_store(s3: S3Server, tmp_path: Path) -> None:
    """With two slots: 2 result files and 4 segments written, 2 files delivered, the commit, and what is deleted."""
    with s3_proxy(s3) as proxy:
        job = RivalJob.on("store", tmp_path, proxy, files=20)
        run = job.start()
        run.wait_for("batch", 2)
        counts = []
        for batch in range(3, 20):
            run.wait_for("batch", batch)
            counts.append(sum(proxy.requests.values()))
        assert run.end() is None
        assert (counts[-1] - counts[0]) / (len(counts) - 1) < 14
        assert proxy.requests["HEAD"] == 0, "nobody looks before he leaps"
        assert proxy.requests["GET"] < 5, "what was written here is not read back"
        assert job.answer() == job.expected(files=20)


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return SmallJob(tmp_path).write()


def test_a_bucket_that_is_not_there(job: SmallJob, s3: S3Server, capsys: pytest.CaptureFixture[str]) -> None:
    job.spoil(str(job.checkpoint), s3.address("nowhere/ck"))
    assert "verysecret" not in checked_main(job, capsys, 2, "there is no s3://nowhere")


def test_a_store_that_nobody_answers_for(job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    job.spoil(str(job.checkpoint), S3Server(1).address("b/ck"))
    assert "verysecret" not in checked_main(job, capsys, 1, "cannot list s3://b/ck")


@pytest.mark.parametrize("setting", ["run.checkpoint", "sink.path", "sink.late"])
def test_a_store_that_is_not_supported(setting: str, job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    told = checked_main(
        job, capsys, 2, "hdfs addresses are not supported for checkpoints and outputs", f"{setting}=hdfs://n:1/x"
    )
    assert "s3://" in told
    assert not job.checkpoint.exists(), "and nothing was made before"


def test_who_is_told_of_a_takeover(s3: S3Server, tmp_path: Path) -> None:
    """A run that goes on says from whom it took over, as no lock says whether that one has ended."""
    job = RivalJob.on("store", tmp_path, s3)
    first = job.start()
    assert first.end() is None
    second = job.start()
    assert second.end() is None
    notes = [event["text"] for event in second.events if event["event"] == "note"]
    assert any(note.startswith(f"took over the checkpoint from process {first.process.pid} on host") for note in notes)
    assert json.dumps(second.events).count("verysecret") == 0
