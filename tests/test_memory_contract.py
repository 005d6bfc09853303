"""The contract under memory pressure: whatever is spilled, merged and cut, whenever, the answer is the oracle's.

`WATERSMEET_EXAMPLES=5000 pytest tests/test_memory_contract.py` draws thousands of new cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from drawn_plans import key_classes, placed_plans
from strategies import RANDOMS, Case, cases, contract_settings, counted
from test_contract import tuned
from watersmeet.adapt.controller import Controller
from watersmeet.adapt.decisions.change_plan import ChangePlan
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import MergeGenerations, MergeGroup, UniteParts
from watersmeet.adapt.decisions.place import DrawTogether, MoveGroups, SpreadGroup
from watersmeet.adapt.decisions.rescale import Rescale
from watersmeet.adapt.decisions.spill import CloseLive, SpillAggregates, SpillGroups
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.balance import BALANCE_POLICIES, relocation, time_of_slots
from watersmeet.adapt.policies.migrate import ROADS, seeded
from watersmeet.adapt.policies.spill import SPILL_POLICIES
from watersmeet.errors import RingError
from watersmeet.kernel.rows import hashes
from watersmeet.lang.binder import bind
from watersmeet.model.ids import GroupKey
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.model.placement import Placement
from watersmeet.model.routing import Groups, Slice, expand_ranges, intersect_ranges, union_ranges
from watersmeet.model.schema import normal_schema
from watersmeet.model.segments import WAITING
from watersmeet.model.streams import Stream
from watersmeet.optimize.choose import choose_plan
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.physical import Node
from watersmeet.plan.query import Query
from watersmeet.plan.ring_ways import UNSAID, RingWay
from watersmeet.plan.spec import PlanSpec, spec_of
from watersmeet.plan.spreading import dealt_inputs
from watersmeet.run.ending import Ending
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_files import count_by_group

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class DecideAnything:
    """Cuts, moves, spreads, spills, merges and unites as it likes, whenever asked; in the end, all that is owed."""

    random: Random
    often: float
    plans: tuple[str, ...] = ()  # to go over to; cuts, which put an end to that, are rare then
    spread: float = 0.3  # the share of the groups that it spreads, or draws together, where it does
    by_groups: bool = False  # mostly with some groups alone

    origin: ClassVar[Origin] = ByPolicy("decide-anything")
    moments: ClassVar[frozenset[Moment]] = frozenset(Moment)
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.PARTS})

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        if self.random.random() < (self.often / 30 if self.plans else self.often / 3):
            yield from self._cuts(outlook)
        if self.random.random() < self.often / 2:
            yield from self._moves(outlook)
        if self.random.random() < max(self.often, self.spread):
            yield from self._spreads(outlook)
        if outlook.moment in (Moment.END, Moment.DRAIN):
            yield from self._some_that_owe(outlook)
            return
        if self.plans and outlook.moment is not Moment.AFTER_BATCH and self.random.random() < 0.4:
            by = self.random.choice([road.name for road in ROADS if road.refuse(outlook.plan.query) is None])
            within = self._within(outlook) if self.by_groups and self.random.random() < 0.8 else None
            yield ChangePlan(self.random.choice(self.plans), by, outlook.next_batch, "drawn", within=within)
        yield SpillGroups(tuple(self._groups(outlook)), "drawn")
        if outlook.aggregate_bytes and self.random.random() < self.often:
            yield SpillAggregates(outlook.aggregate_bytes, "drawn")
        if self.random.random() < self.often / 2:
            yield CloseLive(tuple(self._groups(outlook)), "drawn")
        if outlook.moment is Moment.AFTER_BATCH:  # there are no tasks to come
            return
        for operator, group in self._groups(outlook):
            yield MergeGroup(operator, group, "drawn", with_live=self.random.random() < 0.6)
        if self.random.random() < self.often:
            yield from self._tiers(outlook)
        if self.random.random() < self.often:
            yield from self._parts(outlook)

    def _within(self, outlook: Outlook) -> Groups:
        groups = max(_groups_of(outlook, node) for node in outlook.plan.operators.values())
        chosen = self.random.sample(range(groups), self.random.randint(1, groups))
        return union_ranges((group, group + 1) for group in chosen)

    def _tiers(self, outlook: Outlook) -> Iterator[MergeGenerations]:
        """Any generations of any groups, whether these have rows in them or not."""
        for operator, ledger in Ledgers(outlook.plan).at(outlook.manifest).items():
            for _ in range(self.random.randint(0, 2)):
                tier = tuple(sorted(number for number in ledger.closed if self.random.random() < 0.6))
                groups = self.random.sample(range(ledger.groups), self.random.randint(1, ledger.groups))
                if tier:
                    within = union_ranges((group, group + 1) for group in groups)
                    yield MergeGenerations(operator, tier, within, "drawn")

    def _groups(self, outlook: Outlook) -> list[GroupKey]:
        share = self.random.choice([0.0, 0.3, 1.0]) if self.random.random() < self.often else 0.0
        return [key for key in self._all(outlook) if self.random.random() < share]

    def _all(self, outlook: Outlook) -> list[GroupKey]:
        return [(n.name, g) for n in outlook.plan.operators.values() for g in range(_groups_of(outlook, n))]

    def _moves(self, outlook: Outlook) -> Iterator[Decision]:
        """Of any groups to any slots, of which there may be others from now on."""
        slots = outlook.placement.slots
        if self.random.random() < 0.3:
            slots, before = self.random.randint(1, min(4, outlook.placement.groups)), slots
            yield Rescale(before, slots, outlook.next_batch, "drawn")
        share = self.random.choice([0.1, 0.5, 1.0])
        moves = [
            (name, group, self.random.randrange(slots))
            for name in dict.fromkeys(state.partitioning for state in outlook.plan.states.values())  # routed joins too
            for group in range(outlook.placement.of(name).groups)
            if self.random.random() < share
        ]
        yield MoveGroups(tuple(moves), outlook.next_batch, "drawn")

    def _spreads(self, outlook: Outlook) -> Iterator[Decision]:
        """Of any groups over any slots that there are, by any input; others are drawn together, spread or not."""
        slots = outlook.placement.slots
        for operator, group in self._all(outlook):
            if self.random.random() > self.spread:
                continue
            if slots < 2 or self.random.random() < 0.2:
                yield DrawTogether(operator, group, outlook.next_batch, "drawn")
                continue
            over = tuple(self.random.sample(range(slots), self.random.randint(2, slots)))
            alias = self.random.choice(dealt_inputs(outlook.plan, outlook.plan.operators[operator].partitioning))
            yield SpreadGroup(operator, group, alias, over, outlook.next_batch, "drawn")

    def _cuts(self, outlook: Outlook) -> Iterator[CutGroup]:
        """At any hash, which may be between rows, before them or after them."""
        for node in outlook.plan.operators.values():
            if self.random.random() < 0.6:
                routing = outlook.placement.of(node.partitioning)
                group = self.random.randrange(routing.groups)
                low, high = routing.hash_range((group, group + 1))
                if high - low > 1:
                    at_hash = self.random.randrange(low + 1, high)
                    yield CutGroup(node.name, group, node.partitioning, at_hash, outlook.next_batch, "drawn")

    def _parts(self, outlook: Outlook) -> Iterator[UniteParts]:
        segments = outlook.manifest.segments
        for state in segments.cold_states:
            for generation, bucket in segments.cold(state).items():
                parts = tuple(name for name in bucket.entries if self.random.random() < 0.7)
                if parts:
                    yield UniteParts(state, generation, parts)

    def _some_that_owe(self, outlook: Outlook) -> Iterator[MergeGroup]:
        for operator, ledger in Ledgers(outlook.plan).at(outlook.manifest).items():
            owing = ledger.owing.nonzero()[0].tolist()
            if owing:  # the lowest first: what it emits may be owed results above
                for group in self.random.sample(owing, self.random.randint(1, len(owing))):
                    yield MergeGroup(operator, group, "drain")
                return


def _groups_of(outlook: Outlook, node: Node) -> int:
    return outlook.placement.of(node.partitioning).groups


def run_with_schedule(
    case: Case,
    random: Random,
    often: float,
    plans: tuple[str, ...] = (),
    spread: float = 0.3,
    by_groups: bool = False,
    ways: tuple[RingWay, ...] = (UNSAID,),
) -> Counter[tuple[Any, ...]]:
    """Run the case batch by batch, with cuts, spills and merges of any groups whenever there may be, then drain.

    With `plans`, it goes over from one to the other; `by_groups`, with some groups alone. Rings are spread in any of
    these `ways` that a plan allows.
    """
    note(case.text)
    streams = {
        name: Stream(name, normal_schema(stream.schema), "ts", case.lateness[name])
        for name, stream in case.streams.items()
    }
    query = bind(case.text, streams)
    plan = lay_out_spec(query, any_way(query, case.plan, Statistics(), random.random() < 0.5, random, ways))
    results = MemoryResults()
    checkpoint = in_memory(query, plan.spec, Placement(case.slots, case.groups))
    controller = Controller(plan, policies=(DecideAnything(random, often, plans, spread, by_groups),))

    def make_spec(setting: str, manifest: Manifest, lineage: bool) -> tuple[PlanSpec, str]:
        return any_way(query, setting, Statistics(measured=manifest.measured), lineage, random, ways), "drawn"

    run = LocalRun(plan, checkpoint, results, controller=controller, make_spec=make_spec)
    for batch in case.batches:
        pulled = {}
        for name, entries in batch.items():
            source = RowsSource(streams[name], [pa.RecordBatch.from_pylist(entries, schema=case.streams[name].schema)])
            pulled[name] = source.pull(set())
        pulled = {name: entry for name, entry in pulled.items() if entry is not None}
        if pulled:
            run.driver.run_batch(pulled)
            check_counts(run)
            check_shapes(run)
        if random.random() < often:
            run.driver.run_idle()
    rounds = 0
    while run.driver.drain_step(Ending.CLOSED):
        rounds += 1
        groups = [run.manifest.placement.of(node.partitioning).groups for node in run.plan.operators.values()]
        assert rounds <= 50 * max(1, len(groups)) * max(groups, default=1), "a merge emits what is owed"
    check_counts(run)
    run.close()
    assert not run.controller.owes(run.manifest)
    return counted(pa.Table.from_batches(results.pop(), schema=query.output_schema))


def any_way(
    query: Query, setting: str, statistics: Statistics, lineage: bool, random: Random, ways: Sequence[RingWay]
) -> PlanSpec:
    """The spec of a plan whose rings are spread in one of these ways; as they are where it does not allow that."""
    chosen = choose_plan(query, setting, statistics)
    try:
        return spec_of(query, chosen.tree, chosen.orders, lineage, random.choice(ways))
    except RingError:
        return spec_of(query, chosen.tree, chosen.orders, lineage)


def check_counts(run: LocalRun) -> None:
    """What the manifest says of each segment, by group, is what its file holds."""
    plans = [lay_out_spec(run.plan.query, track.spec) for track in run.manifest.tracks]
    states = {name: state for plan in plans for name, state in plan.states.items()}
    for segment in run.manifest.segments.values():
        if segment.tier == WAITING:  # in no groups
            continue
        bounds = run.manifest.placement.of(states[segment.state].partitioning).bounds
        values = np.concatenate([hashes(piece.rows) for piece in run.checkpoint.segments.read(segment)])
        assert (segment.group_rows, segment.group_keys) == count_by_group(values, Slice(segment.written, bounds))


def check_shapes(run: LocalRun) -> None:
    """Each group has one shape, and no rows of a state that this does not keep."""
    shapes = run.manifest.shapes
    if len(shapes) == 1:
        assert shapes[0].within is None
        return
    groups = run.manifest.placement.of(next(iter(run.plan.operators.values())).partitioning).groups
    owned = [group for track in shapes for group in expand_ranges(track.within or ())]
    assert sorted(owned) == list(range(groups))
    made = {} if (coming := run.manifest.warming_up) is None else lay_out_spec(run.plan.query, coming.spec).states
    for track in shapes:
        kept = lay_out_spec(run.plan.query, track.spec).states
        for segment in run.manifest.segments.values():
            if segment.state not in kept and segment.state not in made:
                assert not intersect_ranges(segment.groups, track.within or ())


@contract_settings(31)
@given(cases(largest=4), RANDOMS, st.sampled_from([0.2, 0.6, 1.0]))
def test_cuts_spills_and_merges_change_nothing(case: Case, random: Random, often: float) -> None:
    with tuned(case):
        rows = run_with_schedule(case, random, often)
    assert rows == case.answer().rows


@contract_settings(36)
@given(cases(largest=4, apart=False), RANDOMS, st.sampled_from([0.0, 0.1, 0.4]))
def test_spreads_change_nothing(case: Case, random: Random, often: float) -> None:
    """With few groups, nearly all of which are spread at any time, and less of all else."""
    case = replace(case, slots=random.randint(2, 4), groups=random.randint(4, 6))
    with tuned(case):
        rows = run_with_schedule(case, random, often, spread=0.8)
    assert rows == case.answer().rows


@contract_settings(54)
@given(cases(largest=4), RANDOMS, st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from([1, 2, 5]))
def test_changes_of_the_plan_change_nothing(case: Case, random: Random, often: float, rows_a_batch: int) -> None:
    case, steps = case.longer(rows_a_batch), [1, 1, 2, 5]
    with tuned(case), mock.patch.object(seeded, "_rows_allowed", lambda standing: random.choice(steps)):
        rows = run_with_schedule(case, random, often, tuple(placed_plans(case, random)))
    assert rows == case.answer().rows


@contract_settings(18)
@given(cases(largest=4, apart=True), RANDOMS, st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from([1, 2, 5]))
def test_changes_of_rings_change_nothing(case: Case, random: Random, often: float, rows_a_batch: int) -> None:
    case, steps = case.longer(rows_a_batch), [1, 1, 2, 5]
    with tuned(case), mock.patch.object(seeded, "_rows_allowed", lambda standing: random.choice(steps)):
        rows = run_with_schedule(case, random, often, tuple(placed_plans(case, random)))
    assert rows == case.answer().rows


def shares_a_key(case: Case) -> bool:
    return len(case.inputs) > 2 and any(len(found) == len(case.inputs) for found in key_classes(case.equalities))


@contract_settings(36)
@given(
    cases(largest=4, apart=False).filter(shares_a_key),
    RANDOMS,
    st.sampled_from([0.0, 0.2, 0.6]),
    st.sampled_from([1, 2, 5]),
)
def test_shapes_that_differ_by_group_change_nothing(
    case: Case, random: Random, often: float, rows_a_batch: int
) -> None:
    case, steps = case.longer(rows_a_batch), [1, 1, 2, 5]
    with tuned(case), mock.patch.object(seeded, "_rows_allowed", lambda standing: random.choice(steps)):
        rows = run_with_schedule(case, random, often, tuple(placed_plans(case, random)), by_groups=True)
    assert rows == case.answer().rows


@contract_settings(40)
@given(
    cases(largest=4, apart=False),
    st.sampled_from([name for name, _ in SPILL_POLICIES]),
    st.sampled_from([1, 200, 1000, 5000]),
)
def test_any_budget_and_policy_gives_the_same_answer(case: Case, policy: str, budget: int) -> None:
    with tuned(case):
        rows, events = run_events(case, memory=budget, spill=policy)
    assert rows == case.answer().rows
    progress, end = [event for event in events if event["event"] in ("batch", "merge")], events[-1]
    assert end["rows_out"] == rows.total()
    routed = any("cannot be spilled" in str(event["decisions"]) for event in progress)
    for event in progress:
        assert event["active_bytes"] <= budget or routed, "after a batch the state is inside its budget"
    if progress:
        assert progress[-1]["owed_groups"] == {}


@contract_settings(36)
@given(
    cases(largest=4, apart=False),
    st.sampled_from([name for name, _ in BALANCE_POLICIES]),
    st.sampled_from([None, 200, 2000]),
    st.sampled_from([None, 100, 1000]),
)
def test_any_balance_gives_the_same_answer(
    case: Case, policy: str, budget: int | None, slot_budget: int | None
) -> None:
    case = case.longer(2)
    with (
        tuned(case),
        mock.patch.object(relocation, "LEAST_BYTES", 1),
        mock.patch.object(relocation, "LEAST_SHARE", 0.0),
        mock.patch.object(time_of_slots, "LEAST_SECONDS", 0.0),
    ):
        options = {"memory": budget, "slot_memory": slot_budget, "balance": policy, "balance_every": 1}
        rows, _ = run_events(case, **options)
    assert rows == case.answer().rows


def run_events(case: Case, **options: Any) -> tuple[Counter[tuple[Any, ...]], list[dict[str, Any]]]:
    note(case.text)
    streams = {name: stream.record_batches() for name, stream in case.streams.items()}
    events: list[dict[str, Any]] = []
    query = wm.sql(case.text, lateness=case.lateness, **streams)
    settings = {"plan": case.plan, "slots": case.slots, "groups": case.groups} | options
    return counted(query.run(report=events.append, **settings)), events
