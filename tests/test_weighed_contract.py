"""The contract where a group-by is pushed below joins: what is emitted is the oracle's, whichever inputs are weighed.

As `test_grouped_contract.py`, with rows of some inputs combined before they are joined, weighed one by one, or as they
are, in plans that change from one to the other by any road. Values repeat, so that there is something to combine.

`WATERSMEET_EXAMPLES=5000 pytest tests/test_weighed_contract.py` draws thousands of new cases.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

import watersmeet as wm
from drawn_plans import all_plans, place_filters
from grouped_cases import GroupedCase, counted, grouped_cases, rounded
from strategies import RANDOMS, contract_settings
from test_contract import restart_often, tuned
from test_grouped_contract import check, run
from test_memory_contract import run_with_schedule
from watersmeet.plan.tree import COMBINED, SINGLE
from watersmeet.plan.weighing import why_not_weighed

pytestmark = pytest.mark.slow


def marked(plan: str, random: Random) -> str:
    """A plan with some of its inputs weighed, most of them combined; what stands in brackets are filters."""

    def mark(found: re.Match[str]) -> str:
        return found[0] + ("" if found[0].startswith("[") else random.choice(["", COMBINED, COMBINED, SINGLE]))

    return re.sub(r"\[[^\]]*\]|[^\s()\[\]]+", mark, plan)


def weighed_plans(grouped: GroupedCase, random: Random, copies: int = 2) -> list[str]:
    """Every tree of a case, each with several choices of what is weighed; passed over where nothing can be."""
    case = grouped.case
    assume(len(case.inputs) > 1)
    streams = {name: stream.record_batches() for name, stream in case.streams.items()}
    query = wm.sql(case.text, lateness=case.lateness, **streams).query
    assume(why_not_weighed(query, query.aliases[0]) is None)
    placed = (place_filters(plan, case.conditions, random.randrange) for plan in all_plans(case) for _ in range(copies))
    return [marked(plan, random) for plan in placed]


def repeated(grouped: GroupedCase, times: int) -> GroupedCase:
    """With every row so many times in its batch."""
    case = grouped.case
    streams = {
        name: replace(stream, batches=[[row for row in batch for _ in range(times)] for batch in stream.batches])
        for name, stream in case.streams.items()
    }
    return replace(grouped, case=replace(case, streams=streams))


def rows_are_combined(grouped: GroupedCase, random: Random, times: int) -> None:
    plans = weighed_plans(grouped, random)
    grouped = repeated(grouped, times)
    plan = random.choice(plans)
    note(plan)
    check(grouped, run(grouped, plan=plan))


@contract_settings(20)
@given(grouped_cases(largest=4, apart=False), RANDOMS, st.sampled_from([1, 2]))
def test_groups_are_the_oracles(grouped: GroupedCase, random: Random, times: int) -> None:
    rows_are_combined(grouped, random, times)


@pytest.mark.campaign
@contract_settings(400)
@given(grouped_cases(largest=4, apart=False), RANDOMS, st.sampled_from([1, 2, 3]))
def test_groups_are_the_oracles_in_many_cases(grouped: GroupedCase, random: Random, times: int) -> None:
    rows_are_combined(grouped, random, times)


@contract_settings(10)
@given(grouped_cases(largest=3, windowed=True, apart=False), RANDOMS, st.sampled_from([1, 500, 3000]))
def test_spills_below_delay_a_boundary_and_never_change_it(grouped: GroupedCase, random: Random, budget: int) -> None:
    plan = random.choice(weighed_plans(grouped, random))
    note(plan)
    check(grouped, run(grouped, plan=plan, memory=budget))


def anything_is_decided(grouped: GroupedCase, random: Random, often: float, rows_a_batch: int) -> None:
    plans = weighed_plans(grouped, random)
    plans += all_plans(grouped.case)
    case = replace(grouped.case.longer(rows_a_batch), text=grouped.case.text, plan=random.choice(plans))
    grouped = replace(grouped, case=case)
    note(f"{case.plan}, then {plans}")
    found = run_with_schedule(case, random, often, tuple(plans))
    assert Counter({tuple(map(rounded, row)): times for row, times in found.items()}) == grouped.answer()


SCHEDULED = (
    grouped_cases(largest=3, windowed=True, apart=False),
    RANDOMS,
    st.sampled_from([0.1, 0.5]),
    st.sampled_from([1, 3]),
)


@contract_settings(10)
@given(*SCHEDULED)
def test_changes_in_both_directions_by_any_road_change_nothing(
    grouped: GroupedCase, random: Random, often: float, rows_a_batch: int
) -> None:
    """Among spills, merges, cuts, moves and spreads, the group-by goes below joins and above them."""
    anything_is_decided(grouped, random, often, rows_a_batch)


@pytest.mark.campaign
@contract_settings(200)
@given(*SCHEDULED)
def test_many_changes_by_any_road_change_nothing(
    grouped: GroupedCase, random: Random, often: float, rows_a_batch: int
) -> None:
    anything_is_decided(grouped, random, often, rows_a_batch)


def restarts_change_nothing(grouped: GroupedCase, random: Random, data: st.DataObject) -> None:
    plans = weighed_plans(grouped, random)
    grouped = replace(grouped, case=replace(grouped.case, plan=random.choice(plans)))
    ended: list[int] = []
    with tempfile.TemporaryDirectory() as folder, tuned(grouped.case):
        tables, _ = restart_often(grouped.case, Path(folder), data, ended, others=plans)
    note(f"ended after {ended}")
    table = pa.concat_tables(tables) if tables else wm.sql(grouped.case.text).schema.empty_table()
    if grouped.slide_us is not None:
        assert counted(table) == grouped.answer(ended)
    else:
        check(grouped, table)


@contract_settings(10)
@given(grouped_cases(largest=3, apart=False), RANDOMS, st.data())
def test_restarts_with_other_plans_neither_repeat_nor_lose_a_boundary(
    grouped: GroupedCase, random: Random, data: st.DataObject
) -> None:
    restarts_change_nothing(grouped, random, data)


@pytest.mark.campaign
@contract_settings(60)
@given(grouped_cases(largest=3, apart=False), RANDOMS, st.data())
def test_many_restarts_with_other_plans_neither_repeat_nor_lose_a_boundary(
    grouped: GroupedCase, random: Random, data: st.DataObject
) -> None:
    restarts_change_nothing(grouped, random, data)
