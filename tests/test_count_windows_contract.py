"""The contract with windows of rows: whatever is done to the state, the answer is the oracle's, late rows and ties too.

`WATERSMEET_EXAMPLES=5000 pytest tests/test_count_windows_contract.py` draws thousands of new cases.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_plans import placed_plans
from strategies import RANDOMS, Case, cases, contract_settings, counted
from test_contract import restart_often, run, tuned
from test_memory_contract import run_with_schedule
from watersmeet.adapt.policies.migrate import seeded
from watersmeet.model.streams import AHEAD_OF

pytestmark = pytest.mark.slow


def answers(case: Case) -> None:
    expected = case.answer()
    rows, end = run(case)
    assert rows == expected.rows
    assert end["rows_late"] == expected.rows_late
    assert end["rows_out"] == expected.rows.total()


def stays_the_same_with_spills(case: Case, random: Random, often: float) -> None:
    case = case.longer(random.choice([1, 2, 5]))
    with tuned(case):
        rows = run_with_schedule(case, random, often)
    assert rows == case.answer().rows


def stays_the_same_with_other_plans(case: Case, random: Random, often: float) -> None:
    case, steps = case.longer(random.choice([1, 2, 5])), [1, 1, 2, 5]
    with tuned(case), mock.patch.object(seeded, "_rows_allowed", lambda standing: random.choice(steps)):
        rows = run_with_schedule(case, random, often, tuple(placed_plans(case, random)))
    assert rows == case.answer().rows


def stays_the_same_with_restarts(case: Case, data: st.DataObject) -> None:
    ended: list[int] = []
    with tempfile.TemporaryDirectory() as folder, tuned(case):
        tables, late = restart_often(case, Path(folder), data, ended)
    expected = case.answer(ended)
    assert counted(pa.concat_tables(tables)) == expected.rows
    apart = {name: Counter(tuple(sorted(row.items())) for row in rows) for name, rows in expected.late.items()}
    found = {name: sum(rows.values()) for name, rows in late.items()}
    assert found == {name: rows.total() for name, rows in apart.items() if rows}


@contract_settings(20)
@given(cases(largest=4, rows=True))
def test_the_answer_is_the_oracles(case: Case) -> None:
    answers(case)


@contract_settings(6)
@given(cases(largest=3, rows=True, pairs=True))
def test_windows_for_pairs_go_together_with_windows_of_rows(case: Case) -> None:
    answers(case)


@contract_settings(5)
@given(cases(largest=3, rows=True, ahead=AHEAD_OF))
def test_rows_that_are_ahead_are_not_counted(case: Case) -> None:
    answers(case)


@contract_settings(8)
@given(cases(largest=4, rows=True), RANDOMS, st.sampled_from([0.2, 0.6, 1.0]))
def test_cuts_spills_moves_and_merges_change_nothing(case: Case, random: Random, often: float) -> None:
    stays_the_same_with_spills(case, random, often)


@contract_settings(6)
@given(cases(least=3, largest=4, rows=True), RANDOMS, st.sampled_from([0.0, 0.2, 0.6]))
def test_changes_of_the_plan_change_nothing(case: Case, random: Random, often: float) -> None:
    stays_the_same_with_other_plans(case, random, often)


@contract_settings(4)
@given(cases(largest=4, rows=True), st.data())
def test_restarts_between_batches_change_nothing(case: Case, data: st.DataObject) -> None:
    stays_the_same_with_restarts(case, data)


@pytest.mark.campaign
@contract_settings(600)
@given(cases(largest=4, rows=True))
def test_the_answer_is_the_oracles_in_many_cases(case: Case) -> None:
    answers(case)


@pytest.mark.campaign
@contract_settings(400)
@given(cases(largest=4, rows=True, pairs=True), RANDOMS, st.sampled_from([0.2, 0.6, 1.0]))
def test_spills_change_nothing_in_many_cases(case: Case, random: Random, often: float) -> None:
    stays_the_same_with_spills(case, random, often)


@pytest.mark.campaign
@contract_settings(300)
@given(cases(least=3, largest=4, rows=True), RANDOMS, st.sampled_from([0.0, 0.2, 0.6]))
def test_changes_of_the_plan_change_nothing_in_many_cases(case: Case, random: Random, often: float) -> None:
    stays_the_same_with_other_plans(case, random, often)


@pytest.mark.campaign
@contract_settings(200)
@given(cases(largest=4, rows=True), st.data())
def test_restarts_change_nothing_in_many_cases(case: Case, data: st.DataObject) -> None:
    stays_the_same_with_restarts(case, data)
