"""Which cold groups to merge: the paper's example, the walk down the plan, the buffer, the order of the clean-up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapt.views import LOWER, ROOT, cold, group, memory, views
from watersmeet.adapt.estimates import owed_by
from watersmeet.adapt.policies.merge import MergePace, choose_merge, clean_up
from watersmeet.adapt.policies.merge.state_manager import disk_throughput, fits_memory, memory_throughput
from watersmeet.adapt.view import ColdView, MemoryView, OperatorView

PACE = MergePace(disk_rows=10.0)


def test_the_example_of_the_paper() -> None:
    """2280 results owed by 300 + 60 rows: 6.33 a row. Made of two generations here, which the paper leaves open."""
    owing = cold("J2", 1, (300, 0), (0, 60), unique=300 * 60 / 2280)
    assert disk_throughput(memory(cold=(owing,)), owing) == pytest.approx(2280 / 360)
    assert round(disk_throughput(memory(cold=(owing,)), owing), 2) == 6.33


def test_results_below_count_as_far_as_they_become_results_of_the_query() -> None:
    owing = cold("J1", 0, (4, 0), (0, 4))
    view = memory(group("J1", 0, recent_local=8.0, recent_global=2.0), cold=(owing,))
    assert disk_throughput(view, owing) == 16 / 4 / 8


def test_memory_yields_the_recent_output_of_all_groups_a_second() -> None:
    view = memory(group("J1", 0, recent_global=3.0), group("J1", 1, recent_global=4.0), group("J2", 0), seconds=2.0)
    assert memory_throughput(view, "J1", PACE) == 3.5
    assert memory_throughput(view, "J1", MergePace(1.0, memory_weight=2.0)) == 7.0
    assert memory_throughput(view, "J2", PACE) == 0


BUSY = group("J2", 0, recent_local=9.0, recent_global=9.0, arrivals=(1.0, 1.0))
BUSY_BELOW = group("J1", 0, recent_local=9.0, recent_global=9.0, arrivals=(1.0, 1.0))
LITTLE = ((1, 0), (0, 1))  # half a result a row, 5 a second
MUCH = ((4, 0), (0, 4))  # 2 results a row, 20 a second


@pytest.mark.parametrize(
    ("entries", "chosen"),
    [
        pytest.param((), None, id="nothing is cold"),
        pytest.param((cold("J2", 1, *LITTLE), cold("J1", 1, *LITTLE)), None, id="memory yields more everywhere"),
        pytest.param((cold("J2", 1, *MUCH), cold("J1", 1, *MUCH)), ("J2", 1), id="the operator nearest to the root"),
        pytest.param((cold("J2", 1, *LITTLE), cold("J1", 1, *MUCH)), ("J1", 1), id="else one below"),
        pytest.param((cold("J2", 1, *MUCH), cold("J2", 2, (9, 0), (0, 9))), ("J2", 2), id="the best of its groups"),
        pytest.param((cold("J2", 7, *MUCH), cold("J2", 3, *MUCH)), ("J2", 3), id="of equal ones the lower number"),
        pytest.param((cold("J2", 1, (900, 900)),), None, id="one generation owes nothing"),
    ],
)
def test_the_walk_down_the_plan(entries: tuple[ColdView, ...], chosen: tuple[str, int] | None) -> None:
    decision = choose_merge(memory(BUSY, BUSY_BELOW, cold=entries), PACE)
    assert (decision and (decision.operator, decision.group)) == chosen


def test_as_much_as_memory_is_not_more() -> None:
    view = memory(replace(BUSY, recent_global=20.0), cold=(cold("J2", 1, *MUCH),))
    assert choose_merge(view, PACE) is None


def test_while_all_is_silent_anything_owed_is_worth_it() -> None:
    decision = choose_merge(memory(group("J2", 0), cold=(cold("J1", 5, *LITTLE),)), PACE)
    assert decision is not None
    assert (decision.operator, decision.group, decision.waiting) == ("J1", 5, ())


def test_operators_below_wait_and_the_reason_gives_the_figures() -> None:
    decision = choose_merge(memory(BUSY, cold=(cold("J2", 1, *MUCH),)), PACE)
    assert decision is not None
    assert decision.waiting == ("J1",)
    assert decision.reason == (
        "merging J2:1 should give 20 results a second, 2 for each of 8 rows read; memory gives 9"
    )
    assert decision.to_json() == {
        "decision": "MergeGroup",
        "operator": "J2",
        "group": 1,
        "reason": decision.reason,
        "waiting": ["J1"],
        "with_live": False,
        "origin": {"by": "policy", "name": ""},
    }


@pytest.mark.parametrize(
    ("operator", "budget", "fits"),
    [
        pytest.param("J1", 960, True, id="16 rows of 18 bytes are three tenths of 960"),
        pytest.param("J1", 959, False, id="and more of 959"),
        pytest.param("J1", None, True, id="no budget"),
        pytest.param("J2", 1, True, id="results of the query are kept nowhere"),
    ],
)
def test_what_is_emitted_must_fit_into_memory_above(operator: str, budget: int | None, fits: bool) -> None:
    view = memory(budget_bytes=budget, cold=(entry := cold(operator, 1, *MUCH),))
    assert fits_memory(view, entry, PACE) is fits
    assert (choose_merge(view, PACE) is not None) is fits


@pytest.mark.parametrize("largest, chosen", [(0, True), (6, True), (7, False)])
def test_a_group_that_was_merged_before_waits_until_it_has_grown(largest: int, chosen: bool) -> None:
    """Or each merge would write down more than the last, for ever."""
    entry = replace(cold("J2", 1, *MUCH), largest_rows=largest)
    assert entry.rows == 8
    assert (choose_merge(memory(BUSY, cold=(entry,)), PACE) is not None) is chosen
    assert choose_merge(memory(BUSY, cold=(entry,)), replace(PACE, growth=0.0)) is not None


@settings(max_examples=150, deadline=None)
@given(views(), st.sampled_from([0.1, 1.0, 10.0]))
def test_what_is_chosen_beats_memory_and_nothing_better_was_passed(view: MemoryView, disk_rows: float) -> None:
    pace = MergePace(disk_rows)
    worth = {
        (view.operator(entry.operator).depth, entry.operator, -disk_throughput(view, entry), entry.group)
        for entry in view.cold
        if fits_memory(view, entry, pace)
        and disk_throughput(view, entry) * disk_rows > memory_throughput(view, entry.operator, pace)
    }
    decision = choose_merge(view, pace)
    assert (decision and (decision.operator, decision.group)) == (min(worth)[1::2] if worth else None)
    mirrored = replace(view, groups=view.groups[::-1], cold=view.cold[::-1], operators=view.operators[::-1])
    assert choose_merge(mirrored, pace) == decision


def whole(view: MemoryView, entry: ColdView) -> ColdView:
    """With the live generation as one more."""
    return entry.and_live(view.live(*entry.key))


@settings(max_examples=150, deadline=None)
@given(views())
def test_the_clean_up_pays_everything_from_the_bottom_up(view: MemoryView) -> None:
    order = [(decision.operator, decision.group) for decision in clean_up(view)]
    assert len(set(order)) == len(order)
    assert set(order) == {entry.key for entry in view.cold if whole(view, entry).generations > 1}
    seen = [operator for operator, _ in order]
    for operator in view.operators:
        if operator.id in seen:
            for lower in view.below(operator.id):
                assert lower not in seen[seen.index(operator.id) :]
            assert seen.count(operator.id) == len(seen) - seen[::-1].index(operator.id) - seen.index(operator.id)
    assert clean_up(replace(view, groups=view.groups[::-1], cold=view.cold[::-1])) == clean_up(view)


def test_within_an_operator_what_pays_most_for_a_byte_comes_first() -> None:
    view = memory(
        group("J2", 3, rows=(6, 6), bytes=(60, 60)),
        cold=(
            cold("J2", 1, (4, 0), (0, 4), size=20),  # 16 results of 20 bytes
            cold("J2", 2, (9, 0), (0, 9), size=180),  # 81 of 180
            cold("J2", 3, (6, 0), unique=5.0, size=60),  # with the live generation 36 / 5 keys, of 180
            cold("J2", 4, (9, 9), size=180),  # owes nothing
            cold("J2", 5, (0, 9), (0, 9), size=10),  # cannot owe anything, and is listed all the same
        ),
    )
    assert [decision.group for decision in clean_up(view)] == [1, 2, 3, 5]
    assert clean_up(view)[2].reason == "2 generations with 180 bytes owe about 7.2 results of the query"


def test_operators_come_in_the_order_of_the_plan_whatever_they_pay() -> None:
    third = OperatorView("J0", 0, 2, ("J2", "D"), (1.0, 1.0), spillable=True)
    operators = (replace(LOWER, depth=2), replace(ROOT, depth=1), third)
    entries = (cold("J0", 1, (90, 0), (0, 90)), cold("J2", 1, *MUCH), cold("J1", 1, *LITTLE))
    order = [decision.operator for decision in clean_up(memory(operators=operators, cold=entries))]
    assert order == ["J1", "J2", "J0"]


def test_the_clean_up_comes_to_an_end() -> None:
    view = memory(group("J1", 1), cold=(cold("J1", 1, (4, 4)), cold("J1", 2, *MUCH), cold("J2", 2, *LITTLE)))
    steps = 0
    while todo := clean_up(view):
        key = (todo[0].operator, todo[0].group)
        entry = next(entry for entry in view.cold if entry.key == key)
        assert owed_by(whole(view, entry)) > 0
        united = cold(entry.operator, entry.group, whole(view, entry).rows_by_input, size=1)
        view = replace(
            view,
            groups=tuple(found for found in view.groups if found.key != key),
            cold=tuple(united if e.key == key else e for e in view.cold),
        )
        steps += 1
    assert steps == 3
