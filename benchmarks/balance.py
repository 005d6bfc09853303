"""What it gains to move groups between slots where keys are uneven, and what the loop costs where they are not.

A join of two streams on Spark, two slots on two cores, over the same number of rows and about as many results:

- `uniform`: every key has as many rows as every other;
- `uneven`: one key in five has 80 % of the rows;
- `zipf`: keys by a Zipf distribution with exponent 1.2;
- `wandering`: as `uneven`, and the keys that are hot change every ten batches.

Each runs with `balance = "off"` and with `"time"`, in turns, in one session. It prints rows a second after the first
batches, the share of the time of a batch that the slowest slot takes, groups that were moved, and whether the results
are as many as DuckDB has.

    python -m benchmarks.balance [--rows 40000] [--batches 40] [--keys 60] [--turns 2] [uniform|uneven|zipf|wandering]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm

SECOND = 1_000_000
WARM_UP = 8  # batches
SHAPES = ("uniform", "uneven", "zipf", "wandering")
POLICIES = ("off", "time")
PARTNERS = 10  # that a row has in the other stream's window, if all keys are alike


@dataclass(frozen=True)
class Outcome:
    rows_a_second: float
    slowest: float  # share of the time of all slots
    moved: int
    results: int


def draw_keys(shape: str, batch: int, rows: int, keys: int, random: np.random.Generator) -> np.ndarray[Any, Any]:
    numbers = np.arange(keys)
    if shape == "uniform":
        weights = np.ones(keys)
    elif shape == "zipf":
        weights = 1.0 / (numbers + 1) ** 1.2
    else:
        first = batch // 10 if shape == "wandering" else 0
        weights = np.where((numbers + first) % 5 == 0, 0.8 / (keys // 5), 0.2 / (keys - keys // 5))
    return random.choice(numbers, rows, p=weights / weights.sum()) * 7919


def write(folder: Path, shape: str, rows: int, batches: int, keys: int) -> None:
    """Files of a second each, of both streams."""
    for place, name in enumerate("AB"):
        (folder / name).mkdir(parents=True)
        random = np.random.default_rng(place)
        for batch in range(batches):
            times = np.sort(random.integers(batch * SECOND, (batch + 1) * SECOND, rows))
            columns = {
                "k": pa.array(draw_keys(shape, batch, rows, keys, random)),
                "v": pa.array(np.arange(rows) + batch * rows),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
            pq.write_table(pa.table(columns), folder / name / f"{batch:05}.parquet")


def window_us(rows: int, keys: int) -> int:
    return max(1, PARTNERS * keys * SECOND // rows)


def run(session: Any, folder: Path, policy: str, rows: int, keys: int) -> Outcome:
    streams = {}
    for name in "AB":
        reader = session.readStream.schema("k BIGINT, v BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
        streams[name] = reader.parquet(str(folder / name))
    window = f"[RANGE {window_us(rows, keys)} MICROSECONDS]"
    text = f"SELECT A.v AS a, B.v AS b FROM A {window}, B {window} WHERE A.k = B.k"
    events: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        writer = wm.sql(text, streams=streams, time="ts", lateness="1 second").writeStream.format("noop")
        writer = writer.option("checkpointLocation", place).option("balance", policy).option("slots", 2)
        writer.report(events.append).trigger(availableNow=True).start().awaitTermination()
    batches = [event for event in events if event["event"] == "batch"]
    seconds = sum(event["seconds"] for event in batches[WARM_UP:])
    slots = [[slot["seconds"] for slot in event["slots"]] for event in batches[WARM_UP:]]
    moves = [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] == "MoveGroups"]
    return Outcome(
        sum(event["rows_in"] for event in batches[WARM_UP:]) / seconds,
        sum(map(max, slots)) / sum(map(sum, slots)),
        sum(len(entry["moves"]) for entry in moves),
        sum(event["rows_out"] for event in events if "rows_out" in event and event["event"] in ("batch", "merge")),
    )


def expected(folder: Path, rows: int, keys: int) -> int:
    files = {name: f"read_parquet('{folder / name}/*.parquet')" for name in "AB"}
    width = window_us(rows, keys)
    found = duckdb.sql(
        f"SELECT count(*) FROM {files['A']} a JOIN {files['B']} b ON a.k = b.k "
        f"AND abs(epoch_us(a.ts) - epoch_us(b.ts)) < {width}"
    ).fetchone()
    assert found is not None
    return int(found[0])


def main() -> int:
    parser = argparse.ArgumentParser(description="groups that move between slots, and groups that do not")
    parser.add_argument("shapes", nargs="*", default=[], help=f"of {', '.join(SHAPES)}; all by default")
    parser.add_argument("--rows", type=int, default=40_000, help="of a stream in a batch")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--turns", type=int, default=2)
    args = parser.parse_args()
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    ran: dict[tuple[str, str], list[Outcome]] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as home:
        shapes = args.shapes or list(SHAPES)
        for shape in shapes:
            write(Path(home) / shape, shape, args.rows, args.batches, args.keys)
        for turn in range(args.turns):
            for shape in shapes:
                for policy in POLICIES[:: 1 if turn % 2 else -1]:
                    print(f"turn {turn + 1}: {shape}, {policy}", file=sys.stderr)
                    outcome = run(session, Path(home) / shape, policy, args.rows, args.keys)
                    ran.setdefault((shape, policy), []).append(outcome)
        right = {shape: expected(Path(home) / shape, args.rows, args.keys) for shape in shapes}
    print(f"{'keys':<10} {'balance':<8} {'rows/s':>10} {'of uniform':>11} {'slowest slot':>13} {'moved':>6}  answer")
    base = median(o.rows_a_second for o in ran[shapes[0], "off"])
    for (shape, policy), outcomes in sorted(ran.items(), key=lambda entry: shapes.index(entry[0][0])):
        rate, slowest = median(o.rows_a_second for o in outcomes), median(o.slowest for o in outcomes)
        moved = max(outcome.moved for outcome in outcomes)
        good = all(outcome.results == right[shape] for outcome in outcomes)
        wrong += not good
        answer = f"right: {right[shape]:,}" if good else f"WRONG: {outcomes[-1].results:,} of {right[shape]:,}"
        print(f"{shape:<10} {policy:<8} {rate:>10,.0f} {rate / base:>10.0%} {slowest:>12.0%} {moved:>6}  {answer}")
    session.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
