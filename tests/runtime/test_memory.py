"""`MemoryKeeper` and the view that its policies decide by: what is spilled and merged, when, and how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from watersmeet.runtime.local_sources import RowsSource
from watersmeet.runtime.memory import MemoryKeeper
from watersmeet.runtime.memory_view import ROW_BYTES, view_memory

from small_plans import CHAIN, SECOND, STREAMS, chain_plan, manifest_of, piece, state_of
from watersmeet.adapt.decisions import MergeGroup, SpillGroups
from watersmeet.adapt.settings import ForcedStep, MemorySettings
from watersmeet.errors import JobError
from watersmeet.kernel.hashing import hash_keys
from watersmeet.lang.binder import bind
from watersmeet.model.group_figures import GroupObservation
from watersmeet.model.routing import Routing, groups_of
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.checkpoint import Checkpoint, in_memory
from watersmeet.runtime.events import Event
from watersmeet.runtime.local import LocalRun, MemoryResults, run_batches
from watersmeet.state.manifest import BatchRecord, Manifest
from watersmeet.state.segment_files import MemorySegments
from watersmeet.state.table import Table
from watersmeet.state.updates import UNITED, CloseGroups, FinishBatch, ObserveGroups, apply, apply_all

GROUPS = 8
PLAN = chain_plan()
ALL = ((0, GROUPS),)


def keeper_of(manifest: Manifest, settings: MemorySettings | None = None, plan: PhysicalPlan = PLAN) -> MemoryKeeper:
    return MemoryKeeper(plan, Checkpoint(Table(manifest), MemorySegments()), settings)


def cold_groups(manifest: Manifest) -> dict[str, set[int]]:
    """By operator, the groups with cold rows."""
    found: dict[str, set[int]] = {}
    for segment in manifest.segments.values():
        if segment.tier == "cold":
            found.setdefault(PLAN.operator_of[segment.state], set()).update(segment.rows_by_group)
    return found


# --- when a spill begins, and how much it takes ----------------------------------------------------------------------

# 8 groups of A and of B with 5 rows of 10 bytes each: 100 bytes a group, 800 in all.
HELD = (piece(PLAN, "a", "A", ALL, 0, rows=5), piece(PLAN, "b", "B", ALL, 0, rows=5))


@pytest.mark.parametrize(
    "budget, settings, spilled",
    [
        (None, {}, 0),
        (800, {}, 0),
        (799, {}, 3),
        (700, {}, 3),
        (400, {}, 4),
        (1, {}, 8),
        (1000, {"spill_at": 0.8}, 0),
        (999, {"spill_at": 0.8}, 3),
        (799, {"spill_share": 0.5}, 4),
        (799, {"spill_share": 1.0}, 8),
        (799, {"spill": "adaptive-global-flush"}, 1),
        (1, {"spill": "off"}, 0),
    ],
    ids=[
        "no budget",
        "just inside it",
        "a byte too much: 30 %",
        "less than a share too much: 30 %",
        "more than a share too much: all of that",
        "nothing fits",
        "just at the share of the budget",
        "a little above the share of the budget",
        "half of it",
        "all of it",
        "5 %, which is not a whole group",
        "spills are off",
    ],
)
def test_a_batch_that_left_too_much_is_followed_by_a_spill(
    budget: int | None, settings: dict[str, Any], spilled: int
) -> None:
    keeper = keeper_of(manifest_of(PLAN, *HELD), MemorySettings(budget, **{"spill": "largest", **settings}))
    keeper.after_batch(1.0)
    after = keeper.manifest
    assert len(cold_groups(after).get("J1", set())) == spilled
    assert (after.active_bytes, after.cold_bytes) == (800 - 100 * spilled, 100 * spilled)
    assert after.version == 1 + bool(spilled), "one commit, if any"
    decisions = keeper.taken()
    assert len(decisions) == len(after.decisions) == bool(spilled)
    for decision in decisions:
        assert decision["decision"] == "SpillGroups"
        assert len(decision["groups"]) == spilled
        assert decision["reason"].startswith(f"{settings.get('spill', 'largest')}: ")
    assert keeper.taken() == [], "they are told once"


def test_a_run_that_begins_with_too_much_spills_before_its_first_batch() -> None:
    keeper = keeper_of(manifest_of(PLAN, *HELD), MemorySettings(400))
    keeper.before_batch()
    assert sum(map(len, cold_groups(keeper.manifest).values())) == 4
    assert keeper.manifest.active_bytes == 400


def test_a_routed_join_that_outgrows_the_budget_is_reported() -> None:
    query = bind(CHAIN, STREAMS)
    plan = lay_out(query, choose_tree(query, "mjoin"))
    assert not plan.operators
    segment = piece(plan, "a", "A", ALL, 0)
    keeper = keeper_of(manifest_of(plan, segment), MemorySettings(10), plan)
    keeper.after_batch(1.0)
    (decision,) = keeper.taken()
    assert decision["decision"] == "CannotSpill"
    assert "J1 cannot be spilled, being routed" in decision["reason"]
    assert keeper.manifest.version == 1


# --- spills and merges of named groups -------------------------------------------------------------------------------


def test_a_spill_closes_all_states_of_its_operator_and_no_other() -> None:
    above = piece(PLAN, "c", "C", ALL, 0)
    keeper = keeper_of(manifest_of(PLAN, *HELD, above))
    keeper.spill(SpillGroups((("J1", 2), ("J1", 3)), "drawn"))
    assert cold_groups(keeper.manifest) == {"J1": {2, 3}}
    assert keeper.manifest.closed == {"J1": {2: 1, 3: 1}}
    assert keeper.manifest.segments["c"] == above
    assert keeper.manifest.decisions[-1]["reason"] == "drawn"


def test_a_spill_of_groups_without_rows_is_no_commit() -> None:
    keeper = keeper_of(manifest_of(PLAN, piece(PLAN, "a", "A", ((0, 2),), 0)))
    keeper.spill(SpillGroups((("J1", 5), ("J2", 0)), "drawn"))
    assert (keeper.manifest.version, keeper.manifest.closed, keeper.taken()) == (1, {}, [])


def test_what_is_live_is_closed_before_a_merge() -> None:
    keeper = keeper_of(manifest_of(PLAN, *HELD, piece(PLAN, "old", "A", ((1, 2),), 0, cold=0), closed={"J1": {1: 1}}))
    found = keeper.prepare_merges([MergeGroup("J1", 1, "drawn"), MergeGroup("J1", 2, "drawn")])
    assert found == [("J1", 1), ("J1", 2)]
    assert keeper.manifest.closed == {"J1": {1: 2, 2: 1}}
    assert [entry["decision"] for entry in keeper.taken()] == ["MergeGroup", "MergeGroup"]
    assert keeper.prepare_merges([]) == []


def test_rows_that_cooled_are_closed_with_their_generation() -> None:
    """The live generation of group 1 has expired rows only, which are cold already; it is closed all the same."""
    cooled = piece(PLAN, "cooled", "A", ((1, 2),), 0, cold=1)
    old = piece(PLAN, "old", "A", ((1, 2),), 0, cold=0)
    keeper = keeper_of(manifest_of(PLAN, old, cooled, closed={"J1": {1: 1}}))
    keeper.prepare_merges([MergeGroup("J1", 1, "drawn")])
    assert keeper.manifest.closed == {"J1": {1: 2}}
    assert {entry.generation for entry in keeper.manifest.segments.values()} == {0, 1}


def test_the_clean_up_begins_with_the_lowest_operator() -> None:
    closed = dict.fromkeys(range(GROUPS), 1)
    rows = (piece(PLAN, "c", "C", ALL, 0, cold=0), piece(PLAN, "a", "A", ((3, 5),), 0, cold=0))
    live = (piece(PLAN, "c2", "C", ALL, 0), piece(PLAN, "a2", "A", ((3, 5),), 0))
    keeper = keeper_of(manifest_of(PLAN, *rows, *live, closed={"J1": closed, "J2": closed}))
    assert sorted(keeper.clean_up()) == [("J1", 3), ("J1", 4)]
    assert keeper.owed()[:3] == [("J1", 3), ("J1", 4), ("J2", 0)]


def test_the_clean_up_reads_no_more_at_once_than_fits() -> None:
    rows = [piece(PLAN, f"a{number}", "A", ALL, 0, rows=10, cold=number) for number in range(2)]
    manifest = manifest_of(PLAN, *rows, closed={"J1": dict.fromkeys(range(GROUPS), 2)})
    sizes = {
        budget: len(keeper_of(manifest, MemorySettings(budget)).clean_up()) for budget in (1, 600, 1000, 100_000, None)
    }
    assert sizes == {1: 1, 600: 3, 1000: 5, 100_000: GROUPS, None: GROUPS}, "200 bytes a group, and one at least"


def test_the_clean_up_allows_for_what_it_emits() -> None:
    """J1 is below J2: what its merges emit stays in memory. How much that is, it learns from round to round."""
    rows = [piece(PLAN, f"{name}{number}", name, ALL, 0, rows=10, cold=number) for name in "AB" for number in range(2)]
    keyed = [replace(entry, group_keys=(1,) * GROUPS) for entry in rows]  # so each generation owes the other 200 rows
    manifest = manifest_of(PLAN, *keyed, closed={"J1": dict.fromkeys(range(GROUPS), 2)})
    sizes = {budget: len(keeper_of(manifest, MemorySettings(budget)).clean_up()) for budget in (5000, 10_000, 100_000)}
    assert sizes == {5000: 1, 10_000: 2, 100_000: GROUPS}, "400 bytes a group read, 4,000 emitted"
    keeper = keeper_of(manifest, MemorySettings(5000))
    keeper.clean_up()
    keeper.checkpoint.table.commit([], [FinishBatch(BatchRecord(0, 0, 0, 0, rows_merged=20, round=1))])
    assert len(keeper.clean_up()) == 6, "a tenth of what was expected came: 400 bytes emitted"


def test_nothing_is_cleaned_up_where_nothing_is_owed() -> None:
    keeper = keeper_of(manifest_of(PLAN, piece(PLAN, "a", "A", ALL, 0, cold=0), closed={"J1": {0: 1}}))
    assert keeper.clean_up() == []
    assert keeper.while_idle() == []
    assert keeper.manifest.version == 1


# --- forced steps, in whole runs -------------------------------------------------------------------------------------


def batches_of(count: int, rows: int, keys: int = 40) -> Mapping[str, list[pa.RecordBatch]]:
    """A second of event time for each batch."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in STREAMS}
    random = Random(count * rows)
    for number in range(count):
        for name, stream in STREAMS.items():
            entries = [
                {"k": random.randrange(keys), "v": random.randrange(keys), "ts": number * SECOND + i}
                for i in range(rows)
            ]
            found[name].append(pa.RecordBatch.from_pylist(entries, schema=stream.schema))
    return found


