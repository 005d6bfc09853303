"""What it costs that a committed batch survives a power loss: `durability = "power-loss"` against `"process"`.

Three streams, one common key, as in benchmarks.throughput; batches of `--rows` rows of all streams together, each
committed and its results delivered as parquet files. Both run in turns, in one process, the order changing from turn to
turn; before each run the disk is brought to rest (`os.sync`). Of each turn the ratio of the two is taken, so that other
work on the machine, which comes and goes, weighs less. It prints

- for each: rows/s and ms of a batch, the medians over the turns;
- the throughput with `power-loss` as a share of that with `process`: the median of the turns, the least and the most;
- whether as many rows came out as the join has.

The disk decides: the folder that the runs use is `--folder`, by default bench-data.

    python -m benchmarks.durability [--rows 90000] [--batches 10] [--turns 5] [--runtime local|spark] [--folder DIR]
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.data import ROOT, SCHEMA_DDL, STREAMS, DataSet, expected_rows, prepare
from benchmarks.harness import align
from watersmeet.config import Job, parse_job
from watersmeet.state.syncing import DURABILITIES, POWER_LOSS, PROCESS

QUERY = "SELECT A.k, A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k"


def main() -> int:
    parser = argparse.ArgumentParser(description="what surviving a power loss costs")
    parser.add_argument("--rows", type=int, default=90_000, help="of a batch, all streams together")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--runtime", choices=("local", "spark"), default="local")
    parser.add_argument("--folder", type=Path, default=ROOT, help="where the runs keep their state and results")
    args = parser.parse_args()
    rows = args.rows // len(STREAMS) * args.batches
    data = DataSet(rows=rows, files=args.batches, keys=rows)
    source, expected = prepare(data), expected_rows(data)
    args.folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, list[float]] = {durability: [] for durability in DURABILITIES}
    right = True
    run(source, args.runtime, PROCESS, args.folder)  # to warm up
    for turn in range(args.turns):
        for durability in DURABILITIES[:: 1 if turn % 2 else -1]:
            end = run(source, args.runtime, durability, args.folder)
            seconds[durability].append(end["seconds"])
            right &= end["rows_out"] == expected
    print(f"{args.batches} batches of {args.rows:,} rows, {args.runtime}, {args.turns} turns")
    print(table(seconds, data.total_rows, args.batches))
    shares = [slow / fast for fast, slow in zip(seconds[POWER_LOSS], seconds[PROCESS], strict=True)]
    print(f"{POWER_LOSS} over {PROCESS}: {median(shares):.1%} of the throughput", end=" ")
    print(f"(of {len(shares)} turns {min(shares):.1%} to {max(shares):.1%})")
    print(f"rows out: {expected:,} {'right' if right else 'WRONG'}")
    return 0 if right else 1


def table(seconds: dict[str, list[float]], rows: int, batches: int) -> str:
    lines = [("durability", "rows/s", "ms a batch")]
    for durability, each in seconds.items():
        lines.append((durability, f"{rows / median(each):,.0f}", f"{median(each) / batches * 1000:.1f}"))
    return align(lines)


def run(source: Path, runtime: str, durability: str, folder: Path) -> dict[str, Any]:
    """One run from nothing; its last event."""
    home = Path(tempfile.mkdtemp(prefix="durability-", dir=folder))
    events: list[dict[str, Any]] = []
    try:
        os.sync()
        run_job(job_of(source, runtime, durability, home), events.append)
    finally:
        shutil.rmtree(home)
    return events[-1]


def run_job(job: Job, report: Any, stopped: Callable[[], bool] = lambda: False) -> None:
    if job.run.runtime == "spark":
        from watersmeet.runtime.spark.job import run_job as run_on_spark

        run_on_spark(job, report, stopped)
    else:
        from watersmeet.runtime.local.job import run_job as run_here

        run_here(job, report, stopped)


def job_of(source: Path, runtime: str, durability: str, home: Path) -> Job:
    lines = [f'query = "{QUERY}"']
    for stream in STREAMS:
        lines += [f"[streams.{stream}]", 'format = "parquet"', f'path = "{source / stream}"']
        lines += [f'schema = "{SCHEMA_DDL}"', "options = { maxFilesPerTrigger = 1 }"]
    lines += ["[sink]", f'path = "{home}/out"', "[run]", f'runtime = "{runtime}"', f'checkpoint = "{home}/ck"']
    lines += [f'durability = "{durability}"', "[adapt]", 'plan = "mjoin"', "[spark]", 'master = "local[2]"']
    return parse_job("\n".join(lines), "benchmark")


if __name__ == "__main__":
    sys.exit(main())
