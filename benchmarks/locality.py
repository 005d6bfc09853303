"""Whether it matters that the task of a slot goes back to the executor that read its segments in the batch before.

A join of two unbounded streams on a standalone cluster of Spark on this machine, two workers with one core each: one
large batch, which is the state, then small ones. Spark's event log says where the task of each slot ran, and the events
of the run how long it took. It prints, for each way of running it:

- the share of tasks that went back to the executor of the batch before, and what Spark says of their locality;
- what tasks took that went back, and those that did not (medians);
- what a batch took (median), from its rows to its delivery.

The ways: with Spark's own settings; without preference for the hosts that hold most of a task's input
(`spark.shuffle.reduceLocality.enabled`); without waiting for a preferred host (`spark.locality.wait`); and with all
segments thrown out of the page cache before every batch, so that every task reads them from the disk. The page cache is
one for both workers here, as it is not on two hosts: what is read by one is warm for the other. So the last way is what
a task pays on a host that has never seen its segments, and the most that going back could save.

    python -m benchmarks.locality [--state 1000000] [--rows 5000] [--batches 30] [--slots 2,6] ["from the disk" ..]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from spark_cluster import DRIVER_SETTINGS, standalone_cluster
from spark_event_log import TaskRun, log_settings, read_last_stages, read_tasks

WARM_UP = 5  # batches, after which both executors have seen all large segments
WAYS: dict[str, dict[str, str]] = {
    "as Spark does it": {},
    "no preference": {"spark.shuffle.reduceLocality.enabled": "false"},
    "no waiting": {"spark.locality.wait": "0s"},
    "from the disk": {},
}
COLD = "from the disk"
QUERY = "SELECT A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k"


@dataclass(frozen=True)
class Outcome:
    back: float  # share of tasks
    localities: Counter[str]
    seconds_back: float  # of a task, medians
    seconds_elsewhere: float
    batch_seconds: float
    state_bytes: int


def write(folder: Path, state: int, rows: int, batches: int) -> None:
    """A file with the rows of the state, and a small one for each batch, of both streams."""
    for place, name in enumerate("AB"):
        (folder / name).mkdir(parents=True)
        draw = np.random.default_rng(place)
        first = 0
        for batch, count in enumerate((state, *[rows] * batches)):
            times = np.arange(first, first + count)
            columns = {
                "k": draw.integers(0, state, count),
                "v": times,
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
            path = folder / name / f"{batch:05}.parquet"
            pq.write_table(pa.table(columns), path)
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))
            first += count


def run(session: Any, inputs: Path, checkpoint: Path, slots: int, cold: bool) -> list[dict[str, Any]]:
    """The events of its batches."""
    streams = {}
    for name in "AB":
        reader = session.readStream.schema("k BIGINT, v BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
        streams[name] = reader.parquet(str(inputs / name))
    found: list[dict[str, Any]] = []

    def hear(event: Any) -> None:
        if event["event"] == "batch":
            found.append(event)
            if cold:
                forget(checkpoint)

    writer = wm.sql(QUERY, streams=streams, time="ts").writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint)).option("slots", slots).report(hear)
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def forget(checkpoint: Path) -> None:
    """Have the page cache let go of all segments; they are on disk, so that it can."""
    for path in (checkpoint / "state" / "segments").iterdir():
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def look(events: list[dict[str, Any]], logs: Path, slots: int) -> Outcome:
    """What came of a run, without its first batches."""
    last = set(read_last_stages(logs))
    by_stage: dict[int, dict[int, TaskRun]] = {}
    for task in read_tasks(logs):
        if task.stage in last and task.reason == "Success":
            by_stage.setdefault(task.stage, {})[task.index] = task
    stages = [tasks for _, tasks in sorted(by_stage.items()) if len(tasks) == slots][-len(events) :]
    assert len(stages) == len(events), "a job for each batch"
    back: list[float] = []
    elsewhere: list[float] = []
    localities: Counter[str] = Counter()
    for batch in range(WARM_UP, len(events)):
        for slot in range(slots):
            task = stages[batch][slot]
            same = task.executor == stages[batch - 1][slot].executor
            (back if same else elsewhere).append(events[batch]["slots"][slot]["seconds"])
            localities[task.locality] += 1
    return Outcome(
        len(back) / (len(back) + len(elsewhere)),
        localities,
        median(back) if back else float("nan"),
        median(elsewhere) if elsewhere else float("nan"),
        median(event["seconds"] for event in events[WARM_UP:]),
        events[-1]["active_bytes"],
    )


def measure(master: str, home: Path, inputs: Path, way: str, slots: int, session: Callable[..., Any]) -> Outcome:
    place = home / f"{way.replace(' ', '-')}-{slots}"
    conf = {**DRIVER_SETTINGS, "spark.executor.memory": "1g", **log_settings(place / "logs"), **WAYS[way]}
    started = session(master, conf)
    try:
        events = run(started, inputs, place / "ck", slots, cold=way == COLD)
    finally:
        started.stop()
    return look(events, place / "logs", slots)


def open_session(master: str, conf: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master)
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    for name, value in (conf | quiet).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def main() -> int:
    parser = argparse.ArgumentParser(description="tasks that go back to where they were, and tasks that do not")
    parser.add_argument("ways", nargs="*", default=[], metavar="WAY", help=f"of {', '.join(WAYS)}; all by default")
    parser.add_argument("--state", type=int, default=1_000_000, help="rows of a stream that are there before")
    parser.add_argument("--rows", type=int, default=5_000, help="of a stream in a batch")
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--slots", default="2,6")
    args = parser.parse_args()
    head = ("way", "slots", "went back", "task, back", "task, elsewhere", "batch", "localities")
    print(f"{head[0]:<18} {head[1]:>5} {head[2]:>10} {head[3]:>11} {head[4]:>16} {head[5]:>9}  {head[6]}")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write(home / "in", args.state, args.rows, args.batches)
        with standalone_cluster(home / "daemons", workers=2, cores=1, memory="2g") as cluster:
            for slots in map(int, args.slots.split(",")):
                for way in args.ways or WAYS:
                    found = measure(cluster.address, home, home / "in", way, slots, open_session)
                    print(
                        f"{way:<18} {slots:>5} {found.back:>10.0%} {found.seconds_back * 1e3:>8.1f} ms "
                        f"{found.seconds_elsewhere * 1e3:>13.1f} ms {found.batch_seconds * 1e3:>6.0f} ms  "
                        f"{', '.join(f'{name} {count}' for name, count in sorted(found.localities.items()))}",
                        flush=True,
                    )
    print(f"state: {found.state_bytes:,} bytes; medians of {args.batches + 1 - WARM_UP} batches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