def run_with(
    settings: MemorySettings | None, data: Mapping[str, list[pa.RecordBatch]]
) -> Iterator[tuple[Event, Manifest, list[pa.RecordBatch]]]:
    """After each batch or round: its event, the manifest, and the results."""
    settings = settings or MemorySettings()
    query = bind(CHAIN, STREAMS)
    plan = lay_out(query, choose_tree(query, "((A B) C)"), traced=settings.watched)
    results = MemoryResults()
    run = LocalRun(plan, in_memory(query, plan.tree, Routing.even(GROUPS, 2), plan.traced), results, memory=settings)
    sources = {name: RowsSource(STREAMS[name], batches) for name, batches in data.items()}
    events: list[Event] = []
    for _ in run_batches(run, sources, lambda record: None, events.append):
        yield events[-1], run.checkpoint.manifest, results.taken()
    run.close()


def counted(batches: list[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def test_forced_steps_are_taken_at_their_batch() -> None:
    data = batches_of(6, 30)
    forced = (
        ForcedStep(2, spill=(("J1", 3), ("J1", 5), ("J2", 1))),
        ForcedStep(4, spill_share=0.5),
        ForcedStep(5, spill=(("J1", 3),), merge=(("J1", 3),)),
    )
    found = list(run_with(MemorySettings(forced=forced, merge="off"), data))
    batches = [entry for entry in found if entry[0]["event"] == "batch"]
    decided = {
        event["batch"]: [(entry["decision"], entry["reason"].split(":")[0]) for entry in event["decisions"]]
        for event, _, _ in batches
    }
    assert decided == {
        0: [],
        1: [],
        2: [("SpillGroups", "forced")],
        3: [],
        4: [("SpillGroups", "forced")],
        5: [("SpillGroups", "forced"), ("MergeGroup", "forced")],
    }
    assert batches[1][1].closed == {}
    assert batches[2][1].closed == {"J1": {3: 1, 5: 1}, "J2": {1: 1}}
    half = batches[3][1]
    spilled = next(entry for entry in batches[4][1].decisions if entry["version"] == half.version + 1)
    freed = sum(
        group.size_bytes
        for group in view_memory(chain_plan(traced=True), half, None, "ewma", 1.0).groups
        if [group.operator, group.group] in spilled["groups"]
    )
    assert half.active_bytes * 0.5 <= freed <= half.active_bytes * 0.7
    assert batches[5][0]["rows_merged"] > 0
    assert cold_generations(batches[5][1], "J1", 3) == {UNITED}
    unforced = [row for _, _, rows in run_with(None, data) for row in rows]
    assert counted([row for _, _, rows in found for row in rows]) == counted(unforced)


def cold_generations(manifest: Manifest, operator: str, group: int) -> set[int]:
    states = chain_plan(traced=manifest.traced).operators[operator].states
    return {
        segment.generation
        for segment in manifest.segments.values()
        if segment.tier == "cold" and segment.state in states and group in segment.rows_by_group
    }


def test_a_forced_step_must_name_what_the_plan_has() -> None:
    for step in (ForcedStep(0, spill=(("J9", 0),)), ForcedStep(0, merge=(("J1", GROUPS),))):
        with pytest.raises(JobError) as caught:
            keeper_of(manifest_of(PLAN), MemorySettings(forced=(step,)))
        assert caught.value.detail == "Its operators are J1, J2, with groups 0 to 7."
    keeper_of(manifest_of(PLAN), MemorySettings(forced=(ForcedStep(0, spill=(("J2", GROUPS - 1),)),)))


# --- what groups earn, counted by the tasks --------------------------------------------------------------------------


def test_what_groups_earn_is_counted_exactly_where_nothing_is_sampled() -> None:
    """Over all batches: rows that came, results of the joins, and results of the query traced to both."""
    data = batches_of(5, 60)
    *_, (_, manifest, _) = run_with(MemorySettings(10**9, upkeep="recent"), data)
    outputs = [(event, rows) for event, _, rows in run_with(MemorySettings(10**9), data)]
    results = sum(len(batch) for _, rows in outputs for batch in rows)
    lower, upper = manifest.figures["J1"], manifest.figures["J2"]
    assert results > 50
    assert upper.local_output.sum() == upper.global_output.sum() == lower.global_output.sum() == results
    assert lower.local_output.sum() == sum(event["nodes"]["J1"]["rows_out"] for event, _ in outputs)
    assert (lower.global_output <= results).all()
    # A group of J1 without results cannot have results of the query.
    assert not lower.global_output[lower.local_output == 0].any()
    assert lower.inter_bytes.sum() > 0
    assert upper.inter_bytes.sum() == 0, "nothing stands above it"


def test_results_are_traced_to_the_groups_that_made_them() -> None:
    """Against the groups of the keys of the results themselves."""
    data = batches_of(5, 60)
    query = bind(CHAIN.replace("A.v AS a", "A.k AS a"), STREAMS)  # so that a and b are the keys of the two joins
    settings = MemorySettings(10**9)
    plan = lay_out(query, choose_tree(query, "((A B) C)"), traced=True)
    results = MemoryResults()
    run = LocalRun(plan, in_memory(query, plan.tree, Routing.even(GROUPS, 2), True), results, memory=settings)
    sources = {name: RowsSource(STREAMS[name], batches) for name, batches in data.items()}
    for _ in run_batches(run, sources, lambda record: None, lambda event: None):
        pass
    rows = pa.Table.from_batches(results.taken(), schema=query.output_schema).combine_chunks()
    figures = run.checkpoint.manifest.figures
    for operator, column in (("J1", "a"), ("J2", "b")):
        groups = groups_of(hash_keys([rows.column(column).combine_chunks()]), GROUPS)
        expected = np.bincount(groups, minlength=GROUPS)
        found = figures[operator].global_output
        # 16 bits of a hash say the group but for keys at the very edge of one; these keys are not.
        assert found.tolist() == expected.tolist()
    run.close()


# --- the view --------------------------------------------------------------------------------------------------------


def test_the_view_has_the_sizes_of_the_segments_and_the_earnings_of_the_figures() -> None:
    manifest = manifest_of(
        PLAN,
        piece(PLAN, "a", "A", ((0, 2),), 0, rows=5),
        piece(PLAN, "b", "B", ((1, 3),), 0, rows=3),
        piece(PLAN, "old", "A", ((1, 2),), 0, rows=2, cold=0),
        piece(PLAN, "older", "B", ((1, 2),), 0, rows=4, cold=1),
        closed={"J1": {1: 2}},
    )
    seen = GroupObservation.nothing(2, GROUPS)
    seen.arrivals[0][7] = 4.0
    seen.local[1] = 6.0
    seen.traced[1] = 3.0
    seen.inter_bytes[1] = 50.0
    manifest = apply(ObserveGroups(9, "recent", {"J1": seen.to_json()}), manifest)
    view = view_memory(PLAN, manifest, 500, "recent", 0.0)
    assert [(entry.id, entry.level, entry.depth, entry.inputs) for entry in view.operators] == [
        ("J1", 0, 1, ("A", "B")),
        ("J2", 1, 0, ("J1", "C")),
    ]
    assert view.operator("J1").row_bytes == (10.0, 10.0)
    assert view.operator("J2").row_bytes == (ROW_BYTES, ROW_BYTES)
    assert (view.active_bytes, view.budget_bytes, view.arrivals_total) == (160, 500, 4.0)
    assert view.seconds > 0, "however short a batch was"
    rows = {entry.group: (entry.rows, entry.bytes) for entry in view.groups}
    assert rows == {0: ((5, 0), (50, 0)), 1: ((5, 3), (50, 30)), 2: ((0, 3), (0, 30)), 7: ((0, 0), (0, 0))}
    group = view.live("J1", 1)
    assert group is not None
    assert (group.slot, group.local_output, group.global_output, group.inter_bytes) == (0, 6.0, 3.0, 50.0)
    assert (group.recent_local, group.recent_global, group.arrivals) == (6.0, 3.0, (0.0, 0.0))
    seventh = view.live("J1", 7)
    assert seventh is not None and (seventh.last_use, seventh.slot, seventh.arrivals) == (9.0, 1, (4.0, 0.0))
    (cold,) = view.cold
    assert (cold.key, cold.generations, cold.bytes) == (("J1", 1), ((2, 0), (0, 4)), 60)
    assert [entry.key for entry in view.spillable] == [("J1", 0), ("J1", 1), ("J1", 2)]


def test_the_view_after_a_spill_counts_from_the_new_generation() -> None:
    seen = GroupObservation.nothing(2, GROUPS)
    seen.local[:] = 6.0
    updates = [
        ObserveGroups(0, "recent", {"J1": seen.to_json()}),
        CloseGroups("J1", (state_of(PLAN, "A"), state_of(PLAN, "B")), ((0, 1),)),
    ]
    view = view_memory(PLAN, apply_all(updates, manifest_of(PLAN, *HELD)), None, "recent", 1.0)
    first, second = view.live("J1", 0), view.live("J1", 1)
    assert first is not None and second is not None
    assert (first.size_bytes, first.local_output, first.recent_local) == (0, 0.0, 6.0)
    assert (second.size_bytes, second.local_output, second.recent_local) == (100, 6.0, 6.0)
    assert [(entry.key, entry.bytes) for entry in view.cold] == [(("J1", 0), 100)]
