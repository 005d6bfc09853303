"""Which way of moving a micro-batch's rows to slots costs least in Spark, with no join at all.

Three parquet file streams (benchmarks.data), in one union, `foreachBatch`, one Spark job a batch. Every variant moves
each row to the slot that owns its key and counts it there; the counts are checked. Variants differ in

- how rows travel. *rows*: as Spark rows, slot by a Spark expression. *packed*: a first `mapInArrow` hashes the key,
  sorts by hash, cuts by slot and sends one Arrow IPC blob per slot and chunk. *cut*: the same without the sort.
  *files*: as packed, but blobs go to a file that the receiver memory-maps, and only its name is shuffled.
- the chunk that is packed at once: one Arrow batch, or Arrow batches gathered up to 256K rows.
- what the receiver does. *count*: nothing more. *sort*: what a join needs next, one array of rows in order of hash
  per stream, whatever the sender left to do; only these compare like with like.
- the shape of the union: shared columns and a stream number, or a struct column per stream (streams may differ).
- Spark's settings.

Two floors stand beside them: *jvm* (rows are read and counted, Python never sees them) and *python* (rows reach Python,
nothing is shuffled). What no variant avoids is the difference between these two.

Prints for each variant rows/s of the median and of the best batch (on a machine that others use too, the best is what
compares), the milliseconds of the median batch and of its job alone, and where tasks spend them: seconds over all tasks
of a batch, so at 2 cores they add up to up to twice the job's time. All variants run `--rounds` times in turns, because
a JVM still gets faster after a minute and would favour whoever comes last.

    python -m benchmarks.shuffles [--rows N] [--batches N] [--only NAME,NAME] [--slots N]
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.data import SCHEMA_DDL, STREAMS, DataSet, first_files, prepare

WARM_UP_BATCHES = 2
GATHERED_ROWS = 256 * 1024
ROW = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])

Batches = Iterator[pa.RecordBatch]


# ---------------------------------------------------------------- hashing and cutting


def splitmix64(keys: np.ndarray) -> np.ndarray:
    z = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def slot_of(hashes: np.ndarray, slots: int) -> np.ndarray:
    """Slots own contiguous ranges of hashes."""
    return ((hashes >> np.uint64(32)) * np.uint64(slots)) >> np.uint64(32)


def cut_sorted(rows: pa.RecordBatch, slots: int) -> list[pa.RecordBatch]:
    """The rows of each slot, in order of hash."""
    hashes = splitmix64(rows["k"].to_numpy())
    order = np.argsort(hashes)
    ends = np.searchsorted(slot_of(hashes[order], slots), np.arange(slots), side="right")
    rows = rows.take(pa.array(order))
    return [rows.slice(start, end - start) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def cut_unsorted(rows: pa.RecordBatch, slots: int) -> list[pa.RecordBatch]:
    """The rows of each slot, in order of arrival."""
    owner = slot_of(splitmix64(rows["k"].to_numpy()), slots)
    return [rows.take(pa.array(np.flatnonzero(owner == slot))) for slot in range(slots)]


def sort_by_hash(rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(np.argsort(splitmix64(rows["k"].to_numpy()))))


def merge_by_hash(rows: pa.Table) -> pa.Table:
    """As `sort_by_hash`, of rows that are a few sorted runs: numpy's stable sort of 64 bits finds and merges runs."""
    if rows["k"].num_chunks < 2:
        return rows
    return rows.take(pa.array(np.argsort(splitmix64(rows["k"].to_numpy()), kind="stable")))


# ---------------------------------------------------------------- streams out of a union


