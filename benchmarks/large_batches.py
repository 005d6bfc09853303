"""How much memory a large batch takes: everything there is at once, on both runtimes, with and without a budget.

Three streams of BIGINT columns with one common key, of `--megabytes` of Arrow memory together, are there before the run
starts: in one file for each stream, or in many. A third set has few keys, so that a join below another makes many times
the rows that it gets (`exploding`). Each run is a process of its own; the table holds, for each,

- the bytes of its input in Arrow memory, and how many batches they were read in;
- peak memory: PSS of all processes together, and of the largest one; both also in multiples of the input, less what the
  same run takes for next to no rows (`idle`);
- seconds, and whether as many rows came out as the join has.

    python -m benchmarks.large_batches [--megabytes 600] [--only local,spark] [--set KEY=VALUE ..] [--json FILE]

`--set` gives all runs a setting; `--source DIR` imports watersmeet from another checkout, to compare with.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.data import STREAMS, DataSet, expected_rows, prepare
from benchmarks.harness import Ran, align, run_contender

MODULE = "benchmarks.contenders.large_batch"
QUERY = "SELECT A.k, A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k"
# A and B meet on few keys, and few of what they make meet a row of C.
EXPLODING = "SELECT A.k, A.v AS a, B.v AS b, C.k AS c FROM A, B, C WHERE A.k = B.k AND B.v = C.k AND C.v < 100"
ROW_BYTES = 24
BUDGET_BYTES = 64 << 20
IDLE = DataSet(rows=1_000, files=1, keys=1_000)
MINUTES = 15


@dataclass(frozen=True)
class Case:
    """One run: what it reads, on which runtime, with which settings."""

    name: str
    data: DataSet
    runtime: str
    query: str = QUERY
    settings: tuple[str, ...] = ()

    @property
    def input_bytes(self) -> int:
        return self.data.total_rows * ROW_BYTES

    def expected(self) -> int:
        return expected_rows(self.data) if self.query is QUERY else expected_exploding(self.data)


def cases(megabytes: int) -> list[Case]:
    rows = megabytes * 1_000_000 // ROW_BYTES // len(STREAMS)
    one = DataSet(rows=rows, files=1, keys=rows)
    many = DataSet(rows=rows, files=200, keys=rows)
    exploding = DataSet(rows=300_000, files=1, keys=3_000)
    limited = (f"run.memory={BUDGET_BYTES}",)
    found = []
    for runtime in ("local", "spark"):
        found += [
            Case(f"{runtime}: idle", IDLE, runtime),
            Case(f"{runtime}: one file each", one, runtime),
            Case(f"{runtime}: one file each, budget", one, runtime, settings=limited),
            Case(f"{runtime}: 200 files each", many, runtime),
            Case(f"{runtime}: 200 files each, budget", many, runtime, settings=limited),
            Case(f"{runtime}: exploding", exploding, runtime, EXPLODING, ("adapt.plan=((A B) C)",)),
        ]
    return found


def expected_exploding(data: DataSet) -> int:
    """How many rows `EXPLODING` has, counted without joining."""
    columns = {stream: pq.read_table(prepare(data) / stream) for stream in STREAMS}
    in_a = np.bincount(columns["A"]["k"].to_numpy(), minlength=data.keys)
    c = columns["C"].filter(pq.filters_to_expression([("v", "<", 100)]))["k"].to_numpy()
    in_c = np.bincount(c, minlength=max(data.keys, 10_000))
    b = columns["B"]
    return int((in_a[b["k"].to_numpy()] * in_c[b["v"].to_numpy()]).sum())


def main() -> int:
    parser = argparse.ArgumentParser(description="how much memory a large batch takes")
    parser.add_argument("--megabytes", type=int, default=600, help="of all streams together, in Arrow memory")
    parser.add_argument("--only", default="", help="cases whose names begin so, by commas: local, spark: one, ..")
    parser.add_argument("--set", action="append", default=[], dest="settings", help="a setting for all runs")
    parser.add_argument("--source", type=Path, help="a folder to import watersmeet from")
    parser.add_argument("--json", type=Path, help="also write all events to this file")
    args = parser.parse_args()
    known = cases(args.megabytes)
    wanted = tuple(args.only.split(",")) if args.only else ("",)
    chosen = [case for case in known if case.name.startswith(wanted) or case.name.endswith(": idle")]
    chosen = [case for case in chosen if any(other.runtime == case.runtime for other in chosen if other.data != IDLE)]
    runs: list[tuple[Case, Ran]] = []
    for case in chosen:
        print(f"{case.name} ...", file=sys.stderr, flush=True)
        settings = [part for setting in (*case.settings, *args.settings) for part in ("--set", setting)]
        runs.append((case, run_contender(
            "large-batch", MODULE, prepare(case.data), ["--runtime", case.runtime, "--query", case.query, *settings],
            seconds=MINUTES * 60, source=args.source,
        )))  # fmt: skip
    print(table(runs))
    if args.json:
        args.json.write_text(json.dumps({case.name: ran.events for case, ran in runs}, indent=1))
    return 0 if all(ran.complete and ran.end["rows_out"] == case.expected() for case, ran in runs) else 1


def table(runs: list[tuple[Case, Ran]]) -> str:
    lines = [("run", "input", "batches", "peak PSS", "x input", "largest", "x input", "seconds", "rows out")]
    idle = {case.runtime: ran for case, ran in runs if case.data == IDLE}
    for case, ran in runs:
        base = idle[case.runtime]
        if not ran.complete:
            lines.append((case.name, megabytes(case.input_bytes), *[""] * 6, f"FAILED: {ran.log or 'out of time'}"))
            continue
        whole = ran.peak_pss_bytes - base.peak_pss_bytes
        largest = ran.largest_pss_bytes - base.largest_pss_bytes
        end = ran.end
        right = "right" if end["rows_out"] == case.expected() else f"WRONG: {case.expected():,}"
        lines.append(
            (
                case.name,
                megabytes(case.input_bytes),
                f"{len(ran.batches)}",
                megabytes(ran.peak_pss_bytes),
                f"{whole / case.input_bytes:.1f}" if case.data != IDLE else "-",
                megabytes(ran.largest_pss_bytes),
                f"{largest / case.input_bytes:.1f}" if case.data != IDLE else "-",
                f"{end['seconds']:.1f}",
                f"{end['rows_out']:,} {right}",
            )
        )
    return align(lines)


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
