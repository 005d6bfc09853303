"""The three-way join written with `transformWithStateInPandas`: Spark's state store, our join.

The union of the streams is grouped by k; a list state per stream holds the rows seen. Rows of a batch meet what is in
the other two lists, then join their own list, so each combination is met once.

Known limit: Spark calls the processor once per key and batch, and every access to a list is a round trip to the JVM.
At one or two rows a key that is nearly all of the cost, so throughput.py runs this contender on a hundredth of the
rows (and of the keys, so that a row still meets as many others); its rows/s stand at that size.
"""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from benchmarks.contenders.progress import arguments, report_query
from benchmarks.contenders.spark_native import read, run, start_spark
from benchmarks.contenders.spark_rocksdb import SETTINGS  # transformWithState runs on RocksDB alone
from benchmarks.data import STREAMS, first_files

COLUMNS = ("k", *(f"{stream}_{name}" for stream in STREAMS for name in ("v", "ts")))


class ThreeWayJoin(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.lists = [handle.getListState(stream, "v BIGINT, ts BIGINT") for stream in STREAMS]

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any = None
    ) -> Iterator[pd.DataFrame]:
        arrived: list[list[tuple[int, int]]] = [[] for _ in STREAMS]
        for frame in rows:
            for stream, v, ts in zip(frame["stream"].tolist(), frame["v"].tolist(), frame["ts"].tolist(), strict=True):
                arrived[stream].append((v, ts))
        held = [list(state.get()) for state in self.lists]
        results = []
        for stream, new in enumerate(arrived):
            if new:
                sides = [new if other == stream else held[other] for other in range(len(STREAMS))]
                results += [(key[0], *a, *b, *c) for a, b, c in product(*sides)]
                held[stream] = held[stream] + new
                self.lists[stream].appendList(new)
        if results:
            yield pd.DataFrame(results, columns=list(COLUMNS))

    def close(self) -> None:
        pass


def join(spark: SparkSession, folder: Path) -> DataFrame:
    a, b, c = (
        read(spark, folder, stream).select(F.lit(number).alias("stream"), "k", "v", "ts")
        for number, stream in enumerate(STREAMS)
    )
    schema = ", ".join(f"{name} BIGINT" for name in COLUMNS)
    keyed = a.union(b).union(c).groupBy("k")
    return keyed.transformWithStateInPandas(ThreeWayJoin(), schema, outputMode="Append", timeMode="None")


def main() -> None:
    args = arguments()
    if importlib.util.find_spec("google") is None or importlib.util.find_spec("google.protobuf") is None:
        sys.exit("transformWithStateInPandas needs the package protobuf (6.33 or newer for pyspark 4.3)")
    spark = start_spark(SETTINGS)
    if args.warm_up:
        run(join(spark, first_files(args.data, args.warm_up, args.out / "warm-up-data")), args.out / "warm-up")
        shutil.rmtree(args.out / "warm-up")
    query = run(join(spark, args.data), args.out / "run")
    report_query(query, args.out / "run" / "results")
    spark.stop()


if __name__ == "__main__":
    main()
