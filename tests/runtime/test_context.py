"""What tasks are told: the manifest, cut down to what each kind of task needs."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from small_plans import GROUPS, SECOND, chain_plan, manifest_of, named, piece, state_of
from watersmeet.adapt.decisions.merge import MergeGenerations, UniteParts
from watersmeet.adapt.decisions.work import Work
from watersmeet.kernel.window import NEVER
from watersmeet.model.ids import LIVE, Generation, SegmentId
from watersmeet.model.placement import Placement
from watersmeet.model.segments import Segment
from watersmeet.model.time_units import TimeColumn
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.watermarks import watermarks_us
from watersmeet.state.applying import apply_all
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import BatchRecord, Manifest
from watersmeet.state.updates import AdvanceStream, FinishBatch

PLAN = chain_plan(lineage=True)
J1, J2 = named(PLAN, "J1"), named(PLAN, "J2")
LOWER, UPPER = PLAN.stages
ALL = ((0, GROUPS),)


def entry(name: str, inputs: str, begin: float = 0, groups: Any = ALL, **more: Any) -> Segment:
    return piece(PLAN, name, inputs, groups, begin, **more)


def context(
    *segments: Segment, work: Work | None = None, new_rows: bool = True, plan: PhysicalPlan = PLAN, **more: Any
) -> BatchContext:
    manifest = apply_all([AdvanceStream(name, 7 * SECOND, 1, 0) for name in "ABC"], manifest_of(plan, *segments))
    return BatchContext(plan, manifest, Ledgers(plan), work or Work(), new_rows, **more)


def test_batches_and_rounds_are_numbered_after_the_last_one() -> None:
    batch = context()
    assert (batch.batch, batch.round) == (1, 0)
    after = context(new_rows=False)
    assert (after.batch, after.round) == (0, 1)
    later = apply_all([FinishBatch(BatchRecord(0, 0, 0, 0, round=1))], after.manifest)
    again = BatchContext(PLAN, later, Ledgers(PLAN), Work(), False)
    assert (again.batch, again.round) == (0, 2)
    first = BatchContext(PLAN, _empty(), Ledgers(PLAN), Work(), True)
    assert (first.batch, first.round) == (0, 0)


def _empty() -> Manifest:
    return replace(manifest_of(PLAN), batch=None)


def test_a_stage_is_told_of_its_own_states_alone() -> None:
    held = (entry("a", "A"), entry("b", "B"), entry("ab", "A+B"), entry("c", "C"), entry("cold", "A", cold=1))
    found = context(*held)
    lower, upper = found.for_stage(LOWER), found.for_stage(UPPER)
    assert {name: [s.id for s in segments] for name, segments in lower.segments.items()} == {
        state_of(PLAN, "A"): ["a"],
        state_of(PLAN, "B"): ["b"],
    }
    assert set(upper.segments) == {state_of(PLAN, "A+B"), state_of(PLAN, "C")}
    assert set(lower.horizons_us) == set(lower.segments)
    assert (lower.query, upper.query) == (None, PLAN.query), "only the stage that emits results selects from them"
    assert lower.closed == dict.fromkeys(lower.segments, ALL) and upper.closed == {}


def test_a_context_travels() -> None:
    """On Spark a stage's context goes to every task: it must not drag the rest of the manifest along."""
    many = [entry(f"c{number}", "C") for number in range(2_000)]
    found = context(entry("a", "A"), *many)
    sizes = {stage.index: len(pickle.dumps(found.for_stage(stage))) for stage in PLAN.stages}
    assert sizes[LOWER.index] < 20_000 < sizes[UPPER.index]
    again = pickle.loads(pickle.dumps(found.for_stage(LOWER)))
    assert (again.segments, again.placement, again.horizons_us) == (
        found.for_stage(LOWER).segments,
        found.placement,
        found.for_stage(LOWER).horizons_us,
    )


def test_sources_are_told_how_far_streams_have_come() -> None:
    found = context().for_sources()
    assert found.watermarks_us == dict.fromkeys("ABC", 7 * SECOND)
    assert found.times == dict.fromkeys("ABC", TimeColumn("ts"))
    assert [leaf.alias for leaf in found.leaves] == ["A", "B", "C"]
    assert watermarks_us(PLAN, manifest_of(PLAN)) == {"A": None, "B": None, "C": None}


def test_an_operator_that_owes_holds_back_the_horizons_above() -> None:
    owing = (entry("a", "A", 1, cold=1), entry("b", "B", 3, end=5000))
    assert context(*owing).for_stage(UPPER).horizons_us == {
        state_of(PLAN, "A+B"): 7 * SECOND,
        state_of(PLAN, "C"): 3 * SECOND,
    }


def test_a_merge_reads_the_closed_generations_of_its_groups() -> None:
    held = (
        entry("a1", "A", cold=1),
        entry("b2", "B", groups=((0, 2),), cold=2),
        entry("cooled", "A", 4, groups=((1, 3),), cold=LIVE),
        entry("live", "B", 2),
        entry("c1", "C", cold=1),
    )
    found = context(*held, work=Work(merges=((J1, 5), (J2, 0), (J1, 1))))
    (lower,), (upper,) = found.for_stage(LOWER).merges, found.for_stage(UPPER).merges
    assert (lower.operator, lower.groups) == (J1, (1, 5)), "all groups of an operator together"
    assert {segment.id: segment.groups for segment in lower.segments} == {"a1": ((1, 2), (5, 6)), "b2": ((1, 2),)}
    assert lower.others_since_us == (2 * SECOND, 2 * SECOND), "what is united still owes results to what is live"
    assert (upper.operator, [segment.id for segment in upper.segments]) == (J2, ["c1"])
    assert upper.others_since_us == (NEVER,)


