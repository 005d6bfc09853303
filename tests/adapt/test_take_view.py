"""The view that policies decide by: sizes from the segments, earnings from the figures."""

from __future__ import annotations

from typing import Any

import pytest

from adapt.asking import HELD, J1, J2, PLAN, entry
from small_plans import GROUPS, SECOND, manifest_of
from watersmeet.adapt.take_view import ROW_BYTES, view_memory
from watersmeet.adapt.view import MemoryView
from watersmeet.model.group_figures import GroupObservation
from watersmeet.model.ids import LIVE, Generation, Partitioning
from watersmeet.model.placement import Placement
from watersmeet.state.applying import apply_all
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest
from watersmeet.state.updates import CloseGroups, ObserveGroups, SetPlacement, Update


def view(manifest: Manifest, budget: int | None = None, seconds: float = 1.0, **more: Any) -> MemoryView:
    return view_memory(PLAN, manifest, Ledgers(PLAN), budget, "recent", seconds, **more)


def seen(group: int | slice = slice(None), **values: float) -> GroupObservation:
    found = GroupObservation.nothing(2, GROUPS)
    for name, value in values.items():
        (found.arrivals[0] if name == "arrivals" else getattr(found, name))[group] = value
    return found


def test_sizes_and_earnings() -> None:
    manifest = manifest_of(
        PLAN,
        entry("a", "A", groups=((0, 2),), rows=5),
        entry("b", "B", groups=((1, 3),), rows=3),
        entry("old", "A", groups=((1, 2),), rows=2, cold=1),
        entry("older", "B", groups=((1, 2),), rows=4, cold=2),
    )
    one = seen(1, local=6.0, traced=3.0, inter_bytes=50.0)
    one.arrivals[0][7] = 4.0
    found = view(apply_all([ObserveGroups(9, "recent", {J1: one})], manifest), 500, 0.0)
    assert [(entry.id, entry.label, entry.level, entry.depth, entry.inputs) for entry in found.operators] == [
        (J1, "J1", 0, 1, ("A", "B")),
        (J2, "J2", 1, 0, (J1, "C")),
    ]
    assert found.operator(J1).row_bytes == (10.0, 10.0)
    assert found.operator(J2).row_bytes == (ROW_BYTES, ROW_BYTES)
    assert (found.active_bytes, found.budget_bytes, found.arrivals_total) == (160, 500, 4.0)
    assert found.seconds > 0, "however short a batch was"
    rows = {entry.group: (entry.rows, entry.bytes) for entry in found.groups}
    assert rows == {0: ((5, 0), (50, 0)), 1: ((5, 3), (50, 30)), 2: ((0, 3), (0, 30)), 7: ((0, 0), (0, 0))}
    group = found.live(J1, 1)
    assert group is not None
    assert (group.slot, group.local_output, group.global_output, group.inter_bytes) == (0, 6.0, 3.0, 50.0)
    assert (group.recent_local, group.recent_global, group.arrivals) == (6.0, 3.0, (0.0, 0.0))
    seventh = found.live(J1, 7)
    assert seventh is not None and (seventh.last_use, seventh.slot, seventh.arrivals) == (9.0, 1, (4.0, 0.0))
    (cold,) = found.cold
    assert (cold.key, cold.generations, cold.rows_by_input, cold.within, cold.bytes) == ((J1, 1), 2, (2, 4), 0.0, 60)
    assert cold.largest_rows == 4
    assert [entry.key for entry in found.spillable] == [(J1, 0), (J1, 1), (J1, 2)]


def test_keys_are_those_of_all_generations() -> None:
    rows = (entry("a", "A", rows=5), entry("old", "A", rows=2, cold=1), entry("cooled", "A", rows=1, cold=LIVE))
    found = view(manifest_of(PLAN, *rows))
    live = found.live(J1, 0)
    assert live is not None and (live.unique, found.cold[0].unique) == (8.0, 8.0)


def test_after_a_spill_totals_count_from_the_new_generation() -> None:
    updates: list[Update] = [
        ObserveGroups(0, "recent", {J1: seen(local=6.0)}),
        CloseGroups(J1, PLAN.operators[J1].states, ((0, 1),), Generation(1)),
    ]
    found = view(apply_all(updates, manifest_of(PLAN, *HELD)))
    first, second = found.live(J1, 0), found.live(J1, 1)
    assert first is not None and second is not None
    assert (first.size_bytes, first.local_output, first.recent_local) == (0, 0.0, 6.0)
    assert (second.size_bytes, second.local_output, second.recent_local) == (100, 6.0, 6.0)
    assert [(entry.key, entry.bytes) for entry in found.cold] == [((J1, 0), 100)]


def test_totals_are_scaled_to_the_rows_that_are_still_there() -> None:
    """40 rows came to each group and 10 are left: the others have expired, and what they earned with them."""
    one = seen(arrivals=40.0, local=6.0, traced=4.0, inter_bytes=80.0)
    found = view(apply_all([ObserveGroups(0, "recent", {J1: one})], manifest_of(PLAN, *HELD)))
    group = found.live(J1, 3)
    assert group is not None
    assert (group.local_output, group.global_output, group.inter_bytes) == (1.5, 1.0, 20.0)
    assert (group.recent_local, group.recent_global) == (6.0, 4.0), "what came lately did come"


def test_rows_that_have_cooled_are_told_with_the_closed_generations() -> None:
    rows = (entry("old", "A", rows=2, cold=1), entry("cooled", "B", groups=((0, 1),), rows=3, cold=LIVE))
    first, second, *_ = view(manifest_of(PLAN, *rows)).cold
    assert (first.generations, first.rows_by_input, first.cooled, first.cooled_bytes) == (1, (2, 0), (0, 3), 30)
    assert (second.cooled, second.cooled_bytes) == ((0, 0), 0)
    assert not view(manifest_of(PLAN, rows[1])).cold, "without a closed generation nothing is owed"


@pytest.mark.parametrize("until, passed", [(9, []), (10, [0, 1]), (20, [0, 1, 2])])
def test_generations_that_have_outlived_their_windows(until: float, passed: list[int]) -> None:
    rows = (entry("a", "A", groups=((0, 3),), end=10, cold=1), entry("b", "B", groups=((2, 3),), end=20, cold=1))
    found = view(manifest_of(PLAN, *rows), horizons_us={J1: int(until * SECOND)})
    assert [cold.group for cold in found.cold if cold.passed] == passed
    assert not any(cold.passed for cold in view(manifest_of(PLAN, *rows)).cold)


def test_slots_are_those_of_the_operators_own_key() -> None:
    placed = Placement(
        2, GROUPS, {PLAN.operators[J2].partitioning: (1,) * GROUPS, Partitioning("other"): (0,) * GROUPS}
    )
    manifest = apply_all([SetPlacement(placed)], manifest_of(PLAN, *HELD, entry("c", "C")))
    slots = {key: [g.slot for g in view(manifest).groups if g.operator == key] for key in (J1, J2)}
    assert slots == {J1: [0, 0, 0, 0, 1, 1, 1, 1], J2: [1] * GROUPS}
