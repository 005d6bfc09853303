"""Spark's own stream-stream joins over the chain: two at a time, in the order of `--order`, state in `--store`.

Settings are those of `spark_memory` and `spark_rocksdb`. Streams are cut down to keys and v before the joins.

Size of the state, summed over the joins: rows are Spark's numRowsTotal, or, where the store does not count them
(RocksDB, see `spark_rocksdb`), the sum of numRowsUpdated over the batches, which is the same as long as nothing is
removed. Of these, what is not an input row is an intermediate one: each join keeps both of its inputs once. Bytes are
memoryUsedBytes, with RocksDB's SST files added. The in-memory store also holds the version before
(maxBatchesToRetainInMemory), and shares with it what did not change.
"""

import json
import shutil
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from benchmarks.chain_data import KEYS, LINKS, SELECTED, STREAMS, fingerprint, read_batches
from benchmarks.contenders import spark_memory, spark_rocksdb
from benchmarks.contenders.progress import delivered_files, follow, parser
from benchmarks.contenders.spark_native import read, run, start, start_spark
from benchmarks.data import first_files

STORES = {"memory": spark_memory.SETTINGS, "rocksdb": spark_rocksdb.SETTINGS}


def main() -> None:
    options = parser()
    options.add_argument("--store", choices=STORES, required=True)
    options.add_argument("--order", nargs="+", default=list(STREAMS), help="the streams, each linked to one before it")
    args = options.parse_args()
    spark = start_spark(STORES[args.store])
    if args.warm_up:
        warm_up = first_files(args.data, args.warm_up, args.out / "warm-up-data")
        run(join(spark, warm_up, args.order), args.out / "warm-up")
        shutil.rmtree(args.out / "warm-up")
    end = follow(start(join(spark, args.data, args.order), args.out / "run"), StateSize())
    paths = [Path(path) for paths in delivered_files(args.out / "run" / "results").values() for path in paths]
    found = fingerprint(read_batches(paths))
    print(json.dumps({**end, "rows_out": found.rows, "fingerprint": found.sum}), flush=True)
    spark.stop()


def join(spark: SparkSession, folder: Path, order: list[str]) -> DataFrame:
    joined, wide = {order[0]}, _stream(spark, folder, order[0])
    for stream in order[1:]:
        links = [link for link in LINKS if stream in link and joined & set(link)]
        equal = reduce(lambda a, b: a & b, [F.col(f"{a}_{key}") == F.col(f"{b}_{key}") for a, b, key in links])
        wide = wide.join(_stream(spark, folder, stream), equal)
        joined.add(stream)
    return wide.select(*(F.col(f"{stream}_{column}").alias(name) for name, (stream, column) in SELECTED.items()))


def _stream(spark: SparkSession, folder: Path, stream: str) -> DataFrame:
    columns = (*KEYS[stream], "v")
    schema = ", ".join(f"{name} BIGINT" for name in (*columns, "ts"))
    return read(spark, folder, stream, schema).select(*(F.col(name).alias(f"{stream}_{name}") for name in columns))


class StateSize:
    """The size of the state after each batch; to be called once for each, in order."""

    def __init__(self) -> None:
        self.rows_in = 0
        self.rows_updated = 0

    def __call__(self, entry: StreamingQueryProgress) -> Mapping[str, Any]:
        joins = entry.stateOperators
        self.rows_in += entry.numInputRows
        self.rows_updated += sum(join.numRowsUpdated for join in joins)
        rows = sum(join.numRowsTotal for join in joins) or self.rows_updated
        return {
            "state_rows": rows,
            "intermediate_rows": rows - self.rows_in,
            "state_bytes": sum(j.memoryUsedBytes + j.customMetrics.get("rocksdbSstFileSize", 0) for j in joins),
        }


if __name__ == "__main__":
    main()
