"""Times the real kernel, for the cost constants of this machine; `runtime/machine_costs.py` keeps them.

Small joins that do mostly one thing are run: rows that find no partner (insert, probe), pairs with the same key that
fail a predicate of one step or of three (compare, operation), pairs that become results (join), rows that expire
(delete), rows that go on to another slot (send), batches of hardly any rows (batch), and many rows of a state that meet
few (gather). With these constants and rates per second, an estimated CPU cost is a number of cores.

Limits: the constants are those of narrow rows (three columns of 8 bytes) in batches of some 10,000 rows. Wider rows,
text and very small batches cost more. What Spark adds around the kernel (reading, shuffles, starting tasks) is not in
them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

import numpy as np
import pyarrow as pa

from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.prepare import keyed, prepare, split_late
from watersmeet.kernel.rows import Int64Array, concat, merge_sorted, take
from watersmeet.kernel.step import join_step
from watersmeet.kernel.to_slots import cut
from watersmeet.lang.binder import bind
from watersmeet.model.bounds import Bounds
from watersmeet.model.placement import Placement
from watersmeet.model.quantities import microseconds
from watersmeet.model.routing import Routing
from watersmeet.model.streams import Stream
from watersmeet.model.time_units import TimeColumn
from watersmeet.optimize.estimates import CostConstants
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import Node, PhysicalPlan
from watersmeet.plan.tree import mjoin
from watersmeet.runtime.allocator import keep_freed_memory
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource

BATCH_ROWS = 20_000
BATCHES = 8
SEGMENTS = 10  # that the rows of a state lie in
FEW_SEGMENTS = 4  # after `BATCHES` batches
REPEAT = 3  # the median counts: runs will have the same machine, with what else it does

_SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
_LONG = timedelta(hours=1)
_PLAIN = "SELECT A.v, B.v AS w FROM A [RANGE 1 HOUR], B [RANGE 1 HOUR] WHERE A.k = B.k"
_PICKY = f"{_PLAIN} AND A.v < B.v"
_DEARER = f"{_PLAIN} AND abs(A.v - B.v) < 3"  # two more steps, for as many pairs
_SHORT = _PLAIN.replace("1 HOUR", "2 SECONDS")


def measure_costs() -> CostConstants:
    """Time the kernel. Takes a second or two."""
    keep_freed_memory()
    plain, picky = _plan_of(_PLAIN), _plan_of(_PICKY)
    rows = BATCH_ROWS * BATCHES * 2
    enter = _typical(lambda: _run(plain)) / rows
    probe = _step_seconds(plain, BATCH_ROWS, 1, apart=True, segments=FEW_SEGMENTS) / BATCH_ROWS
    per_key = 100  # rows of each key on each side
    pairs = BATCH_ROWS * per_key
    keys = BATCH_ROWS // per_key
    join = _step_seconds(plain, keys, per_key) / pairs
    compare = _step_seconds(picky, keys, per_key) / pairs
    dearer = _step_seconds(_plan_of(_DEARER), keys, per_key) / pairs
    gather = _step_seconds(plain, keys, 1) / BATCH_ROWS - join
    delete = _typical(lambda: _run(_plan_of(_SHORT))) / rows - enter
    return CostConstants(
        insert=max(enter - probe, enter / 10),
        delete=max(delete, 0.0),
        join=join,
        probe=probe,
        compare=compare,
        operation=max(0.0, (dearer - compare) / 2),
        send=_send_seconds(plain) / BATCH_ROWS,
        gather=max(0.0, gather),
        batch=_typical(lambda: _run(plain, batches=30, rows=10)) / 30,
    )


def _plan_of(text: str) -> PhysicalPlan:
    streams = {name: Stream(name, _SCHEMA, "ts", timedelta(0), time_unit="us") for name in "AB"}
    query = bind(text, streams, {})
    return lay_out(query, mjoin(query))


def _node(plan: PhysicalPlan) -> Node:
    return next(iter(plan.operators.values()))


def _rows(number: int, parity: int, rows: int) -> pa.RecordBatch:
    """A batch of one second's rows; those of different parity have no key in common."""
    source = np.random.default_rng([number, parity])
    keys = source.integers(0, 10 * rows, rows) * 2 + parity
    times = number * 1_000_000 + np.sort(source.integers(0, 1_000_000, rows))
    return pa.RecordBatch.from_arrays(list(map(pa.array, (keys, keys, times))), schema=_SCHEMA)


