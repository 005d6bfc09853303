"""Spark's own joins followed by its windowed aggregation, for windows of one slide.

Rows that count at a boundary together are those of one tumbling window then, so that the join is one on the key and the
window: less work than a join by intervals of time, of which most combinations would count nowhere, and what lets Spark
drop state by the watermark. Settings are those of `contenders/spark_memory.py` and `spark_rocksdb.py`.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from benchmarks.contenders import spark_memory, spark_rocksdb
from benchmarks.contenders.progress import delivered_files, follow, parser
from benchmarks.contenders.spark_native import read, run, start, start_spark
from benchmarks.data import STREAMS, first_files
from benchmarks.grouped.data import SCHEMA_DDL, SUMS, totals

STORES = {"memory": spark_memory.SETTINGS, "rocksdb": spark_rocksdb.SETTINGS}


def main() -> None:
    options = parser()
    options.add_argument("--store", choices=STORES, default="memory")
    args = options.parse_args()
    spark = start_spark(STORES[args.store])
    if args.warm_up:
        warm_up = first_files(args.data, args.warm_up, args.out / "warm-up-data")
        run(grouped(spark, warm_up), args.out / "warm-up")
        shutil.rmtree(args.out / "warm-up")
    rows: list[int] = []
    size: list[int] = []

    def sizes(entry: StreamingQueryProgress) -> Mapping[str, Any]:
        rows.append(sum(operator.numRowsTotal for operator in entry.stateOperators))
        size.append(sum(operator.memoryUsedBytes for operator in entry.stateOperators))
        return {"state_rows": rows[-1], "state_bytes": size[-1]}

    end = follow(start(grouped(spark, args.data), args.out / "run"), sizes)
    files = [path for paths in delivered_files(args.out / "run" / "results").values() for path in paths]
    found = totals(pa.concat_tables(pq.read_table(path) for path in files))
    print(json.dumps({**end, "state_rows": max(rows), "state_bytes": max(size), "totals": found}), flush=True)
    spark.stop()


def grouped(spark: SparkSession, folder: Path) -> DataFrame:
    a, b, c = (_stream(spark, folder, stream) for stream in STREAMS)
    joined = a.join(b, ["k", "w"]).join(c, ["k", "w"])
    sums = (F.sum(f"{stream}_v").alias(name) for stream, name in zip(STREAMS, SUMS, strict=True))
    return joined.groupBy("w", F.col("A_g").alias("g")).agg(F.count("*").alias("n"), *sums).drop("w")


def _stream(spark: SparkSession, folder: Path, stream: str) -> DataFrame:
    rows = read(spark, folder, stream, SCHEMA_DDL).withColumn("t", F.timestamp_micros("ts"))
    columns = [F.col("g").alias(f"{stream}_g")] if stream == "A" else []
    return rows.withWatermark("t", "0 seconds").select(
        "k", F.window("t", "1 second").alias("w"), *columns, F.col("v").alias(f"{stream}_v")
    )


if __name__ == "__main__":
    main()
