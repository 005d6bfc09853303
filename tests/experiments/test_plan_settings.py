"""The sets of the dissertation as data: sizes worked out by hand, exact selectivities, the plans that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from experiments.plan_runs import run_set
from experiments.plans import (
    SETTINGS,
    Setting,
    fill_machine,
    find_plans,
    make_rows,
    predict,
    predict_rows,
    predict_state_rows,
    predict_work,
    realised_selectivities,
)
from watersmeet.optimize import CostConstants, HashProbes
from watersmeet.runtime.clock import VirtualClock

# Seconds, as on a machine of 2026.
MODEL = HashProbes(CostConstants(insert=2e-7, delete=0.0, join=3e-8, probe=5e-8, compare=4e-8))

everyone = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"set {setting.number}")


def as_in_the_table(number: int) -> Setting:
    """One copy at normal speed."""
    return replace(SETTINGS[number - 1], speed=1.0, copies=1)


@pytest.mark.parametrize(
    ("number", "sizes"),
    [
        (1, {"A": 100, "B": 100, "C": 100, "A B": 500}),  # 20/s * 5 s; 100 * 100 * 0.05
        (2, {"A": 300, "B": 300, "C": 750, "A B": 1800}),  # 20/s and 50/s * 15 s; 300 * 300 * 0.02
        (3, {"A": 150, "B": 150, "C": 150, "D": 150, "A B": 2250, "C D": 2250}),  # 150 * 150 * 0.1
        (4, {"A": 100, "B": 100, "C": 100, "D": 100, "A B": 200, "C D": 500}),  # 5 s instead of 50
    ],
)
def test_sizes_of_states_are_those_of_the_table(number: int, sizes: Mapping[str, int]) -> None:
    setting = as_in_the_table(number)
    assert {name: predict_state_rows(setting, name.split()) for name in sizes} == pytest.approx(sizes)
    quick = replace(setting, speed=7.0)
    assert {name: predict_state_rows(quick, name.split()) for name in sizes} == pytest.approx(sizes)
    many = replace(setting, copies=3)
    assert {name: predict_state_rows(many, name.split()) / 3 for name in sizes} == pytest.approx(sizes)


@pytest.mark.parametrize(
    ("number", "results", "candidates"),
    [
        # A and B: 20 * (100 + 5 * 100); C by way of B: 20 * (100 + 50 * 100), or into AB: 20 * 500
        (1, 15_000, {"mjoin": 126_000, "bjtree": 34_000}),
        # A and B: 20 * (300 + 6 * 750); C: 50 * (300 + 150 * 300), or 50 * 1800
        (2, 135_000, {"mjoin": 2_457_000, "bjtree": 282_000}),
        # each: 10 * (150 + 15 * 150 + 337.5 * 150), or 10 * (150 + 15 * 2250)
        (3, 202_500, {"mjoin": 2_121_000, "bjtree": 1_356_000}),
        # A, B: 20 * 4300; C: 20 * (100 + 20 * 100 + 40 * 100); D: 20 * (100 + 5 * 100 + 100 * 100)
        # or each 20 * 1100; or A, B: 20 * (100 + 2 * 100 + 40 * 100) and C, D: 20 * (100 + 5 * 200)
        (4, 16_000, {"mjoin": 506_000, "bjtree": 88_000, "hybrid": 216_000}),
    ],
)
def test_work_is_what_one_counts_by_hand(number: int, results: float, candidates: Mapping[str, float]) -> None:
    setting = as_in_the_table(number)
    plans = find_plans(setting, MODEL)
    work = {name: predict_work(setting, plan) for name, plan in plans.items()}
    assert {name: entry.candidates for name, entry in work.items()} == pytest.approx(candidates)
    # What enters an intermediate state has been joined too.
    rows_in = sum(setting.rates.values())
    assert work["bjtree"].joined - (work["bjtree"].inserts - rows_in) == pytest.approx(results)


@everyone
def test_the_optimiser_finds_the_plans_of_the_dissertation(setting: Setting) -> None:
    trees = {name: str(plan.tree) for name, plan in find_plans(fill_machine(setting, MODEL), MODEL).items()}
    expected = {
        1: {"mjoin": "(A B C)", "bjtree": "((A B) C)"},
        2: {"mjoin": "(A B C)", "bjtree": "((A B) C)"},
        3: {"mjoin": "(A B C D)", "bjtree": "((A B) (C D))"},
        4: {"mjoin": "(A B C D)", "bjtree": "((A B) (C D))", "hybrid": "((A B) C D)"},
    }
    assert trees == expected[setting.number]
    assert trees.keys() == setting.verdicts.keys()


@everyone
def test_limits_place_the_plans_as_the_dissertation_has_them(setting: Setting) -> None:
    filled = fill_machine(setting, MODEL)
    for name, plan in find_plans(filled, MODEL).items():
        price = predict(filled, plan, MODEL)
        verdict = setting.verdicts[name]
        assert filled.limits.allow(price) == (verdict == "qualifies")
        assert (price.memory > filled.limits.memory) == (verdict == "memory")


@everyone
def test_realised_selectivities_are_those_of_the_table(setting: Setting) -> None:
    rows = make_rows(replace(setting, copies=20), 10.0)
    assert realised_selectivities(setting, rows) == pytest.approx(setting.selectivities, rel=0.05)


@everyone
def test_rows_come_at_the_rates_of_the_table(setting: Setting) -> None:
    setting = replace(setting, copies=20)
    for stream, batch in make_rows(setting, 10.0).items():
        assert batch.num_rows == pytest.approx(setting.rates[stream] * setting.speed * 20 * 10, rel=0.05)
        times = batch.column("ts").to_numpy()
        assert np.all(np.diff(times) >= 0)
        assert times[-1] < 10e6
        copies = np.bincount(batch.column("g").to_numpy(), minlength=20)
        assert len(copies) == 20
        assert copies.min() > 0.7 * batch.num_rows / 20


def test_what_is_kept_is_what_was_predicted() -> None:
    setting = replace(SETTINGS[0], copies=4)
    outcome = run_set(setting, MODEL, 8.0, VirtualClock(), lambda text: None)
    for plan in outcome.plans:
        steady = plan.trace.steady
        assert steady is not None
        assert steady.input_seconds == pytest.approx(5.4, abs=0.3)  # 8 s less 1.25 windows of 2 s
        assert plan.predicted_rows == pytest.approx(predict_rows(setting, plan.plan))
        # Expired rows leave with their segment: few of a stream are left, more of what lives for a part of a window.
        assert 1.0 < steady.state_rows / plan.predicted_rows < 1.5
        for name, rows in steady.rows_by_state.items():
            assert 1.0 < rows / predict_state_rows(setting, name.split()) < (1.25 if name in "ABC" else 1.9)
        expected_results = 15_000 * setting.speed * setting.copies * steady.input_seconds
        assert steady.results == pytest.approx(expected_results, rel=0.15)
        assert plan.trace.exceeded_at is None
    mjoin, bjtree = outcome.plans
    assert mjoin.trace.samples[-1].results == bjtree.trace.samples[-1].results > 0