def split_columns(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each stream of a batch whose columns are shared."""
    if batch.num_rows == 0:
        return
    streams = batch["stream"].to_numpy()
    rows = batch.select(["k", "v", "ts"])
    if (streams == streams[0]).all():  # a task of a union reads one stream
        yield int(streams[0]), rows
        return
    for stream in np.unique(streams):
        yield int(stream), rows.take(pa.array(np.flatnonzero(streams == stream)))


def split_structs(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each stream of a batch with a struct column per stream."""
    for stream, name in enumerate(STREAMS):
        column = batch[name]
        if column.null_count < len(column):
            yield stream, pa.RecordBatch.from_struct_array(column.drop_null() if column.null_count else column)


# ---------------------------------------------------------------- senders (first mapInArrow)


@dataclass
class Clock:
    """Time spent waiting for input and working, of one task."""

    waited: float = 0.0
    worked: float = 0.0
    mark: float = field(default_factory=time.perf_counter)

    def lap(self) -> float:
        now = time.perf_counter()
        spent, self.mark = now - self.mark, now
        return spent


def gather(pieces: Iterator[tuple[int, pa.RecordBatch]], rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Unites pieces of a stream until they hold `rows` rows; leaves them as they are if `rows` is 0."""
    held: dict[int, list[pa.RecordBatch]] = {}
    for stream, piece in pieces:
        parts = held.setdefault(stream, [])
        parts.append(piece)
        if sum(part.num_rows for part in parts) >= rows:
            yield stream, pa.concat_batches(held.pop(stream))
    for stream, parts in held.items():
        yield stream, pa.concat_batches(parts)


Split = Callable[[pa.RecordBatch], Iterator[tuple[int, pa.RecordBatch]]]
Cut = Callable[[pa.RecordBatch, int], list[pa.RecordBatch]]
BLOBS = "slot INT, stream INT, rows BIGINT, blob BINARY, waited DOUBLE, worked DOUBLE"


def pack(split: Split, cut: Cut, chunk: int, slots: int, batches: Batches) -> Batches:
    """Sends one blob per slot and chunk: an Arrow IPC stream of the slot's rows."""
    for stream, rows, clock in _chunks(split, chunk, batches):
        cuts = cut(rows, slots)
        sink, ends = pa.BufferOutputStream(), [0]
        for piece in cuts:
            with pa.ipc.new_stream(sink, piece.schema) as writer:
                writer.write_batch(piece)
            ends.append(sink.tell())
        # One buffer for all blobs and their ends as offsets: no blob is copied to make the column.
        blobs = pa.BinaryArray.from_buffers(
            pa.binary(), slots, [None, pa.py_buffer(np.array(ends, np.int32)), sink.getvalue()]
        )
        clock.worked += clock.lap()
        yield _sent(slots, stream, cuts, blobs, clock)


def pack_into_file(split: Split, folder: str, slots: int, batches: Batches) -> Batches:
    """Sends, per slot and chunk, the name of a file and the number of the record batch in it."""
    for stream, rows, clock in _chunks(split, GATHERED_ROWS, batches):
        cuts = cut_sorted(rows, slots)
        path = tempfile.mktemp(dir=folder, suffix=".arrow")
        with pa.ipc.new_file(path, rows.schema) as writer:
            for piece in cuts:
                writer.write_batch(piece)
        names = pa.array([f"{path}#{slot}".encode() for slot in range(slots)], pa.binary())
        clock.worked += clock.lap()
        yield _sent(slots, stream, cuts, names, clock)


def _chunks(split: Split, chunk: int, batches: Batches) -> Iterator[tuple[int, pa.RecordBatch, Clock]]:
    clock = Clock()

    def pieces() -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            clock.waited += clock.lap()
            yield from split(batch)
            clock.worked += clock.lap()

    for stream, rows in gather(pieces(), chunk):
        yield stream, rows, clock
        clock.lap()  # to send is neither to wait nor to work
        clock.waited, clock.worked = 0.0, 0.0


def _sent(slots: int, stream: int, cuts: list[pa.RecordBatch], blobs: pa.Array, clock: Clock) -> pa.RecordBatch:
    first = np.arange(slots) == 0  # the times of a chunk ride with its first blob
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.arange(slots, dtype=np.int32)),
            pa.array(np.full(slots, stream, np.int32)),
            pa.array([piece.num_rows for piece in cuts], pa.int64()),
            blobs,
            pa.array(first * clock.waited),
            pa.array(first * clock.worked),
        ],
        names=["slot", "stream", "rows", "blob", "waited", "worked"],
    )


# ---------------------------------------------------------------- receivers (second mapInArrow)