def test_a_merge_of_some_generations_leaves_the_others_alone() -> None:
    held = (
        entry("a1", "A", cold=1),
        entry("b2", "B", groups=((0, 2),), cold=2),
        entry("a3", "A", 4, groups=((1, 8),), cold=3),
        entry("live", "B", 6),
    )
    tier = MergeGenerations(J1, (Generation(1), Generation(2)), ((0, 2), (7, 8)), "why")
    (merge,) = context(*held, work=Work(partial_merges=(tier,))).for_stage(LOWER).merges
    assert (merge.operator, merge.groups, merge.into) == (J1, (0, 1, 7), 2)
    assert {part.id: part.groups for part in merge.segments} == {"a1": ((0, 2), (7, 8)), "b2": ((0, 2),)}
    since = (6 * SECOND, 4 * SECOND, 4 * SECOND)
    assert merge.others_since_us == since, "what is united still owes results to other closed generations"


def test_parts_to_unite_go_to_the_stage_that_keeps_them() -> None:
    held = [entry(f"a{number}", "A", cold=3) for number in range(4)]
    unite = UniteParts(state_of(PLAN, "A"), Generation(3), (SegmentId("a1"), SegmentId("a2")))
    found = context(*held, work=Work(unites=(unite,)))
    (parts,) = found.for_stage(LOWER).parts
    assert [segment.id for segment in parts.segments] == ["a1", "a2"]
    assert found.for_stage(UPPER).parts == ()


def test_groups_that_are_merged_are_left_out_of_the_parts_to_unite() -> None:
    """A merge unites them by itself; both would write their rows down."""
    held = [entry(f"a{number}", "A", cold=3) for number in range(2)]
    unite = UniteParts(state_of(PLAN, "A"), Generation(3), (SegmentId("a0"), SegmentId("a1")))
    (parts,) = context(*held, work=Work(((J1, 2), (J1, 7), (J2, 4)), (unite,))).parts
    assert [segment.groups for segment in parts.segments] == [((0, 2), (3, 7))] * 2


@pytest.mark.parametrize(
    "watched, new_rows, expected", [(True, True, True), (True, False, False), (False, True, False)]
)
def test_groups_are_watched_in_batches(watched: bool, new_rows: bool, expected: bool) -> None:
    found = context(watched=watched, new_rows=new_rows).for_stage(LOWER)
    assert bool(found.watched) is expected
    assert set(found.lineage.values()) == {J1}


def test_a_hop_reads_the_states_that_it_probes_and_looks_ahead_at() -> None:
    plan = chain_plan(tree="mjoin")
    held = [piece(plan, name, name, ALL, 0) for name in "ABC"]
    found = context(*held, plan=plan)
    for stage in plan.stages:
        told = found.for_stage(stage)
        assert set(told.segments) == {state.name for state in stage.reads}
        assert (told.merges, told.closed) == ((), {})


K0, K1 = (PLAN.operators[name].partitioning for name in (J1, J2))
SPREAD = Placement(2, GROUPS).spread(K0, 3, "A", (0, 1)).spread(K0, 5, "B", (0, 1)).spread(K1, 2, "B", (0, 1))


def spread(work: Work | None = None, plan: PhysicalPlan = PLAN, placement: Placement = SPREAD) -> dict[int, list[int]]:
    """The groups that are spread, by stage."""
    found = context(work=work, plan=plan)
    shares = replace(found, manifest=replace(found.manifest, placement=placement)).shares
    return {stage: [share.group for share in held] for stage, held in shares.items()}


@pytest.mark.parametrize(
    "work, expected",
    [
        (Work(), {0: [3, 5], 1: [2]}),
        (Work(merges=((J1, 3), (J1, 4))), {0: [5], 1: [2]}),
        (Work(merges=((J2, 2), (J2, 3))), {0: [3, 5]}),
        (
            Work(partial_merges=(MergeGenerations(J1, (Generation(1), Generation(2)), ((4, 8),), "m"),)),
            {0: [3], 1: [2]},
        ),
        (Work(unites=(UniteParts(state_of(PLAN, "A"), LIVE, ()),)), {0: [3, 5], 1: [2]}),
    ],
    ids=["all", "but those that are merged", "of the same key", "in part, too", "united parts are no matter"],
)
def test_groups_are_spread_unless_they_are_merged(work: Work, expected: dict[int, list[int]]) -> None:
    assert spread(work) == expected


def test_groups_are_spread_where_the_input_that_is_dealt_comes() -> None:
    assert spread(placement=Placement(2, GROUPS).spread(K0, 3, "C", (0, 1))) == {}, "C is joined on another key"
    assert spread(placement=Placement(2, GROUPS).spread(K1, 3, "A", (0, 1))) == {1: [3]}, "A comes there with B"
    assert spread(plan=chain_plan(tree="mjoin")) == {}, "a routed join leaves them to their owners"
