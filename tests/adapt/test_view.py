"""The view: sums, what can be spilled, and what stands below what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from adapt.views import LOWER, ROOT, cold, group, memory, views
from watersmeet.adapt.view import GroupView, MemoryView


def test_a_group_is_as_large_as_its_inputs_together() -> None:
    assert group("J1", 0, bytes=(30, 12)).size_bytes == 42
    assert cold("J1", 0, (1, 2), (30, 4)).rows == 37


@pytest.mark.parametrize(
    "live, cooled, expected",
    [
        (None, (), (1, (3, 4), 12.0, 70)),
        (group("J1", 0, rows=(0, 0), bytes=(0, 0)), (), (1, (3, 4), 12.0, 70)),
        (group("J1", 0, rows=(5, 2), bytes=(50, 20)), (), (2, (8, 6), 12.0 + 10, 140)),
        (None, (1, 1), (2, (4, 5), 12.0 + 1, 90)),
        (group("J1", 0, rows=(5, 2), bytes=(50, 20)), (1, 1), (2, (9, 7), 12.0 + 18, 160)),
        (group("J1", 0, rows=(0, 0), bytes=(0, 1)), (), (2, (3, 4), 12.0, 71)),
    ],
    ids=[
        "nothing is live",
        "what is live has no rows",
        "rows in memory",
        "rows that have cooled",
        "rows in memory and such that have cooled are one generation",
        "a byte is enough to be one",
    ],
)
def test_the_live_generation_counts_as_one_more(
    live: GroupView | None, cooled: tuple[int, ...], expected: tuple[Any, ...]
) -> None:
    closed = replace(cold("J1", 0, (3, 4), size=70), cooled=cooled, cooled_bytes=10 * sum(cooled))
    whole = closed.and_live(live)
    assert (whole.generations, whole.rows_by_input, whole.within, whole.bytes) == expected


def test_only_groups_with_bytes_of_operators_that_can_spill() -> None:
    view = memory(group("J2", 1), group("J1", 3, bytes=(0, 0)), group("J1", 2), operators=(LOWER, ROOT))
    assert [entry.key for entry in view.spillable] == [("J1", 2), ("J2", 1)]
    fixed = replace(view, operators=(replace(LOWER, spillable=False), ROOT))
    assert [entry.key for entry in fixed.spillable] == [("J2", 1)]


def test_what_feeds_an_operator() -> None:
    top = replace(ROOT, id="J3", level=2, inputs=("J2", "J9"))
    view = memory(operators=(LOWER, ROOT, top, replace(LOWER, id="J9")))
    assert sorted(view.below("J3")) == ["J1", "J2", "J9"]
    assert view.below("J1") == ()


def test_a_stream_may_be_called_like_an_operator() -> None:
    assert memory(operators=(replace(LOWER, inputs=("J1", "J2")), ROOT)).below("J1") == ()


@settings(max_examples=50, deadline=None)
@given(views())
def test_the_order_of_groups_does_not_show_in_sums(view: MemoryView) -> None:
    assert replace(view, groups=view.groups[::-1]).recent_outputs == view.recent_outputs


def test_figures_must_be_given_for_every_input() -> None:
    with pytest.raises(AssertionError):
        group("J1", 0, bytes=(1, 2, 3))
    with pytest.raises(AssertionError):
        replace(LOWER, row_bytes=(1.0,))
