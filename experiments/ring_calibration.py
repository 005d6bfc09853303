"""The prices of a ring on this machine, for given predicates and rows: what `optimize/ring_cost.py` reckons with.

- T_j, a comparison: the step of the kernel that joins without an equality is timed on rows of both sides, so that it
  has what it takes to bring the pairs together too, over the pairs that it looks at. Rows as they are: what a predicate
  makes of a long text or a picture is what counts. Pairs that windows or bands pass over do not count. Rows should be
  as far apart in time as those of a state, and as many as come together: a pair of numbers takes 20 ns where 3,000 rows
  meet 4,000 and more than twice that where 400 do.
- T_s and T_n, a row sent: rows go one by one to another thread and back, as Arrow messages over a pair of sockets,
  which is how they go from one process to another. T_s is the CPU of both sides, T_n the time until the row is there.

The least of several turns counts, and of trips the shortest tenth: what else the machine does makes some of them
longer, and none shorter.

Limits: sockets within a machine are faster than a network, and Spark's shuffle writes files in between; an exchange
that sends many rows together pays less for each. T_s counts this process alone, with whatever else it does meanwhile.
"""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.prepare import prepare, split_late
from watersmeet.kernel.scan import scan_pieces
from watersmeet.kernel.tally import Tally
from watersmeet.optimize.estimates import CostConstants
from watersmeet.optimize.ring_cost import RingPrices
from watersmeet.plan.hop import HopStage
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.tree import choose_tree

TURNS = 5
SENT_ROWS = 1000


@dataclass(frozen=True)
class Sending:
    """Of one row, in seconds."""

    cpu: float
    hop: float


def ring_prices(query: Query, left: pa.RecordBatch, right: pa.RecordBatch, constants: CostConstants) -> RingPrices:
    """Prices of a step that compares rows like `left` with rows like `right`, and sends rows like `left`.

    The rows are of the two inputs of `query`, which no equality connects.
    """
    sending = send_seconds(left)
    return RingPrices(
        compare=compare_seconds(query, left, right),
        send=sending.cpu,
        hop=sending.hop,
        insert=constants.insert,
        delete=constants.delete,
        task=constants.batch,
    )


def compare_seconds(query: Query, left: pa.RecordBatch, right: pa.RecordBatch) -> float:
    """CPU seconds for one pair of rows of the two inputs of `query`, where `left` come together and meet `right`."""
    plan = lay_out(query, choose_tree(query, "mjoin"))
    stage = plan.stages[0]
    assert isinstance(stage, HopStage) and len(query.inputs) == 2, "two inputs that no equality connects"
    first, second = (entry.alias for entry in query.inputs)
    probe = next(probe for probe in stage.probes if probe.node.inputs[0].state.aliases == (first,))
    visiting, met = (Indexed.of(_arrived(plan, alias, rows)) for alias, rows in ((first, left), (second, right)))
    tally = Tally()
    seconds = _typical(lambda: list(scan_pieces(probe.node, [visiting], [met], tally)))
    pairs = tally.met[0, 1][1] / TURNS
    return seconds / max(1.0, pairs)


def _arrived(plan: PhysicalPlan, alias: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as they arrive at the port of an input."""
    leaf = next(leaf for leaf in plan.leaves if leaf.alias == alias)
    return prepare(split_late(rows, plan.query.input(alias).stream.time_column, None), leaf)


def _typical(work: Callable[[], object]) -> float:
    def timed() -> float:
        begin = time.process_time()
        work()
        return time.process_time() - begin

    return min(timed() for _ in range(TURNS))


def send_seconds(rows: pa.RecordBatch) -> Sending:
    """What it takes to send one of these rows: CPU of both sides, and the time until it is there.

    There and back, one row at a time; half of that is one way.
    """
    assert rows.num_rows, "rows to send"
    here, there = socket.socketpair()
    with closing(here), closing(there):
        other = threading.Thread(target=_send_back, args=(there, rows.schema), daemon=True)
        other.start()
        cpu = time.process_time()
        trips = [_trip(here, rows.slice(number % rows.num_rows, 1)) for number in range(SENT_ROWS)]
        cpu = time.process_time() - cpu
        other.join()
    return Sending(cpu / SENT_ROWS / 2, statistics.quantiles(trips, n=10)[0] / 2)


def _trip(way: socket.socket, row: pa.RecordBatch) -> float:
    begin = time.perf_counter()
    _put(way, row)
    _take(way, row.schema)
    return time.perf_counter() - begin


def _send_back(there: socket.socket, schema: pa.Schema) -> None:
    for _ in range(SENT_ROWS):
        _put(there, _take(there, schema))


def _put(way: socket.socket, batch: pa.RecordBatch) -> None:
    message = batch.serialize()
    way.sendall(message.size.to_bytes(8, "little"))
    way.sendall(message)


def _take(way: socket.socket, schema: pa.Schema) -> pa.RecordBatch:
    size = int.from_bytes(_bytes(way, 8), "little")
    return pa.ipc.read_record_batch(pa.py_buffer(_bytes(way, size)), schema)


def _bytes(way: socket.socket, size: int) -> memoryview:
    message = memoryview(bytearray(size))
    got = 0
    while got < size:
        more = way.recv_into(message[got:])
        if not more:
            raise EOFError("the other side has ended")
        got += more
    return message
