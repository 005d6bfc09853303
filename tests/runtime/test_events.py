"""What events say of time, of the disk, and of what is yet to be read."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from small_jobs import FILES, SmallJob
from watersmeet.config import load_job
from watersmeet.runtime import checkpoint
from watersmeet.runtime.clock import VirtualClock
from watersmeet.runtime.events import Event
from watersmeet.runtime.local.job import run_job

START_US = 1_700_000_000_000_000


def test_every_event_has_a_timestamp_and_streams_their_lags(tmp_path: Path) -> None:
    job = SmallJob(tmp_path).write()
    job.input("B", FILES - 1).unlink()  # so that B ends a second before A
    events: list[Event] = []
    clock = VirtualClock(START_US)
    run_job(load_job(job.path), events.append, clock=clock)
    times = [datetime.fromisoformat(event["timestamp"]) for event in events]
    assert times == [datetime.fromtimestamp(START_US / 1e6, UTC)] * len(events)
    assert {event["event"] for event in events} >= {"start", "batch", "end"}
    last = [event for event in events if event["event"] == "batch"][-1]["streams"]
    assert (last["A"]["behind_seconds"], last["B"]["behind_seconds"]) == (0.0, 1.0)
    assert all(s["watermark_lag_seconds"] == (START_US - s["watermark"]) / 1e6 for s in last.values())


def test_backlogs_are_what_no_batch_has_read(tmp_path: Path) -> None:
    job = SmallJob(tmp_path).write()
    told: list[Event] = []
    run_job(load_job(job.path), told.append)
    batches = [event["streams"] for event in told if event["event"] == "batch"]
    assert [streams["A"]["backlog"]["files"] for streams in batches] == list(range(FILES - 1, -1, -1))
    sizes = [job.input("A", number).stat().st_size for number in range(FILES)]
    assert [streams["A"]["backlog"]["bytes"] for streams in batches] == [sum(sizes[n + 1 :]) for n in range(FILES)]


def test_what_waiting_for_the_disk_takes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(files: object, also: object = ()) -> None:
        time.sleep(0.01)

    monkeypatch.setattr(checkpoint, "sync_files", slow)
    job = SmallJob(tmp_path).write()
    told: list[Event] = []
    run_job(load_job(job.path), told.append)
    batches = [event for event in told if event["event"] == "batch"]
    assert batches and all(0.01 <= event["sync_seconds"] <= event["commit_seconds"] for event in batches)
