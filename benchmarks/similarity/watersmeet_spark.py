"""Watersmeet on Spark: local[2], a ring over `--slots`, parquet out, a checkpoint.

With `--prepare`, once per row: `fixed` makes a list of fixed size of each vector and leaves all else to the predicate;
`unit` brings it to length 1, and what is left to do for a pair is one product.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import watersmeet as wm
from benchmarks.contenders.progress import cpu_seconds, delivered_by_name, parser, report_triggers
from benchmarks.contenders.spark_native import read, start_spark
from benchmarks.contenders.watersmeet_spark import SETTINGS
from benchmarks.data import first_files
from benchmarks.similarity.data import ALIKE, SCHEMA_DDL, STREAMS, VECTORS, Mask, alike_arrow, rows_of
from watersmeet.runtime.spark.run import SparkRun


def fixed(vectors: pa.Array) -> Any:
    return rows_of(vectors)


def unit(vectors: pa.Array) -> Any:
    found = rows_of(vectors)
    return found / np.sqrt(np.einsum("ij,ij->i", found, found))[:, None]


def near_units(left: pa.Array, right: pa.Array) -> Mask:
    return np.asarray(np.einsum("ij,ij->i", rows_of(left), rows_of(right)) > ALIKE)


def query_text(window: int) -> str:
    inputs = ", ".join(f"{stream} [RANGE {window} SECONDS]" for stream in STREAMS)
    return f"SELECT A.id AS a, B.id AS b, C.id AS c FROM {inputs} WHERE alike(A.v, B.v) AND alike(B.v, C.v)"


PREDICATES = {
    "none": wm.predicate(alike_arrow, symmetric=True),
    "fixed": wm.predicate(alike_arrow, symmetric=True, prepare=fixed, prepared_type=VECTORS),
    "unit": wm.predicate(near_units, symmetric=True, prepare=unit, prepared_type=VECTORS),
}


def main() -> None:
    options = parser()
    options.add_argument("--slots", type=int, default=2)
    options.add_argument("--window", type=int, required=True)
    options.add_argument("--prepare", choices=PREDICATES, default="fixed")
    args = options.parse_args()
    spark = start_spark(SETTINGS)
    if args.warm_up:
        warm = first_files(args.data, args.warm_up, args.out / "warm-up-data")
        run(spark, warm, args.out / "warm-up", args.slots, args.window, args.prepare)
        shutil.rmtree(args.out / "warm-up")
    before = cpu_seconds()
    query = run(spark, args.data, args.out / "run", args.slots, args.window, args.prepare)
    print(json.dumps({"event": "cpu", "cpu_seconds": cpu_seconds() - before}), flush=True)
    report_triggers(query.streamingQuery, delivered_by_name(args.out / "run" / "results"))
    spark.stop()


def run(spark: SparkSession, data: Path, folder: Path, slots: int, window: int, prepare: str) -> SparkRun:
    query = wm.sql(
        query_text(window),
        functions={"alike": PREDICATES[prepare]},
        streams={stream: read(spark, data, stream, SCHEMA_DDL) for stream in STREAMS},
    )
    assert isinstance(query, wm.SparkQuery)
    writer = query.writeStream.format("parquet").option("path", folder / "results").option("slots", slots)
    running = writer.option("checkpointLocation", folder / "checkpoint").trigger(availableNow=True).start()
    running.awaitTermination()
    return running


if __name__ == "__main__":
    main()
