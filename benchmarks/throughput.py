"""Rows a second of a three-way stream join: Watersmeet, Spark's own joins, and the limit with no join at all.

Runs the contenders one after another, each in a process of its own, on the same files (benchmarks.data), and prints
one table. A contender warms up first and then reports its batches (contenders/progress.py); what is timed runs from
its first read to its last delivery. The table holds, for each,

- rows/s over the whole measured run, its ratio to Spark's in-memory join and to the no-join limit;
- peak memory of the whole process tree (harness.py);
- seconds of the median batch; growth, the seconds of the last batch over those of the third;
- whether the rows delivered are as many as the join has (counted from the keys, without joining).

A contender whose module is not there is listed as missing; one that fails, as failed, with the end of its log.

    python -m benchmarks.throughput [--rows N] [--batches N] [--only NAME,NAME] [--repeat N] [--json FILE]
"""

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.data import DataSet, expected_rows, prepare
from benchmarks.harness import align, choose, gigabytes, is_present, run_contender


@dataclass(frozen=True)
class Contender:
    name: str
    module: str
    what: str
    joins: bool = True
    scale: float = 1.0  # of --rows and of the key domain: less than 1 for what is too slow at full size
    batches: int | None = None  # instead of --batches


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


def run(contender: Contender, rows: int, batches: int) -> Result:
    if not is_present(contender.module):
        return Result(contender.name, "missing")
    size = max(int(rows * contender.scale), 1)
    data = DataSet(rows=size, files=contender.batches or batches, keys=size)
    ran = run_contender(contender.name, contender.module, prepare(data))
    if not ran.complete:
        return Result(contender.name, "failed", log=ran.log)
    seconds = tuple(event["seconds"] for event in ran.batches)
    return Result(
        contender.name,
        "ran",
        rows=data.total_rows,
        batches=len(seconds),
        rows_per_second=data.total_rows / ran.end["seconds"],
        batch_seconds=statistics.median(seconds),
        growth=seconds[-1] / seconds[2] if len(seconds) > 3 else float("nan"),
        peak_rss_bytes=ran.peak_rss_bytes,
        peak_pss_bytes=ran.peak_pss_bytes,
        rows_out=ran.end["rows_out"],
        rows_expected=expected_rows(data) if contender.joins else None,
        seconds_by_batch=seconds,
        load_before=ran.load_before,
    )


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
                gigabytes(result.peak_pss_bytes),
                gigabytes(result.peak_rss_bytes),
                f"{result.batch_seconds:.3f}",
                f"{result.growth:.2f}",
                result.answer,
            )
        )
    return align(lines)


def _middle(runs: list[Result]) -> Result:
    ran = sorted((run for run in runs if run.state == "ran"), key=lambda run: run.rows_per_second)
    return ran[len(ran) // 2] if ran else runs[-1]


def _ratio(result: Result, base: Result | None, form: str) -> str:
    if base is None or base.state != "ran":
        return "-"
    return form.format(result.rows_per_second / base.rows_per_second)


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
    try:
        wanted = choose([contender.name for contender in CONTENDERS], args.only)
    except ValueError as error:
        parser.error(str(error))
    chosen = [contender for contender in CONTENDERS if contender.name in wanted]
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
