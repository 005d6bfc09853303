"""Was: what a run on Spark owed, delivered and held depended on how its handle was used.

With a memory budget, a round of merges could take the place of a batch that was committed and not delivered, so that a
`foreachBatch` that raised once lost rows; a run that nobody waited for ended without what it owed, and kept its lock; a
stop in the middle of a batch printed a thousand lines of Java.

Whatever is done with the handle, once a run has come to its end the function has had DuckDB's answer, under ids that
only grow and never change their meaning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from function_sink import FunctionSink, calls, check_ids, open_query, taken
from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from watersmeet.errors import CheckpointError, JobError, UserFunctionError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASE = JoinCase({"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m", 3 * SECOND, SECOND // 2)
STREAMS = draw_streams(CASE, 4, 12, 8, seed=11, late=2)
RIGHT = duckdb_answer(CASE, STREAMS)
Function = Callable[[Any, int], None]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A job of four batches whose budget is a fraction of what it keeps."""
    job = JudgedJob.write(tmp_path / "job", CASE, 'memory = "3000"\nslots = 2', 'plan = "((A B) C)"', runtime="spark")
    write_streams(CASE, STREAMS, job.home / "in")
    return job.home


@pytest.fixture
def start(spark: Any, home: Path) -> Callable[..., Any]:
    def begin(function: Function, trigger: str = "", report: Callable[[Any], None] = lambda event: None, **more: str):
        query, options = open_query(spark, home)
        writer = query.writeStream.foreachBatch(function).options(**options | more).report(report)
        return writer.trigger(**{"processingTime": trigger} if trigger else {"availableNow": True}).start()

    return begin


def check_exact(home: Path) -> None:
    made = calls(home)
    check_ids(made)
    assert difference(taken(made), RIGHT) == ""


def finish(home: Path, start: Callable[..., Any]) -> None:
    start(FunctionSink(home)).awaitTermination()
    check_exact(home)


def wait_for(what: Callable[[], Any]) -> None:
    until = time.monotonic() + 120
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


@pytest.mark.parametrize("call", [2, *(pytest.param(n, marks=pytest.mark.campaign) for n in (1, 5, 7))])
def test_a_function_that_raises_once(call: int, home: Path, start: Callable[..., Any]) -> None:
    """In a batch, or, from the fifth call on, with what merges at the end emit."""
    run = start(FunctionSink(home, fail=call), merge="off")
    with pytest.raises(UserFunctionError, match="this call was to fail"):
        run.awaitTermination()
    run.stop()
    assert "this call was to fail" in str(run.exception()), "to stop what has ended changes nothing"
    finish(home, start)


def test_a_run_that_is_polled(home: Path, start: Callable[..., Any]) -> None:
    run = start(FunctionSink(home))
    wait_for(lambda: not run.isActive)
    assert run.exception() is None
    check_exact(home)
    finish(home, start)


@pytest.mark.campaign
def test_stopped_in_a_delivery(home: Path, start: Callable[..., Any]) -> None:
    inside = threading.Event()
    sink = FunctionSink(home)

    def slow(frame: Any, delivery: int) -> None:
        inside.set()
        time.sleep(1)
        sink(frame, delivery)

    run = start(slow)
    assert inside.wait(120)
    run.stop()
    assert (run.isActive, run.exception()) == (False, None)
    finish(home, start)


def test_stopped_in_a_batch_without_a_word(home: Path, start: Callable[..., Any], capfd: Any) -> None:
    """A stop cancels the job under way. What Python and Java say of that is nobody's business."""
    for _ in range(3):
        events: list[dict[str, Any]] = []
        run = start(FunctionSink(home), "1 millisecond", events.append)
        wait_for(lambda: any(event["event"] == "start" for event in events))  # noqa: B023 - called at once
        wait_for(lambda: run.status["isTriggerActive"])  # noqa: B023
        time.sleep(0.3)
        run.stop()
        assert run.exception() is None
        assert events[-1]["event"] == "end"
    said = capfd.readouterr()
    assert "\tat " not in said.err + said.out
    assert "Traceback" not in said.err + said.out
    finish(home, start)


@pytest.mark.campaign
def test_stopped_while_it_emits_what_it_owes(home: Path, start: Callable[..., Any]) -> None:
    events: list[dict[str, Any]] = []
    run = start(FunctionSink(home), report=events.append, merge="off")
    wait_for(lambda: any(event["event"] == "merge" for event in events))
    run.stop()
    assert run.exception() is None
    assert taken(calls(home)) < RIGHT
    finish(home, start)


@pytest.mark.campaign
def test_two_starts_on_one_checkpoint(home: Path, start: Callable[..., Any]) -> None:
    outcomes: list[Any] = []

    def begin() -> None:
        try:
            outcomes.append(start(FunctionSink(home)))
        except CheckpointError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=begin) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [refused] = [outcome for outcome in outcomes if isinstance(outcome, CheckpointError)]
    [run] = [outcome for outcome in outcomes if outcome is not refused]
    assert "another run is using the checkpoint" in str(refused)
    run.awaitTermination()
    check_exact(home)


@pytest.mark.parametrize(
    "trigger",
    [
        pytest.param("", marks=pytest.mark.campaign, id="merges at the end"),
        pytest.param("100 milliseconds", id="a drain"),
    ],
)
def test_the_function_cannot_wait_for_itself(trigger: str, home: Path, start: Callable[..., Any]) -> None:
    """In a batch, with what merges at the end emit, or in a drain that another thread asked for."""
    sink, started = FunctionSink(home), threading.Event()
    refused: set[threading.Thread] = set()
    runs: list[Any] = []

    def take(frame: Any, delivery: int) -> None:
        assert started.wait(60)
        sink(frame, delivery)
        for what in (runs[0].stop, runs[0].drain):
            with pytest.raises(JobError, match=r"\(\) was called from the function of foreachBatch"):
                what()
        refused.add(threading.current_thread())

    runs.append(start(take, trigger, merge="off"))
    started.set()
    if trigger:
        runs[0].processAllAvailable()
        runs[0].drain()
        runs[0].stop()
        assert threading.current_thread() in refused
    runs[0].awaitTermination()
    assert len(refused) > 1
    check_exact(home)


def test_a_drain_before_anything_else(home: Path, start: Callable[..., Any]) -> None:
    run = start(FunctionSink(home, fail=2), merge="off")
    with pytest.raises(UserFunctionError):
        run.awaitTermination()
    run = start(FunctionSink(home), merge="off")
    run.drain()
    run.awaitTermination()
    check_exact(home)


def test_ended_between_two_batches(home: Path, start: Callable[..., Any]) -> None:
    """As `watersmeet run --drain` does when it is interrupted, however busy the streams are."""
    events: list[dict[str, Any]] = []
    run = start(FunctionSink(home), "1 millisecond", events.append, merge="off")
    wait_for(lambda: any(event["event"] == "batch" for event in events))
    run.end(drain=True)
    assert run.exception() is None
    last = [event for event in events if event["event"] in ("batch", "merge")][-1]
    assert last["owed_groups"] == {}
    finish(home, start)
