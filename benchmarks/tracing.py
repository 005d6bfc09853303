"""What it costs to know which groups earn: the same run with and without the figures that spilling goes by.

Three streams in the local runtime, state in memory: one join over a common key, and a tree of two joins over different
keys, whose results carry a trace of the group below that made them. Each runs without a budget, and with one so large
that nothing is ever spilled: the second keeps figures of all groups and traces results, and does nothing else more.
(`run(memory=..)` also keeps its state in files, which has a price of its own.)
Runs take turns in one process; a ratio is of the CPU seconds of two neighbours, and the median of all turns is shown
with the least and the greatest.

    python -m benchmarks.tracing [--rows N] [--batches N] [--turns N]
"""

import argparse
import gc
import statistics
import sys
import time

import numpy as np
import pyarrow as pa

from benchmarks.harness import align
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

QUERIES = {
    "one join": "SELECT A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.x = B.x AND B.x = C.x",
    "a tree of two": "SELECT A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.x = B.x AND B.y = C.y",
}
PLANS = {"one join": "mjoin", "a tree of two": "((A B) C)"}
WITHOUT, WITH = AdaptSettings(), AdaptSettings(budget_bytes=1 << 60)


def main() -> int:
    parser = argparse.ArgumentParser(description="what the figures of groups cost")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each of the three streams")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    streams = {name: make_rows(args.rows, seed) for seed, name in enumerate("ABC")}
    lines = [("query", "rows a batch", "CPU s without", "CPU s with", "ratio", "rows out")]
    for name in QUERIES:
        measure(name, streams, args.rows // args.batches, WITH)  # warms up
        pairs = []
        for _ in range(args.turns):
            without, rows = measure(name, streams, args.rows // args.batches, WITHOUT)
            traced, traced_rows = measure(name, streams, args.rows // args.batches, WITH)
            assert rows == traced_rows, f"{rows} rows without figures, {traced_rows} with"
            pairs.append((without, traced))
            print(".", end="", file=sys.stderr, flush=True)
        ratios = sorted(traced / without for without, traced in pairs)
        lines.append(
            (
                name,
                f"{args.rows // args.batches:,} x 3",
                f"{statistics.median(first for first, _ in pairs):.2f}",
                f"{statistics.median(second for _, second in pairs):.2f}",
                f"{statistics.median(ratios):.3f} ({ratios[0]:.3f}..{ratios[-1]:.3f})",
                f"{rows:,}",
            )
        )
    print(file=sys.stderr)
    print(align(lines))
    return 0


def make_rows(count: int, seed: int) -> pa.Table:
    """Keys of which each has a row or two in every stream."""
    source = np.random.default_rng(seed)
    keys = {name: source.integers(0, count, count) for name in "xy"}
    return pa.table({**keys, "v": np.arange(count), "ts": np.arange(count)})


def measure(name: str, streams: dict[str, pa.Table], batch_rows: int, settings: AdaptSettings) -> tuple[float, int]:
    """CPU seconds of a run, and how many rows came out."""
    declared = {stream: Stream(stream, table.schema, "ts") for stream, table in streams.items()}
    query = bind(QUERIES[name], declared)
    plan = lay_out(query, choose_tree(query, PLANS[name]), lineage=settings.watched)
    results = MemoryResults()
    run = LocalRun(plan, in_memory(query, plan.spec, Placement(2, 300)), results, memory=settings)
    sources = {
        stream: RowsSource(declared[stream], table.to_batches(max_chunksize=batch_rows))
        for stream, table in streams.items()
    }
    gc.collect()
    rows, begin = 0, time.process_time()
    for _ in run.batches(sources):
        rows += sum(batch.num_rows for batch in results.pop())
    seconds = time.process_time() - begin
    run.close()
    return seconds, rows


if __name__ == "__main__":
    sys.exit(main())