def _run(plan: PhysicalPlan, batches: int = BATCHES, rows: int = BATCH_ROWS) -> float:
    """Seconds of CPU to take in batches of rows that find no partner."""
    sources = {
        name: RowsSource(plan.query.input(name).stream, [_rows(number, parity, rows) for number in range(batches)])
        for parity, name in enumerate("AB")
    }
    run = LocalRun(plan, in_memory(plan.query, plan.spec, Placement(1, 30)), MemoryResults())
    try:
        return _seconds(lambda: run.batches(sources))
    finally:
        run.close()


def _step_seconds(plan: PhysicalPlan, keys: int, each: int, apart: bool = False, segments: int = SEGMENTS) -> float:
    """Seconds of CPU of one step in which new rows of A, `each` of every key, probe `BATCH_ROWS` rows of B.

    As in a query that has run for a while, the rows of B come from several segments, one in twenty expires in the midst
    of the new ones, and a predicate, if there is one, is satisfied by one pair in twenty.
    """
    node = _node(plan)
    source = np.random.default_rng(0)
    probing = np.repeat(np.arange(keys), each) * 2
    new = _arrived(plan, "A", probing, source.integers(0, 100, keys * each), source.integers(0, 1000, keys * each))
    base = np.repeat(np.arange(keys), BATCH_ROWS // keys) * 2
    times = np.where(source.random(BATCH_ROWS) < 0.05, 500 - microseconds(_LONG), 0)
    values = np.full(BATCH_ROWS, 5)
    pieces = [
        Indexed.of(_arrived(plan, "B", base[rows] + (1 if apart else 0), values[rows], times[rows]))
        for rows in np.split(source.permutation(BATCH_ROWS), segments)
    ]
    nothing = concat([], node.inputs[1].state.schema)
    return _typical(lambda: _seconds(lambda: join_step(node, [new, nothing], [[], pieces])))


def _arrived(plan: PhysicalPlan, alias: str, keys: Int64Array, values: Int64Array, times: Int64Array) -> pa.RecordBatch:
    """Rows as they arrive at the port of an input, hashed and sorted."""
    batch = pa.RecordBatch.from_arrays(list(map(pa.array, (keys, values, times))), schema=_SCHEMA)
    leaf = next(leaf for leaf in plan.leaves if leaf.alias == alias)
    return prepare(split_late(batch, TimeColumn("ts"), None), leaf)


def _send_seconds(plan: PhysicalPlan) -> float:
    state = _node(plan).inputs[0].state
    source = np.random.default_rng(0)
    nothing = np.zeros(BATCH_ROWS, dtype=np.int64)
    rows = _arrived(plan, "A", source.integers(0, 1 << 40, BATCH_ROWS), nothing, nothing)
    rows = take(rows, source.permutation(BATCH_ROWS))  # what a join puts out is not in the order of the next key
    routing = Routing.even(Bounds(30), 2)

    def work() -> Iterable[pa.RecordBatch]:
        pieces: Mapping[int, pa.RecordBatch] = dict(cut(keyed(rows, state.key, state.fields), routing))
        return [merge_sorted([piece], state.schema) for piece in pieces.values()]

    return _typical(lambda: _seconds(work))


def _seconds(work: Callable[[], Iterable[object]]) -> float:
    """Seconds of CPU that it takes to exhaust what `work` returns."""
    begin = time.process_time()
    for _ in work():
        pass
    return time.process_time() - begin


def _typical(timed: Callable[[], float]) -> float:
    return statistics.median(timed() for _ in range(REPEAT))
