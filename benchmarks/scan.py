"""Which way of finding pairs pays: sorted order against comparing all, and how many pairs are best looked at in a pass.

A block of rows meets visiting rows with a band predicate, `ABS(A.x - B.x) < c`, alone (cheap) or beside a Python
predicate over 32 numbers (dear), on one thread, in turns. Four tables:

- `order`: for so many visiting rows and such a share of pairs within the band, how long comparing all takes, and how
  long with sorted order, as a ratio: above 1, sorted order is faster. `SORT_CANDIDATES` in `kernel/orders.py` is where
  it becomes so: visiting rows times the share that is spared.
- `pass`: nanoseconds a pair by the number of pairs in a pass (`CHUNK_PAIRS`, `CHUNK_BYTES` in `kernel/scan.py`).
- `bare`: rows with vectors of 32 numbers meet 500 others, and are put to the cosine of `benchmarks.similarity`; the
  same pairs in a loop of numpy, as many in a pass. How fast the scan is against that, and against the predicate alone.
- `time`: what it takes to sort a block by time, whose rows lie in slices, against the rest of a small batch's visit.

All are CPU seconds, the least of the turns, since the machine may have other work.

    python -m benchmarks.scan [--rows 50000] [--turns 5] [order] [pass] [bare] [time]
"""

import argparse
import sys
import time
from collections.abc import Callable
from unittest import mock

import numpy as np
import pyarrow as pa

from benchmarks.harness import align
from benchmarks.similarity.bare import Loop, Rows
from benchmarks.similarity.data import alike_arrow
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.prepare import prepare, split_late
from watersmeet.kernel.scan import scan_pieces
from watersmeet.kernel.tally import Tally
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.model.time_units import TimeColumn
from watersmeet.plan.hop import HopStage
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import Node, PhysicalPlan
from watersmeet.plan.tree import choose_tree

DIMENSIONS = 32
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("v", pa.binary()), ("ts", pa.int64())])
STREAMS = {name: Stream(name, SCHEMA, "ts") for name in "AB"}
SECOND = 1_000_000
CHEAP, DEAR = "ABS(A.x - B.x) < {}", "ABS(A.x - B.x) < {} AND near(A.v, B.v)"
SHARES = (0.9, 0.5, 0.1, 0.01)
VISITING = (1, 4, 8, 16, 32, 64, 256)
PAIRS = tuple(1 << power for power in range(11, 19))


