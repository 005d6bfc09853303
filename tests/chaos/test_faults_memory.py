"""A run inside a small budget, killed wherever it can be: after restarts the output is that of DuckDB.

The budget is a fraction of the state, so that every batch spills; merges take place in batches, where they are forced,
and in the drain at the end.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forked_runs import begin_run, run_apart
from small_jobs import check_message
from watersmeet.config import load_job
from watersmeet.faults import POINTS
from watersmeet.runtime.events import silent
from watersmeet.runtime.local.job import run_job
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import read_versions

BATCHES = 7
GROUPS = 6  # as the job has it
LATENESS = 500_000
BUDGET = "run.memory=1500"
MERGES = ", ".join(f'"{operator}:{group}"' for operator in ("J1", "J2") for group in range(GROUPS))
FORCED = f"adapt.force=[{{at_batch=3, merge=[{MERGES}]}}, {{at_batch=6, merge=[{MERGES}]}}]"
SETTINGS = ("adapt.plan=((A B) C)", BUDGET, FORCED)

# Reached only a few times in a run of this length.
RARE = (
    "before-snapshot",
    "after-snapshot",
    "before-collect-garbage",
    "after-collect-garbage",
    "before-late",
    "after-late",
)
NOT_IN_A_DRAIN = ("before-snapshot", "after-snapshot", "before-late", "after-late")


@dataclass(frozen=True)
class Expected:
    rows: Counter[tuple[Any, ...]]
    late: int


@pytest.fixture(scope="module")
def inputs(chaos_inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    for stream in chaos_inputs.iterdir():
        (folder / stream.name).mkdir()
        for path in sorted(stream.iterdir())[:BATCHES]:
            shutil.copy2(path, folder / stream.name)
    return folder


def duckdb_answer(inputs: Path) -> Expected:
    """What DuckDB makes of the rows that are not late."""
    tables: dict[str, pa.Table] = {}
    late = 0
    for stream in inputs.iterdir():
        newest: int | None = None
        kept: list[dict[str, int]] = []
        for path in sorted(stream.iterdir()):
            rows = pq.read_table(path).to_pylist()
            punctual = [row for row in rows if newest is None or row["ts"] >= newest - LATENESS]
            newest = max(row["ts"] for row in rows)
            late += len(rows) - len(punctual)
            kept += punctual
        tables[stream.name] = pa.Table.from_pylist(kept)
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    rows = connection.sql(
        """
        SELECT A.k, A.v, B.v, C.v FROM A, B, C WHERE A.k = B.k AND B.v2 = C.v2
        AND greatest(A.ts, B.ts, C.ts) - A.ts < 3000000 AND greatest(A.ts, B.ts, C.ts) - B.ts < 4000000
        AND greatest(A.ts, B.ts, C.ts) - C.ts < 3000000
        """
    ).fetchall()
    return Expected(Counter(rows), late)


@pytest.fixture(scope="module")
def expected(inputs: Path) -> Expected:
    found = duckdb_answer(inputs)
    assert found.rows.total() > 500
    assert found.late > 5
    return found


def newest_version(home: Path) -> Manifest:
    return list(read_versions(Folder(str(home / "ck" / "state"))))[-1]


def lineage_of(home: Path) -> tuple[tuple[str, ...], ...]:
    return newest_version(home).answering.spec.lineage


def check_exact(job: Any, expected: Expected) -> None:
    answer = job.answer()
    assert answer.rows == expected.rows
    assert sum(answer.late.values()) == expected.late
    job.check_tidy()


def die_and_finish(job: Any, point: str, reaches: Sequence[int], expected: Expected) -> None:
    """Kill the job at each of these reaches of the point, one start after the other; then let it end."""
    for start, nth in enumerate(reaches):
        marker = job.home / f"reached-{point}-{start}"
        code = run_apart(job.home / "job.toml", SETTINGS, f"{point}:{nth}@{marker}")
        assert marker.exists(), f"{point} was not reached {nth} times"
        assert code == -signal.SIGKILL
        assert job.answer().rows <= expected.rows, "nothing twice, and nothing wrong"
    job.finish(*SETTINGS)
    check_exact(job, expected)


@pytest.fixture(scope="module")
def undisturbed_events(make_chaos_job: Any, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    job = make_chaos_job(tmp_path_factory.mktemp("undisturbed") / "run", inputs=inputs)
    events: list[Any] = []
    run_job(load_job(job.home / "job.toml", SETTINGS), events.append)
    return events


def test_the_job_spills_and_merges_in_batches_and_at_the_end(undisturbed_events: list[Any]) -> None:
    batches = [event for event in undisturbed_events if event["event"] == "batch"]
    rounds = [event for event in undisturbed_events if event["event"] == "merge"]
    assert all(event["active_bytes"] <= 1500 for event in batches)
    assert sum(any(entry["decision"] == "SpillGroups" for entry in event["decisions"]) for event in batches) > 5
    assert {3, 6} <= {event["batch"] for event in batches if event["rows_merged"]}
    assert len([event for event in rounds if event["rows_merged"]]) > 3
    assert rounds[-1]["owed_groups"] == {}


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(point: str, make_chaos_job: Any, inputs: Path, expected: Expected, tmp_path: Path) -> None:
    job = make_chaos_job(tmp_path / "run", inputs=inputs)
    die_and_finish(job, point, (1, 1) if point in RARE else (1, 2, 5), expected)


@pytest.fixture(scope="module")
def all_read(make_chaos_job: Any, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The job with all of its input read and nothing paid, and a copy of its folder to begin again from."""
    job = make_chaos_job(tmp_path_factory.mktemp("all-read") / "run", inputs=inputs)
    events: list[Any] = []
    settings = (*SETTINGS[:2], "adapt.merge=off")
    run_job(load_job(job.home / "job.toml", settings), events.append, stopped=lambda: len(events) > BATCHES)
    assert [event["event"] for event in events] == ["start", *["batch"] * BATCHES, "end"]
    assert set(events[-2]["owed_groups"]) == {"J1", "J2"}
    copy = job.home.parent / "copy"
    shutil.copytree(job.home, copy)
    return job, copy


