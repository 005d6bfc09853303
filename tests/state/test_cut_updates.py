"""A group is cut in two: entries, counts, owners and figures follow, and no row comes or goes.

Files are lists of hashes here, so that what every entry says of itself can be counted again at any time.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import InternalError
from watersmeet.kernel.hashing import UInt64Array
from watersmeet.model.bounds import HASH_END, Bounds
from watersmeet.model.group_figures import GroupFigures, GroupObservation
from watersmeet.model.ids import Generation, OperatorName, Partitioning, SegmentId, StateName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, Slice, union_ranges
from watersmeet.model.segments import Segment
from watersmeet.plan.spec import JoinSpec, PlanSpec
from watersmeet.plan.tree import Join, Leaf
from watersmeet.runtime.cutting import count_between
from watersmeet.state.applying import apply_all
from watersmeet.state.manifest import Manifest, Track
from watersmeet.state.query_identity import QueryIdentity
from watersmeet.state.segment_files import count_by_group
from watersmeet.state.segment_table import SegmentTable, next_generation
from watersmeet.state.updates import (
    AddSegment,
    CloseGroups,
    CoolGroups,
    CutRange,
    ObserveGroups,
    ReleaseGroups,
    Update,
    update_from_json,
    update_to_json,
)

GROUPS = 4
WIDTH = HASH_END // GROUPS
K0, K1 = Partitioning("k0"), Partitioning("k1")
A, B, OTHER = StateName("A@k"), StateName("B@k"), StateName("C@k2")  # the last is hashed on another key
J1, J2 = OperatorName("A*B"), OperatorName("A+B*C")
SPEC = PlanSpec(Join((Leaf("A"), Leaf("B"))), (JoinSpec(((1,), (0,))),))
EMPTY = Manifest(0, QueryIdentity("SELECT 1", {}, "digest"), (Track(SPEC),), Placement(2, GROUPS), SegmentTable.of())

Files = dict[SegmentId, UInt64Array]


@dataclass
class World:
    """A manifest, and the hashes in each file."""

    manifest: Manifest
    files: Files

    @property
    def bounds(self) -> Bounds:
        return self.manifest.placement.of(K0).bounds

    def make(self, name: str, state: StateName, groups: tuple[GroupRange, ...], values: list[int]) -> Segment:
        """A file with those of the values that lie in the groups."""
        bounds = self.bounds if state != OTHER else Bounds(GROUPS)
        array = np.array(sorted(values), dtype=np.uint64)
        inside = np.zeros(len(bounds), dtype=bool)
        for low, high in groups:
            inside[low:high] = True
        array = array[inside[bounds.groups_of(array)]] if len(array) else array
        self.files[SegmentId(name)] = array
        rows, keys = count_by_group(array, Slice(groups, bounds))
        made = Segment(SegmentId(name), state, len(array), 10 * len(array), 0, groups, groups, 5, 9, 1, 0)
        return replace(made, group_rows=rows, group_keys=keys)

    def cut(self, group: int, at_hash: int, share: float = 0.5) -> CutRange:
        begin = self.bounds.hash_start(group)
        entries = [entry for entry in self.manifest.segments.values() if entry.state in (A, B)]
        first = {entry.file: count_between(self.files[entry.file], begin, at_hash) for entry in entries}
        return CutRange(K0, group, at_hash, (A, B), first, {J1: share})

    def apply(self, *updates: Update) -> None:
        """Through JSON, as a restart reads them."""
        stored = json.loads(json.dumps([update_to_json(update) for update in updates]))
        self.manifest = apply_all(map(update_from_json, stored), self.manifest)

    def check(self) -> None:
        """What every entry says of itself is what its file holds."""
        for entry in self.manifest.segments.values():
            bounds = self.bounds if entry.state != OTHER else Bounds(GROUPS)
            values = self.files[entry.file]
            counts = count_by_group(values, Slice(entry.written, bounds))
            assert (entry.group_rows, entry.group_keys) == counts, entry
            assert entry.live_rows == sum(entry.rows_by_group.values())
        assert Manifest.from_json(json.loads(json.dumps(self.manifest.to_json()))) == self.manifest

    def held(self) -> Counter[tuple[str, str, int, int]]:
        """Every row that an entry stands for: its file, tier, generation and hash."""
        found: Counter[tuple[str, str, int, int]] = Counter()
        for entry in self.manifest.segments.values():
            bounds = self.bounds if entry.state != OTHER else Bounds(GROUPS)
            groups = set(entry.rows_by_group)
            for value, group in zip(self.files[entry.file], bounds.groups_of(self.files[entry.file]), strict=True):
                if int(group) in groups:
                    found[entry.file, entry.tier, entry.generation, int(value)] += 1
        return found


def spread(*shares: float) -> list[int]:
    """Hashes at these places of the whole range, counted in groups of the four."""
    return [int(share * WIDTH) for share in shares]


def test_active_and_cold_entries_of_several_generations_follow() -> None:
    world = World(EMPTY, {})
    rows = spread(0.1, 1.1, 1.2, 1.2, 1.9, 2.5, 3.5)
    world.apply(
        AddSegment(world.make("a", A, ((0, 4),), rows)),
        AddSegment(world.make("b", B, ((1, 3),), rows)),
        AddSegment(world.make("c", OTHER, ((0, 4),), rows)),
        CloseGroups(J1, (A, B), ((1, 2),), Generation(1)),
        CoolGroups(SegmentId("a"), A, ((3, 4),)),
        ReleaseGroups(SegmentId("b"), ((2, 3),)),
        AddSegment(world.make("d", A, ((1, 2),), rows)),
        CloseGroups(J1, (A, B), ((1, 2),), Generation(2)),
    )
    before, other = world.held(), world.manifest.segments[SegmentId("c")]
    world.apply(world.cut(1, *spread(1.5)))
    world.check()
    assert world.held() == before
    assert world.manifest.segments[SegmentId("c")] == other, "its groups are those of another key"
    assert {name: (entry.groups, entry.written) for name, entry in world.manifest.segments.items()} == {
        "a": (((0, 1), (3, 4)), ((0, 5),)),
        "a~1.1": (((1, 3),), ((0, 5),)),
        "a~live.4": (((4, 5),), ((0, 5),)),
        "b~1.1": (((1, 3),), ((1, 4),)),
        "c": (((0, 4),), ((0, 4),)),
        "d~2.1": (((1, 3),), ((1, 3),)),
    }
    part = world.manifest.segments[SegmentId("a~1.1")]
    assert (part.rows_by_group, part.held_keys.tolist()) == ({1: 3, 2: 1}, [2, 1])
    assert world.manifest.placement.of(K0).owners == (0, 0, 0, 1, 1)
    assert world.manifest.placement.of(K1).groups == GROUPS


def test_a_part_that_goes_cold_later_has_a_name_of_its_own() -> None:
    """Parts are called by their first group: what was group 2 is group 3 after the cut, and group 1 is group 2."""
    world = World(EMPTY, {})
    world.apply(
        AddSegment(world.make("a", A, ((0, 4),), spread(0.5, 1.5, 2.5, 3.5))),
        CoolGroups(SegmentId("a"), A, ((2, 3),)),
        CutRange(K0, 0, WIDTH // 4, (A, B), {SegmentId("a"): (0, 0)}, {}),
        CoolGroups(SegmentId("a"), A, ((2, 3),)),
    )
    cold = {name: entry.groups for name, entry in world.manifest.segments.items() if not entry.active}
    assert cold == {"a~live.3": ((3, 4),), "a~live.2": ((2, 3),)}
    world.check()


def test_a_file_that_nobody_has_counted_is_not_guessed_at() -> None:
    world = World(EMPTY, {})
    world.apply(AddSegment(world.make("a", A, ((0, 4),), spread(1.5))))
    with pytest.raises(InternalError, match="nobody has counted"):
        world.apply(replace(world.cut(1, *spread(1.7)), first={}))
    world.apply(replace(world.cut(0, *spread(0.7)), first={}))  # it has no row there
    world.check()


def test_a_file_without_counts_by_group_has_none_afterwards() -> None:
    """As earlier formats wrote them: groups are taken to be of one size."""
    world = World(EMPTY, {})
    entry = replace(world.make("a", A, ((0, 4),), spread(0.5, 1.5, 2.5, 3.5)), group_rows=(), group_keys=())
    world.apply(AddSegment(entry), CutRange(K0, 1, WIDTH + WIDTH // 2, (A, B), {}, {}))
    (found,) = world.manifest.segments.values()
    assert (found.groups, found.group_rows, found.live_rows) == (((0, 5),), (), 4)


def test_figures_are_shared_out_by_rows() -> None:
    seen = GroupObservation.nothing(2, GROUPS)
    for values in (*seen.arrivals, seen.local, seen.traced, seen.inter_bytes):
        values[:] = [1.0, 8.0, 3.0, 4.0]
    world = World(EMPTY, {})
    observed = ObserveGroups(5, "average", {J1: seen, J2: seen})
    world.apply(observed, observed)
    before = world.manifest.figures
    world.apply(world.cut(1, *spread(1.5), share=0.25))
    found: GroupFigures = world.manifest.figures[J1]
    assert found.local_output.tolist() == found.inter_bytes.tolist() == [2.0, 4.0, 12.0, 6.0, 8.0]
    assert found.global_output.tolist() == [2.0, 4.0, 12.0, 6.0, 8.0]
    assert found.came.tolist() == [4.0, 8.0, 24.0, 12.0, 16.0]
    assert found.last_use.tolist() == [5.0] * 5
    kept = (*found.arrivals[0], *found.arrivals[1], *found.recent_local, *found.recent_global)
    assert len(kept) == 8, "two observations of each"
    assert all(values.tolist() == [1.0, 2.0, 6.0, 3.0, 4.0] for values in kept)
    assert world.manifest.figures[J2] == before[J2], "an operator on another key"
    more = GroupObservation.nothing(2, GROUPS + 1)
    world.apply(ObserveGroups(6, "average", {J1: more}))
    assert len(world.manifest.figures[J1].came) == GROUPS + 1


PLACES = st.floats(0, 3.999).map(lambda place: spread(place)[0])
SPANS = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8)), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_came_before_a_cut_splits_counts_and_moves_no_row(data: st.DataObject) -> None:
    world = World(EMPTY, {})
    for number in range(data.draw(st.integers(2, 14))):
        total = len(world.bounds)
        groups = union_ranges((low, min(high, total)) for low, high in data.draw(SPANS))
        entries = list(world.manifest.segments.values())
        live = [entry for entry in entries if entry.active and entry.state != OTHER]
        kind = data.draw(st.sampled_from(["add", "close", "cut", "cut", *(["cool", "release"] if live else [])]))
        if kind == "cut":
            group = data.draw(st.integers(0, total - 1))
            low, high = world.bounds.hash_start(group), world.bounds.hash_start(group + 1)
            if high - low < 2:
                continue
            # Half of them at a row, where there is one.
            inside = [int(v) for values in world.files.values() for v in values if low < v < high]
            at_row = inside and data.draw(st.booleans())
            at_hash = data.draw(st.sampled_from(inside) if at_row else st.integers(low + 1, high - 1))
            before = world.held()
            world.apply(world.cut(group, at_hash))
            assert world.held() == before
            assert len(world.bounds) == total + 1
        elif kind == "add" and groups:
            state = data.draw(st.sampled_from([A, B]))
            values = data.draw(st.lists(PLACES, max_size=8))
            made = world.make(f"s{number}", state, groups, values + values[:3])
            if made.rows:
                world.apply(AddSegment(made))
        elif kind == "close" and groups:
            world.apply(CloseGroups(J1, (A, B), groups, next_generation(world.manifest.segments, (A, B))))
        elif kind == "cool" and groups:
            chosen = data.draw(st.sampled_from(live))
            world.apply(CoolGroups(chosen.id, chosen.state, groups))
        elif kind == "release":
            world.apply(ReleaseGroups(data.draw(st.sampled_from([entry.id for entry in entries])), groups))
        world.check()
