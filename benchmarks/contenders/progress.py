"""What every contender says on its standard output: one JSON object per line, as `watersmeet run --json` does.

    {"event": "batch", "batch": 0, "rows_in": 900000, "rows_out": 1234, "seconds": 1.02}
    {"event": "end", "rows_in": 9000000, "rows_out": 3000000, "batches": 10, "seconds": 11.3}

Seconds of a batch are Spark's `triggerExecution`. Seconds of the end run from the start of the first batch to the end
of the last (first read to last delivery): no start of a JVM, no warm-up. rows_out are counted in the files that the
sink delivered, by their footers and after the run, so that counting costs the run nothing and trusts nobody.

A contender is a module with a `main()` that takes the arguments of `arguments()`. It first runs a small query of the
same kind over `warm_up` batches, then the one that is measured.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import psutil
import pyarrow.parquet as pq
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

WARM_UP_BATCHES = 3
FOLLOW_SECONDS = 1


@dataclass(frozen=True)
class BatchDone:
    batch: int
    rows_in: int
    rows_out: int
    seconds: float


def arguments() -> argparse.Namespace:
    """The command line of a contender."""
    return parser().parse_args()


def parser() -> argparse.ArgumentParser:
    """The options that every contender has."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder of parquet files per stream")
    parser.add_argument("--out", type=Path, required=True, help="empty folder for results and checkpoints")
    parser.add_argument("--warm-up", type=int, default=WARM_UP_BATCHES, help="batches of the run that is not measured")
    return parser


def report_query(query: StreamingQuery, out: Path) -> None:
    """Prints the lines of a finished query whose parquet sink wrote to `out`."""
    report_triggers(query, delivered_rows(out))


def report_triggers(query: StreamingQuery, rows_out: Mapping[int, int]) -> None:
    """Prints the lines of a finished query that delivered `rows_out` rows in each batch."""
    triggers = [entry for entry in query.recentProgress if entry.numInputRows]
    starts = [datetime.fromisoformat(entry.timestamp) for entry in triggers]
    spent = [timedelta(milliseconds=entry.durationMs["triggerExecution"]) for entry in triggers]
    batches = [
        BatchDone(entry.batchId, entry.numInputRows, rows_out.get(entry.batchId, 0), seconds.total_seconds())
        for entry, seconds in zip(triggers, spent, strict=True)
    ]
    report(batches, (starts[-1] + spent[-1] - starts[0]).total_seconds())


def follow(query: StreamingQuery, more: Callable[[StreamingQueryProgress], Mapping[str, Any]]) -> dict[str, Any]:
    """Prints a line for each batch of a running query as soon as it is done; the last line but for rows_out.

    `elapsed` in a line runs from the start of the first batch to the end of this one; `cpu_seconds` is what all
    processes have used since the query was started, up to a moment after the batch. What `more` says of the batch is
    added. So a run that is ended before its end has told how far it came.
    """
    batches, rows, elapsed, first, last = 0, 0, 0.0, None, -1
    ended, before, cpu = False, cpu_seconds(), 0.0
    while not ended:
        ended = bool(query.awaitTermination(FOLLOW_SECONDS))
        cpu = cpu_seconds() - before
        for entry in query.recentProgress:
            if not entry.numInputRows or entry.batchId <= last:
                continue
            start = datetime.fromisoformat(entry.timestamp)
            first, last = first or start, entry.batchId
            spent = timedelta(milliseconds=entry.durationMs["triggerExecution"])
            batches, rows, elapsed = batches + 1, rows + entry.numInputRows, (start + spent - first).total_seconds()
            seconds = {"seconds": spent.total_seconds(), "elapsed": elapsed, "cpu_seconds": cpu}
            line = {"event": "batch", "batch": last, "rows_in": entry.numInputRows, **seconds, **more(entry)}
            print(json.dumps(line), flush=True)
    return {"event": "end", "rows_in": rows, "batches": batches, "seconds": elapsed}


def cpu_seconds() -> float:
    """The CPU time of this process and its descendants, those that have ended included."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])  # user, system, and both of children that have ended
        except psutil.Error:
            continue  # ended while we looked
    return total


def report(batches: Iterable[BatchDone], seconds: float) -> None:
    """Prints one line per batch and the last line."""
    batches = list(batches)
    for batch in batches:
        print(json.dumps({"event": "batch", **asdict(batch)}), flush=True)
    end = {
        "rows_in": sum(batch.rows_in for batch in batches),
        "rows_out": sum(batch.rows_out for batch in batches),
        "batches": len(batches),
        "seconds": seconds,
    }
    print(json.dumps({"event": "end", **end}), flush=True)


def delivered_rows(out: Path) -> dict[int, int]:
    """Rows by batch in a folder written by Spark's streaming parquet sink."""
    return {
        batch: sum(pq.read_metadata(path).num_rows for path in paths) for batch, paths in delivered_files(out).items()
    }


def delivered_files(out: Path) -> dict[int, list[str]]:
    """Files by batch in a folder written by Spark's streaming parquet sink, whose log names them."""
    files: dict[int, list[str]] = {}
    seen: set[str] = set()
    for batch, paths in _logged_files(out / "_spark_metadata"):
        files[batch] = [path for path in paths if path not in seen]
        seen.update(paths)  # a compacted log entry repeats the files of the batches before it
    return files


def delivered_by_name(out: Path) -> dict[int, int]:
    """Rows by batch in a folder of files whose names begin with part-BATCH-."""
    rows: dict[int, int] = {}
    for path in out.glob("part-*.parquet"):
        batch = int(path.name.split("-")[1])
        rows[batch] = rows.get(batch, 0) + pq.read_metadata(path).num_rows
    return rows


def _logged_files(log: Path) -> Iterator[tuple[int, list[str]]]:
    entries = [path for path in log.iterdir() if not path.name.startswith(".")]
    for entry in sorted(entries, key=lambda path: int(path.name.split(".")[0])):
        lines = entry.read_text().splitlines()[1:]  # the first line is the version of the log's format
        yield int(entry.name.split(".")[0]), [unquote(urlparse(json.loads(line)["path"]).path) for line in lines]
