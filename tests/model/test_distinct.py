"""Distinct keys of a group from what its segments counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.distinct import distinct_keys, keys_by_group
from watersmeet.model.segments import Segment


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
    born = ((0, 2), (5, 6))
    segment = Segment(
        "s", "A", 60, 1, 0, ((1, 2), (5, 6)), born, 0, 0, 0, 0, group_rows=(10, 20, 30), group_keys=(1, 2, 3)
    )
    assert keys_by_group([segment]) == {1: 2.0, 5: 3.0}
    assert (segment.live_rows, segment.rows_in(((0, 3),))) == (50, 30)
