"""What a ring costs on this machine: prices that are there, and that know dear from cheap."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from experiments.ring_calibration import compare_seconds, ring_prices, send_seconds
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.optimize.estimates import CostConstants
from watersmeet.plan.query import Query


def rows(width: int = 1) -> pa.RecordBatch:
    return pa.record_batch({"x": np.arange(200.0), "text": ["x" * width] * 200, "ts": np.arange(200)})


def query(turns: int) -> Query:
    def slow(left: pa.Array, right: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        one, other = left.to_numpy(), right.to_numpy()
        for _ in range(turns):
            one = np.sin(one)
        return np.asarray(one > other + 1000)

    streams = {name: Stream(name, rows().schema) for name in "AB"}
    text = "SELECT A.x FROM A [RANGE 1 HOUR], B [RANGE 1 HOUR] WHERE slow(A.x, B.x)"
    return bind(text, streams, {"slow": slow})


def test_a_dear_predicate_is_dear() -> None:
    few, many = (compare_seconds(query(turns), rows(), rows()) for turns in (0, 100))
    assert 0 < few < 1e-5
    assert many > 3 * few


def test_a_large_row_is_dear_to_send() -> None:
    small, large = send_seconds(rows()), send_seconds(rows(1_000_000))
    assert 0 < small.hop < large.hop
    assert large.cpu > 3 * small.cpu > 0


def test_all_prices_of_a_ring() -> None:
    constants = CostConstants(insert=3e-7, delete=1e-7, batch=2e-3)
    found = ring_prices(query(1), rows(), rows(), constants)
    assert min(vars(found).values()) >= 0 and found.compare > 0 and found.send > 0 and found.hop > 0
    assert (found.insert, found.delete, found.task) == (3e-7, 1e-7, 2e-3)
