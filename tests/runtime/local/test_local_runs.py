"""The local runtime from outside: results as they come, events, clocks, and no trace of Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from small_jobs import FILES, SmallJob, rows_of, write_rows
from watersmeet.config import load_job
from watersmeet.errors import JobError
from watersmeet.runtime.clock import Ended, VirtualClock, WallClock, never
from watersmeet.runtime.events import Event
from watersmeet.runtime.local.job import run_job

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
TEXT = "SELECT A.k, A.ts AS a, B.ts AS b FROM A, B WHERE A.k = B.k"


def one_row(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": number, "ts": number}], schema=SCHEMA)


def test_results_come_before_the_input_is_read() -> None:
    read: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(1000):
            read.append(number)
            yield one_row(number)

    results = wm.sql(TEXT, A=rows(), B=(one_row(number) for number in range(1000))).stream()
    assert next(results).to_pylist() == [{"k": 0, "a": 0, "b": 0}]
    assert len(read) <= 2
    assert next(results).to_pylist() == [{"k": 1, "a": 1, "b": 1}]
    assert len(read) <= 3
    results.close()  # type: ignore[attr-defined]


def test_one_stream_may_end_before_the_other() -> None:
    rows = [pa.RecordBatch.from_pylist([{"k": 1, "ts": number}], schema=SCHEMA) for number in range(9)]
    assert wm.sql(TEXT, A=rows[:2], B=rows).run().num_rows == 18


def test_an_error_in_the_input_is_the_callers_own() -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield one_row(0)
        raise LookupError("mine")

    results = wm.sql(TEXT, A=rows(), B=[one_row(0), one_row(1)]).stream()
    with pytest.raises(LookupError, match="mine"):
        list(results)


def test_events_tell_of_each_batch_and_of_the_end() -> None:
    events: list[Event] = []
    A, B = ([one_row(n) for n in (0, 5, 1)] for _ in range(2))
    wm.sql(TEXT, A=A, B=B, time_unit="us").run(report=events.append, clock=VirtualClock())
    start, *batches, end = events
    assert (start["event"], start["plan"], start["change"]) == ("start", "(A B)", None)
    assert start["placement"] == {"slots": 2, "groups": 300, "owners": {}}
    again = {"replayable": True}
    assert start["promises"] == {"sources": {"A": again, "B": again}, "sink": {"idempotent": False}}
    assert [event["batch"] for event in batches] == [0, 1, 2]
    assert [event["rows_in"] for event in batches] == [2, 2, 2]
    assert [event["rows_out"] for event in batches] == [1, 1, 0]
    assert [event["rows_late"] for event in batches] == [0, 0, 2]
    assert [event["state_rows"] for event in batches] == [2, 4, 4]
    assert all(event["seconds"] == 0 and event["active_bytes"] > 0 for event in batches)
    told = batches[-1]["streams"]["A"]
    assert told.items() >= {"rows": 3, "late": 1, "ahead": 0, "watermark": 5}.items()
    assert sum(state["rows"] for state in batches[-1]["states"].values()) == 4
    counts = {"rows_in": 6, "rows_out": 2, "rows_late": 2, "rows_ahead": 0, "batches": 3}
    assert end == {"event": "end", **counts, "seconds": 0.0, "timestamp": end["timestamp"], "decisions": []}
    assert json.loads(json.dumps(events)) == events


def test_a_run_that_goes_on_counts_from_where_it_began(tmp_path: Path) -> None:
    job = SmallJob(tmp_path).write()
    for stream in "AB":
        job.input(stream, FILES - 1).unlink()
    ends = []
    for _ in range(2):
        events: list[Event] = []
        run_job(load_job(job.path), events.append)
        ends.append(events[-1])
        for stream in "AB":
            write_rows(job.input(stream, FILES - 1), rows_of(FILES - 1))
    assert [end["batches"] for end in ends] == [FILES - 1, 1]
    assert [end["rows_in"] for end in ends] == [40 * (FILES - 1), 40]
    assert sum(end["rows_out"] for end in ends) == sum(job.expected().values())


class Over(Exception):
    pass


class CountingClock(VirtualClock):
    """Ends the run after some sleeps."""

    def __init__(self, sleeps: int) -> None:
        super().__init__()
        self.slept: list[float] = []
        self._left = sleeps

    def sleep(self, seconds: float, ended: Ended = never) -> None:
        self.slept.append(seconds)
        super().sleep(seconds)
        if len(self.slept) == self._left:
            raise Over


def test_a_trigger_waits_between_batches_and_never_ends(tmp_path: Path) -> None:
    job = SmallJob(tmp_path).write()
    clock = CountingClock(FILES + 3)
    events: list[Event] = []
    with pytest.raises(Over):
        run_job(load_job(job.path, ["run.trigger=90 seconds"]), events.append, clock=clock)
    assert [event["batch"] for event in events if event["event"] == "batch"] == list(range(FILES))
    assert clock.slept == [90.0] * (FILES + 3)
    assert job.answer() == job.expected()


def test_clocks() -> None:
    virtual = VirtualClock()
    virtual.sleep(-5)
    virtual.sleep(timedelta(hours=1).total_seconds())
    assert virtual.now() == 3600.0
    wall = WallClock()
    before = wall.now()
    wall.sleep(-1)
    wall.sleep(0.01)
    assert wall.now() - before >= 0.01


def test_without_a_checkpoint_nothing_is_left_but_the_answer(tmp_path: Path) -> None:
    job = SmallJob(tmp_path).write()
    job.spoil(f'checkpoint = "{job.checkpoint}"', "")
    run_job(load_job(job.path), lambda event: None)
    assert job.answer() == job.expected()
    assert not job.checkpoint.exists()
    assert all(path.suffix == ".parquet" for path in job.out.iterdir())


@pytest.mark.parametrize("slots, groups", [(0, 300), (4, 3)])
def test_slots_that_cannot_be(slots: int, groups: int) -> None:
    query = wm.sql(TEXT, A=[one_row(0)], B=[one_row(0)])
    with pytest.raises(JobError, match=f"{slots} slots cannot share {groups} groups"):
        query.run(slots=slots, groups=groups)


NO_SPARK = """
import sys
from watersmeet.cli.main import main
assert main(sys.argv[1:]) == 0
import watersmeet as wm, pyarrow as pa
rows = pa.table({"k": [1], "ts": [1]})
assert wm.sql("SELECT A.k FROM A, B WHERE A.k = B.k", A=rows, B=rows).run().num_rows == 1
print([name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j")])
"""


def test_the_local_runtime_imports_no_spark(tmp_path: Path) -> None:
    job = SmallJob(tmp_path).write()
    finished = subprocess.run(
        [sys.executable, "-c", NO_SPARK, *job.arguments()], capture_output=True, text=True, check=True
    )
    assert finished.stdout.splitlines()[-1] == "[]"
