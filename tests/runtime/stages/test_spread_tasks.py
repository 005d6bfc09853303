"""Tasks on a group that is spread: together they make what its owner would make alone, and keep every row once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from runtime.stages.small_tasks import K0, LOWER, PLAN, A, B, Task, batch, group_of
from runtime.stages.test_stages import Results, port
from small_plans import GROUPS, named
from watersmeet.kernel.to_slots import cut
from watersmeet.model.bounds import Bounds
from watersmeet.plan.spreading import spread_stages
from watersmeet.runtime.spool import Spool
from watersmeet.runtime.stages import Arrived, Outcome, run_stage
from watersmeet.state import compaction

J1 = named(PLAN, "J1")
HOT = 7
OTHERS = [key for key in range(40) if group_of(key) != group_of(HOT)]
Rows = dict[str, list[tuple[int, float]]]


def run_all(task: Task, slots: int, alias: str | None, new: Rows) -> list[Outcome]:
    """The tasks of all slots on the same rows, with the group of the hot key spread if there is an input to deal."""
    placement = task.placement
    if alias is not None:
        placement = placement.spread(K0, group_of(HOT), alias, range(slots))
    shares = spread_stages(PLAN, placement, {})
    context = replace(
        task.context, placement=placement, shares=shares, watched=dict.fromkeys(PLAN.operators, Bounds(GROUPS))
    )
    arrived = [Arrived() for _ in range(slots)]
    for state in (A, B):
        (name,) = state.aliases
        rows = batch(state, new.get(name, []))
        for slot, part in cut(rows, placement.of(K0), shares.get(LOWER.index, ()), state.aliases):
            arrived[slot].rows.setdefault(port(name), []).append(part)
    return [run_stage(context, slot, arrived[slot], task.segments, Results(), Spool()) for slot in range(slots)]


def made(outcomes: list[Outcome]) -> Counter[tuple[object, ...]]:
    names = ("B.v", "@A", "@B")
    return Counter(
        row
        for outcome in outcomes
        for sent in outcome.sent
        for row in zip(*(sent.rows.column(n).to_pylist() for n in names), strict=True)
    )


def kept_rows(task: Task, outcomes: list[Outcome], state: str) -> Counter[tuple[int, float]]:
    of = A if state == "A" else B
    added = [segment for outcome in outcomes for segment in outcome.report.added if segment.state == of.name]
    return Counter(pair for segment in added for pair in task.read(segment, of))


def task_with_rows(slots: int) -> Task:
    task = Task(slots=slots)
    for second in (1, 2):
        task.write(A, [(HOT, second + n / 100) for n in range(11)] + [(key, second) for key in OTHERS])
        task.write(B, [(HOT, second + n / 100) for n in range(7)] + [(key, second) for key in OTHERS])
    return task


NEW: Rows = {
    "A": [(HOT, 3 + n / 100) for n in range(13)] + [(key, 3) for key in OTHERS[:9]],
    "B": [(HOT, 3 + n / 100) for n in range(5)] + [(key, 3) for key in OTHERS[5:]],
}


@pytest.mark.parametrize("alias", ["A", "B"])
@pytest.mark.parametrize("slots", [2, 3])
def test_the_slots_make_together_what_the_owner_makes_alone(slots: int, alias: str) -> None:
    alone, together = (run_all(task_with_rows(slots), slots, dealt, NEW) for dealt in (None, alias))
    assert made(together) == made(alone)
    hot = [sum(sent.rows.column("B.v").to_pylist().count(HOT) for sent in outcome.sent) for outcome in together]
    assert min(hot) > sum(hot) / slots / 3, "each makes its share"
    reports = [outcome.report for outcome in together]
    assert sum(report.rows["A"] for report in reports) == len(NEW["A"]), "copies are not counted"
    assert sum(report.rows["B"] for report in reports) == len(NEW["B"])
    rows_in = [sum(outcome.report.joins["J1"]["rows_in"] for outcome in outcomes) for outcomes in (together, alone)]
    assert rows_in[0] == rows_in[1]
    come = [
        [sum(outcome.report.groups[J1].arrivals[place].sum() for outcome in outcomes) for place in range(2)]
        for outcomes in (together, alone)
    ]
    assert come[0] == come[1] == [len(NEW["A"]), len(NEW["B"])]
    local = [sum(outcome.report.groups[J1].local.sum() for outcome in outcomes) for outcomes in (together, alone)]
    assert local[0] == local[1]
    same = [sum(pair.hashed for outcome in outcomes for pair in outcome.report.pairs) for outcomes in (together, alone)]
    assert same[0] == same[1]
    possible = [sum(pair.possible for o in outcomes for pair in o.report.pairs) for outcomes in (together, alone)]
    assert possible[0] == pytest.approx(possible[1], rel=0.2), "estimates"


@pytest.mark.parametrize("alias", ["A", "B"])
def test_every_new_row_is_kept_once(alias: str) -> None:
    task = Task(slots=3)
    outcomes = run_all(task, 3, alias, NEW)
    assert kept_rows(task, outcomes, "A") == Counter(NEW["A"])
    assert kept_rows(task, outcomes, "B") == Counter(NEW["B"])
    dealt, copied = (A, B) if alias == "A" else (B, A)
    hot = group_of(HOT)

    def writers(name: str) -> int:
        return sum(
            bool(segment.rows_by_group.get(hot))
            for outcome in outcomes
            for segment in outcome.report.added
            if segment.state == name
        )

    assert writers(dealt.name) > 1
    assert writers(copied.name) == 1, "the owner"


def test_rows_that_are_owed_go_cold_whoever_writes_them() -> None:
    closed = {A.name: ((0, GROUPS),), B.name: ((0, GROUPS),)}
    task = Task(slots=2, horizon=50.0, closed=closed)
    outcomes = run_all(task, 2, "A", NEW)
    cold = [segment for outcome in outcomes for segment in outcome.report.added]
    assert {segment.tier for segment in cold} == {"cold"}
    assert kept_rows(task, outcomes, "A") == Counter(NEW["A"])
    assert kept_rows(task, outcomes, "B") == Counter(NEW["B"])


def test_files_of_a_spread_group_are_its_owners_to_unite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FANOUT", 2)
    task = Task(slots=2)
    for _ in range(4):
        task.write(A, [(HOT, 8)])
    for outcome, slot in zip(run_all(task, 2, "A", {"A": [(HOT, 9)]}), range(2), strict=True):
        owner = task.placement.of(K0).owners[group_of(HOT)]
        released = [groups for _, groups in outcome.report.released]
        assert any((group_of(HOT) in range(*part)) for parts in released for part in parts) is (slot == owner)
