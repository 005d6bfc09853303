"""Sized outputs: long files are cut, short ones of several batches delivered as one; exactly once, whatever dies."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from object_server import S3Server
from rival_runs import RivalJob
from small_jobs import SmallJob, checked_main, rows_of, write_rows
from watersmeet.cli.main import main
from watersmeet.config import load_job
from watersmeet.faults import VARIABLE
from watersmeet.runtime.clock import VirtualClock
from watersmeet.runtime.local.job import run_job
from watersmeet.runtime.results import ParquetResults
from watersmeet.state.files import Folder
from watersmeet.state.output_names import Stamp, stamp_of

SCHEMA = pa.schema([("a", pa.int64())])
FILES = 4


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    job = SmallJob(tmp_path / "home")
    job.home.mkdir()
    return job.write()


def sizes(folder: Path) -> list[int]:
    return [pq.read_metadata(path).num_rows for path in sorted(folder.glob("*.parquet"))]


@pytest.mark.parametrize("max_rows", [1, 2, 3, 7, 100])
def test_a_task_writes_files_of_bounded_length(max_rows: int, tmp_path: Path) -> None:
    chunks = [pa.record_batch({"a": list(range(n))}, schema=SCHEMA) for n in (0, 3, 5, 0, 1)]
    files, rows = ParquetResults(Folder(str(tmp_path)), max_rows=max_rows).write(
        chunks, SCHEMA, Stamp(3, 0, "9f86d081884c", 1), 1
    )
    assert rows == 9
    found = [pq.read_table(tmp_path / name).column("a").to_pylist() for name in files]
    assert [value for part in found for value in part] == [0, 1, 2, 0, 1, 2, 3, 4, 0]
    assert [len(part) for part in found] == [max_rows] * (9 // max_rows) + ([9 % max_rows] if 9 % max_rows else [])


def test_files_of_bounded_length(job: SmallJob) -> None:
    job.spoil("[sink]", "[sink]\nmax_rows_per_file = 10")
    job.finish()
    assert max(sizes(job.out)) == 10
    assert job.answer() == job.expected()


def test_one_file_for_all_batches_of_an_hour(job: SmallJob) -> None:
    job.spoil("[sink]", '[sink]\ndeliver_every = "1 hour"')
    job.finish()
    assert sizes(job.out) == [job.expected().total()]
    assert job.answer() == job.expected()
    assert not list(job.out.glob("_watersmeet-*/*"))
    for stream in "AB":
        write_rows(job.input(stream, FILES), rows_of(FILES))
    job.finish()
    assert len(sizes(job.out)) <= 3, "one batch may be delivered as it is"


def test_both(job: SmallJob) -> None:
    job.spoil("[sink]", '[sink]\ndeliver_every = "1 hour"\nmax_rows_per_file = 100')
    job.finish()
    total = job.expected().total()
    assert len(sizes(job.out)) == -(-total // 100)
    assert job.answer() == job.expected()


def test_nothing_waits_longer_than_it_should(job: SmallJob) -> None:
    """Also while the sources are silent: a look at the output after each batch and each look for new files."""
    job.spoil("[sink]", '[sink]\ndeliver_every = "5 seconds"')
    clock, seen = VirtualClock(), list[tuple[float, int]]()

    def stopped() -> bool:
        seen.append((clock.now(), len(sizes(job.out)) if job.out.exists() else 0))
        return clock.now() > 20

    run_job(load_job(job.path, ["run.trigger=1 second"]), lambda event: None, stopped, clock)
    assert [files for time, files in seen if time < 5] == [0] * 5
    assert [files for time, files in seen if time > 6] == [1] * len([time for time, _ in seen if time > 6])
    assert job.answer() == job.expected()


def test_late_rows_are_gathered_by_stream(job: SmallJob) -> None:
    late = job.home / "late"
    for stream, numbers in (("A", (4, 5)), ("B", (4, 5, 6))):
        for number in numbers:
            write_rows(job.input(stream, number), [{"k": 1, "v": number, "ts": -number}])
    job.spoil("[sink]", f'[sink]\ndeliver_every = "1 hour"\nlate = "{late}"')
    job.finish()
    assert sizes(late) == [2, 3]
    owners = {
        stamp.owner for folder in (late, job.out) for path in folder.glob("*.parquet") if (stamp := stamp_of(path.name))
    }
    assert len(owners) == 1


DEATHS = ["before-gather", "after-gather", "before-delivery", "in-delivery", "after-delivery", "before-commit:3"]


@pytest.mark.parametrize("every", ["1 hour", "1 microsecond"])
@pytest.mark.parametrize("point", DEATHS)
def test_deaths(job: SmallJob, point: str, every: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job.spoil("[sink]", f'[sink]\ndeliver_every = "{every}"\nmax_rows_per_file = 50')
    monkeypatch.setenv(VARIABLE, f"{point}@{tmp_path / 'marker'}")
    died = job.start().returncode
    monkeypatch.delenv(VARIABLE)
    assert (died == -signal.SIGKILL) == (tmp_path / "marker").exists()
    assert died or every == "1 microsecond", "each batch is delivered alone, and nothing is gathered"
    assert job.answer() <= job.expected()
    for _ in range(2):
        job.finish()
        assert job.answer() == job.expected()
    assert not list(job.out.glob("_watersmeet-*/*"))


def test_on_a_store(s3: S3Server, tmp_path: Path) -> None:
    job = RivalJob.on("store", tmp_path, s3, files=4)
    job.job.spoil("[sink]", '[sink]\ndeliver_every = "1 hour"')
    assert job.start().end() is None
    assert job.answer() == job.expected(files=4)
    assert _count(s3, job) == 1


def _count(s3: S3Server, job: RivalJob) -> int:
    path = load_job(job.job.path).sink.path
    assert path is not None
    place = path.partition("@")[2].partition("?")[0]
    return sum(stamp_of(name) is not None for name in s3.objects(place))


@pytest.mark.parametrize(
    ("setting", "primary"),
    [
        ("sink.max_rows_per_file=0", '"max_rows_per_file" in [sink] is 0'),
        ("sink.max_rows_per_file=many", '"max_rows_per_file" in [sink] is a string, not an integer'),
        ("sink.deliver_every=soon", "deliver_every"),
    ],
)
def test_mistakes(job: SmallJob, setting: str, primary: str, capsys: Any) -> None:
    checked_main(job, capsys, 2, primary, setting)


def test_without_a_checkpoint(job: SmallJob) -> None:
    job.spoil(f'checkpoint = "{job.checkpoint}"', "")
    job.spoil("[sink]", '[sink]\ndeliver_every = "1 hour"')
    job.finish()
    assert sizes(job.out) == [Counter(job.answer()).total()]
    assert job.answer() == job.expected()


def test_a_rollback_withdraws_what_was_gathered(job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    """But not to where some of it waited already: its rows are in one file with later ones."""
    job.spoil("[sink]", '[sink]\ndeliver_every = "1 hour"')
    job.spoil("[run]", "[run]\nkeep_versions = 100")
    job.finish()
    roll = ["state", "rollback", str(job.checkpoint), "--yes", "--to-version"]
    assert main([*roll, "2"]) == 2
    assert "gathered" in capsys.readouterr().err
    assert job.answer() == job.expected()
    assert main([*roll, "0"]) == 0
    for _ in range(2):
        job.finish()
        assert job.answer() == job.expected()