@pytest.mark.parametrize("point", [point for point in POINTS if point not in NOT_IN_A_DRAIN])
def test_killed_in_the_drain(point: str, all_read: tuple[Any, Path], expected: Expected) -> None:
    job, copy = all_read
    shutil.rmtree(job.home)
    shutil.copytree(copy, job.home)
    before = job.answer().rows
    assert before < expected.rows
    die_and_finish(job, point, (1, 1) if point in RARE else (1, 2, 3), expected)


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments(
    seed: int, make_chaos_job: Any, inputs: Path, expected: Expected, tmp_path: Path
) -> None:
    job = make_chaos_job(tmp_path / "run", inputs=inputs)
    moments = random.Random(seed)
    for _ in range(6):
        process = begin_run(job.home / "job.toml", SETTINGS)
        time.sleep(moments.uniform(0.05, 0.4))
        process.kill()
        process.join()
        assert job.answer().rows <= expected.rows
    job.finish(*SETTINGS)
    check_exact(job, expected)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("point", ["before-commit", "after-commit", "after-collect-garbage"])
def test_killed_again_and_again(
    point: str, seed: int, make_chaos_job: Any, inputs: Path, expected: Expected, tmp_path: Path
) -> None:
    """Each start gets a commit or a few further than the one before, until one comes to its end."""
    job = make_chaos_job(tmp_path / "run", inputs=inputs)
    draw = random.Random(seed)
    code: int | None = None
    starts = 0
    while code != 0:
        starts += 1
        # Of commits the third is always further on: the first takes the checkpoint, and the second may be a decision
        # that is made anew by the next start.
        nth = draw.choice((2, 2, 3)) + ("commit" in point)
        fault = f"{point}:{nth}@{tmp_path / f'reached-{starts}'}"
        code = run_apart(job.home / "job.toml", SETTINGS, fault)
        assert code in (0, -signal.SIGKILL)
        assert job.answer().rows <= expected.rows, "nothing twice, and nothing wrong"
        assert starts < 60, "no start gets any further"
    assert starts > 5
    job.finish(*SETTINGS)
    check_exact(job, expected)


def test_killed_and_gone_on_with_other_slots(
    make_chaos_job: Any, inputs: Path, expected: Expected, tmp_path: Path
) -> None:
    job = make_chaos_job(tmp_path / "run", inputs=inputs)
    deaths = ((2, "after-spill:3"), (3, "in-merge:2"), (1, "after-commit:2"), (6, "in-delivery:1"), (2, "in-merge:3"))
    for number, (slots, fault) in enumerate(deaths):
        marker = tmp_path / f"reached-{number}"
        code = run_apart(job.home / "job.toml", (*SETTINGS, f"run.slots={slots}"), f"{fault}@{marker}")
        assert (code, marker.exists()) == (-signal.SIGKILL, True), fault
        assert job.answer().rows <= expected.rows
    job.finish(*SETTINGS, "run.slots=4")
    check_exact(job, expected)


# --- a restart with other settings -----------------------------------------------------------------------------------

OTHER_SETTINGS = {
    "a larger budget": ("run.memory=20000",),
    "a smaller budget": ("run.memory=1",),
    "another policy": (BUDGET, "adapt.spill=largest"),
    "spills off": (BUDGET, "adapt.spill=off"),
    "merges off": (BUDGET, "adapt.merge=off"),
    "another smoothing": (BUDGET, "adapt.smoothing=average"),
    "no budget any more": (),
}
PLAN = SETTINGS[0]


