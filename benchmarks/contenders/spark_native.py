"""Spark's own chained stream-stream join, A.k = B.k and then B.k = C.k: what `spark_memory` and `spark_rocksdb` share.

Inner joins over unbounded streams, append, parquet sink, `maxFilesPerTrigger = 1`, everything available now, local[2].

Settings. Two shuffle partitions, one per core. Driver memory 8g. RocksDB with changelog checkpoints and without
counting its rows (`spark_rocksdb`). The join's state format is Spark's default.

Known limit: these are not shown to be Spark's best. The one trial (2026-11-15, 3 x 300K rows, 6 batches, one run each)
was on a machine with a load of 5 to 9 on 2 cores, which changed between runs: 2 partitions 25 s, 4 partitions 46 s;
RocksDB 49 s, without changelog 55 s; state format 3 gave no result in 120 s. Repeat it on a quiet machine before
quoting a ratio; BENCH_CONF="name=value name=value" in the environment overrides settings for such trials.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.contenders.progress import arguments, report_query
from benchmarks.data import SCHEMA_DDL, STREAMS, first_files

PACKAGE = "org.apache.spark.sql.execution.streaming.state"

COMMON: Mapping[str, str] = {
    "spark.driver.memory": "8g",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


def main(settings: Mapping[str, str]) -> None:
    args = arguments()
    spark = start_spark(settings)
    if args.warm_up:
        run(join(spark, first_files(args.data, args.warm_up, args.out / "warm-up-data")), args.out / "warm-up")
        shutil.rmtree(args.out / "warm-up")
    query = run(join(spark, args.data), args.out / "run")
    report_query(query, args.out / "run" / "results")
    spark.stop()


def start_spark(settings: Mapping[str, str]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers' Python, else the first python3 on the path
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    overrides = dict(pair.split("=", 1) for pair in os.environ.get("BENCH_CONF", "").split() if pair)
    for name, value in {**COMMON, **settings, **overrides}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read(spark: SparkSession, folder: Path, stream: str, schema: str = SCHEMA_DDL) -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / stream))


def join(spark: SparkSession, folder: Path) -> DataFrame:
    a, b, c = (
        read(spark, folder, stream).select(*(F.col(name).alias(f"{stream}_{name}") for name in ("k", "v", "ts")))
        for stream in STREAMS
    )
    return a.join(b, F.col("A_k") == F.col("B_k")).join(c, F.col("B_k") == F.col("C_k"))


def run(results: DataFrame, folder: Path) -> StreamingQuery:
    """Runs a query over everything that is there into `folder`/results, and returns it when it has ended."""
    query = start(results, folder)
    query.awaitTermination()
    return query


def start(results: DataFrame, folder: Path) -> StreamingQuery:
    writer = results.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer = writer.option("path", str(folder / "results")).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.start()
