"""The limit: Watersmeet's pipeline on Spark with no join at all.

Rows are read, hashed, sorted, packed and sent to the slots by the same code, one Spark job a batch; the slots unpack
and count them. No state, no results, no commit.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm
from benchmarks.contenders.progress import arguments, report_triggers
from benchmarks.contenders.spark_native import read, start_spark
from benchmarks.contenders.watersmeet_spark import QUERY, SETTINGS
from benchmarks.data import STREAMS, first_files
from watersmeet.model.placement import Placement
from watersmeet.runtime.context import SourceContext
from watersmeet.runtime.spark.blobs import CELL_SCHEMA, DRIVER, Cell, from_arrow, to_arrow
from watersmeet.runtime.spark.executor import JOB_SETTINGS
from watersmeet.runtime.spark.sources import unite
from watersmeet.runtime.spark.tasks import Pack
from watersmeet.state.files import Folder
from watersmeet.state.output_names import Stamp

SLOTS = 2


@dataclass(frozen=True)
class Count:
    """Cells in, one count out."""

    schemas: dict[int, pa.Schema]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cells = [cell for cell in from_arrow(batches) if cell.stage != DRIVER]
        rows = sum(cell.rows(self.schemas[cell.port]).num_rows for cell in cells)
        return to_arrow([Cell(0, DRIVER, 0, pa.py_buffer(json.dumps(rows).encode()))])


def main() -> None:
    args = arguments()
    spark = start_spark(SETTINGS)
    if args.warm_up:
        run(spark, first_files(args.data, args.warm_up, args.out / "warm-up-data"), args.out / "warm-up")
        shutil.rmtree(args.out / "warm-up")
    report_triggers(run(spark, args.data, args.out / "run"), {})
    spark.stop()


def run(spark: SparkSession, data: Path, folder: Path) -> StreamingQuery:
    query = wm.sql(QUERY, **{stream: read(spark, data, stream) for stream in STREAMS})
    plan = query.physical()
    context = SourceContext(
        placement=Placement(SLOTS, 300),
        watermarks_us=dict.fromkeys(plan.streams),
        times={entry.stream.name: entry.stream.time for entry in plan.query.inputs},
        leaves=plan.leaves,
        port_stage=plan.port_stage,
        stamp=Stamp(0),
    )
    wanted = {stream: plan.stream_columns(stream) for stream in STREAMS}
    union, layout = unite(plan, {stream: read(spark, data, stream) for stream in STREAMS}, wanted)
    schemas = {leaf.port: leaf.state.schema for leaf in plan.leaves}

    def on_batch(frame: DataFrame, number: int) -> None:
        for name, value in JOB_SETTINGS.items():
            frame.sparkSession.conf.set(name, value)
        cells = frame.mapInArrow(
            Pack(context, layout, None, Folder(str(folder / "segments"))), CELL_SCHEMA
        ).repartitionById(SLOTS, "part")
        cells.mapInArrow(Count(schemas), CELL_SCHEMA).collect()

    writer = union.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(folder / "checkpoint"))
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    return running


if __name__ == "__main__":
    main()
