"""On Spark with a memory budget: what is committed is delivered, whatever fails in between, however a run is watched.

Was: a round of merges could be committed before Spark gave a batch again that had been committed and not delivered. The
round was then delivered in the place of the batch, whose result files were collected as garbage. The thread that merges
while no rows come outlived a failed run, and committed to a checkpoint that was no longer its own. What was owed at the
end was paid inside `awaitTermination()` only. Ids of merges were negative.

The function of `foreachBatch` is idempotent by id and writes down each call (tests/function_sink.py). DuckDB says what
must come of all of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import function_sink
from function_sink import FunctionSink, calls, check_ids, open_query, taken
from judged_jobs import JoinCase, JudgedJob, Result, difference, draw_streams, duckdb_answer, write_streams

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

BATCHES = 4
CASE = JoinCase({"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m")
STREAMS = draw_streams(CASE, BATCHES, 40, 25, seed=5)
BUDGET = 'memory = "8000"\ngroups = 6'
IDLE = 3.0  # seconds, in which a thread that merges while no rows come would have found time to


@pytest.fixture(scope="module")
def expected() -> Result:
    found = duckdb_answer(CASE, STREAMS)
    assert found.total() > 2000
    return found


@pytest.fixture
def job(tmp_path: Path) -> JudgedJob:
    made = JudgedJob.write(tmp_path / "job", CASE, run=BUDGET, adapt='plan = "((A B) C)"', runtime="spark")
    write_streams(CASE, STREAMS, made.home / "in")
    return made


Start = Callable[..., Any]


@pytest.fixture
def start(spark: Any, job: JudgedJob) -> Iterator[Start]:
    """`start(sink, **trigger)` starts the job in this process, to the end of its input unless told otherwise."""
    runs: list[Any] = []

    def begin(sink: FunctionSink | None, report: Any = lambda event: None, **trigger: Any) -> Any:
        query, options = open_query(spark, job.home)
        writer = query.writeStream.options(**options).report(report)
        writer = writer.option("path", str(job.home / "out")) if sink is None else writer.foreachBatch(sink)
        runs.append(writer.trigger(**trigger or {"availableNow": True}).start())
        return runs[-1]

    yield begin
    for run in runs:
        run.stop()


def files(job: JudgedJob) -> dict[Path, tuple[int, int]]:
    """The files of the checkpoint, with size and time."""
    found = {path: path.stat() for path in (job.home / "ck").rglob("*") if path.is_file()}
    return {path: (status.st_size, status.st_mtime_ns) for path, status in found.items()}


def check_untouched(job: JudgedJob, before: dict[Path, tuple[int, int]], pause: float = IDLE) -> None:
    """In the time that a thread which merges while no rows come would need, nothing of the checkpoint changes."""
    time.sleep(pause)
    assert sorted({str(path.relative_to(job.home)) for path, _ in files(job).items() ^ before.items()}) == []


def fail_once(start: Start, job: JudgedJob, call: int) -> None:
    """A run whose function raises in its call number `call`, which ends it."""
    with pytest.raises(Exception, match="this call was to fail"):
        start(FunctionSink(job.home, call)).awaitTermination()


def check_function(job: JudgedJob, expected: Result) -> None:
    """The rows first: ids that are wrong would only hide that some are missing."""
    made = calls(job.home)
    assert difference(taken(made), expected) == "", [(call.id, len(call.rows), call.took) for call in made]
    contents = {(call.id, call.rows) for call in made}
    assert len(contents) == len({call.id for call in made}), "an id came with other rows than before"


# --- a function that fails once --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fail, pause",
    [
        pytest.param(3, IDLE, id="3, after a pause"),
        *(pytest.param(2, pause, id=f"2, {pause:.0f} s", marks=pytest.mark.campaign) for pause in (0.0, IDLE)),
        pytest.param(3, 0.0, id="3, at once", marks=pytest.mark.campaign),
    ],
)
def test_a_function_fails_and_the_query_is_started_again(
    fail: int, pause: float, start: Start, job: JudgedJob, expected: Result
) -> None:
    """Once a run has raised it commits nothing more: another may have the checkpoint by then."""
    fail_once(start, job, fail)
    check_untouched(job, files(job), pause)
    start(FunctionSink(job.home)).awaitTermination()
    check_function(job, expected)


@pytest.mark.campaign
def test_a_function_fails_in_several_runs(start: Start, job: JudgedJob, expected: Result) -> None:
    """The same delivery may fail again and again, and then others."""
    for fail in (1, 1, 2, 2):
        fail_once(start, job, fail)
    start(FunctionSink(job.home)).awaitTermination()
    check_function(job, expected)


def test_a_function_fails_in_the_payment_of_what_is_owed(start: Start, job: JudgedJob, expected: Result) -> None:
    fail_once(start, job, BATCHES + 1)
    start(FunctionSink(job.home)).awaitTermination()
    check_function(job, expected)


def test_a_failed_run_that_nobody_waited_for(start: Start, job: JudgedJob, expected: Result) -> None:
    """It ends by itself, commits nothing afterwards, and the next one can have the checkpoint."""
    failed = start(FunctionSink(job.home, 3))
    wait_until(lambda: not failed.isActive)
    check_untouched(job, files(job))
    start(FunctionSink(job.home)).awaitTermination()
    check_function(job, expected)


# --- killed before a delivery ----------------------------------------------------------------------------------------


@pytest.mark.campaign
@pytest.mark.parametrize("delivery", [2, 3, 4])
def test_killed_before_a_delivery_and_started_again(delivery: int, job: JudgedJob, expected: Result) -> None:
    """Two starts of a JVM each; in `make test` the next one has a death before the third delivery."""
    fault = f"before-delivery:{delivery}"
    killed = job.start(fault=fault)
    assert (killed.code, job.marker(fault).exists()) == (-signal.SIGKILL, True), killed.stderr
    assert job.answer() < expected
    job.finish()
    assert difference(job.answer(), expected) == ""


@pytest.mark.parametrize("sink", [pytest.param("files", marks=pytest.mark.campaign), "function"])
def test_killed_before_a_delivery_and_drained(sink: str, start: Start, job: JudgedJob, expected: Result) -> None:
    """`start(); drain()`: what is owed is paid, and the batch that was committed is delivered all the same."""
    if sink == "files":
        killed = job.start(fault="before-delivery:3").code
    else:
        killed = run_with_function(job, "before-delivery:3")
    assert killed == -signal.SIGKILL
    run = start(None if sink == "files" else FunctionSink(job.home))
    run.drain()
    run.awaitTermination()
    if sink == "files":
        assert difference(job.answer(), expected) == ""
    else:
        check_function(job, expected)


@pytest.mark.campaign
def test_killed_between_commits_with_a_function(job: JudgedJob, expected: Result) -> None:
    """One death after another, each before a delivery; then a run that ends well."""
    for number in (2, 1, 2):
        job.marker(f"before-delivery:{number}").unlink(missing_ok=True)
        assert run_with_function(job, f"before-delivery:{number}") == -signal.SIGKILL
    assert run_with_function(job) == 0
    check_function(job, expected)


def run_with_function(job: JudgedJob, fault: str | None = None) -> int:
    """Run the job with a function in a process of its own, to its end or its death; the exit code."""
    command = [sys.executable, function_sink.__file__]
    done = subprocess.run(command, cwd=job.home, env=job.environment(fault), capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


# --- a run that is only looked at ------------------------------------------------------------------------------------


def wait_until(true: Callable[[], bool], seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not so after {seconds} seconds"
        time.sleep(0.1)


def test_a_run_that_is_polled_ends_with_everything(start: Start, job: JudgedJob, expected: Result) -> None:
    """Never awaited: while results are owed it is active, and when it is not, it has let go of the checkpoint."""
    run = start(None)
    wait_until(lambda: not run.isActive)
    assert difference(job.answer(), expected) == ""
    again = start(None)
    wait_until(lambda: not again.isActive)
    assert difference(job.answer(), expected) == ""


@pytest.mark.campaign
def test_a_run_that_is_polled_tells_of_its_end(start: Start, job: JudgedJob, expected: Result) -> None:
    events: list[dict[str, Any]] = []
    run = start(FunctionSink(job.home), report=events.append)
    wait_until(lambda: not run.isActive)
    check_function(job, expected)
    assert events[-1]["event"] == "end"
    assert events[-1]["rows_out"] == expected.total()


# --- ids -------------------------------------------------------------------------------------------------------------


@pytest.mark.campaign
def test_ids_grow_over_batches_and_merges(start: Start, job: JudgedJob, expected: Result) -> None:
    """Merges come between batches here, for input comes a batch at a time with pauses, and at the end."""
    waiting = {stream: sorted((job.home / "in" / stream).iterdir()) for stream in CASE.streams}
    for files in waiting.values():
        for path in files[1:]:
            path.rename(job.home / f"{path.parent.name}-{path.name}")
    events: list[dict[str, Any]] = []
    run = start(FunctionSink(job.home), report=events.append, processingTime="200 milliseconds")
    for batch in range(BATCHES):
        wait_until(lambda batch=batch: any(event.get("batch") == batch for event in events))
        time.sleep(IDLE)
        if batch + 1 < BATCHES:
            for files in waiting.values():
                path = files[batch + 1]
                os.rename(job.home / f"{path.parent.name}-{path.name}", path)
    run.drain()
    run.stop()
    kinds = [event["event"] for event in events]
    assert "merge" in kinds[: len(kinds) - 1 - kinds[::-1].index("batch")], f"no merge between two batches: {kinds}"
    made = calls(job.home)
    assert difference(taken(made), expected) == ""
    check_ids(made)


@pytest.mark.campaign
def test_ids_stay_the_same_on_every_delivery(start: Start, job: JudgedJob, expected: Result) -> None:
    """A batch and a later delivery fail; their ids come again, with the same rows, and before any larger one."""
    for fail in (3, 4):
        fail_once(start, job, fail)
    start(FunctionSink(job.home)).awaitTermination()
    made = calls(job.home)
    assert difference(taken(made), expected) == ""
    check_ids(made)
    for failed in (call for call in made if not call.took):
        later = made[made.index(failed) + 1 :]
        again = next(call for call in later if call.id >= failed.id)
        assert (again.id, again.rows, again.took) == (failed.id, failed.rows, True)
