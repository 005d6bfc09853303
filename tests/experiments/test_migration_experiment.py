"""The migration experiments: settings worked out by hand, answers that no road changes, the claims, and the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from experiments import migration_runs
from experiments.__main__ import main
from experiments.banded import Banded, bind_query, draw_rows
from experiments.claims import Claim
from experiments.figures import Chart, Line, draw
from experiments.grouped_changes import (
    ABOVE,
    BELOW,
    DIRECTIONS,
    GroupedCase,
    GroupedChange,
    GroupedFindings,
    key_to_foreign_key,
    many_to_many,
)
from experiments.migration import (
    AB,
    BC,
    HIGH,
    LOW,
    MOVING,
    PARALLEL,
    QUICK,
    ROADS,
    SEEDED,
    Setting,
    back,
    look_batches,
    moving_seconds,
    once,
    set_1,
    set_2,
    set_3,
    settled,
    several,
    stable,
)
from experiments.migration_claims import check_claims, crossing, lead
from experiments.migration_runs import (
    BLIND,
    LOOKING,
    NEW_ONLY,
    OLD_ONLY,
    WITHOUT,
    Deciding,
    Effect,
    Findings,
    Length,
    Overhead,
    gap_of,
    gaps,
    measure_length,
)
from experiments.paced import CAP, Change, Pace, PacedRun, Sample, Steady, Trace
from watersmeet.optimize import CostConstants
from watersmeet.optimize.choose import choose_plan
from watersmeet.plan.layout import lay_out
from watersmeet.runtime.clock import VirtualClock

PRICES = CostConstants(insert=2e-7, delete=0.0, join=3e-8, probe=5e-8, compare=4e-8)
SMALL = replace(set_1(1.0, 3), batches_a_window=8, selectivities={AB: 0.3, BC: 0.2, ("C", "D"): 0.3})


# --- settings --------------------------------------------------------------------------------------------------------


def test_equation_16_1_with_our_sizes_of_states() -> None:
    """150 T_j + 6 T_s for set 1 and W = 1 s: 10 * 10 and 5 * 10 pairs, 5 rows of B C and 1 of B C D."""
    nothing = CostConstants(insert=0.0, delete=0.0, join=0.0, probe=0.0, compare=0.0)
    assert moving_seconds(set_1(1.0, 1), replace(nothing, compare=1.0)) == pytest.approx(150)
    assert moving_seconds(set_1(1.0, 1), replace(nothing, insert=1.0)) == pytest.approx(6)


def test_settings_are_those_of_the_table() -> None:
    assert set_2(12.5, 1).rates == {"A": 20.0, "B": 80.0, "C": 20.0, "D": 20.0}
    assert set_3(0.5, 1).rates["D"] == pytest.approx(83.3, abs=0.1)
    assert (LOW.window_seconds, HIGH.window_seconds) == (1.0, 2.0)
    assert (LOW.rates["A"], HIGH.rates["A"]) == (10.0, 20.0)
    assert list(HIGH.selectivities.values()) == [0.2, 0.05, 0.05]


def test_the_optimiser_looks_every_ten_seconds() -> None:
    setting = once(2.5)
    assert look_batches(setting) * CAP * setting.batch_seconds * setting.speed == pytest.approx(10.0)


def share(setting: Banded, rows: dict[str, pa.RecordBatch], pair: tuple[str, str], since: float, until: float) -> float:
    """Of all pairs of rows that came between two times, at normal speed."""
    values = []
    for stream in pair:
        times = rows[stream].column("ts").to_numpy() * setting.speed / 1e6
        values.append(rows[stream].column("".join(pair).lower()).to_numpy()[(times >= since) & (times < until)])
    limit = 1.0 - np.sqrt(1.0 - setting.selectivities[pair])
    return float(np.mean(np.abs(values[0][:, None] - values[1][None, :]) < limit))


def test_selectivities_trade_places_at_each_switch() -> None:
    setting = replace(several(5.0, (20.0, 40.0)), copies=5)
    rows = draw_rows(setting, 60.0 / setting.speed, 1)
    found = [[share(setting, rows, pair, at, at + 20.0) for pair in (AB, BC)] for at in (0.0, 20.0, 40.0)]
    assert found == [
        [pytest.approx(0.02, rel=0.15), pytest.approx(0.3, rel=0.15)],
        [pytest.approx(0.3, rel=0.15), pytest.approx(0.02, rel=0.15)],
        [pytest.approx(0.02, rel=0.15), pytest.approx(0.3, rel=0.15)],
    ]


def test_what_stays_after_the_first_switch() -> None:
    setting = settled(once(1.0))
    assert [switch.selectivities for switch in setting.switches] == [{AB: 0.02}]
    assert setting.switches[0].seconds == 0.0
    assert len(stable(1.0).switches) == 1


# --- runs ------------------------------------------------------------------------------------------------------------


def run_by(setting: Setting, road: str | None) -> tuple[Counter[tuple[Any, ...]], PacedRun]:
    """All results of three windows, with a change of the plan after one and a quarter, or none; time stands still."""
    query = bind_query(setting)
    found: list[pa.RecordBatch] = []
    rows = draw_rows(setting, 4 * setting.width, 5)
    pace = Pace(3 * setting.width, setting.batch_seconds, setting.width)
    run = PacedRun(lay_out(query, choose_plan(query, setting.old).tree, {}), rows, pace, VirtualClock(), found.extend)
    for number, _ in enumerate(run.batches()):
        if road is not None and number == 10:
            run.migrate(setting.new, road)
    run.close()
    return Counter(tuple(row.values()) for batch in found for row in batch.to_pylist()), run


def test_the_answer_is_the_same_by_every_road() -> None:
    expected, kept = run_by(SMALL, None)
    assert sum(expected.values()) > 100
    assert kept.changes == []
    for road in ROADS:
        found, run = run_by(SMALL, road)
        assert found == expected, road
        [change] = run.changes
        assert (change.by, change.plan) == (road, SMALL.new)
        assert run.samples[-1].tree == SMALL.new
        batches = change.input_seconds / SMALL.batch_seconds
        if road == MOVING:
            assert batches == 0
        if road == PARALLEL:  # a window, the batch that it comes with, and the watermark of the batch before
            assert SMALL.batches_a_window <= batches <= SMALL.batches_a_window + 3


def test_lengths_are_measured_for_every_road() -> None:
    said: list[str] = []
    length = measure_length(replace(SMALL, copies=20), 1.0, 1, PRICES, said.append)
    assert said[0].startswith("set 1, 1: moving-state 0.")
    assert all(len(length.changes[road]) == 1 for road in ROADS)
    moving, parallel = length.seconds(MOVING), length.seconds(PARALLEL)
    assert moving is not None and parallel is not None
    assert 0 < moving < 1.0 <= parallel
    assert length.changes[MOVING][0].work_seconds == pytest.approx(moving, abs=0.001)
    gap = gap_of(length.traces[PARALLEL])
    assert gap is not None and 0 < gap["during"] < 1.0
    assert set(length.to_json()["roads"]) == set(ROADS)


def test_a_run_that_looks_at_its_plan_changes_it_after_a_switch() -> None:
    setting = replace(several(5.0, (5.0,)), copies=10)
    rows = draw_rows(setting, 6.0, 1)
    trace = migration_runs._decide(setting, rows, 5.0, SEEDED, PRICES)
    assert [change.by for change in trace.changes] == [SEEDED]
    assert trace.changes[0].plan != setting.old
    assert 1.0 < trace.changes[0].asked_at < 4.0
    assert migration_runs._decide(setting, rows, 2.5, None, PRICES).changes == ()


# --- claims ----------------------------------------------------------------------------------------------------------


def change_of(by: str, seconds: float, input_seconds: float, at: float = 2.0) -> Change:
    return Change(by, "(((B C) D) A)", 20, at, at + seconds, input_seconds, seconds, 1000)


def trace_of(rate: float, *changes: Change, size: int = 1000, waiting: int = 0) -> Trace:
    """Results at an even rate for ten seconds, ten times a second."""
    steps = [n / 10 for n in range(101)]
    samples = tuple(Sample(t, t, round(rate * t), waiting, 500, size, size // 10) for t in steps)
    return Trace(samples, None, None, changes)


def length_of(setting: Setting, varied: float, moving: float) -> Length:
    width = setting.width
    changes = {
        MOVING: (change_of(MOVING, moving, 0.0),),
        PARALLEL: (change_of(PARALLEL, 1.1 * width + moving, 1.1 * width),),
        SEEDED: (change_of(SEEDED, 0.5 * width, 0.5 * width),),
    }
    return Length(setting, varied, moving, {road: trace_of(10, *found) for road, found in changes.items()}, changes)


def effect_of(setting: Setting) -> Effect:
    traces = {OLD_ONLY: trace_of(100, size=2000), NEW_ONLY: trace_of(200)}
    traces |= {road: trace_of(150, change_of(road, 1.0 + (road == PARALLEL), 1.0)) for road in ROADS}
    return Effect(setting, 1.6, 10.0, 2.0, traces)


def grouped_of(case: GroupedCase) -> GroupedFindings:
    alone = {
        tree: replace(trace_of(10), steady=Steady(10, 5.0, 100, 50, cpu, 5.0, rows, 10 * rows, {}))
        for tree, cpu, rows in ((ABOVE, 2.0, 300.0), (BELOW, 1.0, 100.0))
    }
    changes = {
        (direction, road): GroupedChange(change_of(road, 2.1, 2.1), 14, 8, 100, 0)
        for direction in DIRECTIONS
        for road in ROADS
    }
    return GroupedFindings(case, alone, changes)


def findings_of(gain: float = 1.5, saved: float = 0.6) -> Findings:
    size = round(1000 * (1 - saved))
    switched = {WITHOUT: trace_of(100), **{r: trace_of(100 * gain, change_of(r, 0.5, 0.5), size=size) for r in ROADS}}
    plain = stable(2.5)
    return Findings(
        QUICK,
        PRICES,
        {
            "set 1": tuple(length_of(set_1(w, 5), w, 0.01 * w**3) for w in (1.0, 2.0, 4.0)),
            "set 2": tuple(length_of(set_2(ms, 5), 1000 / ms, 1.0 / ms) for ms in (100.0, 12.0)),
            "set 3": tuple(length_of(set_3(w, 5), w, 4 * w**3) for w in (0.2, 0.4, 0.6)),
        },
        length_of(back(5), 4.0, 1.5),
        {"low": effect_of(LOW), "high": effect_of(HIGH)},
        Overhead(plain, ((1.01, 1.0),), {LOOKING: trace_of(10), BLIND: trace_of(10)}, 6),
        Deciding(once(2.5), 1.6, 10.0, switched),
        Deciding(several(5.0, (5.0, 25.0)), 1.6, 10.0, switched),
        (grouped_of(many_to_many(100.0)), grouped_of(key_to_foreign_key(100.0))),
        60.0,
    )


def claim(claims: Sequence[Claim], words: str) -> Claim:
    [found] = [claim for claim in claims if words in claim.paper]
    return found


def test_claims_are_judged_by_what_was_measured() -> None:
    found = check_claims(findings_of())
    assert claim(found, "grows linearly with W").holds
    two = claim(found, "T_PT is 2 W")
    assert not two.holds and two.measured == "1.10 W" and two.why
    assert claim(found, "polynomial").measured.endswith("8.0 times (2 would be linear, 8 a cube)")
    crossover = claim(found, "from some window on")
    assert crossover.holds and "by the machine's never" in crossover.measured
    assert claim(found, "40 to 50 %").measured.startswith("moving-state +50%, parallel-track +50%, seeded +50%")
    assert claim(found, "40 to 50 %").holds
    assert claim(found, "state alone").holds
    less = check_claims(findings_of(gain=1.2, saved=0.3))
    assert not claim(less, "40 to 50 %").holds
    assert not claim(less, "state alone").holds


def test_where_moving_state_overtakes_a_window() -> None:
    lengths = [length_of(set_3(w, 1), w, moving) for w, moving in ((0.2, 0.1), (0.4, 0.3), (0.6, 0.8))]
    # 0.1 short of the window at 0.4, and 0.2 beyond it at 0.6.
    assert crossing(lengths, lambda length: length.setting.width) == pytest.approx(0.4 + 0.2 / 3)
    assert crossing(lengths[:2], lambda length: length.setting.width) is None


def test_gaps_are_between_batches_with_results() -> None:
    times = [(0.0, 0), (1.0, 5), (2.0, 5), (4.0, 6), (4.5, 9)]
    samples = [Sample(seconds, seconds, results, 0, 0, 0) for seconds, results in times]
    assert gaps(samples) == [(0.0, 1.0), (1.0, 4.0), (4.0, 4.5)]
    trace = Trace(tuple(samples), None, None, (change_of(MOVING, 1.0, 0.0, at=1.0),))
    assert gap_of(trace) == {"before": 1.0, "during": 3.0, "after": 0.5}


def test_leads_are_over_a_stretch_of_time() -> None:
    assert lead(trace_of(300), trace_of(200), 2.0, 8.0) == pytest.approx(0.5)


# --- the page --------------------------------------------------------------------------------------------------------


@pytest.fixture
def made_up_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.__main__.machine_costs", lambda say: PRICES)
    monkeypatch.setattr(migration_runs, "run_all", lambda extent, prices, say: findings_of())


@pytest.mark.usefixtures("made_up_runs")
def test_the_command_writes_one_page_with_all_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migration", "--quick", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["claims"]) == len(check_claims(findings_of()))
    assert [entry["set"] for entry in found["lengths"]].count("set 3") == 3
    text = (tmp_path / "migration.html").read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == len(list(tmp_path.glob("*.png"))) == 17
    assert "does not come out" in text
    assert "one window, not two" in text.lower()


@pytest.mark.usefixtures("made_up_runs")
def test_the_command_prints_the_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("experiments.migration_page.draw", lambda chart: b"")
    assert main(["migration", "--quick", "--out", str(tmp_path)]) == 0
    assert f"claims came out; the page is {tmp_path / 'migration.html'}" in capsys.readouterr().out.replace("\n", "")


def test_moments_are_drawn() -> None:
    chart = Chart("t", "x", "y", (Line("a", [0, 1], [0, 1]),), ("a",), moments=(0.5,), moments_label="now")
    assert draw(chart) != draw(replace(chart, moments=()))
