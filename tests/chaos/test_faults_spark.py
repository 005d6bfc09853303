"""Spark, killed at every fault point: points of tasks kill a Python worker, the others the driver.

A start of the JVM takes most of the time, so the deaths are strung together. Driver: one job is killed at one point
after another, each start both recovers from the death before and runs into the next. Tasks: one process runs a query
for each point in one JVM, where a killed worker fails the query (`local[2]`), or its task is retried (`local[2,4]`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from watersmeet.faults import POINTS, VARIABLE

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# In this order, and at this reach, the deaths are spread over the run: snapshots are due at version 20 alone.
DRIVER_DEATHS = (
    "before-commit:2",
    "in-commit",
    "after-commit:2",
    "before-delivery:2",
    "in-delivery:2",
    "after-delivery:2",
    "before-collect-garbage:2",
    "after-collect-garbage:2",
    "before-snapshot",
    "after-snapshot",
)
OTHER_SLOTS = {"after-delivery:2": 3}  # two, before and after
# In `make test`, with a commit, a delivery and a change of slots between them; every point is in the campaign, and is
# passed on the local runtime by test_faults_local.py. One before a delivery is in test_delivery_spark.py too.
SOME_DRIVER_DEATHS = ("in-commit", "after-delivery:2")
# In the task, which counts for itself: workers are reused, so a later reach is in a later batch.
TASK_DEATHS = (
    "before-prepare:3",
    "in-task:3",
    "before-segment:3",
    "in-segment:3",
    "after-segment:3",
    "before-result:2",
    "in-result:2",
    "after-result:2",
    "before-late",
    "after-late",
)
RETRIED = ("in-segment:3", "in-result:2", "after-late")
SOME_TASK_DEATHS = ("in-segment:3", "before-late")
SOME_RETRIED = ("in-result:2",)
TASK_BATCHES = 4  # the fourth brings late rows


# Of runs with a memory budget: test_faults_memory.py.
OF_MEMORY = ("in-merge", "before-spill", "after-spill")


def test_every_point_is_among_these() -> None:
    assert sorted(death.partition(":")[0] for death in DRIVER_DEATHS + TASK_DEATHS + OF_MEMORY) == sorted(POINTS)


@dataclass(frozen=True)
class Death:
    reached: bool
    returncode: int
    exact_so_far: bool
    stderr: str


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SOME_DRIVER_DEATHS, id="some"),
        pytest.param(DRIVER_DEATHS, id="all", marks=pytest.mark.campaign),
    ],
)
def driver_deaths(request, make_chaos_job, undisturbed, tmp_path_factory):
    """The job, killed at one driver point after another; and how each death went."""
    job = make_chaos_job(tmp_path_factory.mktemp("drivers") / "run", "spark")
    deaths: dict[str, Death] = {}
    for fault in request.param:
        killed = job.start(f"run.slots={OTHER_SLOTS.get(fault, 2)}", fault=fault, timeout=300)
        exact = job.answer() <= undisturbed
        deaths[fault] = Death(job.marker(fault).exists(), killed.returncode, exact, killed.stderr)
    return job, deaths


def test_drivers_are_killed(driver_deaths) -> None:
    _, deaths = driver_deaths
    for fault, death in deaths.items():
        assert death.reached, f"{fault}: {death.stderr}"
        assert death.returncode == -signal.SIGKILL, fault
        assert death.exact_so_far, fault


def test_the_output_after_all_driver_deaths_is_the_same(driver_deaths, undisturbed) -> None:
    job, _ = driver_deaths
    finished = job.start(timeout=300)
    assert finished.returncode == 0, finished.stderr
    answer = job.answer()
    assert (answer.rows, answer.late) == (undisturbed.rows, undisturbed.late)
    assert set(answer.files.values()) == {1}
    job.collect()
    job.check_tidy()


SCRIPT = """
import json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession
import watersmeet.runtime.spark.job as spark_job
from contextlib import nullcontext
from watersmeet.config import load_job
from watersmeet.errors import WatersmeetError

def session(master):
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark

outcomes = []
for master, faults in json.loads(sys.argv[1]):
    spark = session(master)
    # The job's own session would end with it, and the JVM's start with it.
    spark_job._session = lambda config: nullcontext(spark)
    for fault, home in faults:
        marker = Path(home) / ("reached-" + fault.partition(":")[0])
        # Part of what tells Python workers apart: a new value gets new workers, which see it.
        spark.sparkContext.environment["VARIABLE"] = f"{fault}@{marker}"
        errors = []
        for attempt in range(3):
            try:
                spark_job.run_job(load_job(Path(home) / "job.toml"), lambda event: None)
                break
            except WatersmeetError as error:
                errors.append(error.render())
        outcomes.append((master, fault, marker.exists(), errors))
    spark.stop()
print(json.dumps(outcomes))
"""


@pytest.fixture(scope="module")
def few_inputs(chaos_inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    for stream in chaos_inputs.iterdir():
        (folder / stream.name).mkdir()
        for path in sorted(stream.iterdir())[:TASK_BATCHES]:
            shutil.copy2(path, folder / stream.name)
    return folder


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((SOME_TASK_DEATHS, SOME_RETRIED), id="some"),
        pytest.param((TASK_DEATHS, RETRIED), id="all", marks=pytest.mark.campaign),
    ],
)
def task_deaths(request, make_chaos_job, few_inputs: Path, tmp_path_factory: pytest.TempPathFactory):
    """A job for each task point and master, each run to its end in one JVM; and how each went."""
    root = tmp_path_factory.mktemp("tasks")
    jobs = {}
    work = []
    for master, faults in zip(("local[2]", "local[2,4]"), request.param, strict=True):
        for fault in faults:
            jobs[master, fault] = make_chaos_job(root / f"{len(jobs)}", "spark", few_inputs)
        work.append((master, [(fault, str(jobs[master, fault].home)) for fault in faults]))
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("VARIABLE", VARIABLE), json.dumps(work)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stderr
    outcomes = json.loads(finished.stdout.splitlines()[-1])
    return jobs, {(master, fault): (reached, errors) for master, fault, reached, errors in outcomes}


@pytest.fixture(scope="module")
def undisturbed_few(make_chaos_job, few_inputs: Path, tmp_path_factory: pytest.TempPathFactory):
    job = make_chaos_job(tmp_path_factory.mktemp("few") / "run", "local", few_inputs)
    job.finish()
    assert sum(job.answer().late.values()) > 0
    return job.answer()


def test_workers_are_killed_and_queries_started_again(task_deaths, undisturbed_few) -> None:
    jobs, outcomes = task_deaths
    for (master, fault), (reached, errors) in outcomes.items():
        if master == "local[2]":
            assert reached, fault
            assert len(errors) == 1, f"{fault}: one attempt fails, the next one ends well"
            assert errors[0].startswith("error: a Python worker of Spark died\n")
            assert "\tat " not in errors[0]
            check_end(jobs[master, fault], undisturbed_few)


def test_workers_are_killed_and_tasks_retried(task_deaths, undisturbed_few) -> None:
    jobs, outcomes = task_deaths
    for (master, fault), outcome in outcomes.items():
        if master == "local[2,4]":
            assert outcome == (True, []), fault
            check_end(jobs[master, fault], undisturbed_few)


def check_end(job, expected) -> None:
    assert job.answer() == expected, job.home
    job.collect()
    job.check_tidy()
