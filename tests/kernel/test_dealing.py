"""Rows of spread groups on their way: each dealt row to one slot, by what is in it, and copies to all."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.dealing import places_of
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.rows import sort_by_hash, take
from watersmeet.kernel.to_slots import cut
from watersmeet.model.ids import Partitioning
from watersmeet.model.placement import Placement

K = Partitioning("k")
EVERY_TYPE = {
    "i": pa.array([1, None, 3, 4] * 50, pa.int32()),
    "b": pa.array([True, None, False, True] * 50),
    "s": pa.array(["a", None, "", "long text"] * 50),
    "y": pa.array([b"a", None, b"", b"x"] * 50, pa.large_binary()),
    "f": pa.array([1.5, None, float("nan"), -0.0] * 50, pa.float32()),
    "d": pa.array([dt.date(2026, 1, 1), None, dt.date(1969, 1, 1), None] * 50),
    "t": pa.array([0, None, -1, 7] * 50, pa.timestamp("us", "UTC")),
    "o": pa.array([0, None, 1, 7] * 50, pa.time64("us")),
    "m": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("-2.25"), None] * 50, pa.decimal128(10, 2)),
    "l": pa.array([[1], None, [], [2, 3]] * 50),
    "n": pa.array(range(200)),
}


@pytest.mark.parametrize("slots", [2, 3])
def test_content_alone_says_where_a_row_goes(slots: int) -> None:
    rows = pa.RecordBatch.from_pydict(EVERY_TYPE)
    places = places_of(rows, slots)
    assert set(places.tolist()) == set(range(slots))
    assert min(Counter(places.tolist()).values()) > 200 / slots / 2, "about as many for each"
    order = np.random.default_rng(0).permutation(200)
    assert places_of(take(rows, order), slots).tolist() == places[order].tolist(), "in any order"
    one_by_one = [places_of(rows.slice(row, 1), slots)[0] for row in range(200)]
    assert one_by_one == places.tolist(), "whatever else is in the batch"


@pytest.mark.parametrize(
    "aliases, times", [(("A",), 1), (("A", "C"), 1), (("B",), 3)], ids=["dealt", "of both", "copied"]
)
def test_rows_go_to_the_slots_of_a_spread(aliases: tuple[str, ...], times: int) -> None:
    placement = Placement(4, 8).spread(K, 2, "A", (1, 3, 0))
    hashes = np.random.default_rng(1).integers(0, 1 << 64, 400, dtype=np.uint64)
    rows = sort_by_hash(pa.record_batch({"#h": pa.array(hashes), "v": pa.array(np.arange(400))}))
    sent = list(cut(rows, placement.of(K), placement.shares(K), aliases))
    found = Counter((slot, value) for slot, part in sent for value in part.column("v").to_pylist())
    groups = dict(
        zip(rows.column("v").to_pylist(), (rows.column("#h").to_numpy() >> np.uint64(61)).tolist(), strict=True)
    )
    assert set(found.values()) == {1}
    for value, group in groups.items():
        slots = {slot for slot, sent_value in found if sent_value == value}
        assert slots == {group // 2} if group != 2 else (slots <= {0, 1, 3} and len(slots) == times)
    assert all(np.all(np.diff(part.column("#h").to_numpy().astype(object)) >= 0) for _, part in sent), "still in order"


@given(st.lists(st.integers(0, 6), max_size=60).map(sorted), st.integers(2, 4), st.lists(st.integers(0, 7)))
def test_each_kept_row_is_found_by_one_slot(values: list[int], slots: int, needles: list[int]) -> None:
    rows = Indexed.of(pa.record_batch({"#h": pa.array(values, pa.uint64())})).within(1, 6)
    wanted = np.array(sorted(set(needles)), dtype=np.uint64)
    found: Counter[int] = Counter()
    for place in range(slots):
        shared = Indexed(rows.rows, rows.starts, rows.low, rows.high, dealt=(place, slots))
        for _, start, count in zip(*(column.tolist() for column in shared.find(wanted)), strict=True):
            assert count > 0
            found.update(range(start, start + count))
    assert found == Counter(row for row, value in enumerate(values) if value in needles and 1 <= value < 6)
