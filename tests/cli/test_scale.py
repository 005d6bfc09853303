"""More and fewer slots by what batches take: through the command line, on a job that DuckDB judges."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from judged_jobs import (
    SECOND,
    JoinCase,
    JudgedJob,
    check_answer,
    decisions,
    draw_streams,
    duckdb_answer,
    write_streams,
)
from watersmeet.adapt.policies.scale.seconds import signals
from watersmeet.model.slot_figures import SlotFigures, Slots

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y",)},
    "A.x = B.x AND B.y = C.y",
    4 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 36
STREAMS = draw_streams(CASE, BATCHES, 8, 8, seed=7, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
SCALED = 'scale = "seconds"\nscale_slots = [1, 4]\nscale_seconds = 1.0'
LOADS = (0.6,) * 4 + (3.0,) * 14 + (0.2,) * 18  # seconds of work in each batch: it rises, and falls


def write_job(home: Path, adapt: str = SCALED, run: str = "") -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in")
    return JudgedJob.write(home, CASE, f"groups = 8\n{run}", f'plan = "((A B) C)"\n{adapt}')


def test_load_rises_and_falls(tmp_path: Path) -> None:
    """What batches of a few rows take says nothing, so that it is said here."""
    loads = iter(LOADS)

    def take(seconds: float, slots: Slots) -> dict[str, float]:
        work = next(loads)
        each = SlotFigures(0.0, work / len(slots), 1000 * work / len(slots))
        return signals(0.1 + work / len(slots), (each,) * len(slots))

    job = write_job(tmp_path)
    with mock.patch("watersmeet.run.batch.load_signals", take):
        events = job.finish()
    changes = decisions(events, "Rescale")
    assert [(entry["from_slots"], entry["slots"]) for entry in changes] == [(2, 4), (4, 1)]
    assert changes[0]["reason"] == (
        "seconds: a batch takes 1.6 s, 1.5 s of that in the slot that has most to do, and may take 1 s; "
        "with 4 slots 0.85 s are expected"
    )
    reviews = decisions(events, "ReviewRescale")
    assert reviews[0]["reason"] == "seconds: a batch took 1.6 s, 0.85 s were expected, and it takes 0.85 s"
    assert not any(entry["no_use"] for entry in reviews)
    used = [len(event["slots"]) for event in events if event["event"] == "batch"]
    assert [used[batch] for batch in (0, 16, 35)] == [2, 4, 1]
    assert job.state()["placement"]["slots"] == 1
    check_answer(job, CASE, STREAMS, EXPECTED)
    _, shown, _ = job.call("state", "show", "ck")
    assert "4 slots in the place of 2: seconds: a batch takes 1.6 s" in shown
    assert "slots as they turned out: seconds: a batch took 1.6 s" in shown


@pytest.mark.parametrize(
    "adapt, run, message",
    [
        ('scale = "slots"', "", 'unknown scale "slots" in [adapt]'),
        ('scale = "seconds"', "", '"scale" has no time that a batch may take'),
        ('scale = "seconds"\nscale_slots = [2]', 'trigger = "1 second"', '"scale_slots" is [2]'),
        ('scale = "seconds"\nscale_slots = [0, 2]', 'trigger = "1 second"', '"scale_slots" are 0 and 2'),
        ('scale = "seconds"\nscale_slots = [3, 4]', 'trigger = "1 second"', "a run with 2 slots is outside of"),
        ('scale = "seconds"\nscale_seconds = 0', "", '"scale_seconds" is 0'),
    ],
)
def test_mistakes(tmp_path: Path, adapt: str, run: str, message: str) -> None:
    code, _, err = write_job(tmp_path, adapt, run).call("run", "job.toml")
    assert code == 2
    assert message in err
