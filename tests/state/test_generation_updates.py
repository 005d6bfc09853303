"""`CloseGroups`, `CoolGroups`, `SwitchPlan`: entries are split and united, and no row of a file comes or goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import InternalError
from watersmeet.model.group_figures import GroupFigures, GroupObservation
from watersmeet.model.ids import LIVE, Generation, OperatorName, SegmentId, StateName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, expand_ranges, union_ranges
from watersmeet.model.segments import Segment
from watersmeet.plan.spec import JoinSpec, PlanSpec
from watersmeet.plan.tree import Join, Leaf
from watersmeet.state.applying import apply_all
from watersmeet.state.manifest import Manifest, Track
from watersmeet.state.query_identity import QueryIdentity
from watersmeet.state.segment_table import SegmentTable, next_generation
from watersmeet.state.updates import (
    AddSegment,
    CloseGroups,
    CoolGroups,
    ObserveGroups,
    ReleaseGroups,
    SwitchPlan,
    Update,
)

GROUPS = 8
A, B = StateName("A@k"), StateName("B@k")
STATES = (A, B)
OTHER = StateName("C@k2")  # a state of another operator
J1 = OperatorName("A*B")
SPEC = PlanSpec(Join((Leaf("A"), Leaf("B"))), (JoinSpec(((1,), (0,))),))
EMPTY = Manifest(0, QueryIdentity("SELECT 1", {}, "digest"), (Track(SPEC),), Placement(2, GROUPS), SegmentTable.of())


def segment(name: str, state: StateName = A, groups: tuple[GroupRange, ...] = ((0, GROUPS),)) -> Segment:
    """With group + 1 rows, and half as many keys, in each of its groups."""
    rows = tuple(group + 1 for group in expand_ranges(groups))
    keys = tuple(max(1, count // 2) for count in rows)
    total = sum(rows)
    return Segment(
        SegmentId(name), state, total, total * 10, 0, groups, groups, 5, 9, 1, 0, group_rows=rows, group_keys=keys
    )


def manifest(*segments: Segment) -> Manifest:
    return replace(EMPTY, segments=SegmentTable.of(segments))


def apply(update: Update, found: Manifest) -> Manifest:
    return apply_all([update], found)


def entries(found: Manifest) -> dict[str, tuple[str, int, list[int]]]:
    """By id: tier, generation and groups."""
    return {entry.id: (entry.tier, entry.generation, expand_ranges(entry.groups)) for entry in found.segments.values()}


def close(*groups: int, generation: int = 1) -> CloseGroups:
    return CloseGroups(J1, STATES, union_ranges((group, group + 1) for group in groups), Generation(generation))


def test_a_file_that_is_cold_in_part_has_an_entry_for_each_part() -> None:
    found = apply(close(2, 3, 6), manifest(segment("s"), segment("t", B, ((3, 5),)), segment("u", OTHER)))
    assert entries(found) == {
        "s": ("active", LIVE, [0, 1, 4, 5, 7]),
        "s~1.2": ("cold", 1, [2, 3, 6]),
        "t": ("active", LIVE, [4]),
        "t~1.3": ("cold", 1, [3]),
        "u": ("active", LIVE, list(range(GROUPS))),
    }
    cold = found.segments[SegmentId("s~1.2")]
    assert (cold.file, cold.live_rows, cold.live_bytes) == ("s", 3 + 4 + 7, 140)
    assert cold.rows_by_group == {2: 3, 3: 4, 6: 7}
    assert found.active_bytes + found.cold_bytes == manifest(*found.segments.values()).state_rows * 10


def test_a_file_whose_groups_all_go_cold_has_cold_entries_only() -> None:
    found = apply(close(*range(GROUPS)), manifest(segment("s")))
    assert entries(found) == {"s~1.0": ("cold", 1, list(range(GROUPS)))}
    assert (found.active_bytes, found.segments[SegmentId("s~1.0")].file) == (0, "s")


def test_groups_without_rows_do_not_keep_a_file_active() -> None:
    """Or every batch would go on opening it."""
    sparse = replace(segment("s"), rows=7, group_rows=(0, 0, 3, 0, 0, 4, 0, 0), group_keys=(0, 0, 1, 0, 0, 1, 0, 0))
    found = apply(close(2), manifest(sparse))
    assert entries(found) == {"s": ("active", LIVE, [0, 1, 3, 4, 5, 6, 7]), "s~1.2": ("cold", 1, [2])}
    again = apply(close(5, generation=2), found)
    assert entries(again) == {"s~1.2": ("cold", 1, [2]), "s~2.5": ("cold", 2, [5])}


def test_generations_are_numbered_by_operator() -> None:
    """One number for all groups that are closed at once, and the next one for those that are closed later."""
    found = apply(close(0, 1), manifest(segment("s")))
    assert next_generation(found.segments, STATES) == 2
    found = apply(close(1, 2, generation=2), apply(AddSegment(segment("t")), found))
    assert entries(found) == {
        "s~1.0": ("cold", 1, [0, 1]),
        "s": ("active", LIVE, list(range(3, GROUPS))),
        "s~2.2": ("cold", 2, [2]),
        "t": ("active", LIVE, [0, 3, 4, 5, 6, 7]),
        "t~2.1": ("cold", 2, [1, 2]),
    }
    assert next_generation(found.segments, STATES) == 3
    assert next_generation(found.segments, (OTHER,)) == 1


def test_groups_without_rows_leave_no_entry() -> None:
    found = apply(close(7), manifest(segment("s", groups=((0, 2),))))
    assert entries(found) == {"s": ("active", LIVE, [0, 1])}


def test_expired_rows_go_cold_with_their_live_generation() -> None:
    """The part that has cooled is of the generation that the next close gives the rest of the group."""
    found = apply(AddSegment(segment("u")), apply(close(1, 2), manifest(segment("s"))))
    found = apply(CoolGroups(SegmentId("u"), A, ((1, 3),)), found)
    assert entries(found)["u~live.1"] == ("cold", LIVE, [1, 2])
    assert expand_ranges(found.segments[SegmentId("u")].groups) == [0, 3, 4, 5, 6, 7]
    assert next_generation(found.segments, STATES) == 2, "to cool closes nothing"
    again = apply(close(1, generation=2), found)
    assert {name: entry for name, entry in entries(again).items() if name.startswith("u")} == {
        "u": ("active", LIVE, [0, 3, 4, 5, 6, 7]),
        "u~live.1": ("cold", LIVE, [2]),
        "u~2.1": ("cold", 2, [1]),
    }


def test_to_cool_what_has_gone_is_nothing() -> None:
    """What the batch's own releases left of a segment may have had no rows."""
    found = manifest(segment("s"))
    assert entries(apply(CoolGroups(SegmentId("gone"), A, ((0, 3),)), found)) == entries(found)


