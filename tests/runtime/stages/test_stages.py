"""Stages by their kind: what arrives is joined, what is joined goes on, and the report says what was done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from runtime.stages.small_tasks import LOWER, PLAN, UPPER, A, B, Task, batch, group_of
from small_plans import GROUPS, chain_plan, named, state_of
from watersmeet.errors import InternalError
from watersmeet.kernel.rows import concat
from watersmeet.kernel.window import NEVER
from watersmeet.model.bounds import Bounds
from watersmeet.model.file_sums import FileSum
from watersmeet.model.ids import LIVE, UNITED
from watersmeet.model.routing import union_ranges
from watersmeet.model.segments import Segment
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.group_by import GroupByStage
from watersmeet.plan.hop import HopStage
from watersmeet.runtime.context import GroupsToMerge
from watersmeet.runtime.spool import Spool
from watersmeet.runtime.stages import KINDS, Arrived, Outcome, run_stage
from watersmeet.state.output_names import Stamp

J1 = named(PLAN, "J1")


class Results:
    """Keeps what the query emits."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, stamp: Stamp, slot: int
    ) -> tuple[dict[str, FileSum], int]:
        made = [row for piece in batches for row in piece.to_pylist()]
        self.rows += made
        return {f"result-{stamp.batch}-{slot}": (0, 0)} if made else {}, len(made)


def run(task: Task, arrived: Arrived, slot: int = 0, results: Results | None = None) -> Outcome:
    return run_stage(task.context, slot, arrived, task.segments, results or Results(), Spool())


def port(alias: str) -> int:
    return next(leaf.port for leaf in PLAN.leaves if leaf.alias == alias)


def arrived(**rows: list[tuple[int, float]]) -> Arrived:
    states = {"A": A, "B": B, "C": PLAN.states[state_of(PLAN, "C")]}
    return Arrived({port(alias): [batch(states[alias], entries)] for alias, entries in rows.items()})


def merge_of(cold: list[Segment], *groups: int) -> GroupsToMerge:
    ranges = union_ranges((group, group + 1) for group in groups)
    return GroupsToMerge(J1, groups, tuple(entry.only(ranges) for entry in cold), (NEVER,) * len(groups), UNITED)


def sent(outcome: Outcome) -> list[int]:
    """The keys of rows on their way."""
    return sorted(key for message in outcome.sent for key in message.rows.column("B.v").to_pylist())


def test_every_kind_of_stage_is_registered_and_no_other_runs() -> None:
    assert set(KINDS) == {FragmentStage, HopStage, GroupByStage}

    @dataclass(frozen=True)
    class RingStage:
        exchanges: tuple[object, ...] = ()

    with pytest.raises(InternalError, match="no way to run a RingStage"):
        run_stage(
            replace(Task().context, stage=RingStage()),  # type: ignore[arg-type]
            0,
            Arrived(),
            Task().segments,
            Results(),
            Spool(),
        )


def test_new_rows_meet_kept_ones_and_each_other() -> None:
    task = Task()
    task.write(A, [(1, 1), (2, 1)])
    outcome = run(task, arrived(A=[(3, 2)], B=[(1, 2), (3, 2), (9, 2)]))
    assert sent(outcome) == [1, 3]
    assert {message.port for message in outcome.sent} == {exchange.port for exchange in LOWER.exchanges}
    report = outcome.report
    assert report.joins == {"J1": {"rows_in": 4, "rows_out": 2}}
    assert report.rows == {"A": 1, "B": 3}
    assert sorted(segment.state for segment in report.added) == sorted([A.name, B.name])
    assert (report.results, report.rows_out, report.rows_merged, report.scratch) == ((), 0, 0, ())
    assert report.groups == {}, "nobody watches"


def test_joined_rows_go_to_the_slots_of_the_next_key() -> None:
    task = Task(slots=3)
    keys = range(40)
    owned = [key for key in keys if group_of(key) < 3]
    outcome = run(task, arrived(A=[(key, 1) for key in owned], B=[(key, 1) for key in owned]))
    routing = task.context.placement.of(UPPER.states[0].partitioning)
    for message in outcome.sent:
        assert {routing.owners[group_of(key)] for key in message.rows.column("B.v").to_pylist()} == {message.slot}
    assert sent(outcome) == owned


