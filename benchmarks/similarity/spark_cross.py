"""By hand on Spark: `foreachBatch`, with the rows of the window as DataFrames, and cross joins with the predicate as an
Arrow UDF. Each batch is joined as its deltas: new rows of one stream with what the others have, the streams before it
with their new rows already. The state is in memory and nowhere else: what dies is lost, which Watersmeet's is not.
"""

import json
import shutil
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.contenders.progress import cpu_seconds, delivered_by_name, parser, report_triggers
from benchmarks.contenders.spark_native import read, start_spark
from benchmarks.contenders.watersmeet_spark import SETTINGS
from benchmarks.data import first_files
from benchmarks.similarity.bare import ROUTES
from benchmarks.similarity.data import SCHEMA_DDL, SECOND, STREAMS, alike_arrow


def main() -> None:
    options = parser()
    options.add_argument("--window", type=int, required=True)
    args = options.parse_args()
    spark = start_spark(SETTINGS)
    if args.warm_up:
        warm = first_files(args.data, args.warm_up, args.out / "warm-up-data")
        run(spark, warm, args.out / "warm-up", args.window)
        shutil.rmtree(args.out / "warm-up")
    before = cpu_seconds()
    query = run(spark, args.data, args.out / "run", args.window)
    print(json.dumps({"event": "cpu", "cpu_seconds": cpu_seconds() - before}), flush=True)
    report_triggers(query, delivered_by_name(args.out / "run" / "results"))
    spark.stop()


def run(spark: SparkSession, data: Path, folder: Path, window: int) -> StreamingQuery:
    every = [read(spark, data, stream, SCHEMA_DDL).withColumn("stream", F.lit(stream)) for stream in STREAMS]
    together = reduce(DataFrame.unionAll, every)
    writer = together.writeStream.foreachBatch(joiner(folder / "results", window * SECOND))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def joiner(out: Path, window_us: int) -> Callable[[DataFrame, int], None]:
    """What is called with each batch."""
    alike = F.arrow_udf(lambda left, right: pa.array(alike_arrow(left, right)), "boolean")
    kept: dict[str, list[tuple[int, DataFrame]]] = {stream: [] for stream in STREAMS}
    selected = [F.col(f"{stream}_id").alias(stream.lower()) for stream in STREAMS]
    out.mkdir(parents=True)

    def state(stream: str) -> DataFrame | None:
        parts = [part for _, part in kept[stream]]
        return reduce(DataFrame.unionAll, parts) if parts else None

    def join(batch: DataFrame, number: int) -> None:
        rows = batch.persist()
        answers = []
        for origin in STREAMS:
            new = rows.where(F.col("stream") == origin)
            new = new.select(*(F.col(name).alias(f"{origin}_{name}") for name in ("id", "v", "ts"))).localCheckpoint()
            near, far = (state(stream) for stream in ROUTES[origin])
            if near is not None and far is not None:
                both = new.crossJoin(near).where(within(window_us, origin, ROUTES[origin][0]))
                both = both.where(alike(*like(origin, ROUTES[origin][0])))
                whole = both.crossJoin(far).where(within(window_us, *STREAMS))
                answers.append(whole.where(alike(*like("B", ROUTES[origin][1]))).select(*selected))
            newest = new.agg(F.max(f"{origin}_ts")).first()[0]
            kept[origin].append((newest, new))
        newest = max(times[-1][0] for times in kept.values())
        for stream in STREAMS:
            kept[stream] = [(last, part) for last, part in kept[stream] if last > newest - window_us]
        if answers:
            reduce(DataFrame.unionAll, answers).write.parquet(str(out / f"batch-{number}"))
            for place, path in enumerate(sorted((out / f"batch-{number}").glob("part-*.parquet"))):
                path.rename(out / f"part-{number}-{place}.parquet")
        rows.unpersist()

    return join


def within(window_us: int, *streams: str) -> "F.Column":
    times = [F.col(f"{stream}_ts") for stream in streams]
    return F.greatest(*times) - F.least(*times) < window_us


def like(left: str, right: str) -> "tuple[F.Column, F.Column]":
    return F.col(f"{left}_v"), F.col(f"{right}_v")


if __name__ == "__main__":
    main()
