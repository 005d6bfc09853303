"""Runs the join of `data.py` on Spark, through the public interface, and says how it went."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb

import watersmeet as wm
from benchmarks.balance.data import Data

sys.path.append(str(Path(__file__).parent.parent.parent / "tests"))

from spark_cluster import DRIVER_SETTINGS, standalone_cluster

WARM_UP = 8  # batches


@dataclass(frozen=True)
class Outcome:
    """What came of a run; its first batches do not count."""

    rows_a_second: float
    batch_seconds: float  # mean
    slowest: float  # share of the time of all slots, that the slowest one takes
    slot_seconds: float  # mean of what the slots of a batch take together
    moved: int
    cut: int
    spread: int
    results: int
    gaps: tuple[float, ...]  # seconds from batch to batch, of all


@contextmanager
def session_on(cluster: Path | None) -> Iterator[Any]:
    """A session on two cores: of this process, or of two workers that keep their things in the folder `cluster`."""
    if cluster is None:
        with _opened("local[2]", {"spark.driver.memory": "2g"}) as session:
            yield session
        return
    conf = {**DRIVER_SETTINGS, "spark.executor.memory": "1g"}
    with standalone_cluster(cluster, workers=2, cores=1, memory="2g") as found, _opened(found.address, conf) as session:
        yield session


@contextmanager
def _opened(master: str, conf: Mapping[str, str]) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    builder = SparkSession.builder.master(master)
    for name, value in {**conf, **quiet}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def run(
    session: Any,
    inputs: Path,
    checkpoint: Path,
    data: Data,
    options: Mapping[str, Any],
    out: Path | None = None,
    hear: Callable[[Any, int], None] = lambda run, batch: None,
) -> Outcome:
    """To the end of the input. `hear` is told the run and the number of each batch that is done."""
    streams = {}
    for name in "AB":
        reader = session.readStream.schema("k BIGINT, v BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
        streams[name] = reader.parquet(str(inputs / name))
    events: list[dict[str, Any]] = []
    times: list[float] = []

    def report(event: Any) -> None:
        events.append(event)
        if event["event"] == "batch":
            times.append(time.perf_counter())

    writer = wm.sql(data.query, streams=streams, time="ts", lateness="1 second").writeStream
    writer = writer.format("noop") if out is None else writer.option("path", str(out))
    for name, value in {"checkpointLocation": str(checkpoint), "slots": 2, **options}.items():
        writer = writer.option(name, value)
    started = writer.report(report).trigger(availableNow=True).start()
    told = 0
    while not started.awaitTermination(0.02):
        for batch in range(told, len(times)):
            hear(started, batch)
        told = len(times)
    return outcome_of(events, times)


def outcome_of(events: list[dict[str, Any]], times: list[float]) -> Outcome:
    batches = [event for event in events if event["event"] == "batch"]
    counted = batches[WARM_UP:]
    slots = [[slot["seconds"] for slot in event["slots"]] for event in counted]
    decisions = [entry for event in events for entry in event.get("decisions", ())]

    def count(kind: str) -> int:
        return sum(entry["decision"] == kind for entry in decisions)

    return Outcome(
        sum(event["rows_in"] for event in counted) / (times[-1] - times[WARM_UP - 1]),
        (times[-1] - times[WARM_UP - 1]) / len(counted),
        sum(map(max, slots)) / sum(map(sum, slots)),
        sum(map(sum, slots)) / len(slots),
        sum(len(entry["moves"]) for entry in decisions if entry["decision"] == "MoveGroups"),
        count("CutGroup"),
        count("SpreadGroup"),
        sum(event["rows_out"] for event in events if event["event"] in ("batch", "merge")),
        tuple(after - before for before, after in pairwise(times)),
    )


def delivered(out: Path) -> tuple[int, int]:
    """How many results there are, and the sum of the fingerprint of `data.expected` over them."""
    found = duckdb.sql(f"SELECT count(*), sum(a * 31 + b * 17) FROM read_parquet('{out}/*.parquet')").fetchall()
    return int(found[0][0]), int(found[0][1] or 0)