def test_the_last_stage_writes_results() -> None:
    below = PLAN.states[state_of(PLAN, "A+B")]
    task = Task(stage=UPPER)
    task.write(PLAN.states[state_of(PLAN, "C")], [(4, 1)])
    results = Results()
    place = next(number for number, state in UPPER.ports.items() if state.name == below.name)
    rows = batch(below, [(4, 1), (5, 1)])
    outcome = run(task, Arrived({place: [rows]}), results=results)
    assert results.rows == [{"a": 4, "b": 4, "c": 4}]
    assert (outcome.report.results, outcome.report.rows_out, outcome.sent) == (("result-3-0",), 1, [])


def test_a_round_without_rows_touches_nothing() -> None:
    task = Task(round=1)
    for second in range(6):
        task.write(A, [(1, second)])
    outcome = run(task, Arrived())
    assert (outcome.report.added, outcome.report.released, outcome.sent) == ((), (), [])


def test_a_merge_emits_what_is_across_generations_and_nothing_else() -> None:
    task = Task(round=1)
    group = group_of(1)
    cold = [task.write(A, [(1, 1)], generation=1), task.write(B, [(1, 1)], generation=1)]
    cold += [task.write(B, [(1, 2), (1, 2.5)], generation=2)]
    task.write(B, [(1, 3)])
    task.merges = (merge_of(cold, group),)
    outcome = run(task, Arrived())
    assert sent(outcome) == [1, 1], "A of the first with both of the second; A with B of the first came out before"
    assert outcome.report.rows_merged == 2
    assert len(outcome.report.released) == 3
    assert {segment.generation for segment in outcome.report.added} == {0}


def test_a_merge_is_the_work_of_the_slot_that_owns_the_group() -> None:
    group = group_of(1)
    for slot in range(2):
        task = Task(slots=2, owners=tuple(int(number == group) for number in range(GROUPS)), round=1)
        cold = [task.write(A, [(1, 1)], generation=1), task.write(B, [(1, 1)], generation=2)]
        task.merges = (merge_of(cold, group),)
        assert run(task, Arrived(), slot).report.rows_merged == slot


def test_groups_that_merge_in_one_batch_do_not_meet() -> None:
    one = 1
    two = next(key for key in range(2, 60) if group_of(key) != group_of(1))
    task = Task(round=1)
    cold = [
        task.write(A, [(one, 1), (two, 1)], generation=1),
        task.write(B, [(one, 1), (two, 1)], generation=2),
        task.write(B, [(two, 2)], generation=3),
    ]
    task.merges = (merge_of(cold, *sorted((group_of(one), group_of(two)))),)
    assert sent(run(task, Arrived())) == sorted([one, two, two])


def test_what_a_merge_emits_is_nobodys() -> None:
    """It comes from what was cold, and earns what is in memory nothing."""
    plan = chain_plan(lineage=True)
    lower = plan.stages[0]
    task = Task(round=0)
    group = group_of(1)
    cold = [task.write(A, [(1, 1)], generation=1), task.write(B, [(1, 1)], generation=2)]
    merges = (merge_of(cold, group),)
    watched = dict.fromkeys(plan.operators, Bounds(GROUPS))
    told = replace(task.context, stage=lower, merges=merges, watched=watched, lineage={"#A+B": named(plan, "J1")})
    rows = Arrived({leaf.port: [batch(A if leaf.alias == "A" else B, [(1, 5)])] for leaf in plan.leaves[:2]})
    outcome = run_stage(told, 0, rows, task.segments, Results(), Spool())
    made = concat([message.rows for message in outcome.sent], outcome.sent[0].rows.schema)
    assert sorted(made.column("#A+B").is_valid().to_pylist()) == [False, True]
    assert outcome.report.groups[J1].local.sum() == 1, "the joined row, not the merged one"
    assert LIVE not in {segment.generation for segment in outcome.report.added if not segment.active}


def test_a_hop_passes_new_rows_on_to_the_later_hops_of_its_slot() -> None:
    plan = chain_plan(tree="mjoin")
    first = plan.stages[0]
    assert isinstance(first, HopStage)
    task = Task(stage=first)
    rows: dict[int, list[pa.RecordBatch]] = {}
    for number, state in first.ports.items():
        rows[number] = [batch(state, [(1, 1)])]
    outcome = run(task, Arrived(rows))
    notified = {notice.segment.state for notice in outcome.notices}
    again = {insert.state.name for insert in first.inserts if insert.read_again_in}
    assert notified == again
    assert {notice.segment.id for notice in outcome.notices} == set(outcome.report.scratch)
    assert {segment.state for segment in outcome.report.added} == {insert.state.name for insert in first.inserts}
