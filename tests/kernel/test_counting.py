"""Rows of a stream in order: worked figures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.kernel.counting import CountedRows, OrderedFiles, by_time, ends_of, places_of, times_of
from watersmeet.kernel.rows import hashes
from watersmeet.kernel.window import LONG_AGO, NEVER


def test_places_keep_the_order_of_times() -> None:
    times = np.array([LONG_AGO, -1, 0, 1, NEVER], dtype=np.int64)
    places = places_of(times)
    assert (np.diff(places.astype(object)) > 0).all()
    assert times_of(places).tolist() == times.tolist()


def test_rows_of_one_time_stay_as_they_arrived() -> None:
    rows = pa.record_batch({"v": ["c", "a", "d", "b"]})
    ordered = by_time(rows, np.array([7, 5, 7, 5]))
    assert ordered.column("v").to_pylist() == ["a", "b", "c", "d"]
    assert times_of(hashes(ordered)).tolist() == [5, 5, 7, 7]


def test_a_row_that_comes_later_is_ranked_before_those_that_it_is_older_than() -> None:
    first, second = np.array([10, 30, 30]), np.array([20, 30])
    order = OrderedFiles((first, second), since_us=LONG_AGO, before=0)
    assert order.rows.times.tolist() == [10, 20, 30, 30, 30]
    assert order.ranks_in(0).tolist() == [1, 3, 4]
    assert order.ranks_in(1).tolist() == [2, 5]


def test_rows_that_were_counted_before_count_once() -> None:
    order = OrderedFiles((np.array([10, 30]), np.array([20, 40])), since_us=25, before=102)
    assert order.rows.times.tolist() == [30, 40]
    assert (order.ranks_in(0)[1], order.ranks_in(1)[1]) == (103, 104)
    rows = order.rows
    assert rows.counts(np.array([29, 30, 99])).tolist() == [102, 103, 104]
    assert (rows.before_time(30), rows.before_time(31), rows.since(31).before) == (102, 103, 103)
    assert rows.until(40).times.tolist() == [30]


def test_the_time_at_which_a_rank_is_reached() -> None:
    rows = CountedRows(10, np.array([5, 6, 6]))
    assert [rows.time_of(rank) for rank in (11, 13, 14)] == [5, 6, None]
    assert rows.time_of(4) == 5  # it is before that, and nobody knows by how much
    assert CountedRows(10, np.empty(0, np.int64)).time_of(4) is None


def test_of_rows_at_one_time_the_first_is_never_the_last() -> None:
    ranks, own = np.array([1, 2, 3, 4]), np.array([1, 4, 4, 4])
    assert ends_of(ranks, own, 1).tolist() == [2, LONG_AGO, LONG_AGO, 5]
    assert ends_of(ranks, own, 2).tolist() == [3, LONG_AGO, 5, 6]
    assert ends_of(ranks, own, 3).tolist() == [4, 5, 6, 7]
