"""The view: sums, what can be spilled, and what stands below what."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from adapt.views import LOWER, ROOT, group, memory, views
from watersmeet.adapt.decisions import SpillGroups
from watersmeet.adapt.view import ColdView, MemoryView


def test_a_group_is_as_large_as_its_inputs_together() -> None:
    assert group("J1", 0, bytes=(30, 12)).size_bytes == 42
    assert ColdView("J1", 0, ((1, 2), (30, 4)), bytes=9, unique=1.0).rows == 37


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


def test_decisions_are_plain_json() -> None:
    data = SpillGroups((("J1", 17), ("J2", 3)), "why").to_json()
    assert json.loads(json.dumps(data)) == data
    assert data["groups"] == [["J1", 17], ["J2", 3]]
