"""What events say of time: when they were told, and how far the watermarks of streams are behind."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from small_jobs import FILES, SmallJob
from watersmeet.config import load_job
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