Finish = Callable[[pa.Table], pa.Table] | None
COUNTS = "rows BIGINT, send_waited DOUBLE, send_worked DOUBLE, waited DOUBLE, worked DOUBLE"


def receive_rows(split: Split, finish: Finish, batches: Batches) -> Batches:
    clock, streams = Clock(), {}
    for batch in batches:
        clock.waited += clock.lap()
        for stream, rows in split(batch):
            streams.setdefault(stream, []).append(rows)
        clock.worked += clock.lap()
    clock.waited += clock.lap()
    yield _counted(streams, finish, clock, 0.0, 0.0)


def receive_blobs(unpack: Callable[[pa.Scalar], pa.RecordBatch], finish: Finish, batches: Batches) -> Batches:
    clock, streams, send_waited, send_worked = Clock(), {}, 0.0, 0.0
    for batch in batches:
        clock.waited += clock.lap()
        for stream, blob in zip(batch["stream"].to_pylist(), batch["blob"], strict=True):
            streams.setdefault(stream, []).append(unpack(blob))
        send_waited += sum(batch["waited"].to_pylist())
        send_worked += sum(batch["worked"].to_pylist())
        clock.worked += clock.lap()
    clock.waited += clock.lap()
    yield _counted(streams, finish, clock, send_waited, send_worked)


def unpack_blob(blob: pa.Scalar) -> pa.RecordBatch:
    return pa.ipc.open_stream(blob.as_buffer()).read_next_batch()


def unpack_file(blob: pa.Scalar) -> pa.RecordBatch:
    path, number = blob.as_py().decode().split("#")
    return pa.ipc.open_file(pa.memory_map(path)).get_batch(int(number))


def _counted(streams: dict[int, list], finish: Finish, clock: Clock, waited: float, worked: float) -> pa.RecordBatch:
    tables = [pa.Table.from_batches(parts) for parts in streams.values()]
    if finish is not None:
        tables = [finish(table) for table in tables]
    rows = sum(table.num_rows for table in tables)
    clock.worked += clock.lap()
    values = [[rows], [waited], [worked], [clock.waited], [clock.worked]]
    return pa.RecordBatch.from_arrays(
        [pa.array(value) for value in values], names=["rows", "send_waited", "send_worked", "waited", "worked"]
    )


# ---------------------------------------------------------------- variants

Job = Callable[[DataFrame, int], DataFrame]  # rows of a batch, slots -> what COUNTS says


def jvm(df: DataFrame, slots: int) -> DataFrame:
    zero = [F.lit(0.0).alias(name) for name in ("send_waited", "send_worked", "waited", "worked")]
    return df.agg(F.sum((F.xxhash64("k", "v", "ts") != 0).cast("bigint")).alias("rows")).select("rows", *zero)


def python(split: Split, df: DataFrame, slots: int) -> DataFrame:
    return df.mapInArrow(partial(receive_rows, split, None), COUNTS)


def rows(split: Split, key: str, finish: Finish, df: DataFrame, slots: int) -> DataFrame:
    slot = F.pmod(F.xxhash64(F.expr(key)), F.lit(slots)).cast("int")
    return df.repartitionById(slots, slot).mapInArrow(partial(receive_rows, split, finish), COUNTS)


def packed(split: Split, cut: Cut, chunk: int, finish: Finish, df: DataFrame, slots: int) -> DataFrame:
    sent = df.mapInArrow(partial(pack, split, cut, chunk, slots), BLOBS)
    return sent.repartitionById(slots, "slot").mapInArrow(partial(receive_blobs, unpack_blob, finish), COUNTS)


def files(split: Split, folder: str, finish: Finish, df: DataFrame, slots: int) -> DataFrame:
    sent = df.mapInArrow(partial(pack_into_file, split, folder, slots), BLOBS)
    return sent.repartitionById(slots, "slot").mapInArrow(partial(receive_blobs, unpack_file, finish), COUNTS)


@dataclass(frozen=True)
class Variant:
    name: str
    job: Job
    structs: bool = False
    session: tuple[tuple[str, Any], ...] = ()  # settings of the session
    context: tuple[tuple[str, Any], ...] = ()  # settings that need a SparkContext of their own


RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def variants(folder: str) -> Iterator[Variant]:
    """All variants; those that share a context stand together, because a new context costs seconds."""
    row_job = partial(rows, split_columns, "k", sort_by_hash)
    packed_job = partial(packed, split_columns, cut_sorted, GATHERED_ROWS, merge_by_hash)
    cut_job = partial(packed, split_columns, cut_unsorted, GATHERED_ROWS, sort_by_hash)
    middle = ((RECORDS, 64_000),)

    # Ways to travel, with what a join needs at the end of them.
    yield Variant("floor/jvm", jvm)
    for records in (10_000, 64_000, 256_000):
        conf, label = ((RECORDS, records),), f"{records // 1000}k"
        yield Variant(f"floor/python/{label}", partial(python, split_columns), session=conf)
        yield Variant(f"rows/sort/{label}", row_job, session=conf)
        yield Variant(f"packed/sort/gather/{label}", packed_job, session=conf)
        yield Variant(f"cut/sort/gather/{label}", cut_job, session=conf)
        if records < 256_000:  # above, a batch is a chunk already
            by_batch = partial(packed, split_columns, cut_sorted, 0, merge_by_hash)
            yield Variant(f"packed/sort/batch/{label}", by_batch, session=conf)
            by_batch = partial(packed, split_columns, cut_unsorted, 0, sort_by_hash)
            yield Variant(f"cut/sort/batch/{label}", by_batch, session=conf)
    yield Variant("files/sort/gather/64k", partial(files, split_columns, folder, merge_by_hash), session=middle)

    # The same, only counted.
    yield Variant("rows/count/64k", partial(rows, split_columns, "k", None), session=middle)
    for name, cut in (("packed", cut_sorted), ("cut", cut_unsorted)):
        job = partial(packed, split_columns, cut, GATHERED_ROWS, None)
        yield Variant(f"{name}/count/gather/64k", job, session=middle)

    # Shape and settings, each one change away from the variant it is compared with.
    for label, *settings in SPLITS:
        yield Variant(f"rows/sort/64k {label}", row_job, session=(*middle, *settings))
        yield Variant(f"packed/sort/gather/64k {label}", packed_job, session=(*middle, *settings))
    struct_rows = partial(rows, split_structs, "coalesce(A.k, B.k, C.k)", sort_by_hash)
    yield Variant("rows/sort/64k structs", struct_rows, True, middle)
    struct_packed = partial(packed, split_structs, cut_sorted, GATHERED_ROWS, merge_by_hash)
    yield Variant("packed/sort/gather/64k structs", struct_packed, True, middle)
    for label, name, value in SESSION_SETTINGS:
        yield Variant(f"rows/sort/64k {label}", row_job, session=(*middle, (name, value)))
        yield Variant(f"packed/sort/gather/64k {label}", packed_job, session=(*middle, (name, value)))
    for label, name, value in CONTEXT_SETTINGS:
        yield Variant(f"rows/sort/64k {label}", row_job, session=middle, context=((name, value),))
        yield Variant(f"packed/sort/gather/64k {label}", packed_job, session=middle, context=((name, value),))


