"""Copies of rows: in every segment in reach, once each, of which one is at home."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.kernel.copying import copies_in_reach, home_rows
from watersmeet.kernel.prepare import keyed
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.aligned import segment_hashes
from watersmeet.model.quantities import parse_duration
from watersmeet.model.slices import SliceReach
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import State
from watersmeet.plan.ring_ways import ATR, RingWay
from watersmeet.plan.tree import choose_tree

SECOND = 1_000_000


def rows(times: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"@A": pa.array(times, pa.int64()), "A.x": pa.array(range(len(times)))})


@pytest.mark.parametrize(
    ("time", "segments"),
    [(0, [-1, 0]), (4, [-1, 0]), (5, [0, 0]), (7, [0, 1]), (9, [0, 1]), (-1, [-1, 0])],
)
def test_a_row_is_copied_to_the_segments_of_rows_that_it_may_join(time: int, segments: list[int]) -> None:
    """Segments of 10; rows live for 4, those of the master for 6: it joins (time - 6, time + 4)."""
    wanted = list(range(segments[0], segments[1] + 1))
    row, places = copies_in_reach(rows([time]), SliceReach(10, 6, (("@A", 4),), ("@A",)))
    assert row.tolist() == [0] * len(wanted)
    assert places.tolist() == segment_hashes(np.array(wanted)).tolist()


def slave(segment: str, windows: int) -> State:
    streams = {name: Stream(name, parse_schema("x BIGINT, ts TIMESTAMP")) for name in "AB"}
    window = f"[RANGE {windows} SECONDS]"
    query = bind(f"SELECT A.x FROM B {window}, A {window} WHERE A.x < B.x", streams)
    way = RingWay(ATR, segment=parse_duration(segment, "segment"))
    return next(s for s in lay_out(query, choose_tree(query, "mjoin"), ring=way).states.values() if s.copied)


@pytest.mark.parametrize(("segment", "copies"), [("10 seconds", 3.0), ("50 seconds", 1.4)])
def test_each_row_has_one_home_among_its_copies(segment: str, copies: float) -> None:
    state = slave(segment, 10)
    random = np.random.default_rng(3)
    batch = rows(random.integers(-(10**9), 10**9, 20_000).tolist())
    kept = keyed(batch, state.key, state.fields, copied=state.copied)
    assert kept.num_rows / batch.num_rows == pytest.approx(copies, rel=0.01)
    assert state.copies == pytest.approx(copies)
    home = home_rows(kept, state)
    assert sorted(home.column("A.x").to_pylist()) == list(range(20_000))