def near(left: pa.Array, right: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether vectors are less than 5 apart, as the sum of the differences of their numbers."""
    apart = vectors(left) - vectors(right)
    np.abs(apart, out=apart)
    return np.asarray(apart.sum(axis=1) < 5)


def vectors(column: pa.Array) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """A binary column, all of whose values are as long, as rows of numbers."""
    _, offsets, data = column.buffers()
    start = int(np.frombuffer(offsets, np.int32)[column.offset])
    count = len(column) * DIMENSIONS
    return np.frombuffer(data, np.float64, count, start).reshape(-1, DIMENSIONS)


def plan_of(conditions: str, window: str = "") -> PhysicalPlan:
    text = f"SELECT A.id AS a, B.id AS b FROM A {window}, B {window} WHERE {conditions}"
    query = bind(text, STREAMS, {"near": near})
    return lay_out(query, choose_tree(query, "mjoin"))


def node_of(plan: PhysicalPlan) -> Node:
    """The join of rows of A with kept rows of B."""
    stage = plan.stages[0]
    assert isinstance(stage, HopStage)
    return next(probe.node for probe in stage.probes if probe.state.aliases == ("B",))


def draw(plan: PhysicalPlan, alias: str, rows: int, seconds: float, seed: int) -> Indexed:
    """Rows as a state or a port has them, x between 0 and 1."""
    rng = np.random.default_rng(seed)
    found = rng.random((rows, DIMENSIONS))
    columns = [
        pa.array(np.arange(rows)),
        pa.array(rng.random(rows)),
        pa.array([each.tobytes() for each in found], pa.binary()),
        pa.array(np.sort(rng.integers(0, int(seconds * SECOND), rows))),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    leaf = next(leaf for leaf in plan.leaves if leaf.alias == alias)
    return Indexed.of(prepare(split_late(batch, TimeColumn("ts"), None), leaf))


def cpu_seconds(work: Callable[[], int], turns: int) -> float:
    found = []
    for _ in range(turns):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def visit(node: Node, visiting: Indexed, met: Indexed) -> int:
    return sum(piece.num_rows for piece in scan_pieces(node, [visiting], [met], Tally()))


def compare_orders(rows: int, turns: int) -> None:
    print(f"order: {rows:,} rows met; comparing all takes so many times as long as sorted order")
    for name, conditions in (("cheap", CHEAP), ("dear", DEAR)):
        lines = [[name, *(f"{visiting}" for visiting in VISITING)]]
        for share in SHARES:
            # Of x and y between 0 and 1, so many are nearer than c: 2c - c * c.
            plan = plan_of(conditions.format(1 - np.sqrt(1 - share)))
            node, met = node_of(plan), draw(plan, "B", rows, 10, 1)
            ratios = []
            for count in VISITING:
                visiting = draw(plan, "A", count, 10, 2)
                spent = []
                for candidates in (1 << 40, -1):
                    with mock.patch("watersmeet.kernel.orders.SORT_CANDIDATES", candidates):
                        few = turns if count * rows < 5_000_000 else max(2, turns // 2)
                        spent.append(cpu_seconds(lambda n=node, v=visiting, m=met: visit(n, v, m), few))
                ratios.append(f"{spent[0] / spent[1]:.2f}")
            lines.append([f"{share:.0%}", *ratios])
        print(align(lines), end="\n\n", flush=True)


def compare_passes(rows: int, turns: int) -> None:
    print(f"pass: {rows:,} rows meet 64; CPU nanoseconds a pair by pairs in a pass")
    lines = [["", *(f"{pairs:,}" for pairs in PAIRS)]]
    for name, conditions in (("cheap", CHEAP), ("dear", DEAR)):
        plan = plan_of(conditions.format(1.5))  # all are within the band, and all are compared
        node, met, visiting = node_of(plan), draw(plan, "B", rows, 10, 1), draw(plan, "A", 64, 10, 2)
        cells = []
        for pairs in PAIRS:
            with (
                mock.patch("watersmeet.kernel.scan.CHUNK_PAIRS", pairs),
                mock.patch("watersmeet.kernel.scan.CHUNK_BYTES", 1 << 40),
            ):
                spent = cpu_seconds(lambda n=node, v=visiting, m=met: visit(n, v, m), turns)
            cells.append(f"{spent / (64 * rows) * 1e9:.1f}")
        lines.append([name, *cells])
    print(align(lines), end="\n\n", flush=True)


def compare_bare(rows: int, turns: int) -> None:
    print(f"bare: {rows:,} rows meet 500; CPU nanoseconds a pair by pairs in a pass, and the speed of the scan")
    rng = np.random.default_rng(3)
    near_ones, far_ones = rng.standard_normal((500, DIMENSIONS)), rng.standard_normal((rows, DIMENSIONS))
    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float64(), DIMENSIONS)), ("ts", pa.int64())])
    streams = {name: Stream(name, schema, "ts") for name in "AB"}
    query = bind("SELECT A.id AS a, B.id AS b FROM A, B WHERE alike(A.v, B.v)", streams, {"alike": alike_arrow})
    plan = lay_out(query, choose_tree(query, "mjoin"))
    node, sides = node_of(plan), []
    for alias, found in (("A", near_ones), ("B", far_ones)):
        lists = pa.FixedSizeListArray.from_arrays(pa.array(found.ravel()), DIMENSIONS)
        numbers = pa.array(np.arange(len(found)))
        batch = pa.RecordBatch.from_arrays([numbers, lists, numbers], schema=schema)
        leaf = next(leaf for leaf in plan.leaves if leaf.alias == alias)
        sides.append(Indexed.of(prepare(split_late(batch, TimeColumn("ts"), None), leaf)))
    kept, zeros = Rows(np.arange(rows), far_ones, np.arange(rows)), np.zeros(500, np.int64)
    lines = [["pairs", "scan", "loop", "predicate", "scan/loop", "scan/predicate"]]
    for pairs in PAIRS[1:7]:
        spent: dict[str, list[float]] = {"scan": [], "loop": [], "predicate": []}
        for _ in range(turns):
            loop = Loop(pairs, 1 << 60, clock=time.process_time)
            spent["loop"].append(cpu_seconds(lambda o=loop: len(o.matches(near_ones, zeros, zeros, kept)[0]), 1))
            spent["predicate"].append(loop.predicate_seconds)
            with (
                mock.patch("watersmeet.kernel.scan.CHUNK_PAIRS", pairs),
                mock.patch("watersmeet.kernel.scan.CHUNK_BYTES", 1 << 40),
            ):
                spent["scan"].append(cpu_seconds(lambda: visit(node, *sides), 1))
        scan, loop_took, predicate = (min(each) / (500 * rows) * 1e9 for each in spent.values())
        cells = [f"{each:.1f}" for each in (scan, loop_took, predicate)]
        lines.append([f"{pairs:,}", *cells, f"{loop_took / scan:.2f}", f"{predicate / scan:.2f}"])
    print(align(lines), end="\n\n", flush=True)


def compare_times(rows: int, turns: int) -> None:
    print(f"time: {rows:,} rows of a window in 256 slices; CPU milliseconds of a visit, and to sort alone")
    plan = plan_of(DEAR.format(0.001), "[RANGE 10 SECONDS]")
    node, met = node_of(plan), draw(plan, "B", rows, 10, 1)
    times = met.rows.column("@B").to_numpy()
    sort = cpu_seconds(lambda: len(np.argsort(times, kind="stable")), turns)
    unsorted = cpu_seconds(lambda: len(np.argsort(times)), turns)
    lines = [["visiting", "visit", "sort by runs", "sort"]]
    for count in VISITING:
        visiting = draw(plan, "A", count, 10, 2)
        spent = cpu_seconds(lambda v=visiting: visit(node, v, met), turns)
        lines.append([f"{count}", *(f"{seconds * 1e3:.2f}" for seconds in (spent, sort, unsorted))])
    print(align(lines), flush=True)


TABLES = {"order": compare_orders, "pass": compare_passes, "bare": compare_bare, "time": compare_times}


def main() -> int:
    parser = argparse.ArgumentParser(description="sorted order against comparing all")
    parser.add_argument("tables", nargs="*", default=list(TABLES), help=f"of {', '.join(TABLES)}")
    parser.add_argument("--rows", type=int, default=50_000, help="that are met")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    for name in args.tables:
        TABLES[name](args.rows, args.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
