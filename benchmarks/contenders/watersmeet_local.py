"""Watersmeet without a JVM: the same files and join in one process, state in memory, results counted as they come."""

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from benchmarks.contenders.progress import BatchDone, arguments, report
from benchmarks.contenders.watersmeet_spark import QUERY
from benchmarks.data import STREAMS


def main() -> None:
    args = arguments()
    batches = {stream: load(args.data / stream) for stream in STREAMS}
    if args.warm_up:
        run({stream: rows[: args.warm_up] for stream, rows in batches.items()})
    report(*run(batches))


def load(folder: Path) -> list[pa.RecordBatch]:
    """One record batch a file. Reading files is not what is measured here."""
    return [pq.read_table(path).combine_chunks().to_batches()[0] for path in sorted(folder.iterdir())]


def run(batches: dict[str, list[pa.RecordBatch]]) -> tuple[list[BatchDone], float]:
    query = wm.sql(QUERY, **batches)
    assert isinstance(query, wm.LocalQuery)
    done: list[BatchDone] = []

    def note(event: dict[str, object]) -> None:
        if event["event"] == "batch":
            done.append(BatchDone(event["batch"], event["rows_in"], event["rows_out"], event["seconds"]))

    started = time.perf_counter()
    for _ in query.stream(report=note):
        pass
    return done, time.perf_counter() - started


if __name__ == "__main__":
    main()
