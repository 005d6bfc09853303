"""`run.migrate` on Spark, by hand on a running query, from any thread but one; and forced changes in jobs that die.

Was: to change the plan of a run that had come to its end wrote into a checkpoint that it had let go of.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from function_sink import open_query
from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, late_rows, write_streams
from watersmeet.errors import JobError
from watersmeet.faults import OF_MIGRATION
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import read_versions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASE = JoinCase(
    {"A": ("k",), "B": ("k",), "C": ("k", "m"), "D": ("m",)},
    "A.k = B.k AND B.k = C.k AND C.m = D.m",
    window_us=3 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 4
STREAMS = draw_streams(CASE, BATCHES, 8, 5, seed=4, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
ROUTED, EXCHANGED, BUSHY = "(A B C D)", "((A B C) D)", "((A B) (C D))"
WAY = "moving-state"


def head(home: Path) -> Manifest:
    return list(read_versions(Folder(str(home / "ck" / "state"))))[-1]


def changes(home: Path) -> list[tuple[str, str]]:
    return [(entry["plan"], entry["reason"]) for entry in head(home).decisions if entry["decision"] == "ChangePlan"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return JudgedJob.write(tmp_path, CASE, "slots = 2\ngroups = 4", f'plan = "{EXCHANGED}"', runtime="spark").home


@pytest.fixture
def start(spark: Any, home: Path) -> Callable[..., Any]:
    def begin(function: Callable[[Any, int], None] | None = None, available: bool = False, **more: str) -> Any:
        query, options = open_query(spark, home)
        writer = query.writeStream
        if function is not None:
            writer = writer.foreachBatch(function)
        else:
            writer = writer.format("parquet").option("path", str(home / "out"))
        writer = writer.options(**options | more)
        trigger = {"availableNow": True} if available else {"processingTime": "100 milliseconds"}
        return writer.trigger(**trigger).start()

    return begin


def test_by_hand_on_a_running_query(home: Path, start: Callable[..., Any]) -> None:
    """Before the first row, while rows come, and from several threads at once."""
    for name in CASE.streams:
        (home / "in" / name).mkdir(parents=True)
    run = start(memory="4000")
    told = run.migrate(BUSHY, by=WAY)
    assert (told["decision"], told["from"], told["plan"], run.plan) == ("ChangePlan", EXCHANGED, BUSHY, BUSHY)
    for batch, plans in enumerate(([ROUTED], [EXCHANGED, BUSHY])):
        write_streams(CASE, STREAMS, home / "in", batch, batch + 1)
        threads = [threading.Thread(target=run.migrate, args=(plan, WAY)) for plan in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run.processAllAvailable()
    assert len(changes(home)) == 4
    assert run.plan in (EXCHANGED, BUSHY)
    for plan, way, message in (
        ("((A B) C)", WAY, 'plan "((A B) C)" must name each input exactly once'),
        ("((A D) (B C))", WAY, 'the inputs of join "(A D)" are not connected'),
        (ROUTED, "quickly", 'unknown way to change the plan "quickly"'),
        ("", WAY, 'unknown plan ""'),
    ):
        with pytest.raises(JobError) as caught:
            run.migrate(plan, by=way)
        assert caught.value.primary == message
    run.migrate("mjoin", by=WAY)
    assert run.plan == ROUTED
    assert f"plan {ROUTED}" in run.explain()
    assert "why: mjoin was asked for" in run.explain()
    write_streams(CASE, STREAMS, home / "in", 2)
    run.processAllAvailable()
    run.drain()
    run.stop()
    assert [entry["decision"] for entry in run.decisions()].count("ChangePlan") == 5
    with pytest.raises(JobError, match="the run has ended"):
        run.migrate(BUSHY, by=WAY)
    job = JudgedJob(home)
    assert difference(job.answer(), EXPECTED) == ""


def test_refused_inside_the_function_and_after_the_end(home: Path, start: Callable[..., Any]) -> None:
    write_streams(CASE, STREAMS, home / "in", 0, 2)
    refused: list[str] = []
    handle: list[Any] = []
    known = threading.Event()

    def function(frame: Any, delivery: int) -> None:
        assert known.wait(60)
        with pytest.raises(JobError) as caught:
            handle[0].migrate(BUSHY, by=WAY)
        refused.append(caught.value.primary)

    run = start(function, available=True)
    handle.append(run)
    known.set()
    run.awaitTermination()
    assert refused and set(refused) == {"migrate() was called from the function of foreachBatch"}
    version = head(home).version
    with pytest.raises(JobError) as caught:
        run.migrate(BUSHY, by=WAY)
    assert caught.value.primary == "the run has ended"
    assert head(home).version == version, "nothing was written"


AT_ONCE = tuple(point for point in OF_MIGRATION if "advance" not in point)  # where a change is made in one step


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("points", [("after-switch",), AT_ONCE])
def test_a_job_that_is_killed_around_its_changes(points: tuple[str, ...], tmp_path: Path) -> None:
    def forced(batch: int, plan: str) -> str:
        return f'[[adapt.force]]\nat_batch = {batch}\nplan = "{plan}"\nby = "{WAY}"\n'

    adapt = f'plan = "{ROUTED}"\n' + forced(1, EXCHANGED) + forced(2, BUSHY) + forced(3, ROUTED)
    job = JudgedJob.write(tmp_path, CASE, "slots = 2\ngroups = 2\nmemory = 6000", adapt, runtime="spark")
    write_streams(CASE, STREAMS, tmp_path / "in")
    for point in points:
        killed = job.start(fault=point)
        assert job.marker(point).exists(), killed.stderr
        assert killed.code == -signal.SIGKILL
        assert job.answer() <= EXPECTED
    job.finish()
    assert [plan for plan, _ in changes(tmp_path)] == [EXCHANGED, BUSHY, ROUTED]
    assert difference(job.answer(), EXPECTED) == ""
    assert job.late() == late_rows(CASE, STREAMS)


@pytest.mark.slow
@pytest.mark.campaign
def test_each_start_asks_for_another_plan(tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, CASE, "groups = 4\nmemory = 6000", runtime="spark")
    plans = (ROUTED, BUSHY, "(A (B (C D)))", "(((A C) B) D)")
    for batch, plan in enumerate(plans):
        write_streams(CASE, STREAMS, tmp_path / "in", batch, batch + 1)
        job.finish(f"adapt.plan={plan}", f"run.slots={1 + batch % 3}")
        assert head(tmp_path).plan == plan
    assert difference(job.answer(), EXPECTED) == ""
    assert job.late() == late_rows(CASE, STREAMS)
