"""The cost constants of this machine, in seconds of CPU: measured once in a second or two, and kept in a file.

The real kernel is timed on small joins that do mostly one thing: rows that find no partner (insert, probe), pairs with
the same key that fail a predicate of one step or of three (compare, operation), pairs that become results (join), rows
that expire (delete), rows that go on to another slot (send), batches of hardly any rows (batch), and many rows of a
state that meet few (gather). With these constants and rates per second, an estimated CPU cost is a number of cores.

Limits: the constants are those of narrow rows (three columns of 8 bytes) in batches of some 10,000 rows. Wider rows,
text and very small batches cost more. What Spark adds around the kernel (reading, shuffles, starting tasks) is not in
them.

The file lies under the user's cache folder (XDG_CACHE_HOME), or where WATERSMEET_COSTS says.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.prepare import cut, keyed, prepare, split_late
from watersmeet.kernel.rows import Int64Array, concat, merge_sorted, take
from watersmeet.kernel.step import join_step
from watersmeet.lang.binder import bind
from watersmeet.model.bounds import Bounds
from watersmeet.model.placement import Placement
from watersmeet.model.quantities import microseconds
from watersmeet.model.routing import Routing
from watersmeet.model.streams import Stream
from watersmeet.optimize.choose import STANDARD
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


def machine_costs(report: Callable[[str], None] = lambda text: None, measure: bool = True) -> CostConstants:
    """The constants of this machine: from the file, or measured now and written there if that can be.

    Without `measure`, the constants of another machine stand in for those that the file does not have.
    """
    path = _path()
    known = _read(path)
    if known is not None:
        return known
    if not measure:
        return STANDARD
    report("measuring what joins cost on this machine (once, some two seconds)")
    costs = measure_costs()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": _machine(), "seconds": asdict(costs)}, indent=2), encoding="utf-8")
    except OSError:
        pass  # a read-only home: they are measured again next time
    return costs


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


def _path() -> Path:
    given = os.environ.get("WATERSMEET_COSTS")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "watersmeet" / "costs.json"


def _machine() -> dict[str, str]:
    """What the constants hold for; another version or machine measures again."""
    return {
        "watersmeet": version("watersmeet"),
        "python": platform.python_version(),
        "arrow": pa.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.node()} {platform.machine()} {os.cpu_count()}",
    }


def _read(path: Path) -> CostConstants | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if os.environ.get("WATERSMEET_COSTS") or content["machine"] == _machine():
            seconds = content["seconds"]
            return CostConstants(**{field.name: float(seconds[field.name]) for field in fields(CostConstants)})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _plan_of(text: str) -> PhysicalPlan:
    streams = {name: Stream(name, _SCHEMA, "ts", timedelta(0)) for name in "AB"}
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
    return prepare(split_late(batch, "ts", None), leaf)


def _send_seconds(plan: PhysicalPlan) -> float:
    state = _node(plan).inputs[0].state
    source = np.random.default_rng(0)
    nothing = np.zeros(BATCH_ROWS, dtype=np.int64)
    rows = _arrived(plan, "A", source.integers(0, 1 << 40, BATCH_ROWS), nothing, nothing)
    rows = take(rows, source.permutation(BATCH_ROWS))  # what a join puts out is not in the order of the next key
    routing = Routing.even(Bounds(30), 2)

    def work() -> Iterable[pa.RecordBatch]:
        pieces: Mapping[int, pa.RecordBatch] = dict(cut(keyed(rows, state.key_fields, state.fields), routing))
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