OPEN_COST, SPLIT_BYTES = "spark.sql.files.openCostInBytes", "spark.sql.files.maxPartitionBytes"
# By Spark's formula, its defaults cut a file of 4.7 MB into 4.4 and 0.4 MB, so nearly all row groups fall to one of two
# tasks (inferred, not measured per task). Everything but the variants below runs with about two row groups of 50,000
# rows (0.8 MB each) a task. In the one comparison made, the best batches did not differ beyond noise.
SPLIT = ((OPEN_COST, 0), (SPLIT_BYTES, 1_600_000))
SPLITS = (
    ("default splits", (OPEN_COST, 4 << 20), (SPLIT_BYTES, 128 << 20)),
    ("splits of 50k rows", (OPEN_COST, 0), (SPLIT_BYTES, 800_000)),
    ("splits of 150k rows", (OPEN_COST, 0), (SPLIT_BYTES, 2_400_000)),
)
SESSION_SETTINGS = (
    # not lz4: a run with it had not ended after minutes, its tasks all inside Arrow Java's (commons-compress) LZ4
    ("arrow zstd", "spark.sql.execution.arrow.compression.codec", "zstd"),
    ("row parquet reader", "spark.sql.parquet.enableVectorizedReader", "false"),
    ("no codegen", "spark.sql.codegen.wholeStage", "false"),
    ("bytes 64MB", "spark.sql.execution.arrow.maxBytesPerBatch", str(64 << 20)),
    ("no checkpoint checksums", "spark.sql.streaming.checkpoint.fileChecksum.enabled", "false"),
)
CONTEXT_SETTINGS = (
    ("shuffle uncompressed", "spark.shuffle.compress", "false"),
    ("shuffle zstd", "spark.io.compression.codec", "zstd"),
    ("buffer 1MB", "spark.buffer.size", str(1 << 20)),
    ("no worker reuse", "spark.python.worker.reuse", "false"),
    ("unix sockets", "spark.python.unix.domain.socket.enabled", "true"),
    ("local dir in memory", "spark.local.dir", "/dev/shm"),
)


# ---------------------------------------------------------------- running one


def session(context: tuple[tuple[str, Any], ...]) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers' Python, else the first python3 on the path
    builder = SparkSession.builder.master("local[2]").appName("shuffles").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "4g").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", 1000)
    for name, value in context:
        builder = builder.config(name, value)
    return builder.getOrCreate()


def union(spark: SparkSession, folder: Path, structs: bool) -> DataFrame:
    parts = []
    for number, name in enumerate(STREAMS):
        reader = spark.readStream.schema(SCHEMA_DDL).option("maxFilesPerTrigger", 1)
        df = reader.parquet(str(folder / name))
        if structs:
            row = F.struct("k", "v", "ts")
            nothing = F.lit(None).cast("struct<k:bigint,v:bigint,ts:bigint>")
            parts.append(df.select(*((row if other == name else nothing).alias(other) for other in STREAMS)))
        else:
            parts.append(df.select(F.lit(number).cast("tinyint").alias("stream"), "k", "v", "ts"))
    return parts[0].union(parts[1]).union(parts[2])


@dataclass(frozen=True)
class Batch:
    rows: int
    seconds: float  # of the whole trigger
    job_seconds: float  # of foreachBatch
    send_waited: float
    send_worked: float
    waited: float
    worked: float
    stages: tuple[dict[str, float], ...]
    phases: dict[str, int]  # milliseconds of the trigger, by Spark's names


def run(spark: SparkSession, variant: Variant, folder: Path, slots: int, scratch: Path) -> list[Batch]:
    """The batches of one streaming query."""
    for name, value in (*SPLIT, *variant.session):
        spark.conf.set(name, value)
    counted: list[tuple[float, list[float], tuple[dict[str, float], ...]]] = []

    def on_batch(df: DataFrame, number: int) -> None:
        start = time.perf_counter()
        df.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")  # one job a batch
        totals = [sum(column) for column in zip(*variant.job(df, slots).collect(), strict=True)]
        counted.append((time.perf_counter() - start, totals, last_stages(spark)))

    checkpoint = scratch / f"checkpoint-{time.monotonic_ns()}"
    writer = union(spark, folder, variant.structs).writeStream.foreachBatch(on_batch)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    for name, _ in variant.session:
        spark.conf.unset(name)
    triggers = [dict(entry.durationMs) for entry in query.recentProgress if entry.numInputRows]
    return [
        Batch(int(totals[0]), spent["triggerExecution"] / 1000, seconds, *totals[1:], stages, spent)
        for spent, (seconds, totals, stages) in zip(triggers, counted, strict=True)
    ]


def last_stages(spark: SparkSession) -> tuple[dict[str, float], ...]:
    """Task metrics of the stages of the last job, summed over tasks (seconds and bytes)."""
    store = spark.sparkContext._jsc.sc().statusStore()
    last = store.jobsList(None).head()
    ids, stages = last.stageIds(), []
    for place in range(ids.size()):
        stage = store.lastStageAttempt(ids.apply(place))
        stages.append(
            {
                "id": stage.stageId(),
                "tasks": stage.numTasks(),
                "run": stage.executorRunTime() / 1e3,
                "gc": stage.jvmGcTime() / 1e3,
                "write": stage.shuffleWriteTime() / 1e9,
                "write_mb": stage.shuffleWriteBytes() / 1e6,
            }
        )
    return tuple(sorted(stages, key=lambda stage: stage["id"]))


