"""Distinct keys of a group from what its segments counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.distinct import KeyCounts, keys_by_group
from watersmeet.model.ids import SegmentId, StateName
from watersmeet.model.segments import Segment


def segment(*counts: tuple[int, int]) -> Segment:
    """With (rows, keys) in group 0, 1, .."""
    rows, keys = zip(*counts, strict=True)
    groups = ((0, len(counts)),)
    return Segment(
        SegmentId("s"), StateName("A"), sum(rows), 1, 0, groups, groups, 0, 0, 0, 0, group_rows=rows, group_keys=keys
    )


def distinct_keys(counts: list[tuple[int, int]]) -> float:
    """Of one group that lies in several segments, each of (rows, keys)."""
    return float(KeyCounts.of([segment(entry) for entry in counts], 1).distinct[0])


@pytest.mark.parametrize("domain", [20, 500, 100_000])
def test_keys_drawn_evenly(domain: int) -> None:
    source = np.random.default_rng(domain)
    segments = [source.integers(0, domain, count) for count in (1000, 700, 300, 50)]
    counts = [(len(rows), len(np.unique(rows))) for rows in segments]
    exact = len(np.unique(np.concatenate(segments)))
    assert distinct_keys(counts) == pytest.approx(exact, rel=0.1)


@given(st.lists(st.integers(1, 1000).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(1, rows)))))
def test_between_the_most_of_one_and_the_sum_of_all(counts: list[tuple[int, int]]) -> None:
    most = max((keys for _, keys in counts), default=0)
    largest = max(counts, default=(0, 0))[1]
    assert largest <= distinct_keys(counts) <= sum(keys for _, keys in counts)
    assert most >= largest


def test_groups_that_left_do_not_count() -> None:
    written = ((0, 2), (5, 6))
    held = replace(segment((10, 1), (20, 2), (30, 3)), groups=((1, 2), (5, 6)), written=written)
    assert keys_by_group([held]) == {1: 2.0, 5: 3.0}
    assert (held.live_rows, held.rows_in(((0, 3),))) == (50, 30)


@pytest.mark.parametrize(
    "counts, expected",
    [
        ([], 0.0),
        ([(100, 60)], 60.0),
        ([(100, 100), (50, 50)], 150.0),
        ([(1000, 10), (1000, 10)], 10.0),
        ([(0, 0), (7, 3)], 3.0),
    ],
    ids=["nothing", "one is exact", "no key repeats", "all keys repeat", "an empty one says nothing"],
)
def test_by_hand(counts: list[tuple[int, int]], expected: float) -> None:
    assert distinct_keys(counts) == pytest.approx(expected)


several = st.lists(
    st.lists(
        st.integers(1, 50).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(1, rows))), min_size=3, max_size=3
    ),
    max_size=6,
)


@given(several, st.integers(0, 6))
def test_sums_can_be_added_up(counts: list[list[tuple[int, int]]], at: int) -> None:
    """What generations hold each is enough to know what they hold together."""
    segments = [segment(*entry) for entry in counts]
    parts = KeyCounts.sum([KeyCounts.of(segments[:at], 3), KeyCounts.of(segments[at:], 3)], 3)
    whole = KeyCounts.of(segments, 3)
    assert parts.rows.tolist() == whole.rows.tolist()
    assert parts.most_rows.tolist() == whole.most_rows.tolist()
    assert parts.distinct.tolist() == pytest.approx(whole.distinct.tolist())


def test_segments_that_counted_no_keys_do_not_count() -> None:
    uncounted = replace(segment((10, 1)), group_keys=())
    assert KeyCounts.of([uncounted, segment((6, 2))], 1).distinct.tolist() == [2.0]
