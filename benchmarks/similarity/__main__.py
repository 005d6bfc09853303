"""A join of three streams by how alike their vectors are: Watersmeet's ring on Spark, and others that can do it.

Streams of vectors of 32 numbers; A and B are alike, and B and C, by the cosine between them, within windows of time. No
hash serves that: every pair within the windows is a candidate. In turns, each in a process of its own:

- `watersmeet 1`, `watersmeet 2`: on Spark, local[2], with one slot and two; the predicate is a Python function;
- `watersmeet 2 unit`: the same with vectors brought to length 1 once per row (`prepare`), so that a pair takes less;
- `bare 1`, `bare 2`: the same pairs through the same predicate in a numpy loop, in one process and two (`bare.py`);
- `duckdb`: batches of deltas in DuckDB, with its own function, on two threads;
- `cross join`: `foreachBatch` with cross joins on Spark, local[2], and the same predicate as an Arrow UDF.

It prints rows and candidates a second (medians of the turns), ratios (medians of the ratios within each turn), and
whether all answers are the same. Candidates are the pairs that `bare` looks at, the same for all. Targets: two slots
1.8 times one; one slot 90 % of `bare 1`, where batches are large enough to hide what a batch costs in itself. CPU
seconds are those of all processes, with what Spark compiles: of use where the machine has other work.

    python -m benchmarks.similarity [--rows 2000] [--files 8] [--window 4] [--turns 3] [--only NAMES] [--json FILE]
"""

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from benchmarks.data import ROOT
from benchmarks.harness import align, choose, run_contender
from benchmarks.similarity.data import DIMENSIONS, DataSet, prepare, read_answer
from watersmeet.kernel.scan import CHUNK_BYTES, CHUNK_PAIRS

PACKAGE = "benchmarks.similarity"
# The pairs that Watersmeet has in a pass.
AT_ONCE = min(CHUNK_PAIRS, CHUNK_BYTES // (2 * DIMENSIONS * 8))
MINUTES = 30


@dataclass(frozen=True)
class Contender:
    module: str
    arguments: tuple[str, ...] = ()


CONTENDERS = {
    "bare 1": Contender("bare", ("--slots", "1", "--at-once", str(AT_ONCE))),
    "watersmeet 1": Contender("watersmeet_spark", ("--slots", "1")),
    "bare 2": Contender("bare", ("--slots", "2", "--at-once", str(AT_ONCE))),
    "watersmeet 2": Contender("watersmeet_spark", ("--slots", "2")),
    "watersmeet 2 unit": Contender("watersmeet_spark", ("--slots", "2", "--prepare", "unit")),
    "duckdb": Contender("duckdb_deltas"),
    "cross join": Contender("spark_cross"),
}
RATIOS = (
    ("watersmeet 2", "watersmeet 1", 1.8),
    ("watersmeet 1", "bare 1", 0.9),
    ("watersmeet 2", "bare 2", 0.9),
    ("watersmeet 2", "duckdb", None),
    ("watersmeet 2", "cross join", None),
)


@dataclass(frozen=True)
class Result:
    seconds: float
    cpu_seconds: float
    pairs: int | None
    predicate_seconds: float | None
    answer: npt.NDArray[np.int64]


def measure(name: str, data: DataSet, folder: Path) -> Result | None:
    """A run of a contender; None if it failed."""
    contender = CONTENDERS[name]
    answers: list[npt.NDArray[np.int64]] = []
    ran = run_contender(
        f"similarity-{name.replace(' ', '-')}",
        f"{PACKAGE}.{contender.module}",
        folder,
        ["--window", str(data.window), "--warm-up", "2", *contender.arguments],
        MINUTES * 60,
        look=lambda out: answers.append(read_answer([p for p in sorted(out.rglob("*.parquet")) if _is_answer(p)])),
    )
    if not ran.complete:
        print(f"{name} {'did not end in time' if ran.stopped else 'failed'}\n{ran.log}", file=sys.stderr)
        return None
    print(f"{name}: {ran.end['seconds']:.2f} s, load before {ran.load_before:.1f}", file=sys.stderr, flush=True)
    cpu = next(event["cpu_seconds"] for event in ran.events if "cpu_seconds" in event)
    return Result(ran.end["seconds"], cpu, ran.end.get("pairs"), ran.end.get("predicate_seconds"), answers[0])


def _is_answer(path: Path) -> bool:
    return path.name == "answer.parquet" or (path.parent.name == "results" and path.name.startswith("part-"))


def main() -> int:
    parser = argparse.ArgumentParser(prog=PACKAGE, description="a join of three streams by how alike vectors are")
    parser.add_argument("--rows", type=int, default=DataSet.rows, help="of a stream, in a batch")
    parser.add_argument("--files", type=int, default=DataSet.files, help="batches")
    parser.add_argument("--window", type=int, default=DataSet.window, help="in batches")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="contenders by name, with commas between")
    parser.add_argument("--json", type=Path, help="a file for the seconds of all runs")
    args = parser.parse_args()
    names = choose(list(CONTENDERS), args.only)
    data = DataSet(rows=args.rows, files=args.files, window=args.window, objects=2 * args.rows)
    ROOT.mkdir(exist_ok=True)
    folder = prepare(data)
    turns: list[dict[str, Result]] = []
    for turn in range(args.turns):
        results = {name: measure(name, data, folder) for name in names[:: -1 if turn % 2 else 1]}
        turns.append({name: result for name, result in results.items() if result is not None})
    show(data, names, turns)
    if args.json:
        seconds = [{name: result.seconds for name, result in turn.items()} for turn in turns]
        args.json.write_text(json.dumps({"data": data.name, "window": data.window, "turns": seconds}))
    complete = all(name in turn for turn in turns for name in names)
    return 0 if complete and agree(turns) else 1


def show(data: DataSet, names: list[str], turns: list[dict[str, Result]]) -> None:
    pairs = next((r.pairs for turn in turns for r in turn.values() if r.pairs is not None), None)
    print(
        f"3 streams, {data.files} batches of {data.rows:,} rows each, window {data.window} batches, "
        f"{DIMENSIONS} numbers; {'-' if pairs is None else f'{pairs:,}'} candidates; {len(turns)} turns; "
        f"load {os.getloadavg()[0]:.1f}"
    )
    lines = [["", "seconds", "CPU s", "rows/s", "candidates/s", "rows out"]]
    for name in names:
        each = [turn[name] for turn in turns if name in turn]
        if each:
            seconds = median(result.seconds for result in each)
            speed = "-" if pairs is None else f"{pairs / seconds:,.0f}"
            cpu = median(result.cpu_seconds for result in each)
            figures = [f"{seconds:.2f}", f"{cpu:.2f}", f"{data.total_rows / seconds:,.0f}", speed]
            lines.append([name, *figures, f"{len(each[0].answer):,}"])
    print(align(lines))
    for first, second, target in RATIOS:
        ratios = [turn[second].seconds / turn[first].seconds for turn in turns if first in turn and second in turn]
        if ratios:
            aim = "" if target is None else f" (target {target})"
            print(f"{first} / {second}: {median(ratios):.2f}{aim}")
    shares = [r.predicate_seconds / r.seconds for turn in turns for r in turn.values() if r.predicate_seconds]
    if shares:
        print(f"of a bare loop, the predicate itself is {median(shares):.0%}")
    print("all answers are the same" if agree(turns) else "ANSWERS DIFFER")


def agree(turns: list[dict[str, Result]]) -> bool:
    answers = [result.answer for turn in turns for result in turn.values()]
    return all(np.array_equal(answers[0], each) for each in answers)


if __name__ == "__main__":
    sys.exit(main())
