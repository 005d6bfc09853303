"""Watersmeet on Spark: the same three streams, the same join, parquet out, a checkpoint; local[2], two slots."""

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

import watersmeet as wm
from benchmarks.contenders.progress import arguments, delivered_by_name, report_triggers
from benchmarks.contenders.spark_native import read, start_spark
from benchmarks.data import STREAMS, first_files
from watersmeet.runtime.spark.run import SparkRun

COLUMNS = ", ".join(f"{stream}.{name} AS {stream}_{name}" for stream in STREAMS for name in ("k", "v", "ts"))
QUERY = f"SELECT {COLUMNS} FROM A, B, C WHERE A.k = B.k AND B.k = C.k"
# State lives outside the JVM, which only reads, converts and shuffles.
SETTINGS = {"spark.driver.memory": "2g"}


def main() -> None:
    args = arguments()
    spark = start_spark(SETTINGS)
    if args.warm_up:
        run(spark, first_files(args.data, args.warm_up, args.out / "warm-up-data"), args.out / "warm-up")
        shutil.rmtree(args.out / "warm-up")
    query = run(spark, args.data, args.out / "run")
    report_triggers(query.streamingQuery, delivered_by_name(args.out / "run" / "results"))
    spark.stop()


def run(spark: SparkSession, data: Path, folder: Path) -> SparkRun:
    """Runs the join over everything that is there into `folder`/results, and returns it when it has ended."""
    query = wm.sql(QUERY, **{stream: read(spark, data, stream) for stream in STREAMS})
    assert isinstance(query, wm.SparkQuery)
    writer = query.writeStream.format("parquet").option("path", folder / "results").option("slots", 2)
    running = writer.option("checkpointLocation", folder / "checkpoint").trigger(availableNow=True).start()
    running.awaitTermination()
    return running


if __name__ == "__main__":
    main()
