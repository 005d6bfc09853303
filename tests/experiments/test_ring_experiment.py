"""The ring experiment: a simulation that can be worked out by hand where nothing waits, and a whole page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments import ring, ring_claims, ring_runs
from experiments.__main__ import main
from experiments.ring import Extent
from experiments.ring_images import Picture
from experiments.ring_rivals import atr_copies, simulate_atr, simulate_ctr
from experiments.ring_simulation import (
    AGGRESSIVE,
    BY_COUNT,
    BY_TIME,
    PASSIVE,
    Change,
    Draws,
    Load,
    Regime,
    Rows,
    adapted,
    simulate,
    slice_counts,
    steady,
)
from watersmeet.optimize.estimates import CostConstants
from watersmeet.optimize.ring_cost import RingPrices, alike, busy, response, ring_slots

PRICES = RingPrices(compare=2e-5, send=3e-5, hop=5e-5, insert=1e-6)
LOAD = Load(3, ((0.0, 8.0),), 10.0, 0.1, 40.0, seed=3)


def few_rows(times: Sequence[float], streams: Sequence[int], count: int) -> Rows:
    return Rows(np.array(times, dtype=np.float64), np.array(streams, dtype=np.int64), count)


# --- slices -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "regime",
    [
        Regime(steady(5)),
        Regime((Change(0.0, 3), Change(15.0, 7), Change(18.0, 2)), BY_TIME, PASSIVE),
        Regime((Change(0.0, 3), Change(15.0, 7), Change(18.0, 2)), BY_TIME, AGGRESSIVE),
        Regime((Change(0.0, 4, 20.0), Change(15.0, 6, 13.5)), BY_COUNT),
    ],
    ids=["one length", "passive", "aggressive", "by count"],
)
def test_every_row_in_time_is_in_one_slice(regime: Regime) -> None:
    rows = LOAD.rows()
    counts = slice_counts(rows, LOAD, regime)
    for row in range(0, len(rows.times), 17):
        for step, by_slot in enumerate(counts[row]):
            kept = rows.of(int(rows.probed(step)[row]))
            age = rows.times[row] - kept
            assert sum(by_slot) == np.count_nonzero((age >= 0) & (age < LOAD.window))


def test_slices_by_time_by_hand() -> None:
    rows = few_rows((0.0, 1.0, 4.0, 6.0, 9.5, 9.9), (1, 1, 1, 1, 1, 0), 2)
    load = replace(LOAD, streams=2)
    assert slice_counts(rows, load, Regime(steady(2)))[-1] == [[2, 3]]
    assert slice_counts(rows, load, Regime((Change(0.0, 2, 4.0),), BY_COUNT))[-1] == [[4, 1]]
    # The ring had one slot until second 5: what came before is in that one.
    changes = (Change(0.0, 1), Change(5.0, 2))
    assert slice_counts(rows, load, Regime(changes, relocation=PASSIVE))[-1] == [[5, 0]]
    assert slice_counts(rows, load, Regime(changes, relocation=AGGRESSIVE))[-1] == [[2, 3]]


# --- the ring ---------------------------------------------------------------------------------------------------------


def test_one_result_by_hand() -> None:
    """B lies in the third of four slices: three slots compare it, two hops on the way."""
    rows = few_rows((0.0, 6.0), (1, 0), 2)
    load = Load(2, ((0.0, 1.0),), 10.0, 1.0, 10.0, seed=0)
    prices = RingPrices(compare=1e-3, send=1e-4, hop=1e-2)
    found = simulate(replace(load, selectivity=40.0), Regime(steady(4)), prices, rows)
    assert found.results[0] == 0 and found.results[1] > 0
    # At each slot the row is received before it goes on; a kept row is pushed out there too, and the pair is compared.
    expected = 2 * (1e-4 + 1e-2) + 2 * 1e-4 + 1e-3 / 2
    assert found.response() == pytest.approx(expected)


def test_a_run_is_determined_by_its_seed_and_finds_what_it_should() -> None:
    one, two = simulate(LOAD, Regime(steady(6)), PRICES), simulate(LOAD, Regime(steady(6)), PRICES)
    assert one.waited.tolist() == two.waited.tolist()
    settled = one.arrived >= LOAD.window
    per_row = one.results[settled].mean()
    assert per_row == pytest.approx((8 * 10 * 0.1) ** 2, rel=0.15)
    assert one.state_rows == pytest.approx(240, rel=0.15)


@pytest.mark.parametrize("slots", [4, 8, 16])
def test_the_model_with_queues_is_near(slots: int) -> None:
    joined, found = alike(3, 8.0, 10.0, 0.1, PRICES), simulate(LOAD, Regime(steady(slots)), PRICES)
    assert found.response(10) == pytest.approx(response(joined, slots), rel=0.25)
    assert 0.6 < np.mean(found.busy) / busy(joined, slots) < 1.1, "a quarter of the time there is no whole window yet"


def test_a_wire_and_a_row_at_a_time_take_longer() -> None:
    free, wired = (simulate(LOAD, Regime(steady(8)), replace(PRICES, wire=wire)) for wire in (0.0, 2e-4))
    alone = simulate(LOAD, Regime(steady(8), in_flight=1), replace(PRICES, wire=2e-4))
    assert free.response(10) < wired.response(10) < alone.response(10)
    assert (alone.left[:-1] <= alone.left[1:]).all(), "one row after the other"


def test_draws_have_their_mean() -> None:
    draws = Draws(1)
    for mean in (0.05, 3.0, 50.0):
        assert np.mean([draws.matches(mean) for _ in range(20_000)]) == pytest.approx(mean, rel=0.07)


def test_a_ring_that_adapts_becomes_longer_and_is_the_better_for_it() -> None:
    load, prices = ring.doubled(8.0, 0.25, 60.0, seed=7), replace(PRICES, wire=2.4e-4)
    rows = load.rows()
    first = ring_slots(alike(3, 8.0, 10.0, 0.25, prices), 19)
    changes = adapted(load, rows, prices, first, 19, 2.0)
    assert {change.slots for change in changes if change.at < 30} == {first}
    assert changes[-1].slots > first + 3
    still, moved = (simulate(load, regime, prices, rows) for regime in (Regime(steady(first)), Regime(changes)))
    assert still.response(40) > 2 * moved.response(40)


# --- rivals -----------------------------------------------------------------------------------------------------------


def test_aligned_routing_finds_as_much_and_keeps_copies() -> None:
    load = replace(LOAD, seconds=200.0)
    rows = load.rows()
    found = {slots: simulate_atr(load, slots, 20.0, PRICES, rows) for slots in (4, 8)}
    whole = simulate(load, Regime(steady(6)), PRICES, rows)
    assert found[4].results.sum() == pytest.approx(whole.results.sum(), rel=0.1)
    assert found[4].response(10) == pytest.approx(found[8].response(10), rel=0.02), "whatever the slots"
    copies = (found[4].state_rows - 80) / 160
    assert copies == pytest.approx(atr_copies(10, 10, 20), rel=0.1)
    assert found[8].kept_rows > 1.2 * found[4].kept_rows


def test_coordinated_routing_finds_as_much_and_shares_among_few() -> None:
    rows = LOAD.rows()
    few, many = (simulate_ctr(LOAD, 12, copies, PRICES, rows) for copies in (2, 6))
    whole = simulate(LOAD, Regime(steady(6)), PRICES, rows)
    for found in (few, many):
        assert found.results.sum() == pytest.approx(whole.results.sum(), rel=0.1)
    assert few.response(10) < many.response(10)
    assert many.state_rows == pytest.approx(3 * few.state_rows, rel=0.02)


# --- settings and the page --------------------------------------------------------------------------------------------


def test_rates_are_divided_until_four_slots_are_half_busy() -> None:
    number = ring.divisor(PRICES)
    loads = [busy(alike(3, 50 / rates, 10, 0.5, PRICES), 4) for rates in (number - 1, number)]
    assert loads[1] <= 0.5 < loads[0]


TINY = Extent((4, 19), 14.0, (7,), (10.0, 50.0), 100.0, (2, 9), (3, 5), ("middle",), 30.0, 400)


@pytest.mark.slow
def test_the_command_writes_one_page_with_all_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def known(name: str, constants: CostConstants) -> Picture:
        return Picture(name, PRICES)

    monkeypatch.setattr(ring, "QUICK", TINY)
    monkeypatch.setattr(ring_runs, "measure", known)
    assert main(["ring", "--quick", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    page = (tmp_path / "ring.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == len(list(tmp_path.glob("*.png"))) == 17
    assert 'src="http' not in page
    assert len(found["claims"]) == len(ring_claims.CHECKS)
    assert [run["slots"] for run in found["real"]] == [1, 2]
    assert {run["results"] for run in found["real"]} == {found["real"][0]["results"]}
