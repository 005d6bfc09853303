"""Faults of the state and the disk, and checkpoints that cannot serve a run: told clearly, and nothing is lost."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from small_disk import small_disk
from small_jobs import SmallJob, check_message, checked_main, rows_of, write_rows
from watersmeet.cli.main import main
from watersmeet.state.files import Folder
from watersmeet.state.manifest import FORMAT
from watersmeet.state.sealed import seal, unseal
from watersmeet.state.table import read_versions

BROKEN_AT = 3  # the file that is there for the second run only


@pytest.fixture
def half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallJob:
    """A job that has run all but its last batch."""
    job = SmallJob(tmp_path).write()
    for stream in "AB":
        job.input(stream, BROKEN_AT).unlink()
    job.finish()
    for stream in "AB":
        write_rows(job.input(stream, BROKEN_AT), rows_of(BROKEN_AT))
    return job


def live_segment(job: SmallJob) -> Path:
    manifest = list(read_versions(Folder(str(job.checkpoint / "state"))))[-1]
    return job.checkpoint / "state" / "segments" / f"{next(iter(manifest.segments))}.arrow"


def last_version(job: SmallJob) -> Path:
    return max((job.checkpoint / "state" / "versions").iterdir())


def tree(folder: Path) -> dict[str, bytes]:
    """Every file, but the lock, which says who held it last."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "pick, damage, primary",
    [
        (live_segment, flip_a_byte, 'segment "'),
        (live_segment, lambda path: os.truncate(path, 100), 'segment "'),
        (live_segment, os.unlink, 'segment "'),
        (last_version, lambda path: os.truncate(path, 100), 'manifest file "'),
        (last_version, lambda path: os.truncate(path, 0), 'manifest file "'),
    ],
    ids=["corrupt segment", "truncated segment", "missing segment", "truncated version", "empty version"],
)
def test_damage_is_told_and_repair_goes_on(
    pick: Callable[[SmallJob], Path],
    damage: Callable[[Path], Any],
    primary: str,
    half_way: SmallJob,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = pick(half_way)
    sound = path.read_bytes()
    delivered = half_way.answer()
    damage(path)
    err = checked_main(half_way, capsys, 1, primary)
    assert str(path) in err
    assert "hint: Restore the file from a backup" in err
    assert half_way.answer() == delivered
    path.write_bytes(sound)
    half_way.finish()
    assert half_way.answer() == half_way.expected()


@pytest.mark.parametrize("kind", ["versions", "snapshots"])
def test_a_newer_format_is_refused(kind: str, half_way: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    path = max((half_way.checkpoint / "state" / kind).iterdir())
    content, _ = unseal(path.read_bytes())
    path.write_bytes(seal({**content, "format": FORMAT + 1}))
    before = tree(half_way.checkpoint)
    err = checked_main(half_way, capsys, 2, "the checkpoint was written by a newer version of watersmeet")
    assert f"detail: It has format {FORMAT + 1}" in err
    assert "hint: Upgrade watersmeet" in err
    assert tree(half_way.checkpoint) == before


def test_delivered_files_are_their_readers_affair(half_way: SmallJob) -> None:
    """A consumer that takes files away, the newest one too, does not stop the job, and gets none of them again."""
    taken = half_way.answer()
    for path in half_way.out.glob("*.parquet"):
        path.unlink()
    half_way.finish()
    assert half_way.answer() + taken == half_way.expected()


@pytest.mark.parametrize(
    "setting, primary, detail",
    [
        (
            "query=SELECT A.k, A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k",
            "the checkpoint belongs to another query",
            "The window of A was [RANGE 10 SECONDS], and rows that [UNBOUNDED] needs have gone.",
        ),
        (
            "streams.A.schema=k BIGINT, v INT, ts BIGINT",
            "the checkpoint belongs to another query",
            'Column "v" of stream "A" was BIGINT, and this run has INT.',
        ),
    ],
    ids=["query", "schema"],
)
def test_a_checkpoint_of_another_job_is_refused(
    setting: str, primary: str, detail: str, half_way: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    before, delivered = tree(half_way.checkpoint), half_way.answer()
    err = checked_main(half_way, capsys, 2, primary, setting)
    assert f"detail: {detail}" in err
    assert "hint: " in err
    assert tree(half_way.checkpoint) == before
    assert half_way.answer() == delivered
    half_way.finish()
    assert half_way.answer() == half_way.expected()


def test_white_space_makes_no_other_query(half_way: SmallJob) -> None:
    half_way.spoil(" WHERE ", "   WHERE  ")
    half_way.finish()
    assert half_way.answer() == half_way.expected()


def test_a_checkpoint_made_on_spark_is_refused(half_way: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    (half_way.checkpoint / "spark").mkdir()
    (half_way.checkpoint / "spark" / "metadata").write_text("{}")
    before = tree(half_way.checkpoint)
    checked_main(half_way, capsys, 2, "the checkpoint was made by the spark runtime")
    assert tree(half_way.checkpoint) == before


def test_a_checkpoint_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = SmallJob(tmp_path).write()
    job.checkpoint.write_text("")
    checked_main(job, capsys, 2, f'"{job.checkpoint}" is not a folder')


def test_an_output_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = SmallJob(tmp_path).write()
    job.out.write_text("")
    checked_main(job, capsys, 2, f'"{job.out}" is not a folder')


def test_a_second_run_on_a_live_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = SmallJob(tmp_path).write()
    first = subprocess.Popen(job.command("run.trigger=1 second"), stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        assert [json.loads(first.stdout.readline())["event"] for _ in range(2)] == ["start", "batch"]
        err = checked_main(job, capsys, 2, "another run is using the checkpoint")
        assert f'"pid": {first.pid}' in err
        assert first.poll() is None, "the first run goes on"
    finally:
        first.terminate()
        first.wait()
    job.finish()
    assert job.answer() == job.expected()


# --- a full disk -----------------------------------------------------------------------------------------------------

FULL_BATCHES = 6
FULL_ROWS = 1500


def full_rows(number: int) -> list[dict[str, Any]]:
    noise = random.Random(number)
    base = number * 1_000_000
    return [{"k": base + i, "v": noise.getrandbits(60), "ts": base + i} for i in range(FULL_ROWS)]


@pytest.fixture
def large_job(tmp_path: Path) -> SmallJob:
    """Batches of a few ten thousand bytes, each row of A with one partner in B."""
    job = SmallJob(tmp_path).write()
    for stream in "AB":
        for number in range(FULL_BATCHES):
            write_rows(job.input(stream, number), full_rows(number))
    return job


def large_answer() -> Counter[tuple[Any, ...]]:
    rows = [row for number in range(FULL_BATCHES) for row in full_rows(number)]
    return Counter((row["k"], row["v"], row["v"]) for row in rows)


@pytest.mark.parametrize("folder, size", [("ck", "300k"), ("ck", "12k"), ("ck", "8k"), ("out", "100k"), ("late", "8k")])
def test_a_full_disk(folder: str, size: str, large_job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    """Segments and the manifest (ck), results (out) and late rows (late) find no room; with room, the run goes on."""
    if folder == "late":
        large_job.spoil("[sink]", f'[sink]\nlate = "{large_job.home}/late"')
        late = [{**row, "k": -1, "ts": -1} for row in full_rows(0)]
        write_rows(large_job.input("A", 2), [*late, *full_rows(2)])
    with small_disk(large_job.home / folder, size) as resize:
        err = checked_main(large_job, capsys, 1, "cannot ")
        assert "No space left on device" in err
        assert "hint: Free some space and start the run again" in err
        assert large_job.answer() <= large_answer()
        if (large_job.checkpoint / "state" / "snapshots").exists() and size != "8k":
            assert main(["state", "ls", str(large_job.checkpoint)]) == 0
        resize("50m")
        large_job.finish()
        assert large_job.answer() == large_answer()


def test_a_limit_on_the_size_of_files(large_job: SmallJob) -> None:
    limit = 20_000  # bytes; a segment has more

    def set_limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    finished = subprocess.run(large_job.command(), capture_output=True, text=True, preexec_fn=set_limit, check=False)
    check_message(finished.returncode, finished.stderr, 1, 'cannot write "')
    assert "File too large" in finished.stderr
    assert large_job.answer() == {}
    large_job.finish()
    assert large_job.answer() == large_answer()


def test_state_ls_on_a_live_checkpoint(tmp_path: Path) -> None:
    """Reading takes no lock."""
    job = SmallJob(tmp_path).write()
    run = subprocess.Popen(job.command("run.trigger=1 second"), stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        for _ in range(2):  # the start and a batch
            run.stdout.readline()
        time.sleep(0.1)
        assert main(["state", "ls", str(job.checkpoint)]) == 0
    finally:
        run.terminate()
        run.wait()
