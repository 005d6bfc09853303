"""Was: with a memory budget, batches became dearer without end, and the manifest longer.

With windows, each commit compared every cold segment with every other to see what had expired (60 batches of 900 rows
took more than 40 times the CPU of the same run without a budget). Without windows nobody united the entries of cold
groups, and whatever walks over the manifest took longer with each batch.

What is measured is the CPU that this process spends between two events of `watersmeet run --json`, so that other
processes on the machine do not count.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, Streams, draw_streams, punctual, write_streams
from watersmeet.cli.main import main

pytestmark = pytest.mark.timeout(150)

COLUMNS = {"A": ("k",), "B": ("k",), "C": ("k",)}
WHERE = "A.k = B.k AND B.k = C.k"
STATES = len(COLUMNS)
Event = dict[str, Any]


class StampedEvents(io.TextIOBase):
    """Takes the lines of a run, and adds to each event the CPU that this process has used since the one before.

    It ends the run, as Ctrl-C would, once more than `limit` seconds are used: one that grows dearer has no end in time.
    """

    def __init__(self, limit: float) -> None:
        self.events: list[Event] = []
        self._part = ""
        self._before = time.process_time()
        self._limit = limit

    def write(self, text: str) -> int:
        self._part += text
        while "\n" in self._part:
            line, self._part = self._part.split("\n", 1)
            now = time.process_time()
            self.events.append(json.loads(line) | {"cpu": now - self._before})
            self._before = now
            if sum(event["cpu"] for event in self.events) > self._limit:
                raise KeyboardInterrupt
        return len(text)


def stamped_run(job: JudgedJob, *settings: str, limit: float = 60.0) -> list[Event]:
    out, err = StampedEvents(limit), io.StringIO()
    with contextlib.chdir(job.home), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(job.command(*settings)[3:])
    assert code == 0 or cpu(out.events) > limit, err.getvalue()
    return out.events


def cpu(events: list[Event]) -> float:
    return sum(event["cpu"] for event in events)


def entries(event: Event) -> int:
    return sum(state["segments"] for state in event["states"].values())


def check_done(events: list[Event], batches: int) -> list[Event]:
    """The events of batches, all of which must have come within the limit."""
    found = [event for event in events if event["event"] == "batch"]
    course = ", ".join(f"batch {e['batch']}: {e['cpu']:.2f} s, {entries(e)} entries" for e in found[:: batches // 10])
    assert len(found) == batches, f"only {len(found)} of {batches} batches in {cpu(events):.1f} s of CPU; {course}"
    assert events[-1]["event"] == "end", f"batches took {cpu(found):.1f} s, and the end did not come; {course}"
    return found


def check_answer(job: JudgedJob, case: JoinCase, streams: Streams, out: str) -> None:
    """As DuckDB has it; it also does the comparing, for there are many rows."""
    with duckdb.connect() as connection:
        for stream, batches in streams.items():
            connection.register(stream, pa.Table.from_pylist(punctual(case, batches), schema=case.schema(stream)))
        connection.sql(f"CREATE TABLE expected AS {case.sql}")
        connection.sql(f"CREATE TABLE found AS FROM read_parquet('{job.home / out}/*.parquet')")
        counts = [connection.table(name).count("*").fetchall()[0][0] for name in ("found", "expected")]
        wrong = connection.sql("FROM expected EXCEPT ALL FROM found").fetchall()
    assert counts[0] == counts[1], f"{counts[0]:,} of {counts[1]:,} rows"
    assert not wrong


def test_windows_and_a_budget_of_a_third(tmp_path: Path) -> None:
    """60 batches of 4 seconds and windows of 60: what expires and what comes are in balance from batch 15 on."""
    batches, groups = 60, 60
    case = JoinCase(COLUMNS, WHERE, 60 * SECOND)
    streams = draw_streams(case, batches, 300, 1500)
    for rows in (row for parts in streams.values() for part in parts for row in part):
        rows["ts"] *= 4
    job = JudgedJob.write(tmp_path / "job", case, run=f"groups = {groups}", adapt='plan = "mjoin"')
    write_streams(case, streams, job.home / "in")

    unlimited = check_done(stamped_run(job, "run.checkpoint=ck-unlimited", "sink.path=out-unlimited"), batches)
    check_answer(job, case, streams, "out-unlimited")
    budget = max(event["active_bytes"] for event in unlimited) // 3

    limited = stamped_run(job, f"run.memory={budget}", limit=max(20.0, 6 * cpu(unlimited)))
    found = check_done(limited, batches)
    assert any(event["cold_bytes"] for event in found), "nothing was spilled"
    check_answer(job, case, streams, "out")

    # What was spilled first has outlived its windows by batch 20, and is merged from then on.
    early, late = cpu(found[20:30]), cpu(found[-10:])
    assert late <= 1.5 * early, f"batches 20 to 30 took {early:.2f} s of CPU, the last ten {late:.2f} s"
    # It is some 3.3 times with one slot and 4 with two, on batches as small as these: what is kept account of does not
    # shrink with them. It was more than 40 times.
    assert cpu(limited) < 6 * cpu(unlimited), f"{cpu(limited):.1f} s against {cpu(unlimited):.1f} s without a budget"
    before, after = max(map(entries, found[20:40])), max(map(entries, found[40:]))
    assert after <= 1.5 * before, f"{before} entries in batches 20 to 40, {after} after that"
    assert after <= 4 * groups * STATES, f"{after} entries for {groups} groups of {STATES} states"
    assert len(job.state()["segments"]) <= 4 * groups * STATES


def test_no_windows_and_a_small_budget(tmp_path: Path) -> None:
    """240 small batches whose rows hardly ever meet: nearly all of the work is that of keeping account."""
    batches, groups = 240, 300
    case = JoinCase(COLUMNS, WHERE)
    streams = draw_streams(case, batches, 100, 100_000)
    job = JudgedJob.write(tmp_path / "job", case, run=f"groups = {groups}", adapt='plan = "mjoin"')
    write_streams(case, streams, job.home / "in")

    limited = stamped_run(job, "run.memory=170KB", limit=30.0)
    found = check_done(limited, batches)
    check_answer(job, case, streams, "out")

    assert found[-1]["cold_bytes"] > 3 * found[-1]["active_bytes"]
    early, late = cpu(found[40:80]), cpu(found[-40:])
    assert late <= 2 * early, f"batches 40 to 80 took {early:.2f} s of CPU, the last forty {late:.2f} s"
    most = max(map(entries, found))
    assert most <= 4 * groups * STATES, f"{most} entries for {groups} groups of {STATES} states"
