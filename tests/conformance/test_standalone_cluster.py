"""The same answers on a real standalone cluster: workers on hosts of their own, and whatever happens to them.

Executors are other processes with another current folder, so this is where a path that only means something to the
driver, or a module that only the driver has, shows. One of them is killed in the middle of a batch, or stands still for
seconds; tasks have second copies by speculation; and there are more slots than cores. Meanwhile groups are moved, by
force and by `balance = "time"` over uneven keys, and slots become four, then one. DuckDB is the judge, and Spark's own
event log says whether what was to happen did.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.spark.driver import Driver
from judged_jobs import SECOND, JoinCase, JudgedJob, Result, difference, draw_streams, duckdb_answer, write_streams
from spark_cluster import DRIVER_SETTINGS, Cluster, standalone_cluster
from spark_event_log import TaskRun, log_settings, read_tasks
from watersmeet.config import load_job
from watersmeet.lang.binder import bind
from watersmeet.runtime.opening import open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.verify.findings import ORPHAN
from watersmeet.state.verify.walk import verify

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASE = JoinCase(
    {"A": ("k",), "B": ("k", "m"), "C": ("m",)},
    "A.k = B.k AND B.m = C.m",
    window_us=2 * SECOND,
    lateness_us=SECOND,
)
KEYS = 40
RUN = "slots = 2\ngroups = 12"
PLACEMENT = """
plan = "((A B) C)"
balance = "time"
balance_every = 1
[[adapt.force]]
at_batch = 1
slots = 4
[[adapt.force]]
at_batch = 2
move = ["J1:0->3", "J1:11->0", "J2:5->1"]
[[adapt.force]]
at_batch = 4
slots = 1
[[adapt.force]]
at_batch = 5
slots = 3
move = ["J2:1->2"]
"""
RUN_SECONDS = 300
LOST = "ExecutorLostFailure"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.2",
    "spark.speculation.minTaskRuntime": "200ms",
}


class ClusterRun:
    """A run of a job on a cluster, while it goes on and after it has ended."""

    def __init__(self, job: JudgedJob, cluster: Cluster, conf: Mapping[str, str] = {}) -> None:
        self.job, self.cluster = job, cluster
        self._logs = job.home / "spark-events"
        settings = {"spark.sql.shuffle.partitions": "2", **DRIVER_SETTINGS, **log_settings(self._logs), **conf}
        chosen = [f'spark.master="{cluster.address}"', *(f'spark."{name}"="{v}"' for name, v in settings.items())]
        out, err = job.home / "stdout", job.home / "stderr"
        self.driver = Driver(job.command(*chosen), job.home, job.environment(), out, err)

    def wait_for_batches(self, count: int) -> None:
        reached = self.driver.wait_until(lambda: self.batches >= count, RUN_SECONDS)
        assert reached, f"the run ended before: {self.driver.said()[-1500:]}"

    @property
    def batches(self) -> int:
        return sum(event["event"] == "batch" for event in self.driver.events())

    def finish(self) -> list[TaskRun]:
        """What Spark says of its tasks, once the run has come to a good end."""
        code = self.driver.end(RUN_SECONDS)
        assert code == 0, self.driver.said()[-3000:]
        return read_tasks(self._logs)

    def decisions(self) -> Counter[str]:
        return Counter(d["decision"] for event in self.driver.events() for d in event.get("decisions", ()))


@contextmanager
def run_on(cluster: Cluster, job: JudgedJob, conf: Mapping[str, str] = {}) -> Iterator[ClusterRun]:
    run = ClusterRun(job, cluster, conf)
    try:
        yield run
    finally:
        run.driver.kill()


def write_job(home: Path, batches: int, rows: int, adapt: str = PLACEMENT, run: str = RUN) -> tuple[JudgedJob, Result]:
    """A job over uneven keys, one in five of which has most rows; and its answer."""
    domain = {"k": KEYS * rows // 40, "m": KEYS * rows // 40}
    streams = draw_streams(CASE, batches, rows, domain, seed=12, late=1)
    draw = random.Random(5)
    for of_stream in streams.values():
        for row in (row for of_batch in of_stream for row in of_batch if draw.random() < 0.75):
            row |= {name: row[name] // 5 * 5 for name in domain if name in row}
    job = JudgedJob.write(home, CASE, run, adapt, runtime="spark")
    write_streams(CASE, streams, home / "in")
    return job, duckdb_answer(CASE, streams)


def check(run: ClusterRun, expected: Result) -> None:
    """The answer is right, and nothing is left that a start does not clear away."""
    assert difference(run.job.answer(), expected) == ""
    assert expected.total() > 100
    found = run.decisions()
    assert found["Rescale"] >= 3
    assert found["MoveGroups"] >= 2
    folders = CheckpointFolders(str(run.job.home / "ck"))
    before = verify(folders)
    assert before is not None
    assert before.sound, before
    job = load_job(run.job.home / "job.toml")
    outputs = Outputs.of("parquet", str(run.job.home / "out"), str(run.job.home / "late"))
    open_run(bind(job.query, job.streams()), job.settings, folders, outputs).close()
    after = verify(folders)
    assert after is not None
    assert after.sound, after
    assert after.of(ORPHAN) == []


def kill_one_at_work(run: ClusterRun) -> None:
    """Kill an executor that has work: while it stands still, the driver hands it tasks that it cannot end."""
    victim = run.cluster.executors()[0]
    with run.cluster.held_up(victim):
        time.sleep(1.5)
        os.kill(victim, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("daemons"), workers=2, cores=1) as started:
        yield started


def test_an_executor_dies_while_groups_move_and_slots_change(cluster: Cluster, tmp_path: Path) -> None:
    job, expected = write_job(tmp_path, batches=6, rows=40)
    with run_on(cluster, job) as run:
        run.wait_for_batches(2)
        kill_one_at_work(run)
        tasks = run.finish()
    check(run, expected)
    # Whether another one comes in its place before the other has done the rest is a matter of seconds.
    assert any(task.reason == LOST for task in tasks), "the executor had no task"


@pytest.mark.campaign
def test_one_executor_after_the_other_dies(cluster: Cluster, tmp_path: Path) -> None:
    job, expected = write_job(tmp_path, batches=10, rows=1000)
    with run_on(cluster, job) as run:
        for batches in (1, 3, 5, 7):
            run.wait_for_batches(batches)
            kill_one_at_work(run)
        tasks = run.finish()
    check(run, expected)
    assert sum(task.reason == LOST for task in tasks) >= 2, "one that has just begun may have no task yet"
    assert len({task.executor for task in tasks}) >= 5


@pytest.mark.campaign
def test_more_slots_than_cores_and_a_worker_that_is_slow(cluster: Cluster, tmp_path: Path) -> None:
    """What is done by then stays; the batch waits for the one that stands still."""
    job, expected = write_job(tmp_path, batches=8, rows=1000, adapt=PLACEMENT.replace("slots = 4", "slots = 9"))
    with run_on(cluster, job) as run:
        for batches, seconds in ((1, 5.0), (4, 3.0), (6, 0.5)):
            run.wait_for_batches(batches)
            for executor in run.cluster.executors():
                with run.cluster.held_up(executor):
                    time.sleep(seconds)
        tasks = run.finish()
    check(run, expected)
    assert all(task.reason == "Success" for task in tasks)
    assert max(task.seconds for task in tasks) > 4, "none had to wait"


@pytest.mark.campaign
def test_second_copies_of_tasks_by_speculation(cluster: Cluster, tmp_path: Path) -> None:
    """The first copy goes on when it can again, while its batch, and perhaps the next, is committed already."""
    job, expected = write_job(tmp_path, batches=10, rows=1000)
    with run_on(cluster, job, SPECULATION) as run:
        for batches in (2, 4, 6, 8):
            run.wait_for_batches(batches)
            executors = run.cluster.executors()
            with run.cluster.held_up(executors[batches // 2 % len(executors)]):
                run.driver.wait_until(lambda before=batches: run.batches > before + 1, 20)
        tasks = run.finish()
    copies = {task.task for task in tasks if task.speculative and task.reason == "Success"}
    assert copies, "no second copy was the first to end"
    assert any(task.task in copies and not task.speculative for task in tasks), "no first copy is told of"
    check(run, expected)


@pytest.mark.campaign
def test_an_executor_that_was_given_up_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    """It stands still for longer than Spark waits for it. What it still does when it can is for nobody."""
    impatient = {
        "spark.network.timeout": "6s",
        "spark.network.timeoutInterval": "2s",
        "spark.executor.heartbeatInterval": "1s",
    }
    job, expected = write_job(tmp_path, batches=8, rows=1000)
    with run_on(cluster, job, impatient) as run:
        run.wait_for_batches(2)
        with run.cluster.held_up(run.cluster.executors()[0]):
            run.driver.wait_until(lambda: run.batches > 4, 60)
        tasks = run.finish()
    check(run, expected)
    assert any(task.reason == LOST for task in tasks)
