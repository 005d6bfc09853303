"""Covers of the rivals of a ring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.ring_rivals import atr_copies, cover, ctr_holders
from watersmeet.errors import JobError


@given(st.lists(st.sets(st.integers(0, 6), min_size=1), max_size=12))
def test_a_cover_serves_every_segment_once_where_it_is(holders: list[set[int]]) -> None:
    found = cover([sorted(slots) for slots in holders], {})
    served = [segment for segments in found.values() for segment in segments]
    assert sorted(served) == list(range(len(holders)))
    assert all(slot in holders[segment] for slot, segments in found.items() for segment in segments)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(JobError, match="segments of 0 seconds cannot be"):
        atr_copies(1, 1, 0)
    with pytest.raises(JobError, match="3 copies cannot be in 2 slots"):
        ctr_holders(0, 2, 3)