def test_one_part_of_a_file_cannot_be_two_entries() -> None:
    cold = segment("s").cold(((2, 3),), Generation(1))
    with pytest.raises(InternalError):
        apply(close(2), manifest(segment("s"), cold))


def test_totals_of_a_group_begin_anew_with_its_generation() -> None:
    seen = GroupObservation.nothing(2, GROUPS)
    for values in (*seen.arrivals, seen.local, seen.traced, seen.inter_bytes):
        values[:] = 5.0
    found = apply_all([ObserveGroups(0, "recent", {J1: seen}), close(2)], manifest(segment("s")))
    figures: GroupFigures = found.figures[J1]
    for totals in (figures.local_output, figures.global_output, figures.inter_bytes):
        assert totals.tolist() == [5.0, 5.0, 0.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    assert figures.came.tolist() == [10.0, 10.0, 0.0, 10.0, 10.0, 10.0, 10.0, 10.0]
    assert figures.recent_local[-1].tolist() == [5.0] * GROUPS, "what came lately still came lately"


def active(found: Manifest) -> list[Segment]:
    return [entry for state in STATES for entry in found.segments.active(state).entries.values()]


@st.composite
def histories(draw: st.DrawFn) -> list[Update]:
    """Segments that come, groups that are closed, and segments that cool."""
    updates: list[Update] = []
    found = EMPTY
    for number in range(draw(st.integers(1, 10))):
        groups = union_ranges(draw(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8)), min_size=1, max_size=3)))
        kind = draw(st.sampled_from(["add", "close", *(["cool"] if active(found) else [])]))
        if kind == "add" and groups:
            update: Update = AddSegment(segment(f"s{number}", draw(st.sampled_from(STATES)), groups))
        elif kind == "cool":
            chosen = draw(st.sampled_from(active(found)))
            update = CoolGroups(chosen.id, chosen.state, groups)
        else:
            update = CloseGroups(J1, STATES, groups, next_generation(found.segments, STATES))
        updates.append(update)
        found = apply(update, found)
    return updates


@settings(max_examples=200, deadline=None)
@given(histories())
def test_no_row_of_a_file_comes_or_goes(history: list[Update]) -> None:
    found = EMPTY
    whole: dict[str, Counter[int]] = {}
    for update in history:
        before, found = found, apply(update, found)
        if isinstance(update, AddSegment):
            whole[update.segment.id] = Counter(update.segment.rows_by_group)
        held: dict[str, Counter[int]] = {name: Counter() for name in whole}
        for entry in found.segments.values():
            held[entry.file].update(entry.rows_by_group)
            assert entry.live_rows == sum(entry.rows_by_group.values())
        assert held == whole, "each group of a file is in one entry"
        if isinstance(update, CloseGroups):
            closed = set(expand_ranges(update.groups))
            live = [*active(found), *(e for s in STATES for e in _cooled(found, s))]
            assert not any(closed & entry.rows_by_group.keys() for entry in live)
            for state in STATES:
                assert update.generation not in before.segments.cold(state)
                bucket = found.segments.cold(state).get(update.generation)
                for entry in () if bucket is None else bucket.entries.values():
                    assert closed >= entry.rows_by_group.keys()


def _cooled(found: Manifest, state: StateName) -> list[Segment]:
    bucket = found.segments.cold(state).get(LIVE)
    return [] if bucket is None else list(bucket.entries.values())


