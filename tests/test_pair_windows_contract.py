"""The contract with windows for pairs: rows go by them, and the answer is the oracle's, whatever is done to the state.

`WATERSMEET_EXAMPLES=5000 pytest tests/test_pair_windows_contract.py` draws thousands of new cases.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_plans import placed_plans
from strategies import RANDOMS, Case, cases, contract_settings
from test_contract import run, run_with_restarts, tuned
from test_memory_contract import run_with_schedule
from watersmeet.adapt.policies.migrate import seeded

pytestmark = pytest.mark.slow


@contract_settings(12)
@given(cases(pairs=True))
def test_the_answer_is_the_oracles(case: Case) -> None:
    expected = case.answer()
    rows, end = run(case)
    assert rows == expected.rows
    assert end["rows_late"] == expected.rows_late


@contract_settings(9)
@given(cases(largest=4, pairs=True), RANDOMS, st.sampled_from([0.2, 0.6, 1.0]))
def test_cuts_spills_and_merges_change_nothing(case: Case, random: Random, often: float) -> None:
    case = case.longer(random.choice([1, 2, 5]))
    with tuned(case):
        rows = run_with_schedule(case, random, often)
    assert rows == case.answer().rows


@contract_settings(12)
@given(cases(least=3, largest=4, pairs=True), RANDOMS, st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from([1, 2, 5]))
def test_changes_of_the_plan_change_nothing(case: Case, random: Random, often: float, rows_a_batch: int) -> None:
    case, steps = case.longer(rows_a_batch), [1, 1, 2, 5]
    with tuned(case), mock.patch.object(seeded, "_rows_allowed", lambda standing: random.choice(steps)):
        rows = run_with_schedule(case, random, often, tuple(placed_plans(case, random)))
    assert rows == case.answer().rows


@contract_settings(6)
@given(cases(largest=4, pairs=True), st.data())
def test_restarts_between_batches_change_nothing(case: Case, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, tuned(case):
        rows, _ = run_with_restarts(case, Path(folder), data)
    assert rows == case.answer().rows
