"""Watersmeet on Spark, with the plan of `--plan`: parquet in and out, a checkpoint; local[2], two slots."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

import watersmeet as wm
from benchmarks.contenders.progress import follow, parser
from benchmarks.contenders.spark_native import read, start_spark
from benchmarks.contenders.watersmeet_spark import SETTINGS
from benchmarks.data import STREAMS, first_files
from benchmarks.grouped.data import SCHEMA_DDL, totals
from watersmeet.runtime.spark.run import SparkRun

Event = dict[str, Any]


def main() -> None:
    options = parser()
    options.add_argument("--plan", required=True)
    options.add_argument("--query", required=True)
    args = options.parse_args()
    spark = start_spark(SETTINGS)
    if args.warm_up:
        warm_up = first_files(args.data, args.warm_up, args.out / "warm-up-data")
        start(spark, args.query, args.plan, warm_up, args.out / "warm-up", {}).awaitTermination()
        shutil.rmtree(args.out / "warm-up")
    done: dict[int, Event] = {}
    running = start(spark, args.query, args.plan, args.data, args.out / "run", done)

    def size(entry: StreamingQueryProgress) -> Mapping[str, Any]:
        event = done[entry.batchId]
        return {"state_rows": event["state_rows"], "state_bytes": event["active_bytes"]}

    end = follow(running.streamingQuery, size)
    running.awaitTermination()  # has ended; raises what ended it, if that was an error
    most = {name: max(event[kind] for event in done.values()) for name, kind in SIZES.items()}
    print(json.dumps({**end, **most, "totals": totals(pq.read_table(args.out / "run" / "results"))}), flush=True)
    spark.stop()


SIZES = {"state_rows": "state_rows", "state_bytes": "active_bytes"}


def start(spark: SparkSession, text: str, plan: str, data: Path, folder: Path, done: dict[int, Event]) -> SparkRun:
    """Starts the query over everything that is there into `folder`/results; its batches are noted in `done`."""

    def note(event: Event) -> None:
        if event["event"] == "batch":
            done[event["batch"]] = event

    query = wm.sql(text, **{stream: read(spark, data, stream, SCHEMA_DDL) for stream in STREAMS})
    assert isinstance(query, wm.SparkQuery)
    writer = query.writeStream.format("parquet").option("path", folder / "results").option("slots", 2)
    writer = writer.option("checkpointLocation", folder / "checkpoint").option("plan", plan).report(note)
    return writer.trigger(availableNow=True).start()


if __name__ == "__main__":
    main()
