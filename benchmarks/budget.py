"""A join whose state is many times its memory budget, on Spark: what the budget costs, and whether it is kept.

Three streams, one common key, as in benchmarks.throughput. First without a limit, which tells how large the state
gets; then with a budget of a tenth of that (`--times`), merging included. The table holds, for each run,

- rows/s: input rows over the time from the start of the query to the last result delivered, everything owed paid, and
  its ratio to the run without a limit;
- the largest active state after a batch against the budget;
- peak memory of all processes (driver, JVM and Python workers); the fixed overhead is what a run with a budget takes
  beyond the budget, printed below the table;
- how many results came before the clean-up, how often there were spills, and rounds of merges;
- whether as many rows came out as the join has.

    python -m benchmarks.budget [--rows N] [--batches N] [--times T] [--policy NAME] [--json FILE]
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.data import DataSet, expected_rows, prepare
from benchmarks.harness import Ran, align, gigabytes, run_contender

MODULE = "benchmarks.contenders.budgeted_spark"


def main() -> int:
    parser = argparse.ArgumentParser(description="what a memory budget costs")
    parser.add_argument("--rows", type=int, default=1_500_000, help="of each of the three streams")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--times", type=float, default=10.0, help="how many budgets the state is")
    parser.add_argument("--policy", default="global-output-penalty")
    parser.add_argument("--json", type=Path, help="also write both runs to this file")
    args = parser.parse_args()
    data = DataSet(rows=args.rows, files=args.batches, keys=args.rows)
    folder = prepare(data)
    expected = expected_rows(data)
    free = measure("no limit", folder, [])
    budget = int(free.end["state_bytes"] / args.times)
    limited = measure(f"a budget of {budget:,} bytes", folder, ["--memory", str(budget), "--policy", args.policy])
    runs = [("no limit", None, free), ("budget", budget, limited)]
    print()
    print(table(runs, data.total_rows, expected))
    ratio = free.end["seconds"] / limited.end["seconds"]
    overhead = limited.peak_pss_bytes - budget
    print(f"with a budget of 1/{args.times:g} of the state: {ratio:.0%} of the throughput without a limit")
    print(f"fixed overhead of all processes together: {gigabytes(overhead)} beyond the budget; ", end="")
    print(f"of the largest one, {gigabytes(limited.largest_pss_bytes - budget)}")
    if args.json:
        args.json.write_text(json.dumps({name: ran.events for name, _, ran in runs}, indent=1))
    return 0 if all(ran.end["rows_out"] == expected for _, _, ran in runs) else 1


def measure(what: str, folder: Path, options: list[str]) -> Ran:
    print(f"{what} ...", end=" ", flush=True)

    def notice(event: dict[str, Any]) -> None:
        if event["event"] == "batch":
            print(event["batch"], end=" ", flush=True)

    ran = run_contender("budget", MODULE, folder, options, seconds=900, notice=notice)
    if not ran.complete:
        raise SystemExit(f"failed: {ran.log}")
    print(f"{ran.end['seconds']:.1f} s (load before: {ran.load_before:.1f})", flush=True)
    return ran


def table(runs: list[tuple[str, int | None, Ran]], rows: int, expected: int) -> str:
    columns = ("run", "rows/s", "of no limit", "s", "merging s", "budget", "peak active", "state", "peak PSS", "early")
    lines = [(*columns, "spills", "rounds", "rows out")]
    base = runs[0][2].end["seconds"]
    for name, budget, ran in runs:
        end = ran.end
        right = "right" if end["rows_out"] == expected else f"WRONG: {expected:,}"
        lines.append(
            (
                name,
                f"{rows / end['seconds']:,.0f}",
                f"{base / end['seconds']:.0%}",
                f"{end['seconds']:.1f}",
                f"{end['merge_seconds']:.1f}",
                "-" if budget is None else megabytes(budget),
                megabytes(end["peak_active_bytes"]),
                megabytes(end["state_bytes"]),
                gigabytes(ran.peak_pss_bytes),
                f"{end['rows_out_before_clean_up'] / max(1, end['rows_out']):.0%}",
                str(end["spills"]),
                str(end["rounds"]),
                f"{end['rows_out']:,} {right}",
            )
        )
    return align(lines)


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


if __name__ == "__main__":
    sys.exit(main())
