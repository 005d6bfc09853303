"""Rows a second of a three-way stream join: Watersmeet, Spark's own joins, and the limit with no join at all.

Runs the contenders one after another, each in a process of its own, on the same files (benchmarks.data), and prints
one table. A contender warms up first and then reports its batches (contenders/progress.py); what is timed runs from
its first read to its last delivery. The table holds, for each,

- rows/s over the whole measured run, its ratio to Spark's in-memory join and to the no-join limit;
- peak memory of the whole process tree (driver, JVM, Python workers), warm-up included. PSS shares a page between the
  processes that map it, so forked workers and memory-mapped files count once; RSS counts them in every process;
- seconds of the median batch; growth, the seconds of the last batch over those of the third;
- whether the rows delivered are as many as the join has (counted from the keys, without joining).

A contender whose module is not there is listed as missing; one that fails, as failed, with the end of its log.

    python -m benchmarks.throughput [--rows N] [--batches N] [--only NAME,NAME] [--repeat N] [--json FILE]
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil

from benchmarks.data import ROOT, DataSet, expected_rows, prepare

HOME = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Contender:
    name: str
    module: str
    what: str
    joins: bool = True
    scale: float = 1.0  # of --rows and of the key domain: less than 1 for what is too slow at full size
    batches: int | None = None  # instead of --batches


GRACE_SECONDS = 20
BASELINE = "spark-memory"
LIMIT = "no-join"
CONTENDERS = (
    Contender("spark-memory", "benchmarks.contenders.spark_memory", "Spark's chained stream-stream join, in memory"),
    Contender("spark-rocksdb", "benchmarks.contenders.spark_rocksdb", "Spark's chained stream-stream join on RocksDB"),
    Contender("spark-tws", "benchmarks.contenders.spark_tws", "the join in transformWithStateInPandas", scale=0.01),
    Contender("no-join", "benchmarks.contenders.no_join", "Watersmeet's pipeline without a join", joins=False),
    Contender("watersmeet-spark", "benchmarks.contenders.watersmeet_spark", "Watersmeet on Spark"),
    Contender("watersmeet-local", "benchmarks.contenders.watersmeet_local", "Watersmeet without a JVM", batches=100),
)


@dataclass(frozen=True)
class Result:
    contender: str
    state: str  # ran | missing | failed
    rows: int = 0
    batches: int = 0
    rows_per_second: float = 0.0
    batch_seconds: float = 0.0
    growth: float = 0.0
    peak_rss_bytes: int = 0
    peak_pss_bytes: int = 0
    rows_out: int = 0
    rows_expected: int | None = None
    seconds_by_batch: tuple[float, ...] = ()
    load_before: float = 0.0  # the machine's load average when the run began: above 0.5, others were using it
    log: str = ""

    @property
    def answer(self) -> str:
        if self.rows_expected is None:
            return "no join"
        if self.rows_out == self.rows_expected:
            return f"{self.rows_out:,} right"
        return f"{self.rows_out:,} WRONG: {self.rows_expected:,}"


# ---------------------------------------------------------------- running one contender


class MemoryWatch(threading.Thread):
    """Peak memory of a process and its descendants, until it ends."""

    RSS_PERIOD = 0.2
    PSS_EVERY = 5  # samples: the kernel walks all pages for PSS, some ms per GB, so not at every one

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root = psutil.Process(pid)
        self.ended = threading.Event()
        self.peak_rss = 0
        self.peak_pss = 0

    def run(self) -> None:
        samples = 0
        while not self.ended.wait(self.RSS_PERIOD):
            rss = pss = 0
            for process in self._tree():
                try:
                    rss += process.memory_info().rss
                    if samples % self.PSS_EVERY == 0:
                        pss += _pss(process.pid)
                except (psutil.Error, OSError):
                    continue  # ended while we looked
            self.peak_rss, self.peak_pss = max(self.peak_rss, rss), max(self.peak_pss, pss)
            samples += 1

    def _tree(self) -> list[psutil.Process]:
        try:
            return [self.root, *self.root.children(recursive=True)]
        except psutil.Error:
            return []


def _pss(pid: int) -> int:
    """Proportional set size in bytes; 0 where the kernel does not tell."""
    rollup = Path(f"/proc/{pid}/smaps_rollup")
    if not rollup.exists():
        return 0
    return next(int(line.split()[1]) * 1024 for line in rollup.read_text().splitlines() if line.startswith("Pss:"))


def run(contender: Contender, rows: int, batches: int) -> Result:
    if not _present(contender.module):
        return Result(contender.name, "missing")
    size = max(int(rows * contender.scale), 1)
    data = DataSet(rows=size, files=contender.batches or batches, keys=size)
    folder = prepare(data)
    out = ROOT / "runs" / f"{contender.name}-{os.getpid()}-{time.time_ns()}"
    out.mkdir(parents=True)
    log = ROOT / "logs" / f"{contender.name}.log"
    log.parent.mkdir(exist_ok=True)
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", contender.module, "--data", str(folder), "--out", str(out)]
    try:
        with log.open("w") as errors:
            process = subprocess.Popen(command, cwd=HOME, stdout=subprocess.PIPE, stderr=errors, text=True)
            watch = MemoryWatch(process.pid)
            watch.start()
            assert process.stdout is not None
            events = list(_events(process.stdout))
            code = _end(process)
            watch.ended.set()
            watch.join()
    finally:
        shutil.rmtree(out, ignore_errors=True)
    ends = [event for event in events if event["event"] == "end"]
    if code or not ends:
        return Result(contender.name, "failed", log=_tail(log))
    seconds = tuple(event["seconds"] for event in events if event["event"] == "batch")
    return Result(
        contender.name,
        "ran",
        rows=data.total_rows,
        batches=len(seconds),
        rows_per_second=data.total_rows / ends[-1]["seconds"],
        batch_seconds=statistics.median(seconds),
        growth=seconds[-1] / seconds[2] if len(seconds) > 3 else float("nan"),
        peak_rss_bytes=watch.peak_rss,
        peak_pss_bytes=watch.peak_pss,
        rows_out=ends[-1]["rows_out"],
        rows_expected=expected_rows(data) if contender.joins else None,
        seconds_by_batch=seconds,
        load_before=load,
    )


def _end(process: subprocess.Popen[str]) -> int:
    """The exit code of a contender that has said its last line; it is made to end if it does not end by itself.

    A JVM with RocksDB was seen to hang for minutes in its shutdown after a run that was complete.
    """
    try:
        return process.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            each.kill()
        process.wait()
        return 0


def _present(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _events(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # something a library printed
        if isinstance(event, dict) and "event" in event:
            yield event
            if event["event"] == "end":
                return


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-8:])


# ---------------------------------------------------------------- the table

COLUMNS = ("contender", "rows", "batches", "rows/s", "x spark", "of limit", "peak PSS", "peak RSS", "s/batch", "growth")


def table(results: list[Result]) -> str:
    """One line per contender; of several runs, the one with the median rows/s, and the spread of all."""
    by_name: dict[str, list[Result]] = {}
    for result in results:
        by_name.setdefault(result.contender, []).append(result)
    middle = {name: _middle(runs) for name, runs in by_name.items()}
    lines = [(*COLUMNS, "rows out")]
    for name, result in middle.items():
        if result.state != "ran":
            lines.append((name, *[""] * (len(COLUMNS) - 1), result.state))
            continue
        rates = [run.rows_per_second for run in by_name[name] if run.state == "ran"]
        spread = f" ({min(rates):,.0f}..{max(rates):,.0f})" if len(rates) > 1 else ""
        lines.append(
            (
                name,
                f"{result.rows:,}",
                str(result.batches),
                f"{result.rows_per_second:,.0f}{spread}",
                _ratio(result, middle.get(BASELINE), "{:.2f}"),
                _ratio(result, middle.get(LIMIT), "{:.0%}"),
                _gigabytes(result.peak_pss_bytes),
                _gigabytes(result.peak_rss_bytes),
                f"{result.batch_seconds:.3f}",
                f"{result.growth:.2f}",
                result.answer,
            )
        )
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _middle(runs: list[Result]) -> Result:
    ran = sorted((run for run in runs if run.state == "ran"), key=lambda run: run.rows_per_second)
    return ran[len(ran) // 2] if ran else runs[-1]


def _ratio(result: Result, base: Result | None, form: str) -> str:
    if base is None or base.state != "ran":
        return "-"
    return form.format(result.rows_per_second / base.rows_per_second)


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:.2f} GB" if size else "-"


def agreement(results: list[Result]) -> str:
    """Says whether contenders that joined the same rows delivered equally many."""
    joined = [result for result in results if result.state == "ran" and result.rows_expected is not None]
    wrong = sorted({result.contender for result in joined if result.rows_out != result.rows_expected})
    if wrong:
        return f"rows delivered differ from the join's: {', '.join(wrong)}"
    return f"all {len(joined)} runs that join delivered as many rows as the join has"


def main() -> int:
    parser = argparse.ArgumentParser(description="compare the throughput of stream joins")
    parser.add_argument("--rows", type=int, default=DataSet.rows, help="of each of the three streams")
    parser.add_argument("--batches", type=int, default=DataSet.files)
    names = ", ".join(contender.name for contender in CONTENDERS)
    parser.add_argument("--only", default="", help=f"names, separated by commas: {names}")
    parser.add_argument("--repeat", type=int, default=1, help="runs of every contender, in turns")
    parser.add_argument("--json", type=Path, help="also write all runs to this file")
    args = parser.parse_args()
    wanted = [name for name in args.only.split(",") if name]
    unknown = set(wanted) - {contender.name for contender in CONTENDERS}
    if unknown:
        parser.error(f"no contender {', '.join(sorted(unknown))}; there are {names}")
    chosen = [contender for contender in CONTENDERS if not wanted or contender.name in wanted]
    results: list[Result] = []
    for _ in range(args.repeat):
        for contender in chosen:
            print(f"{contender.name}: {contender.what} ...", end=" ", flush=True)
            result = run(contender, args.rows, args.batches)
            said = (
                f"{result.rows_per_second:,.0f} rows/s (load before: {result.load_before:.1f})"
                if result.state == "ran"
                else result.state
            )
            print(said, result.log, sep="\n" if result.log else "", flush=True)
            results.append(result)
    print()
    print(table(results))
    print(agreement(results))
    if args.json:
        args.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    wrong = any(run.rows_expected is not None and run.rows_out != run.rows_expected for run in results)
    return 1 if wrong or any(run.state == "failed" for run in results) else 0


if __name__ == "__main__":
    sys.exit(main())