HEADER = (
    f"{'variant':<46} {'rows/s':>10} {'best':>10} {'batch':>6} {'job':>6} {'send:':>6} {'tasks':>5} {'run':>5}"
    f" {'wait':>5} {'work':>5} {'MB':>5} {'recv:':>6} {'run':>5} {'wait':>5} {'work':>5} {'gc':>5}"
)


def line(name: str, batches: list[Batch]) -> str:
    def median(of: Callable[[Batch], float]) -> float:
        return statistics.median(of(batch) for batch in batches)

    seconds = median(lambda batch: batch.seconds)
    send = lambda what: median(lambda batch: batch.stages[0][what])  # noqa: E731
    recv = lambda what: median(lambda batch: batch.stages[-1][what])  # noqa: E731
    return (
        f"{name:<46} {batches[0].rows / seconds:>10,.0f} "
        f"{batches[0].rows / min(batch.seconds for batch in batches):>10,.0f} {seconds * 1e3:>6.0f} "
        f"{median(lambda b: b.job_seconds) * 1e3:>6.0f} {'':>6} {send('tasks'):>5.0f} {send('run'):>5.2f} "
        f"{median(lambda b: b.send_waited):>5.2f} {median(lambda b: b.send_worked):>5.2f} {send('write_mb'):>5.1f} "
        f"{'':>6} {recv('run'):>5.2f} {median(lambda b: b.waited):>5.2f} {median(lambda b: b.worked):>5.2f} "
        f"{send('gc') + recv('gc'):>5.2f}"
    )


def phases(batches: list[Batch]) -> str:
    middles = {name: statistics.median(batch.phases[name] for batch in batches) for name in batches[-1].phases}
    return "    " + ", ".join(f"{name} {value:.0f}" for name, value in middles.items())


def _named(variant: Variant, patterns: list[str]) -> bool:
    return any(fnmatchcase(variant.name, pattern) for pattern in patterns)


def main() -> None:
    parser = argparse.ArgumentParser(description="compare ways to shuffle a micro-batch to slots")
    parser.add_argument("--rows", type=int, default=300_000, help="of each stream and batch")
    parser.add_argument("--batches", type=int, default=WARM_UP_BATCHES + 5, help="of each variant and round")
    parser.add_argument("--rounds", type=int, default=2, help="of all variants, after one that is not measured")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--only", default="*", help="names, separated by commas, with * for anything")
    parser.add_argument("--phases", action="store_true", help="also print Spark's phases of a trigger, in ms")
    args = parser.parse_args()
    data = prepare(DataSet(rows=10 * args.rows, files=10))
    wanted = args.only.split(",")
    kept = args.batches - WARM_UP_BATCHES
    print(f"{3 * args.rows:,} rows a batch, {args.slots} slots; {args.rounds} rounds of {kept} batches")
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory(prefix="shuffles-") as name:
        scratch = Path(name)
        folder = first_files(data, args.batches, scratch / "in")
        (scratch / "blobs").mkdir()
        chosen = [variant for variant in variants(str(scratch / "blobs")) if _named(variant, wanted)]
        for context, sharing in groupby(chosen, key=lambda variant: variant.context):
            spark, group = session(context), list(sharing)
            measured: dict[str, list[Batch]] = {variant.name: [] for variant in group}
            for round_, variant in product(range(args.rounds + 1), group):  # round 0 warms up
                batches = run(spark, variant, folder, args.slots, scratch)
                assert all(batch.rows == 3 * args.rows for batch in batches), batches
                if round_:
                    measured[variant.name] += batches[WARM_UP_BATCHES:]
            for name, batches in measured.items():
                print(line(name, batches), flush=True)
                if args.phases:
                    print(phases(batches), flush=True)
            spark.stop()


if __name__ == "__main__":
    main()
