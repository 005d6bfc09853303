"""One suite, run once per runtime: the named cases from files, against the oracle, and so against each other."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from conformance_cases import CASES, GROUPED, Conformance, grouped_answer, named
from small_disk import small_disk, used_kilobytes
from strategies import counted
from watersmeet.cli.run import runner
from watersmeet.config import load_job
from watersmeet.errors import JobError, ResourceError, WatersmeetError
from watersmeet.lang.types import parse_schema

Outcome = tuple[Counter[tuple[Any, ...]], list[dict[str, Any]]]
Run = Callable[..., Outcome]


def run_local(case: Conformance, folder: Path, form: str, memory: int | None = None) -> Outcome:
    """Through a job file."""
    job = load_job(str(case.job(folder, "local", form)), [] if memory is None else [f"run.memory={memory}"])
    events: list[dict[str, Any]] = []
    runner(job)(job, events.append)
    return counted(read(folder / "out-local")), events


def run_spark(session: Any, case: Conformance, folder: Path, form: str, memory: int | None = None) -> Outcome:
    """Through the API, so that all cases share one session."""
    events: list[dict[str, Any]] = []
    writer = spark_query(session, case, folder, form).writeStream.format("parquet").report(events.append)
    writer.option("path", str(folder / "out-spark")).option("checkpointLocation", str(folder / "ck-spark"))
    writer.option("slots", case.slots).option("groups", 20).option("plan", case.plan).option("ring", case.ring)
    if memory is not None:
        writer.option("memory", memory)
    writer.trigger(availableNow=True).start().awaitTermination()
    return counted(read(folder / "out-spark")), events


def spark_query(session: Any, case: Conformance, folder: Path, form: str = "parquet") -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    frames = {}
    for name, schema in case.schemas.items():
        reader = session.readStream.schema(from_arrow_schema(parse_schema(schema))).option("maxFilesPerTrigger", 1)
        reader = reader.option("header", "true") if form == "csv" else reader
        frames[name] = reader.format(form).load(str(folder / name))
    lateness = {name: timedelta(seconds=seconds) for name, seconds in case.lateness_s.items()}
    return wm.sql(case.text, time=dict(case.time), lateness=lateness, **frames)


def read(folder: Path) -> pa.Table:
    return pq.read_table(folder)


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def run(request: pytest.FixtureRequest) -> Run:
    if request.param == "local":
        return run_local
    session = request.getfixturevalue("spark")
    return functools.partial(run_spark, session)


# Cases that on Spark run in the campaign alone: others there have a plan of the same kinds of stages.
LATER = (
    "a star",
    "a clique of three keys",
    "a clique of three keys as one routed join",
    "left-deep over one key",
    "a multi-way join below another",
    "a routed join below another",
    "windows over a routed join of four",
    "a ring of a join and a stream",
    "windows and late rows",
    "a chain with two keys",
    "the last row of a stream, by two keys",
)


def on_both(names: Sequence[str]) -> list[Any]:
    """Cases by name, with each runtime."""
    spark, campaign = pytest.mark.spark, pytest.mark.campaign
    there = [pytest.param("spark", name, marks=[spark, campaign] if name in LATER else spark) for name in names]
    return [*(pytest.param("local", name) for name in names), *there]


@pytest.mark.parametrize("run, name", on_both([case.id for case in CASES]), indirect=["run"])
def test_the_answer_is_the_oracles(run: Run, name: str, tmp_path: Path) -> None:
    case = named(name)
    case.write(tmp_path)
    rows, events = run(case, tmp_path, "parquet")
    expected = case.answer()
    assert rows == expected.rows
    end = events[-1]
    assert end["event"] == "end"
    assert (end["rows_out"], end["rows_late"]) == (expected.rows.total(), expected.rows_late)
    assert end["rows_in"] == sum(len(batch) for batches in case.batches.values() for batch in batches)
    assert end["batches"] == max(map(len, case.batches.values()))
    batches = [event for event in events if event["event"] == "batch"]
    assert [event["batch"] for event in batches] == list(range(end["batches"]))
    rounds = [event for event in events if event["event"] == "merge"]  # of rows that waited for the end
    assert sum(event["rows_out"] for event in (*batches, *rounds)) == end["rows_out"]
    assert not rounds or "[ROWS" in case.text


IN_MEMORY = (
    "windows and late rows",
    "a chain with two keys",
    "a bushy tree",
    "a routed join above another",
    "windows of rows",
)


@pytest.mark.parametrize("run, name", on_both(IN_MEMORY), indirect=["run"])
def test_a_budget_changes_nothing(run: Run, name: str, tmp_path: Path) -> None:
    case = named(name)
    case.write(tmp_path)
    rows, events = run(case, tmp_path, "parquet", 300)
    assert rows == case.answer().rows
    progress = events[:-1] if events[-1]["event"] == "end" else events
    decisions = [entry["decision"] for event in progress for entry in event.get("decisions", ())]
    assert "SpillGroups" in decisions
    assert progress[-1]["owed_groups"] == {}


def test_groups_are_the_oracles(run: Run, tmp_path: Path) -> None:
    expected = grouped_answer(GROUPED)
    assert expected.total() > 30
    GROUPED.write(tmp_path)
    rows, events = run(GROUPED, tmp_path, "parquet", 12_000)
    assert rows == expected
    assert events[-1]["rows_out"] == expected.total()
    assert "SpillGroups" in [entry["decision"] for event in events[:-1] for entry in event.get("decisions", ())]


def test_groups_below_joins_are_the_oracles(run: Run, tmp_path: Path) -> None:
    GROUPED.write(tmp_path)
    rows, events = run(replace(GROUPED, plan="((A{} B{}) C{})"), tmp_path, "parquet", 8_000)
    assert rows == grouped_answer(GROUPED)
    assert "SpillGroups" in [entry["decision"] for event in events[:-1] for entry in event.get("decisions", ())]


@pytest.mark.spark
@pytest.mark.campaign
def test_running_totals_on_spark(spark: Any, tmp_path: Path) -> None:
    case = named("three ways on one key")
    case.write(tmp_path)
    text = "SELECT A.k, COUNT(*) AS n, SUM(B.v) AS total FROM A, B, C WHERE A.k = B.k AND B.k = C.k GROUP BY A.k"
    query = spark_query(spark, replace(case, text=text), tmp_path)
    with pytest.raises(JobError, match='groups without windows need output mode "update"'):
        query.writeStream.option("path", str(tmp_path / "out")).option(
            "checkpointLocation", str(tmp_path / "ck")
        ).start()
    last: dict[int, tuple[Any, ...]] = {}

    def keep(frame: Any, number: int) -> None:
        last.update({row.k: tuple(row) for row in frame.collect()})

    writer = (
        query.writeStream.outputMode("update").foreachBatch(keep).option("checkpointLocation", str(tmp_path / "ck"))
    )
    writer.trigger(availableNow=True).start().awaitTermination()
    found: dict[int, list[Any]] = {}
    answered = replace(case, select=lambda a, b, c: (a["k"], b["v"])).answer()
    for (k, v), times in answered.rows.items():
        found.setdefault(k, []).extend([v] * times)
    present = {k: [v for v in values if v is not None] for k, values in found.items()}
    assert last == {k: (k, len(vs), sum(present[k]) if present[k] else None) for k, vs in found.items()}


def test_no_case_is_about_nothing() -> None:
    assert [case.id for case in CASES if not case.answer().rows] == ["an empty stream"]
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize(
    "name",
    ["windows and late rows", "dates, timestamps and decimals", "keys of several text columns under other names"],
)
def test_other_formats(run: Run, name: str, form: str, tmp_path: Path) -> None:
    case = named(name)
    case.write(tmp_path, form)
    rows, _ = run(case, tmp_path, form)
    assert rows == (case if form == "json" else case.without_empty_text()).answer().rows


# On Spark, cli/test_secrets.py has a run of the command line in `make test`.
@pytest.mark.parametrize("runtime", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.campaign])])
def test_the_command_line(runtime: str, tmp_path: Path) -> None:
    case = named("a chain with two keys")
    case.write(tmp_path)
    command = [sys.executable, "-m", "watersmeet", "run", str(case.job(tmp_path, runtime)), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    start, *batches, end = map(json.loads, done.stdout.splitlines())
    expected = case.answer()
    assert counted(read(tmp_path / f"out-{runtime}")) == expected.rows
    assert start["event"] == "start"
    assert (end["event"], end["rows_out"], end["batches"]) == ("end", expected.rows.total(), len(batches))


def collector() -> tuple[Counter[tuple[Any, ...]], list[int], Callable[[Any, int], None]]:
    """What a function for `foreachBatch` has seen, rows and ids, and the function."""
    seen: Counter[tuple[Any, ...]] = Counter()
    ids: list[int] = []

    def take(frame: Any, batch_id: int) -> None:
        ids.append(batch_id)
        seen.update(tuple(row) for row in frame.collect())

    return seen, ids, take


@pytest.mark.spark
@pytest.mark.campaign
def test_foreach_batch_gets_every_result_once(spark: Any, tmp_path: Path) -> None:
    case = named("a bushy tree")
    case.write(tmp_path)
    seen, ids, take = collector()
    writer = spark_query(spark, case, tmp_path).writeStream.foreachBatch(take)
    writer.options(checkpointLocation=str(tmp_path / "ck"), slots=2, groups=10, plan=case.plan)
    run = writer.trigger(availableNow=True).start()
    run.awaitTermination()
    assert seen == case.answer().rows
    assert ids == list(range(max(map(len, case.batches.values()))))
    assert run.lastProgress is not None and run.lastProgress["batch"] == ids[-1]


BUDGET = 300  # bytes; a few rows


@pytest.mark.spark
def test_foreach_batch_with_a_budget_gets_every_result_once(spark: Any, tmp_path: Path) -> None:
    """Batches and rounds of merges come with ids that only grow, one after the other."""
    case = named("a bushy tree")
    case.write(tmp_path)
    seen, ids, take = collector()
    writer = spark_query(spark, case, tmp_path).writeStream.foreachBatch(take)
    writer.options(checkpointLocation=str(tmp_path / "ck"), slots=2, groups=10, plan=case.plan, memory=BUDGET)
    run = writer.trigger(availableNow=True).start()
    run.awaitTermination()
    assert seen == case.answer().rows
    assert ids == list(range(len(ids)))
    assert len(ids) > max(map(len, case.batches.values())), "some are of merges"
    assert run.lastProgress is not None and run.lastProgress["owed_groups"] == {}


@pytest.mark.spark
def test_a_function_that_fails_gets_the_same_merges_again_under_the_same_id(spark: Any, tmp_path: Path) -> None:
    """A function that is idempotent by id sees every result once, wherever it fails, and with other slots too."""
    case = named("a bushy tree")
    case.write(tmp_path)
    kept: dict[int, Counter[tuple[Any, ...]]] = {}
    fail_in = ["before", "after", "before"]
    batches = max(map(len, case.batches.values()))  # merges are off, so what comes after these is of the end

    def take(frame: Any, batch_id: int) -> None:
        rows = Counter(tuple(row) for row in frame.collect())
        when = fail_in.pop(0) if batch_id >= batches and rows and fail_in else None
        if when == "before":
            raise RuntimeError("before it was written down")
        assert batch_id in kept or batch_id == len(kept), "a new id is the next one"
        assert kept.setdefault(batch_id, rows) == rows
        if when == "after":
            raise RuntimeError("after it was written down")

    ended = 0
    for attempt in range(8):
        writer = spark_query(spark, case, tmp_path).writeStream.foreachBatch(take)
        writer.options(checkpointLocation=str(tmp_path / "ck"), slots=2 + attempt % 2, groups=10, plan=case.plan)
        writer.options(memory=BUDGET, merge="off")
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
            ended += 1
        except (RuntimeError, WatersmeetError):
            continue
        if ended == 2:  # the second time there is nothing left to do
            break
    assert fail_in == []
    assert ended == 2
    assert sum(kept.values(), Counter()) == case.answer().rows


def start_endless(spark: Any, case: Conformance, folder: Path, **options: Any) -> Any:
    """A run with a budget that waits for more rows when it has read all."""
    writer = spark_query(spark, case, folder).writeStream.format("parquet")
    writer.options(path=str(folder / "out"), checkpointLocation=str(folder / "ck"), slots=2, groups=10)
    writer.options(plan=case.plan, memory=BUDGET, **options)
    return writer.trigger(processingTime="100 milliseconds").start()


def wait_for(what: Callable[[], bool], seconds: int = 60) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)


@pytest.fixture
def owing(spark: Any, tmp_path: Path) -> Conformance:
    """A case of which a run has read all that there is; then it was stopped, and owes results."""
    case = named("a bushy tree")
    case.write(tmp_path)
    last = max(map(len, case.batches.values())) - 1
    run = start_endless(spark, case, tmp_path, merge="off")
    wait_for(lambda: run.lastProgress is not None and run.lastProgress["batch"] == last)
    run.stop()
    run.awaitTermination()
    assert run.lastProgress["owed_groups"], "to stop pays nothing"
    assert counted(read(tmp_path / "out")) < case.answer().rows
    return case


def pay(spark: Any, case: Conformance, folder: Path) -> None:
    run = start_endless(spark, case, folder, merge="off")
    try:
        run.drain()
    finally:
        run.stop()


@pytest.mark.spark
def test_a_run_that_does_not_end_pays_on_drain(spark: Any, owing: Conformance, tmp_path: Path) -> None:
    run = start_endless(spark, owing, tmp_path, merge="off")
    try:
        run.drain()
        assert run.isActive
        assert run.lastProgress["owed_groups"] == {}
        assert counted(read(tmp_path / "out")) == owing.answer().rows
    finally:
        run.stop()


@pytest.mark.spark
def test_silent_sources_do_not_stop_merges(spark: Any, owing: Conformance, tmp_path: Path) -> None:
    before = counted(read(tmp_path / "out"))
    run = start_endless(spark, owing, tmp_path)
    try:
        wait_for(lambda: run.lastProgress is not None and run.lastProgress["rows_merged"] > 0)
        during = counted(read(tmp_path / "out"))
        assert before < during <= owing.answer().rows
        chosen = [entry for entry in run.decisions() if entry["decision"] == "MergeGroup"]
        assert any("memory gives" in entry["reason"] for entry in chosen)
        assert all(entry.numInputRows == 0 for entry in run.streamingQuery.recentProgress), "no row has come"
        run.drain()
    finally:
        run.stop()
    assert counted(read(tmp_path / "out")) == owing.answer().rows


@pytest.mark.spark
@pytest.mark.campaign
def test_a_full_disk_is_told_and_nothing_is_lost(spark: Any, owing: Conformance, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    (tmp_path / "ck").rename(whole)
    with small_disk(tmp_path / "ck", "50m") as resize:
        shutil.copytree(whole, tmp_path / "ck", dirs_exist_ok=True)
        resize(f"{used_kilobytes(tmp_path / 'ck') + 8}k")
        with pytest.raises(ResourceError, match="No space left on device"):
            pay(spark, owing, tmp_path)
        resize("50m")
        pay(spark, owing, tmp_path)
    assert counted(read(tmp_path / "out")) == owing.answer().rows


@pytest.mark.spark
def test_a_damaged_cold_file_is_told_and_nothing_is_lost(spark: Any, owing: Conformance, tmp_path: Path) -> None:
    files = sorted((tmp_path / "ck").rglob("*.arrow"))
    whole = {path: path.read_bytes() for path in files}
    for path, content in whole.items():
        path.write_bytes(content[: len(content) // 2])

    with pytest.raises(WatersmeetError, match="segment"):
        pay(spark, owing, tmp_path)
    for path, content in whole.items():
        path.write_bytes(content)
    pay(spark, owing, tmp_path)
    assert counted(read(tmp_path / "out")) == owing.answer().rows


@pytest.mark.spark
def test_an_error_of_a_merge_reaches_whoever_waits_and_a_stop_is_none(spark: Any, tmp_path: Path) -> None:
    case = named("a bushy tree")
    case.write(tmp_path)
    entered = threading.Event()
    seconds = [8]

    def take(frame: Any, batch_id: int) -> None:
        entered.set()
        length = seconds[0]

        def wait(batches: Any) -> Any:
            time.sleep(length)
            yield from batches

        frame.sparkSession.range(1).mapInArrow(wait, "id BIGINT").collect()

    def fail() -> bool:
        raise ResourceError('segment "s" is missing')

    def start() -> Any:
        entered.clear()
        writer = spark_query(spark, case, tmp_path).writeStream.foreachBatch(take)
        writer.options(checkpointLocation=str(tmp_path / "ck"), slots=2, groups=10, plan=case.plan, memory=BUDGET)
        return writer.trigger(processingTime="100 milliseconds").start()

    run = start()
    assert entered.wait(60)
    time.sleep(1)
    run.stop()  # in the middle of a job of a batch, which fails of it
    assert run.awaitTermination(60) is not False
    seconds[0] = 0
    run = start()
    run._driver.run_idle = fail
    with pytest.raises(ResourceError, match='segment "s" is missing'):
        run.awaitTermination(120)
    start().stop()  # it has let go of the checkpoint


@pytest.mark.spark
def test_the_time_zone_of_the_session_does_not_matter(spark: Any, tmp_path: Path) -> None:
    case = named("dates, timestamps and decimals")
    case.write(tmp_path)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows, _ = run_spark(spark, case, tmp_path, "parquet")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert rows == case.answer().rows


@pytest.mark.spark
@pytest.mark.parametrize("name", ["three ways on one key", "a bushy tree"])
def test_a_batch_is_one_spark_job(spark: Any, name: str, tmp_path: Path) -> None:
    case = named(name)
    case.write(tmp_path)
    writer = spark_query(spark, case, tmp_path).writeStream.format("noop")
    writer.options(checkpointLocation=str(tmp_path / "ck"), slots=2, plan=case.plan)
    run = writer.trigger(availableNow=True).start()
    run.awaitTermination()
    # Spark runs the jobs of a streaming query in a group named after the run.
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(str(run._streaming.runId))
    assert len(jobs) == max(map(len, case.batches.values())) == run.status["batch"] + 1
