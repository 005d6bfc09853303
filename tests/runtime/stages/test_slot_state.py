"""What a slot keeps: it reads its own groups, writes new rows down, and lets go of what nobody needs."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from runtime.stages.small_tasks import EVEN, LOWER, PLAN, A, B, Task, batch, group_of, hash_of, pairs
from small_plans import GROUPS, SECOND, chain_plan, named
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.pieces import merged
from watersmeet.kernel.window import NEVER
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import LIVE, UNITED, SegmentId
from watersmeet.model.routing import union_ranges
from watersmeet.model.segments import Segment
from watersmeet.runtime.context import GroupsToMerge, PartsToUnite
from watersmeet.runtime.stages.slot_state import SlotState
from watersmeet.state import compaction

KEYS = range(40)
J1 = named(PLAN, "J1")
ALL = ((0, GROUPS),)


# Every group cut, some at the hash of a key, and the one of key 1 between that and others of the same group.
CUTS = (5, *sorted({group_of(key): hash_of(key) for key in KEYS if key != 1}.values()))
FINE = Bounds(GROUPS, tuple(sorted(CUTS)))
either_bounds = pytest.mark.parametrize("bounds", [EVEN, FINE], ids=["even groups", "finer ones"])


def kept(state: SlotState) -> list[tuple[int, float]]:
    return sorted(pair for piece in state.kept(A) for pair in pairs(A, piece.part))


@either_bounds
def test_a_slot_reads_the_rows_of_its_own_groups(bounds: Bounds) -> None:
    task = Task(slots=2, owners=tuple(group % 2 for group in range(len(bounds))), cuts=bounds.cuts)
    task.write(A, [(key, 1) for key in KEYS])
    task.write(A, [(key, 2) for key in KEYS])
    for slot in range(2):
        mine = [key for key in KEYS if group_of(key, bounds) % 2 == slot]
        assert kept(task.state(slot)) == sorted((key, second) for key in mine for second in (1.0, 2.0))
    assert task.state(0).rows_in_all_slots(A) == 2 * len(KEYS)


def test_groups_that_have_left_a_segment_are_not_read() -> None:
    task = Task()
    written = task.write(A, [(key, 1) for key in KEYS])
    task.active[A.name] = [written.without(((2, 5),))]
    assert kept(task.state()) == [(key, 1.0) for key in KEYS if group_of(key) not in (2, 3, 4)]


def test_new_rows_become_a_segment_with_the_slots_groups() -> None:
    task = Task(slots=2)
    state = task.state(1)
    mine = [(key, 5.0) for key in KEYS if group_of(key) >= GROUPS // 2]
    state.keep(A, [Indexed.run(batch(A, mine))])
    (added,) = state.added
    assert (added.groups, added.rows, added.active, added.batch) == (((4, 8),), len(mine), True, 3)
    assert task.read(added, A) == sorted(mine)
    assert state.released == []


def test_nothing_new_is_nothing_written() -> None:
    state = Task().state()
    state.keep(A, [Indexed.run(batch(A, []))])
    assert (state.added, state.released) == ([], [])


def test_segments_are_merged_as_compaction_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FANOUT", 2)
    task = Task(slots=2, owners=(0, 1) * 4)
    before = task.write(A, [(key, 1) for key in KEYS])
    mine = [key for key in KEYS if group_of(key) % 2 == 0]
    state = task.state(0)
    state.keep(A, [Indexed.run(batch(A, [(key, 2) for key in mine]))])
    (added,) = state.added
    assert task.read(added, A) == sorted((key, second) for key in mine for second in (1.0, 2.0))
    assert state.released == [(before.id, ((0, 1), (2, 3), (4, 5), (6, 7)))], "the other slot lets go of its own part"


def test_rows_that_nobody_needs_are_not_written_down() -> None:
    """A has a window of ten seconds."""
    state = Task(horizon=15).state()
    state.keep(A, [Indexed.run(batch(A, [(1, 4.9), (1, 5), (1, 5.1), (2, 9)]))])
    (added,) = state.added
    assert [added.rows, added.min_expiry_us] == [2, 15_100_000]


def test_a_merge_drops_what_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FANOUT", 2)
    task = Task(horizon=15)
    task.write(A, [(1, 4), (1, 6)])
    state = task.state()
    state.keep(A, [Indexed.run(batch(A, [(2, 6)]))])
    (added,) = state.added
    assert task.read(added, A) == [(1, 6.0), (2, 6.0)]


@either_bounds
def test_in_groups_with_a_closed_generation_expired_rows_go_cold(bounds: Bounds) -> None:
    """They are owed results with it. In other groups they go."""
    owing = group_of(1, bounds)
    task = Task(horizon=15, closed={A.name: ((owing, owing + 1),)}, cuts=bounds.cuts)
    state = task.state()
    lost = next(key for key in KEYS if group_of(key, bounds) != owing)
    state.keep(A, [Indexed.run(batch(A, [(1, 1), (lost, 1), (1, 9)]))])
    cold, active = sorted(state.added, key=lambda segment: segment.active)
    assert (cold.generation, cold.tier, cold.groups) == (LIVE, "cold", ((owing, owing + 1),))
    assert (task.read(cold, A), task.read(active, A)) == ([(1, 1.0)], [(1, 9.0)])


def test_a_segment_for_one_batch_is_not_added() -> None:
    task = Task()
    state = task.state()
    segment = state.write_scratch([Indexed.run(batch(A, [(1, 1)]))], A)
    assert segment is not None
    assert (state.added, state.scratch) == ([], [segment.id])
    assert task.read(segment, A) == [(1, 1.0)]


# --- closed generations ----------------------------------------------------------------------------------------------


def merge_of(*segments: Segment, groups: tuple[int, ...], live_since: int = NEVER) -> GroupsToMerge:
    ranges = union_ranges((group, group + 1) for group in groups)
    held = tuple(part for part in (segment.only(ranges) for segment in segments) if part.groups)
    return GroupsToMerge(J1, groups, held, (live_since,) * len(groups), UNITED)


def test_generations_come_oldest_first() -> None:
    one, two = group_of(1), group_of(next(key for key in KEYS if group_of(key) != group_of(1)))
    key = next(key for key in KEYS if group_of(key) == two)
    left_out = next(key for key in KEYS if group_of(key) not in (one, two))
    task = Task()
    third = task.write(B, [(key, 3)], generation=9)
    first = task.write(A, [(1, 1), (key, 1), (left_out, 1)], generation=UNITED)
    second = task.write(A, [(1, 2)], generation=5)
    merge = merge_of(third, first, second, groups=tuple(sorted((one, two))))
    found = task.state().closed_generations(merge, (A, B))
    assert [
        [pairs(state, merged(runs, state.schema)) for state, runs in zip((A, B), generation, strict=True)]
        for generation in found
    ] == [
        [sorted([(1, 1.0), (key, 1.0)]), []],
        [[(1, 2.0)], []],
        [[], [(key, 3.0)]],
    ]


def test_a_slot_merges_its_own_groups() -> None:
    task = Task(slots=2, owners=(0, 1) * 4)
    cold = task.write(A, [(key, 1) for key in KEYS], generation=2)
    merge = replace(merge_of(cold, groups=(1, 2, 4)), others_since_us=(10, 20, 40))
    zero, one = (task.state(slot).mine(merge, A) for slot in range(2))
    assert zero is not None and one is not None
    assert (zero.groups, zero.others_since_us, zero.segments[0].groups) == ((2, 4), (20, 40), ((2, 3), (4, 5)))
    assert (one.groups, one.others_since_us, one.segments[0].groups) == ((1,), (10,), ((1, 2),))
    assert task.state(0).mine(merge_of(cold, groups=(1, 3)), A) is None


def test_united_generations_are_one_segment_of_each_state() -> None:
    group = group_of(1)
    task = Task()
    first = task.write(A, [(1, 1), *((key, 1) for key in KEYS)], generation=2)
    second = task.write(B, [(1, 2)], generation=5)
    state = task.state()
    merge = merge_of(first, second, groups=(group,))
    state.unite(merge, (A, B))
    assert sorted(state.released) == sorted([(first.id, ((group, group + 1),)), (second.id, ((group, group + 1),))])
    of_a, of_b = state.added
    assert {(s.generation, s.tier, s.groups) for s in state.added} == {(UNITED, "cold", ((group, group + 1),))}
    assert all(group_of(key) == group for key, _ in task.read(of_a, A))
    assert task.read(of_b, B) == [(1, 2.0)]


@pytest.mark.parametrize(
    "horizon, live_since, left",
    [(None, NEVER, [1, 5, 9]), (15, NEVER, [9]), (15, 12 * SECOND, [5, 9]), (15, 0, [1, 5, 9])],
    ids=[
        "no stream has come anywhere",
        "what no future row needs goes",
        "unless a row of the live generation may",
        "however old that is",
    ],
)
@either_bounds
def test_a_merge_keeps_what_may_still_be_joined(
    bounds: Bounds, horizon: float | None, live_since: int, left: list[int]
) -> None:
    task = Task(horizon=horizon, cuts=bounds.cuts)
    cold = task.write(A, [(1, 1), (1, 5), (1, 9)], generation=2)
    merge = merge_of(cold, groups=(group_of(1, bounds),), live_since=live_since)
    state = task.state()
    state.unite(merge, (A, B))
    (united,) = state.added
    assert [second for _, second in task.read(united, A)] == left


def test_parts_of_a_generation_become_one() -> None:
    """Each slot writes its own groups down, and lets go of them."""
    task = Task(slots=2, owners=(0, 1) * 4)
    parts = [task.write(A, [(key, second) for key in KEYS], generation=4) for second in (1, 2)]
    parts[1] = parts[1].without(((0, 1),))
    task.parts = (PartsToUnite(A.name, tuple(parts)),)
    released: dict[SegmentId, set[int]] = {}
    rows = []
    for slot in range(2):
        state = task.state(slot)
        state.unite_parts()
        (made,) = state.added
        assert (made.generation, made.tier) == (4, "cold")
        rows += task.read(made, A)
        for name, groups in state.released:
            released.setdefault(name, set()).update(group for low, high in groups for group in range(low, high))
    assert sorted(rows) == sorted((key, s) for key in KEYS for s in (1.0, 2.0) if s == 1 or group_of(key) != 0)
    assert released == {parts[0].id: set(range(8)), parts[1].id: set(range(1, 8))}


def test_what_rows_carry_for_bookkeeping_may_differ_from_plan_to_plan() -> None:
    """A run with a budget on the state of one that had none: rows of before have no lineage."""
    later = chain_plan(lineage=True)
    before = next(state for state in PLAN.states.values() if state.aliases == ("A", "B"))
    now = later.states[before.name]
    assert now.schema != before.schema
    task = Task(stage=PLAN.stages[1])
    task.write(before, [(key, 1) for key in KEYS])
    context = replace(task.context, stage=later.stages[1])
    (piece,) = SlotState(context, 0, task.segments).kept(now)
    assert piece.part.schema == now.schema
    added = set(now.schema.names) - set(before.schema.names)
    assert all(piece.part.column(name).null_count == len(KEYS) for name in added)
    assert piece.part.column("A.v").to_pylist() == piece.part.column("B.v").to_pylist()


def test_a_file_is_opened_once_for_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task()
    task.write(A, [(key, 1) for key in KEYS])
    reads: list[str] = []
    read = task.segments.read
    monkeypatch.setattr(task.segments, "read", lambda segment: reads.append(segment.id) or read(segment))
    state = task.state()
    state.kept(A)
    state.kept(A)
    state.hashes_in_all_slots(A)
    assert len(reads) == 1
    assert isinstance(state.kept(A)[0].part, pa.RecordBatch)
    assert LOWER.states