@pytest.mark.parametrize("settings", OTHER_SETTINGS.values(), ids=OTHER_SETTINGS.keys())
def test_a_budget_may_change_at_a_restart(
    settings: tuple[str, ...], make_chaos_job: Any, inputs: Path, expected: Expected, tmp_path: Path
) -> None:
    job = make_chaos_job(tmp_path / "run", inputs=inputs)
    stop_after(job, 4, PLAN, BUDGET)
    lineage = lineage_of(job.home)
    assert lineage, "results are traced where a policy may want to know where they come from"
    job.finish(PLAN, *settings)
    assert lineage_of(job.home) == lineage
    check_exact(job, expected)


@pytest.mark.parametrize("policy", ["global-output-penalty", "adaptive-global-flush", "bottom-up"])
def test_a_budget_may_be_given_to_a_run_that_had_none(
    policy: str, make_chaos_job: Any, inputs: Path, expected: Expected, tmp_path: Path
) -> None:
    job = make_chaos_job(tmp_path / "run", inputs=inputs)
    stop_after(job, 4, PLAN)
    assert not lineage_of(job.home)
    settings = (PLAN, BUDGET, f"adapt.spill={policy}")
    events = stop_after(job, 2, *settings)
    assert max(event["active_bytes"] for event in events if event["event"] == "batch") <= 1500
    job.finish(*settings)
    assert not lineage_of(job.home)
    check_exact(job, expected)


def test_a_budget_may_come_and_go(make_chaos_job: Any, inputs: Path, expected: Expected, tmp_path: Path) -> None:
    job = make_chaos_job(tmp_path / "run", inputs=inputs)
    for settings in ((BUDGET,), (), ("run.memory=5000", "adapt.spill=random"), (), (BUDGET, FORCED)):
        stop_after(job, 1, PLAN, *settings)
    job.finish(PLAN)
    check_exact(job, expected)


def stop_after(job: Any, batches: int, *settings: str) -> list[Any]:
    """Run this many batches, and stop without paying; the events."""
    events: list[Any] = []
    run_job(load_job(job.home / "job.toml", settings), events.append, stopped=lambda: len(events) > batches)
    return events


def test_a_run_that_only_pays_is_silent_about_rows(all_read: tuple[Any, Path], expected: Expected) -> None:
    """All input read, then started again without a budget: it pays what is owed, and that is all."""
    job, copy = all_read
    shutil.rmtree(job.home)
    shutil.copytree(copy, job.home)
    events: list[Any] = []
    run_job(load_job(job.home / "job.toml", (PLAN,)), events.append)
    assert {event["event"] for event in events[1:-1]} == {"merge"}
    assert events[-1]["rows_in"] == 0
    assert events[-1]["batches"] == 0
    run_job(load_job(job.home / "job.toml", (PLAN,)), silent)
    check_exact(job, expected)


# --- on Spark --------------------------------------------------------------------------------------------------------

SPARK_BATCHES = 3
# With merges off, the first merge is in the drain, when Spark has nothing more to do: what is committed there is
# nobody's to repeat but ours. A worker's death fails the run; the others kill the driver.
SPARK_SETTINGS = ("adapt.plan=((A B) C)", BUDGET, "adapt.merge=off")
SPARK_DEATHS = ("before-spill:2", "after-spill", "in-merge", "before-delivery", "after-delivery")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.campaign
def test_spark_killed_at_one_point_after_another(make_chaos_job: Any, inputs: Path, tmp_path: Path) -> None:
    few = tmp_path / "streams"
    for stream in inputs.iterdir():
        (few / stream.name).mkdir(parents=True)
        for path in sorted(stream.iterdir())[:SPARK_BATCHES]:
            shutil.copy2(path, few / stream.name)
    expected = duckdb_answer(few)
    job = make_chaos_job(tmp_path / "run", "spark", few)
    for fault in SPARK_DEATHS:
        killed = job.start(*SPARK_SETTINGS, fault=fault, timeout=300)
        assert job.marker(fault).exists(), f"{fault}: {killed.stderr}"
        if fault == "in-merge":
            check_message(killed.returncode, killed.stderr, 1, "a Python worker of Spark died")
        else:
            assert (fault, killed.returncode) == (fault, -signal.SIGKILL)
        assert job.answer().rows <= expected.rows
    assert newest_version(job.home).last_batch == SPARK_BATCHES - 1
    finished = job.start(*SPARK_SETTINGS, timeout=300)
    assert finished.returncode == 0, finished.stderr
    assert job.events(finished)[-1]["event"] == "end"
    assert job.answer().rows == expected.rows
    assert sum(job.answer().late.values()) == expected.late
