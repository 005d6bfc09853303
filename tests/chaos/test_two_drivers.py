"""Two runs on one checkpoint, without a lock: the later takes over, the former stops, and nothing is destroyed.

`TWO_DRIVERS` in the environment is how often accidental second starts are tried, on each kind of place.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from object_server import DROP, DROP_AFTER, FAIL, FAIL_AFTER, SLOW, S3Server, s3_proxy
from rival_runs import TAKEN_OVER, RivalJob

TIMES = int(os.environ.get("TWO_DRIVERS", "4"))
PLACES = ("store", "shared folder")


def check_end(job: RivalJob) -> None:
    """The answer is whole, and the checkpoint can be gone on with."""
    assert job.answer() == job.expected()
    job.check_whole()
    assert job.start().end() is None
    assert job.answer() == job.expected()
    job.check_whole()


@pytest.mark.parametrize("number", range(TIMES))
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.share(2)
def test_an_accidental_second_start(place: str, number: int, tmp_path: Path, s3: S3Server) -> None:
    moments = random.Random(f"{place} {number}")
    job = RivalJob.on(place, tmp_path, s3)
    first = job.start()
    first.wait_for("batch", moments.randrange(4))
    time.sleep(moments.uniform(0, 0.1))
    second = job.start()
    ends = [run.end() for run in (first, second)]
    said = [end for end in ends if end is not None]
    assert all(TAKEN_OVER in end for end in said), said
    assert len(said) < 2, "one goes on to the end"
    if ends[0] is not None and second.events:
        notes = [event["text"] for event in second.events if event["event"] == "note"]
        assert any("if that run is still alive, it will stop" in note for note in notes)
    check_end(job)


@pytest.mark.parametrize("place", PLACES)
def test_four_at_once(place: str, tmp_path: Path, s3: S3Server) -> None:
    job = RivalJob.on(place, tmp_path, s3)
    runs = [job.start() for _ in range(4)]
    ends = [run.end() for run in runs]
    assert all(end is None or TAKEN_OVER in end for end in ends)
    assert None in ends
    check_end(job)


@pytest.mark.parametrize("batches", [0, 3, *(pytest.param(n, marks=pytest.mark.campaign) for n in (1, 6))])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.share(2)
def test_one_that_sleeps_through_a_takeover(place: str, batches: int, tmp_path: Path, s3: S3Server) -> None:
    """Wherever it was, it stops when it wakes up, and has changed nothing.

    One that had not begun takes over in its turn, and one that was done may end; neither has anything to add.
    """
    with s3_proxy(s3) as proxy:  # which waits for nobody who sleeps in the middle of a request
        job = RivalJob.on(place, tmp_path, proxy)
        first = job.start()
        first.wait_for("batch", batches)
        time.sleep(random.Random(batches).uniform(0, 0.05))
        first.pause()
        try:
            assert job.start().end() is None
            assert job.answer() == job.expected()
        finally:
            first.wake()
        end = first.end()
        assert end is None or (TAKEN_OVER in end and "is held by process" in end)
        assert end is not None or batches in (0, 6)
        check_end(job)


@pytest.mark.parametrize("place", PLACES)
def test_one_that_waits_for_rows_stops_too(place: str, tmp_path: Path, s3: S3Server) -> None:
    job = RivalJob.on(place, tmp_path, s3)
    first = job.start("run.trigger=100 milliseconds")
    first.wait_for("batch", 8)
    assert job.start().end() is None
    end = first.end(30)
    assert end is not None
    assert TAKEN_OVER in end
    check_end(job)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.share(3)
def test_on_a_store_that_fails(seed: int, tmp_path: Path, s3: S3Server) -> None:
    """Requests are slow, fail, or are carried out without an answer; there is a second start on top."""
    chance = random.Random(seed)
    accidents = (FAIL, FAIL_AFTER, DROP, DROP_AFTER, SLOW)

    def happen(method: str, path: str) -> str | None:
        return chance.choice(accidents) if chance.random() < 0.1 else None

    with s3_proxy(s3) as proxy:
        job = RivalJob.on("store", tmp_path, proxy)
        proxy.accident = happen
        first = job.start()
        first.wait_for("batch", 3)
        second = job.start()
        ends = [run.end(120) for run in (first, second)]
        proxy.accident = lambda method, path: None
        assert all(end is None or TAKEN_OVER in end for end in ends), ends
        assert None in ends
        check_end(job)
