"""How long a run that was killed takes to go on: from its start to its first committed batch, by the size of the state.

Three streams, one common key that hardly ever meets, no windows: the state is all rows. A process builds it in large
batches, then `--small` small ones follow, so that there are versions since the last snapshot, and it is killed
(SIGKILL). A small batch is added, and a process of its own goes on. It is asked `--times` times, with a kill and a new
batch each time; before each, the pages of the checkpoint's files are dropped from memory with `--cold`. It prints the
medians:

- all: from the start of the process to the first batch of the new run, told after its commit;
- of these, the modules' imports, the opening of the checkpoint (the log of versions, the claim, files on disk), and the
  first batch.

    python -m benchmarks.recovery [--rows 2000000 20000000] [--small 0 200] [--times 3] [--runtime local|spark] [--cold]
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import FIRST_TS, ROOT, SCHEMA_DDL, STREAMS, DataSet, prepare
from benchmarks.harness import align

QUERY = "SELECT A.k, A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k"
LARGE_ROWS = 1_000_000  # of a batch, all streams together
SMALL_ROWS = 300
PARTS = ("all", "imports", "open", "first batch")


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        return child(Path(sys.argv[2]))
    parser = argparse.ArgumentParser(description="time to go on after a kill")
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 20_000_000], help="of the state")
    parser.add_argument("--small", type=int, nargs="+", default=[0, 200], help="small batches before the kill")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--runtime", choices=("local", "spark"), default="local")
    parser.add_argument("--cold", action="store_true", help="with the files of the checkpoint dropped from memory")
    parser.add_argument("--folder", type=Path, default=ROOT, help="where the runs keep their state")
    args = parser.parse_args()
    lines = [("state rows", "segments", "versions", "small batches", *(f"{part} s" for part in PARTS))]
    for rows in args.rows:
        for small in args.small:
            home = Path(tempfile.mkdtemp(prefix="recovery-", dir=args.folder))
            try:
                lines.append(measure(home, rows, small, args.times, args.runtime, args.cold))
            finally:
                shutil.rmtree(home)
    print(f"{args.runtime}, {'cold' if args.cold else 'warm'}, medians of {args.times}")
    print(align(lines))
    return 0


def measure(home: Path, rows: int, small: int, times: int, runtime: str, cold: bool) -> tuple[str, ...]:
    batches = max(2, rows // LARGE_ROWS)
    source = prepare(DataSet(rows=rows // len(STREAMS), files=batches, keys=20 * rows))
    for stream in STREAMS:
        (home / "in" / stream).mkdir(parents=True)
        for path in sorted((source / stream).iterdir()):
            os.link(path, home / "in" / stream / path.name)
    write_job(home, runtime)
    for number in range(small):
        add_batch(home, batches + number)
    go_on(home, batches + small)
    found: list[dict[str, float]] = []
    for number in range(times):
        add_batch(home, batches + small + number)
        if cold:
            drop_from_memory(home / "ck")
        found.append(go_on(home, 1))
    segments = len(list((home / "ck/state/segments").iterdir()))
    versions = len(list((home / "ck/state/versions").iterdir()))
    state_rows = f"{found[-1]['state_rows']:,.0f}"
    parts = [f"{median(each[part] for each in found):.2f}" for part in PARTS]
    return state_rows, str(segments), str(versions), str(small), *parts


def go_on(home: Path, batches: int) -> dict[str, float]:
    """Run until so many batches were told of, then kill the process; the seconds of the first of them."""
    began = time.time()
    words = [sys.executable, "-m", "benchmarks.recovery", "--child", str(home)]
    # A session of its own, so that Spark's JVM and its workers are killed with it.
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        told: list[dict[str, Any]] = []
        while len(told) < batches:
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"the run ended after {len(told)} of {batches} batches")
            told.append(json.loads(line))
        os.killpg(process.pid, signal.SIGKILL)
    first = told[0]
    return {
        "all": first["told"] - began,
        "imports": first["imported"] - began,
        "open": first["told"] - first["imported"] - first["seconds"],
        "first batch": first["seconds"],
        "state_rows": first["state_rows"],
    }


def child(home: Path) -> int:
    """A run that tells when it had its modules, and when each batch was committed."""
    from watersmeet.config import load_job

    job = load_job(home / "job.toml")
    run: Any
    if job.run.runtime == "spark":
        from watersmeet.runtime.spark.job import run_job as run
    else:
        from watersmeet.runtime.local.job import run_job as run
    imported = time.time()

    def report(event: dict[str, Any]) -> None:
        if event["event"] == "batch":
            times = {"imported": imported, "told": time.time()}
            kept = {name: event[name] for name in ("seconds", "state_rows")}
            print(json.dumps({**times, **kept}), flush=True)

    run(job, report)
    return 0


def write_job(home: Path, runtime: str) -> None:
    lines = [f'query = "{QUERY}"']
    for stream in STREAMS:
        lines += [f"[streams.{stream}]", 'format = "parquet"', f'path = "{home}/in/{stream}"']
        lines += [f'schema = "{SCHEMA_DDL}"', 'options = { maxFilesPerTrigger = 1, maxFileAge = "10000d" }']
    lines += ["[sink]", f'path = "{home}/out"', "[run]", f'runtime = "{runtime}"', f'checkpoint = "{home}/ck"']
    lines += ['trigger = "100 milliseconds"', "[adapt]", 'plan = "mjoin"', "[spark]", 'master = "local[2]"']
    (home / "job.toml").write_text("\n".join(lines))


def add_batch(home: Path, number: int) -> None:
    """A small file for each stream, after all others."""
    for place, stream in enumerate(STREAMS):
        rng = np.random.default_rng([number, place])
        count = SMALL_ROWS // len(STREAMS)
        times = FIRST_TS + 10_000_000_000 + np.arange(count) + number * count
        table = pa.table({"k": rng.integers(0, 1 << 40, count), "v": rng.integers(0, 100, count), "ts": times})
        path = home / "in" / stream / f"{number:05d}.parquet"
        pq.write_table(table, home / "new")
        os.utime(home / "new", (FIRST_TS // 1_000_000 + number,) * 2)
        os.rename(home / "new", path)


def drop_from_memory(folder: Path) -> None:
    """Ask the system to read the files from the disk next time."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


if __name__ == "__main__":
    sys.exit(main())
