"""Watersmeet on Spark over the chain, with the plan of `--plan` and what `--statistics` tells it; local[2], two slots.

Size of the state after a batch: what the manifest counts, rows and active bytes of all states. An intermediate row is
one of a state over more than one stream.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

import watersmeet as wm
from benchmarks.chain_data import KEYS, QUERY, fingerprint, read_batches
from benchmarks.contenders.progress import follow, parser
from benchmarks.contenders.spark_native import read, start_spark
from benchmarks.contenders.watersmeet_spark import SETTINGS
from benchmarks.data import first_files
from watersmeet.runtime.spark.run import SparkRun

Event = dict[str, Any]


def main() -> None:
    options = parser()
    options.add_argument("--plan", required=True)
    options.add_argument("--statistics", type=json.loads, default={}, help="rates and selectivity, as JSON")
    args = options.parse_args()
    spark = start_spark(SETTINGS)
    if args.warm_up:
        warm_up = first_files(args.data, args.warm_up, args.out / "warm-up-data")
        start(query(spark, warm_up, args.statistics), args.plan, args.out / "warm-up", {}).awaitTermination()
        shutil.rmtree(args.out / "warm-up")
    measured = query(spark, args.data, args.statistics)
    streams = {name: state.aliases for name, state in measured.physical(args.plan).states.items()}
    done: dict[int, Event] = {}

    def size(entry: StreamingQueryProgress) -> Mapping[str, Any]:
        event = done[entry.batchId]
        between = sum(state["rows"] for name, state in event["states"].items() if len(streams[name]) > 1)
        return {
            "state_rows": event["state_rows"],
            "intermediate_rows": between,
            "state_bytes": event["active_bytes"],
        }

    running = start(measured, args.plan, args.out / "run", done)
    end = follow(running.streamingQuery, size)
    running.awaitTermination()  # has ended; raises what ended it, if that was an error
    found = fingerprint(read_batches(sorted((args.out / "run" / "results").glob("part-*.parquet"))))
    plan = {"plan": running.plan}
    print(json.dumps({**end, **plan, "rows_out": found.rows, "fingerprint": found.sum}), flush=True)
    spark.stop()


def query(spark: SparkSession, data: Path, statistics: Mapping[str, Any]) -> wm.SparkQuery:
    frames: dict[str, Any] = {
        stream: read(spark, data, stream, ", ".join(f"{name} BIGINT" for name in (*keys, "v", "ts")))
        for stream, keys in KEYS.items()
    }
    bound = wm.sql(QUERY, **statistics, **frames)
    assert isinstance(bound, wm.SparkQuery)
    return bound


def start(query: wm.SparkQuery, plan: str, folder: Path, done: dict[int, Event]) -> SparkRun:
    """Starts the query over everything that is there into `folder`/results; its batches are noted in `done`."""

    def note(event: Event) -> None:
        if event["event"] == "batch":
            done[event["batch"]] = event

    writer = query.writeStream.format("parquet").option("path", folder / "results").option("slots", 2)
    writer = writer.option("checkpointLocation", folder / "checkpoint").option("plan", plan).report(note)
    return writer.trigger(availableNow=True).start()


if __name__ == "__main__":
    main()
