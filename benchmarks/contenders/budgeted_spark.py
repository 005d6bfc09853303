"""Watersmeet on Spark with a memory budget, everything owed paid at the end; without one, the same with no limit.

Beside the lines of every contender, the last one holds the seconds from the first batch to the last merge, the largest
active state after a batch, and how much was spilled and merged.
"""

import json
import shutil
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import watersmeet as wm
from benchmarks.contenders.progress import parser
from benchmarks.contenders.spark_native import read, start_spark
from benchmarks.contenders.watersmeet_spark import QUERY, SETTINGS
from benchmarks.data import STREAMS, first_files

KEPT = ("event", "batch", "rows_in", "rows_out", "seconds")


def main() -> None:
    options = parser()
    options.add_argument("--memory", type=int, help="bytes; none for no limit")
    options.add_argument("--policy", default="global-output-penalty")
    args = options.parse_args()
    spark = start_spark(SETTINGS)
    if args.warm_up:
        warm = first_files(args.data, args.warm_up, args.out / "warm-up-data")
        run(spark, warm, args.out / "warm-up", args.memory, args.policy, [])
        shutil.rmtree(args.out / "warm-up")
    events: list[dict[str, Any]] = []
    begin = time.perf_counter()
    run(spark, args.data, args.out / "run", args.memory, args.policy, events)
    seconds = time.perf_counter() - begin
    progress, end = [event for event in events if event["event"] in ("batch", "merge")], events[-1]
    spills = [d for event in progress for d in event["decisions"] if d["decision"] == "SpillGroups"]
    line = {
        **end,
        "seconds": seconds,
        "batch_seconds": sum(event["seconds"] for event in progress if event["event"] == "batch"),
        "merge_seconds": sum(event["seconds"] for event in progress if event["event"] == "merge"),
        "rounds": sum(event["event"] == "merge" for event in progress),
        "peak_active_bytes": max(event["active_bytes"] for event in progress),
        "state_bytes": progress[-1]["active_bytes"] + progress[-1]["cold_bytes"],
        "rows_out_before_clean_up": sum(event["rows_out"] for event in progress if event["event"] == "batch"),
        "spills": len(spills),
    }
    print(json.dumps(line), flush=True)
    spark.stop()


def run(
    spark: SparkSession, data: Path, folder: Path, memory: int | None, policy: str, events: list[dict[str, Any]]
) -> None:
    """Runs the join over everything that is there, and returns when all of its results are delivered."""

    def note(event: dict[str, Any]) -> None:
        events.append(event)
        if event["event"] == "batch":
            print(json.dumps({name: event[name] for name in KEPT}), flush=True)

    query = wm.sql(QUERY, **{stream: read(spark, data, stream) for stream in STREAMS})
    assert isinstance(query, wm.SparkQuery)
    writer = query.writeStream.format("parquet").option("path", folder / "results").option("slots", 2)
    if memory is not None:
        writer.option("memory", memory).option("spill", policy)
    writer.option("checkpointLocation", folder / "checkpoint").report(note)
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
