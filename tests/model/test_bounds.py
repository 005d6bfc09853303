"""Where groups begin: even ranges, and finer ones where a group was cut."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.bounds import HASH_END, NARROWEST, Bounds

HASHES = st.integers(0, HASH_END - 1)


@st.composite
def cut_bounds(draw: st.DrawFn) -> Bounds:
    bounds = Bounds(draw(st.integers(1, 40)))
    for at_hash in draw(st.lists(HASHES, max_size=8, unique=True)):
        if all(at_hash != bounds.hash_start(group) for group in range(len(bounds))):
            bounds = bounds.cut(at_hash)
    return bounds


@given(cut_bounds(), st.lists(HASHES, max_size=20))
def test_every_hash_is_in_the_group_that_begins_last_before_it(bounds: Bounds, values: list[int]) -> None:
    starts = [bounds.hash_start(group) for group in range(len(bounds) + 1)]
    assert (starts[0], starts[-1]) == (0, HASH_END)
    assert all(first < second for first, second in pairwise(starts))
    assert bounds.start_array.tolist() == starts[:-1]
    values += [edge for start in starts for edge in (start - 1, start) if 0 <= edge < HASH_END]
    found = bounds.groups_of(np.array(values, dtype=np.uint64)).tolist()
    assert found == [bisect_right(starts, value) - 1 for value in values]
    upper = np.array([value >> 48 for value in values], dtype=np.int64)
    assert bounds.groups_of_upper(upper).tolist() == [bisect_right(starts, value >> 48 << 48) - 1 for value in values]


@given(cut_bounds(), HASHES)
def test_a_cut_moves_no_bound_and_adds_one(bounds: Bounds, at_hash: int) -> None:
    starts = set(bounds.start_array.tolist())
    if at_hash not in starts:
        assert set(bounds.cut(at_hash).start_array.tolist()) == starts | {at_hash}


def test_the_order_of_cuts_does_not_matter() -> None:
    assert Bounds(3).cut(5).cut(1 << 60) == Bounds(3).cut(1 << 60).cut(5)
    assert hash(Bounds(3).cut(5)) == hash(Bounds(3, (5,)))


@pytest.mark.parametrize("group", [0, 4, 7])
def test_a_group_can_be_halved_until_it_is_as_narrow_as_lineage_tells(group: int) -> None:
    bounds = Bounds(8)
    for _ in range(13):
        low, high = bounds.hash_start(group), bounds.hash_start(group + 1)
        middle = bounds.middle(group)
        assert middle is not None
        assert middle - low == high - middle >= NARROWEST
        bounds = bounds.cut(middle)
    assert bounds.hash_start(group + 1) - bounds.hash_start(group) == NARROWEST
    assert bounds.middle(group) is None
