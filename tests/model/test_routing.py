"""Ranges of groups are sets of groups, however they are written down."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.bounds import HASH_END, Bounds
from watersmeet.model.routing import (
    GroupRange,
    Routing,
    count_groups,
    expand_ranges,
    intersect_ranges,
    subtract_ranges,
    union_ranges,
)

# Overlapping, touching, empty and backward ones among them, in any order.
RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=6)
Ranges = list[GroupRange]


def as_set(ranges: Ranges) -> set[int]:
    return {group for low, high in ranges for group in range(low, high)}


def check(found: tuple[GroupRange, ...], expected: set[int]) -> None:
    """As few ranges as there can be, ascending, with a gap after each."""
    assert set(expand_ranges(found)) == expected
    assert expand_ranges(found) == sorted(expected)
    assert count_groups(found) == len(expected)
    assert all(low < high for low, high in found)
    assert all(first[1] < second[0] for first, second in itertools.pairwise(found))


@given(RANGES, st.booleans())
def test_a_union_has_the_groups_of_all(ranges: Ranges, as_tuple: bool) -> None:
    check(union_ranges(tuple(ranges) if as_tuple else ranges), as_set(ranges))


@given(RANGES, RANGES)
def test_an_intersection_has_the_groups_of_both(left: Ranges, right: Ranges) -> None:
    check(intersect_ranges(left, right), as_set(left) & as_set(right))
    check(intersect_ranges(tuple(left), tuple(right)), as_set(left) & as_set(right))


@given(RANGES, RANGES)
def test_a_difference_has_the_groups_of_the_first_alone(left: Ranges, right: Ranges) -> None:
    check(subtract_ranges(left, right), as_set(left) - as_set(right))
    check(subtract_ranges(tuple(left), tuple(right)), as_set(left) - as_set(right))


@given(RANGES, RANGES)
def test_what_is_cut_off_and_what_is_left_make_the_whole(left: Ranges, right: Ranges) -> None:
    whole = union_ranges(left)
    cut, rest = intersect_ranges(whole, right), subtract_ranges(whole, right)
    assert union_ranges((*cut, *rest)) == whole
    assert intersect_ranges(cut, rest) == ()


@given(st.integers(1, 1000), st.lists(st.integers(0, HASH_END - 1), max_size=20))
def test_every_hash_is_in_the_group_whose_range_holds_it(total: int, values: list[int]) -> None:
    edges = [edge for group in range(0, total, 1 + total // 9) for edge in (Bounds(total).hash_start(group),)]
    values = [*values, *edges, *(edge - 1 for edge in edges if edge), 0, HASH_END - 1]
    found = Bounds(total).groups_of(np.array(values, dtype=np.uint64)).tolist()
    for value, group in zip(values, found, strict=True):
        assert group == value * total // HASH_END
        low, high = Routing.even(Bounds(total), 1).hash_range((group, group + 1))
        assert low <= value < high


@pytest.mark.parametrize("groups, slots", [(1, 1), (5, 2), (7, 7), (300, 16)])
def test_slots_share_the_groups(groups: int, slots: int) -> None:
    routing = Routing.even(Bounds(groups), slots)
    owned = [expand_ranges(routing.owned_by(slot)) for slot in range(slots)]
    assert sorted(group for entry in owned for group in entry) == list(range(groups))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1
