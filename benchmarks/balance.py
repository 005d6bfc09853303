"""What it gains to move groups between slots where keys are uneven, and what the loop costs where they are not.

A join of two streams on Spark, two slots on two cores, over the same number of rows and about as many results:

- `uniform`: every key has as many rows as every other;
- `uneven`: one key in five has 80 % of the rows;
- `zipf`: keys by a Zipf distribution with exponent 1.2;
- `wandering`: as `uneven`, and the keys that are hot change every ten batches;
- `hot-key`: one key has half of the rows of both streams; windows are shorter, for as many results;
- `hot-in-one`: one key has half of the rows of the first stream, and no more than others of the second.

What a join does grows with the pairs of rows that have the same key, also where their times are apart. In a batch that
is longer than the windows a hot key has many more of these than results. So the last two are compared with `uniform`
where rows are few and have many partners, as in

    python -m benchmarks.balance --rows 2000 --partners 400 --keys 20 uniform hot-key hot-in-one

Each runs with `balance = "off"` and with `"time"`, in turns, in one session. It prints rows a second after the first
batches, the share of the time of a batch that the slowest slot takes, groups that were moved and spread, and whether
the results are as many as DuckDB has.

    python -m benchmarks.balance [--rows N] [--batches N] [--keys N] [--partners N] [--turns N] [uniform|uneven|..]
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
SHAPES = ("uniform", "uneven", "zipf", "wandering", "hot-key", "hot-in-one")
POLICIES = ("off", "time")


@dataclass(frozen=True)
class Data:
    """How much there is: rows of a stream in a batch, of how many batches, with how many keys.

    `partners` are those that a row has in the other stream's window, if all keys are alike.
    """

    rows: int
    batches: int
    keys: int
    partners: int


@dataclass(frozen=True)
class Outcome:
    rows_a_second: float
    slowest: float  # share of the time of all slots
    moved: int
    spread: int
    results: int


def weights_of(shape: str, stream: str, batch: int, keys: int) -> np.ndarray[Any, Any]:
    """The share of the rows of a stream that each key has."""
    numbers = np.arange(keys)
    if shape == "uniform" or (shape == "hot-in-one" and stream == "B"):
        weights = np.ones(keys)
    elif shape.startswith("hot"):
        weights = np.where(numbers == 0, keys - 1.0, 1.0)
    elif shape == "zipf":
        weights = 1.0 / (numbers + 1) ** 1.2
    else:
        first = batch // 10 if shape == "wandering" else 0
        weights = np.where((numbers + first) % 5 == 0, 0.8 / (keys // 5), 0.2 / (keys - keys // 5))
    return weights / weights.sum()


def write(folder: Path, shape: str, data: Data) -> None:
    """Files of a second each, of both streams."""
    rows = data.rows
    for place, name in enumerate("AB"):
        (folder / name).mkdir(parents=True)
        random = np.random.default_rng(place)
        for batch in range(data.batches):
            times = np.sort(random.integers(batch * SECOND, (batch + 1) * SECOND, rows))
            keys = random.choice(np.arange(data.keys), rows, p=weights_of(shape, name, batch, data.keys))
            columns = {
                "k": pa.array(keys * 7919),
                "v": pa.array(np.arange(rows) + batch * rows),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
            pq.write_table(pa.table(columns), folder / name / f"{batch:05}.parquet")


def window_us(shape: str, data: Data) -> int:
    """As if all keys were alike; for hot keys, with as many results as that would have."""
    meet = 1 / data.keys
    if shape.startswith("hot"):
        meet = float(weights_of(shape, "A", 0, data.keys) @ weights_of(shape, "B", 0, data.keys))
    return max(1, int(data.partners * SECOND / data.rows / meet))


def run(session: Any, folder: Path, policy: str, data: Data) -> Outcome:
    streams = {}
    for name in "AB":
        reader = session.readStream.schema("k BIGINT, v BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
        streams[name] = reader.parquet(str(folder / name))
    window = f"[RANGE {window_us(folder.name, data)} MICROSECONDS]"
    text = f"SELECT A.v AS a, B.v AS b FROM A {window}, B {window} WHERE A.k = B.k"
    events: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        writer = wm.sql(text, streams=streams, time="ts", lateness="1 second").writeStream.format("noop")
        writer = writer.option("checkpointLocation", place).option("balance", policy).option("slots", 2)
        writer.report(events.append).trigger(availableNow=True).start().awaitTermination()
    batches = [event for event in events if event["event"] == "batch"]
    seconds = sum(event["seconds"] for event in batches[WARM_UP:])
    slots = [[slot["seconds"] for slot in event["slots"]] for event in batches[WARM_UP:]]
    decisions = [entry for event in events for entry in event.get("decisions", ())]
    moves = [entry for entry in decisions if entry["decision"] == "MoveGroups"]
    return Outcome(
        sum(event["rows_in"] for event in batches[WARM_UP:]) / seconds,
        sum(map(max, slots)) / sum(map(sum, slots)),
        sum(len(entry["moves"]) for entry in moves),
        sum(entry["decision"] == "SpreadGroup" for entry in decisions),
        sum(event["rows_out"] for event in events if "rows_out" in event and event["event"] in ("batch", "merge")),
    )


def expected(folder: Path, data: Data) -> int:
    files = {name: f"read_parquet('{folder / name}/*.parquet')" for name in "AB"}
    width = window_us(folder.name, data)
    found = duckdb.sql(
        f"SELECT count(*) FROM {files['A']} a JOIN {files['B']} b ON a.k = b.k "
        f"AND abs(epoch_us(a.ts) - epoch_us(b.ts)) < {width}"
    ).fetchall()
    return int(found[0][0])


def main() -> int:
    parser = argparse.ArgumentParser(description="groups that move between slots, and groups that do not")
    parser.add_argument("shapes", nargs="*", default=[], help=f"of {', '.join(SHAPES)}; all by default")
    parser.add_argument("--rows", type=int, default=40_000, help="of a stream in a batch")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--partners", type=int, default=10, help="that a row has where all keys are alike")
    parser.add_argument("--turns", type=int, default=2)
    args = parser.parse_args()
    data = Data(args.rows, args.batches, args.keys, args.partners)
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    ran: dict[tuple[str, str], list[Outcome]] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as home:
        shapes = args.shapes or list(SHAPES)
        for shape in shapes:
            write(Path(home) / shape, shape, data)
        for turn in range(args.turns):
            for shape in shapes:
                for policy in POLICIES[:: 1 if turn % 2 else -1]:
                    print(f"turn {turn + 1}: {shape}, {policy}", file=sys.stderr)
                    outcome = run(session, Path(home) / shape, policy, data)
                    ran.setdefault((shape, policy), []).append(outcome)
        right = {shape: expected(Path(home) / shape, data) for shape in shapes}
    figures = f"{'rows/s':>10} {'of uniform':>11} {'slowest slot':>13} {'moved':>6} {'spread':>6}"
    print(f"{'keys':<10} {'balance':<8} {figures}  answer")
    base = median(o.rows_a_second for o in ran[shapes[0], "off"])
    for (shape, policy), outcomes in sorted(ran.items(), key=lambda entry: shapes.index(entry[0][0])):
        rate, slowest = median(o.rows_a_second for o in outcomes), median(o.slowest for o in outcomes)
        moved, spread = max(o.moved for o in outcomes), max(o.spread for o in outcomes)
        good = all(outcome.results == right[shape] for outcome in outcomes)
        wrong += not good
        answer = f"right: {right[shape]:,}" if good else f"WRONG: {outcomes[-1].results:,} of {right[shape]:,}"
        share = f"{rate / base:>10.0%} {slowest:>12.0%}"
        print(f"{shape:<10} {policy:<8} {rate:>10,.0f} {share} {moved:>6} {spread:>6}  {answer}")
    session.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
