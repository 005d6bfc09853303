"""What it gains to have an expensive filter above a selective join, and what it loses to have a cheap one there.

Orders meet the few accounts that are watched: one order in `--one-in` has its account among them. A Python predicate
looks at the text of each order, and takes some microseconds for it; beside it, a comparison of two numbers. Each plan
runs in turns, in one process, the order changing from turn to turn, over the same batches in memory:

- `at input`: the filter looks at every order, before the join;
- `above`: it looks at the orders that have met a watched account;
- `replan`: begins as `at input`, and is left to itself (`[adapt] replan`).

It prints rows a second and CPU seconds of each (medians of the turns), how often the filter was asked, and whether all
gave the same results.

    python -m benchmarks.filter_placement [--rows 400000] [--batches 20] [--one-in 50] [--turns 3]
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.replan import ReplanSettings

SECOND = 1_000_000
ORDERS = pa.schema([("id", pa.int64()), ("account", pa.int64()), ("text", pa.string()), ("ts", pa.int64())])
WATCHED = pa.schema([("account", pa.int64()), ("reason", pa.int64()), ("ts", pa.int64())])
STREAMS = {"orders": Stream("orders", ORDERS, "ts"), "watched": Stream("watched", WATCHED, "ts")}
FROM = "FROM orders o [RANGE 10 SECONDS], watched w [RANGE 10 SECONDS] WHERE o.account = w.account"
QUERIES = {
    "expensive": f"SELECT o.id, w.reason {FROM} AND suspicious(o.text)",
    "cheap": f"SELECT o.id, w.reason {FROM} AND o.id % 10 < 2",
}
AT_INPUT, ABOVE = "(o w)", "(o w)[o]"
WORDS = np.array(["buy", "sell", "nine", "hundred", "shares", "of", "the", "usual", "at", "market", "today", "please"])

Batch = dict[str, pa.RecordBatch]


class Suspicious:
    """A predicate as a user would write it: a few steps of Python for each text."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, texts: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
        self.asked += len(texts)
        return np.array([_score(text) % 5 == 0 for text in texts.to_pylist()], dtype=bool)


def _score(text: str) -> int:
    return sum(len(word) * place for place, word in enumerate(text.lower().split(" ")))


@dataclass(frozen=True)
class Result:
    seconds: float
    cpu: float
    asked: int
    rows: Counter[tuple[int, int]]
    plan: str


def draw(rows: int, batches: int, one_in: int) -> list[Batch]:
    """Batches of a second each. An account is watched once in a window, if it is."""
    random = np.random.default_rng(7)
    accounts = 20_000
    size, result = rows // batches, list[Batch]()
    for second in range(batches):
        times = np.sort(random.integers(second * SECOND, (second + 1) * SECOND, size))
        chosen = random.integers(0, len(WORDS), (size, 40))
        texts = [" ".join(line) for line in WORDS[chosen].tolist()]
        orders = [np.arange(size) + second * size, random.integers(0, accounts, size), texts, times]
        watched = np.arange(second % 10 * one_in, accounts, 10 * one_in)
        reasons = [watched, watched % 7, np.full(len(watched), second * SECOND)]
        result.append(
            {
                "orders": pa.RecordBatch.from_arrays([pa.array(column) for column in orders], schema=ORDERS),
                "watched": pa.RecordBatch.from_arrays([pa.array(column) for column in reasons], schema=WATCHED),
            }
        )
    return result


def run(text: str, plan: str, batches: list[Batch], replan: ReplanSettings | None = None) -> Result:
    predicate = Suspicious()
    query = bind(text, STREAMS, {"suspicious": predicate})
    physical = lay_out(query, choose_tree(query, plan))
    results = MemoryResults()
    memory = AdaptSettings(replan=replan) if replan else AdaptSettings()
    checkpoint = in_memory(query, physical.spec, Placement(2, 64))
    session = LocalRun(physical, checkpoint, results, memory)
    sources = {name: RowsSource(STREAMS[name], [batch[name] for batch in batches]) for name in STREAMS}
    started, cpu = time.perf_counter(), time.process_time()
    found: Counter[tuple[int, int]] = Counter()
    for _ in session.batches(sources):
        for piece in results.pop():
            found.update(zip(*(column.to_pylist() for column in piece.columns), strict=True))
    seconds, used = time.perf_counter() - started, time.process_time() - cpu
    ended = session.plan.tree
    session.close()
    return Result(seconds, used, predicate.asked, found, ended)


def main() -> int:
    parser = argparse.ArgumentParser(description="an expensive filter at its input and above a selective join")
    parser.add_argument("--rows", type=int, default=400_000, help="orders in all")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--one-in", type=int, default=50, help="accounts for one that is watched")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    batches = draw(args.rows, args.batches, args.one_in)
    replan = ReplanSettings("data-driven", every=3)
    contenders: list[tuple[str, str, str, ReplanSettings | None]] = [
        ("expensive", "at input", AT_INPUT, None),
        ("expensive", "above", ABOVE, None),
        ("expensive", "replan", AT_INPUT, replan),
        ("cheap", "at input", AT_INPUT, None),
        ("cheap", "above", ABOVE, None),
        ("cheap", "replan", AT_INPUT, replan),
    ]
    ran: dict[tuple[str, str], list[Result]] = {}
    run(QUERIES["expensive"], AT_INPUT, batches[:5])  # to warm up
    for turn in range(args.turns):
        for query, name, plan, settings in contenders[:: 1 if turn % 2 else -1]:
            ran.setdefault((query, name), []).append(run(QUERIES[query], plan, batches, settings))
    print(f"{args.rows:,} orders in {args.batches} batches, one in {args.one_in} watched, {args.turns} turns")
    print(f"{'filter':<10} {'stands':<9} {'rows/s':>10} {'CPU s':>7} {'asked':>9} {'rows out':>9}  plan at the end")
    for query, name, _, _ in contenders:
        each = ran[query, name]
        speed = args.rows / median(result.seconds for result in each)
        used, last = median(result.cpu for result in each), each[-1]
        asked = f"{last.asked:,}" if query == "expensive" else ""
        print(f"{query:<10} {name:<9} {speed:>10,.0f} {used:>7.2f} {asked:>9} {last.rows.total():>9,}  {last.plan}")
    right = all(len({frozenset(r.rows.items()) for n, _ in ran if n == q for r in ran[n, _]}) == 1 for q in QUERIES)
    print("all plans of a query gave the same results" if right else "RESULTS DIFFER")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