# --- another plan ----------------------------------------------------------------------------------------------------


def switch(
    *reopened: StateName, dropped: tuple[StateName, ...] = (), within: tuple[GroupRange, ...] | None = None
) -> SwitchPlan:
    tracks = (Track(SPEC, "why", since_batch=7),)
    return SwitchPlan(tracks, tuple((s, within) for s in dropped), tuple((s, within) for s in reopened), ())


def test_parts_of_a_file_become_one_entry_again() -> None:
    whole = segment("s")
    found = manifest(whole)
    for number, groups in enumerate(((0, 1), (5,)), start=1):
        found = apply(close(*groups, generation=number), found)
    assert len(found.segments) == 3
    after = apply(switch(A), found)
    assert dict(after.segments) == {whole.id: whole}
    assert (after.active_bytes, after.cold_bytes, after.state_rows) == (whole.bytes, 0, whole.rows)
    assert after.answering.since_batch == 7


def test_groups_that_a_file_has_lost_stay_lost() -> None:
    found = apply(ReleaseGroups(SegmentId("s"), ((2, 4),)), manifest(segment("s")))
    found = apply(close(0, generation=1), found)
    after = apply(switch(A), found)
    (entry,) = after.segments.values()
    assert (entry.id, entry.groups, entry.tier, entry.generation) == ("s", ((0, 2), (4, GROUPS)), "active", LIVE)
    assert entry.live_rows == after.state_rows < entry.rows


def test_expired_rows_of_a_live_generation_are_active_again_too() -> None:
    found = apply(close(1, generation=1), manifest(segment("s"), segment("t")))
    found = apply(CoolGroups(SegmentId("t"), A, ((0, 3),)), found)
    assert {entry.tier for entry in found.segments.values() if entry.file == "t"} == {"active", "cold"}
    after = apply(switch(A), found)
    assert {entry.id: entry.groups for entry in active(after)} == {"s": ((0, GROUPS),), "t": ((0, GROUPS),)}
    assert len(after.segments) == 2


def test_other_states_stay_as_they_are_or_go() -> None:
    other, third = OTHER, StateName("D@k3")
    found = apply(close(3, generation=1), manifest(segment("s"), segment("t", other), segment("u", third)))
    after = apply(switch(dropped=(other,)), found)
    assert {name: entry for name, entry in after.segments.items() if entry.state == A} == {
        name: entry for name, entry in found.segments.items() if entry.state == A
    }, "a join that both plans have goes on with its generations"
    assert {entry.state for entry in after.segments.values()} == {A, third}
    assert len(apply(switch(dropped=(A, other, third)), found).segments) == 0


def test_of_some_groups_alone_others_stay_as_they_are() -> None:
    found = apply(close(0, 1, 5, generation=1), manifest(segment("s"), segment("u", OTHER)))
    after = apply(switch(A, dropped=(OTHER,), within=((0, 1), (2, 3))), found)
    assert entries(after) == {
        "s": ("active", LIVE, [0, 2, 3, 4, 6, 7]),
        "s~1.1": ("cold", 1, [1, 5]),
        "u": ("active", LIVE, [1, 3, 4, 5, 6, 7]),
    }


def test_a_part_that_loses_its_first_group_has_a_name_that_this_does_not_come_to_again() -> None:
    found = apply(CoolGroups(SegmentId("s"), A, ((2, 4),)), manifest(segment("s")))
    found = apply(switch(A, within=((2, 3),)), found)
    after = apply(CoolGroups(SegmentId("s"), A, ((2, 3),)), found)
    assert entries(after) == {
        "s": ("active", LIVE, [0, 1, 4, 5, 6, 7]),
        "s~live.3": ("cold", LIVE, [3]),
        "s~live.2": ("cold", LIVE, [2]),
    }


@settings(max_examples=50, deadline=None)
@given(histories(), st.sets(st.integers(0, GROUPS - 1)))
def test_no_row_comes_or_goes_with_a_switch_of_some_groups(history: list[Update], chosen: set[int]) -> None:
    found = apply_all(history, EMPTY)
    after = apply(switch(*STATES, within=union_ranges((group, group + 1) for group in chosen)), found)
    for group in range(GROUPS):
        rows = [sum(entry.rows_by_group.get(group, 0) for entry in of.segments.values()) for of in (found, after)]
        assert rows[0] == rows[1]
        if group in chosen:
            assert all(entry.active for entry in after.segments.values() if entry.rows_by_group.get(group))


@settings(max_examples=100, deadline=None)
@given(histories())
def test_no_row_comes_or_goes_with_a_switch(history: list[Update]) -> None:
    found = apply_all(history, EMPTY)
    after = apply(switch(*STATES), found)
    before: dict[str, Counter[int]] = {}
    for entry in found.segments.values():
        before.setdefault(entry.file, Counter()).update(entry.rows_by_group)
    assert {entry.id: Counter(entry.rows_by_group) for entry in after.segments.values()} == before
    assert {entry.id for entry in active(after)} == set(after.segments), "all of one generation, which is probed"
