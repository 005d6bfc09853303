"""Rows a second and state of a group-by over a three-way join: on top of the joins, below them, and Spark's own.

Runs the contenders one after another, each in a process of its own, on the same files, and prints one table: rows a
second over the whole run, the most that was kept after a batch, and the ratios of both to the group-by on top, and to
Spark where it ran. All must come to the same totals.

Spark's own joins are there for windows of one slide (`spark_alone.py`).

    python -m benchmarks.grouped [--spark] [--panes N] [--seconds N] [--results N] [--repeat N] [--json FILE]
"""

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.grouped.data import GroupedData, prepare
from benchmarks.harness import align, choose, gigabytes, run_contender

TREE, PUSHED = "((A B) C)", "((A{} B{}) C{})"
SPARK = "spark-memory"


@dataclass(frozen=True)
class Contender:
    name: str
    module: str
    arguments: tuple[str, ...] = ()
    base: str = ""  # what it is compared with
    asks: bool = True  # whether it is told the query


ON_SPARK = (
    Contender(SPARK, "benchmarks.grouped.spark_alone", ("--store", "memory"), asks=False),
    Contender("spark-rocksdb", "benchmarks.grouped.spark_alone", ("--store", "rocksdb"), asks=False),
    Contender("on-top-spark", "benchmarks.grouped.on_spark", ("--plan", TREE)),
    Contender("below-spark", "benchmarks.grouped.on_spark", ("--plan", PUSHED), "on-top-spark"),
)
LOCAL = (
    Contender("on-top", "benchmarks.grouped.local", ("--plan", TREE)),
    Contender("below", "benchmarks.grouped.local", ("--plan", PUSHED), "on-top"),
)


@dataclass(frozen=True)
class Result:
    contender: str
    state: str  # ran | failed
    rows_per_second: float = 0.0
    state_rows: int = 0
    state_bytes: int = 0
    peak_pss_bytes: int = 0
    totals: tuple[int, ...] = ()
    load_before: float = 0.0
    log: str = ""


def run(contender: Contender, data: GroupedData) -> Result:
    arguments = [*contender.arguments, *(["--query", data.query] if contender.asks else [])]
    ran = run_contender(contender.name, contender.module, prepare(data), arguments)
    if not ran.complete:
        return Result(contender.name, "failed", log=ran.log)
    end = ran.end
    return Result(
        contender.name,
        "ran",
        data.rows / end["seconds"],
        end["state_rows"],
        end["state_bytes"],
        ran.peak_pss_bytes,
        tuple(end["totals"]),
        ran.load_before,
    )


def table(results: list[Result], contenders: list[Contender]) -> str:
    """A line for each contender: of several runs the one with the median rate, and the spread."""
    found = {name: [r for r in results if r.contender == name and r.state == "ran"] for name in names(contenders)}
    middle = {name: sorted(runs, key=_rate)[len(runs) // 2] for name, runs in found.items() if runs}
    lines = [("contender", "rows/s", "x on top", "x spark", "state rows", "of on top", "state bytes", "peak PSS")]
    for contender in contenders:
        if contender.name not in middle:
            lines.append((contender.name, "failed", *[""] * 6))
            continue
        result, rates = middle[contender.name], [run.rows_per_second for run in found[contender.name]]
        base, spark = middle.get(contender.base), middle.get(SPARK)
        spread = f" ({min(rates):,.0f}..{max(rates):,.0f})" if len(rates) > 1 else ""
        lines.append(
            (
                contender.name,
                f"{result.rows_per_second:,.0f}{spread}",
                "" if base is None else f"{result.rows_per_second / base.rows_per_second:.2f}",
                "" if spark is None else f"{result.rows_per_second / spark.rows_per_second:.2f}",
                f"{result.state_rows:,}",
                "" if base is None or not base.state_rows else f"{result.state_rows / base.state_rows:.3f}",
                f"{result.state_bytes:,}",
                gigabytes(result.peak_pss_bytes),
            )
        )
    return align(lines)


def names(contenders: list[Contender]) -> list[str]:
    return [contender.name for contender in contenders]


def _rate(result: Result) -> float:
    return result.rows_per_second


def main() -> int:
    parser = argparse.ArgumentParser(description="groups over a three-way join, on top and below")
    parser.add_argument("--spark", action="store_true", help="also on Spark, and against its own joins")
    parser.add_argument("--panes", type=int, default=GroupedData.panes, help="slides in a window")
    parser.add_argument("--seconds", type=int, default=GroupedData.seconds, help="of event time")
    parser.add_argument("--per-second", type=int, default=GroupedData.per_second, help="rows of each stream")
    parser.add_argument("--results", type=float, default=GroupedData.results, help="joined rows for each row")
    parser.add_argument("--files", type=int, default=GroupedData.files, help="of each stream: a batch is one")
    parser.add_argument("--only", default="", help="names of contenders, separated by commas")
    parser.add_argument("--repeat", type=int, default=1, help="runs of every contender, in turns")
    parser.add_argument("--json", type=Path, help="also write all runs to this file")
    args = parser.parse_args()
    data = GroupedData(args.seconds, args.per_second, args.results, args.panes, args.files)
    there = [*LOCAL, *(each for each in (ON_SPARK if args.spark else ()) if each.asks or args.panes == 1)]
    try:
        wanted = choose(names(there), args.only)
    except ValueError as error:
        parser.error(str(error))
    chosen = [contender for contender in there if contender.name in wanted]
    print(f"{data.rows:,} rows, {data.keys:,} keys, {data.groups} groups, windows of {data.panes} s, slides of 1 s")
    results: list[Result] = []
    for contender in (each for _ in range(args.repeat) for each in chosen):
        result = run(contender, data)
        said = f"{result.rows_per_second:,.0f} rows/s (load before: {result.load_before:.1f})"
        print(f"{contender.name}: {said if result.state == 'ran' else result.log}", flush=True)
        results.append(result)
    print()
    print(table(results, chosen))
    answers = {result.totals for result in results if result.state == "ran"}
    agree = len(answers) == 1
    print(f"all came to {list(*answers)}" if agree else f"WRONG: totals differ: {sorted(answers)}")
    if statistics.fmean([result.load_before for result in results]) > 1.0:
        print("others were using the machine")
    if args.json:
        args.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    return 0 if agree and all(result.state == "ran" for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
