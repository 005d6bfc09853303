"""`CloseGroups` and `CoolGroups`: entries are split, numbers go up, and no row of a file comes or goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import InternalError
from watersmeet.model.group_figures import GroupFigures, GroupObservation
from watersmeet.model.routing import GroupRange, Routing, expand_ranges, union_ranges
from watersmeet.model.segments import Segment
from watersmeet.state.manifest import Manifest, QueryIdentity
from watersmeet.state.updates import AddSegment, CloseGroups, CoolGroups, ObserveGroups, Update, apply, apply_all

GROUPS = 8
STATES = ("A@k", "B@k")
OTHER = "C@k2"  # a state of another operator
EMPTY = Manifest(0, QueryIdentity("SELECT 1", {}, "digest"), "((A B) C)", Routing.even(GROUPS, 2))


def segment(name: str, state: str = "A@k", groups: tuple[GroupRange, ...] = ((0, GROUPS),)) -> Segment:
    """With group + 1 rows, and half as many keys, in each of its groups."""
    rows = tuple(group + 1 for group in expand_ranges(groups))
    keys = tuple(max(1, count // 2) for count in rows)
    total = sum(rows)
    return Segment(name, state, total, total * 10, 0, groups, groups, 5, 9, 1, 0, group_rows=rows, group_keys=keys)


def manifest(*segments: Segment) -> Manifest:
    return replace(EMPTY, segments={entry.id: entry for entry in segments})


def entries(found: Manifest) -> dict[str, tuple[str, int, list[int]]]:
    """By id: tier, generation and groups."""
    return {entry.id: (entry.tier, entry.generation, expand_ranges(entry.groups)) for entry in found.segments.values()}


def close(*groups: int) -> CloseGroups:
    return CloseGroups("J1", STATES, union_ranges((group, group + 1) for group in groups))


def test_a_file_that_is_cold_in_part_has_an_entry_for_each_part() -> None:
    found = apply(close(2, 3, 6), manifest(segment("s"), segment("t", "B@k", ((3, 5),)), segment("u", OTHER)))
    assert entries(found) == {
        "s": ("active", 0, [0, 1, 4, 5, 7]),
        "s~0.2": ("cold", 0, [2, 3, 6]),
        "t": ("active", 0, [4]),
        "t~0.3": ("cold", 0, [3]),
        "u": ("active", 0, list(range(GROUPS))),
    }
    assert found.closed == {"J1": {2: 1, 3: 1, 6: 1}}
    cold = found.segments["s~0.2"]
    assert (cold.file, cold.live_rows, cold.live_bytes) == ("s", 3 + 4 + 7, 140)
    assert cold.rows_by_group == {2: 3, 3: 4, 6: 7}
    assert found.active_bytes + found.cold_bytes == manifest(*found.segments.values()).state_rows * 10


def test_a_file_whose_groups_all_go_cold_has_cold_entries_only() -> None:
    found = apply(close(*range(GROUPS)), manifest(segment("s")))
    assert entries(found) == {"s~0.0": ("cold", 0, list(range(GROUPS)))}
    assert (found.active_bytes, found.segments["s~0.0"].file) == (0, "s")


def test_groups_without_rows_do_not_keep_a_file_active() -> None:
    """Or every batch would go on opening it."""
    sparse = replace(segment("s"), rows=7, group_rows=(0, 0, 3, 0, 0, 4, 0, 0), group_keys=(0, 0, 1, 0, 0, 1, 0, 0))
    found = apply(close(2), manifest(sparse))
    assert entries(found) == {"s": ("active", 0, [0, 1, 3, 4, 5, 6, 7]), "s~0.2": ("cold", 0, [2])}
    assert entries(apply(close(5), found)) == {"s~0.2": ("cold", 0, [2]), "s~0.5": ("cold", 0, [5])}


def test_generations_are_numbered_by_group() -> None:
    found = apply(close(0, 1), manifest(segment("s")))
    found = apply(close(1, 2), apply(AddSegment(segment("t")), found))
    assert found.closed == {"J1": {0: 1, 1: 2, 2: 1}}
    assert entries(found) == {
        "s~0.0": ("cold", 0, [0, 1]),
        "s": ("active", 0, list(range(3, GROUPS))),
        "s~0.2": ("cold", 0, [2]),
        "t": ("active", 0, [0, 3, 4, 5, 6, 7]),
        "t~1.1": ("cold", 1, [1]),
        "t~0.2": ("cold", 0, [2]),
    }
    assert [found.live_generation("J1", group) for group in range(4)] == [1, 2, 1, 0]
    assert found.live_generation("J2", 0) == 0


def test_groups_without_rows_are_closed_too() -> None:
    found = apply(close(7), manifest(segment("s", groups=((0, 2),))))
    assert (entries(found), found.closed) == ({"s": ("active", 0, [0, 1])}, {"J1": {7: 1}})


def test_expired_rows_go_cold_with_their_live_generation() -> None:
    """The part that has cooled is of the generation that the next close gives the rest of the group."""
    found = apply(AddSegment(segment("t")), apply(close(1, 2), manifest(segment("s"))))
    found = apply(close(2), found)
    found = apply(AddSegment(segment("u")), found)
    found = apply(CoolGroups("J1", "u", ((1, 3),)), found)
    assert found.closed == {"J1": {1: 1, 2: 2}}, "to cool closes nothing"
    assert (found.segments["u~1.1"].generation, found.segments["u~2.2"].generation) == (1, 2)
    assert expand_ranges(found.segments["u"].groups) == [0, 3, 4, 5, 6, 7]
    again = apply(close(1), found)
    assert {
        entry.generation for entry in again.segments.values() if entry.tier == "cold" and 1 in entry.rows_by_group
    } == {
        0,
        1,
    }
    assert again.closed["J1"][1] == 2


def test_one_part_of_a_file_cannot_be_two_entries() -> None:
    cold = segment("s").cold(((2, 3),), 0)
    with pytest.raises(InternalError):
        apply(close(2), manifest(segment("s"), cold))


def test_totals_of_a_group_begin_anew_with_its_generation() -> None:
    seen = GroupObservation.nothing(2, GROUPS)
    for values in (*seen.arrivals, seen.local, seen.traced, seen.inter_bytes):
        values[:] = 5.0
    found = apply_all([ObserveGroups(0, "recent", {"J1": seen.to_json()}), close(2)], manifest(segment("s")))
    figures: GroupFigures = found.figures["J1"]
    for totals in (figures.local_output, figures.global_output, figures.inter_bytes):
        assert totals.tolist() == [5.0, 5.0, 0.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    assert figures.recent_local[-1].tolist() == [5.0] * GROUPS, "what came lately still came lately"


@st.composite
def histories(draw: st.DrawFn) -> list[Update]:
    """Segments that come, groups that are closed, and segments that cool where a generation is closed."""
    updates: list[Update] = []
    found = EMPTY
    for number in range(draw(st.integers(1, 10))):
        kinds = ["add", "close"]
        active = [entry for entry in found.segments.values() if entry.tier == "active" and entry.state in STATES]
        if active and found.closed:
            kinds.append("cool")
        groups = union_ranges(draw(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8)), min_size=1, max_size=3)))
        kind = draw(st.sampled_from(kinds))
        if kind == "add" and groups:
            update: Update = AddSegment(segment(f"s{number}", draw(st.sampled_from(STATES)), groups))
        elif kind == "cool":
            chosen = draw(st.sampled_from(active))
            owing = set(found.closed["J1"]) & set(expand_ranges(chosen.groups))
            update = CoolGroups("J1", chosen.id, union_ranges((group, group + 1) for group in owing))
        else:
            update = CloseGroups("J1", STATES, groups)
        updates.append(update)
        found = apply(update, found)
    return updates


@settings(max_examples=200, deadline=None)
@given(histories())
def test_no_row_of_a_file_comes_or_goes(history: list[Update]) -> None:
    found = EMPTY
    whole: dict[str, Counter[int]] = {}
    for update in history:
        before = found
        found = apply(update, found)
        if isinstance(update, AddSegment):
            whole[update.segment.id] = Counter(update.segment.rows_by_group)
        held: dict[str, Counter[int]] = {name: Counter() for name in whole}
        for entry in found.segments.values():
            held[entry.file].update(entry.rows_by_group)
            assert entry.live_rows == sum(entry.rows_by_group.values())
            if entry.tier == "cold":
                for group in entry.rows_by_group:
                    assert entry.generation <= found.live_generation("J1", group)
        assert held == whole, "each group of a file is in one entry"
        for group in range(GROUPS):
            closed = isinstance(update, CloseGroups) and group in expand_ranges(update.groups)
            assert found.live_generation("J1", group) == before.live_generation("J1", group) + closed
            if closed:
                live = [entry for entry in found.segments.values() if entry.tier == "active" and entry.state in STATES]
                assert not any(group in entry.rows_by_group for entry in live)
