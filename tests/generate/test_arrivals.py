"""Arrival patterns: any part alone equals the slice of the whole, the rate is kept, and the shape is as named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.generate.arrivals import ARRIVALS, below, draw, events_before, key_of, pareto_bursty, poisson, steady

PATTERNS = pytest.mark.parametrize("name", ARRIVALS)


@PATTERNS
@given(first=st.integers(0, 9_000), n=st.integers(0, 1_000), seed=st.integers(0, 5))
def test_a_part_alone_is_the_slice_of_the_whole(name: str, first: int, n: int, seed: int) -> None:
    whole = ARRIVALS[name](seed, 300.0, 10_000, 7, 0)
    np.testing.assert_array_equal(ARRIVALS[name](seed, 300.0, n, 7, first), whole[first : first + n])


@PATTERNS
def test_times_are_ascending_integers_from_the_start(name: str) -> None:
    times = ARRIVALS[name](1, 250_000.0, 200_000, 5_000_000, 0)
    assert times.dtype == np.int64
    assert times[0] >= 5_000_000
    assert (np.diff(times) >= 0).all()


@PATTERNS
def test_a_later_start_moves_all_times(name: str) -> None:
    np.testing.assert_array_equal(ARRIVALS[name](1, 10.0, 50, 1000, 0), ARRIVALS[name](1, 10.0, 50, 0, 0) + 1000)


@PATTERNS
@pytest.mark.parametrize("rate", [0.5, 1000.0])
def test_the_rate_is_kept_in_the_long_run(name: str, rate: float) -> None:
    # Bursts have a heavy tail, so their mean is reached slowly: the average of several seeds.
    n = 200_000 if rate > 1 else 20_000
    seconds = np.mean([ARRIVALS[name](seed, rate, n, 0, 0)[-1] / 1e6 for seed in range(20)])
    assert n / seconds == pytest.approx(rate, rel=0.1 if name == "pareto" else 0.005)


def test_steady_beats_do_not_drift() -> None:
    assert steady(1, 3.0, 1, 0, 3_000_000_000).tolist() == [1_000_000_000_000_000]
    assert steady(1, 3.0, 4).tolist() == [0, 333_333, 666_666, 1_000_000]


def test_poisson_gaps_are_exponential_and_counts_have_variance_equal_to_mean() -> None:
    times = poisson(3, 1000.0, 1_000_000)
    gaps = np.diff(times) / 1000.0
    assert gaps.mean() == pytest.approx(1.0, rel=0.01)
    assert gaps.std() == pytest.approx(1.0, rel=0.01)
    assert (gaps > 2.0).mean() == pytest.approx(np.exp(-2.0), rel=0.02)
    # Windows of 50 and of 5,000 expected events: within a block of draws, and across several.
    for window_us, tolerance in ((50_000, 0.05), (5_000_000, 0.35)):
        counts = np.bincount(times // window_us)[:-1]
        assert counts.var() / counts.mean() == pytest.approx(1.0, rel=tolerance)


def test_poisson_seeds_differ() -> None:
    assert (poisson(1, 1000.0, 100) != poisson(2, 1000.0, 100)).any()


def test_bursts_run_at_four_times_the_rate_between_long_silences() -> None:
    gaps = np.diff(pareto_bursty(1, 1000.0, 500_000)) / 1e6
    silences = gaps[gaps > 0.001]
    assert np.median(gaps) == pytest.approx(1 / 4000, rel=0.01)
    assert 50 < len(silences) < 250  # 125 seconds of bursts of a second
    assert silences.min() > 1.0  # the shortest silence: 3 seconds over 2.7
    assert silences.max() > 5 * np.median(silences)  # heavy tail


def test_silences_follow_the_pareto_law() -> None:
    times = pareto_bursty(5, 4.0, 400_000)  # bursts of a second, 16 rows
    gaps = np.diff(times) / 1e6
    silences = gaps[gaps > 0.1]
    shortest = 3.0 / (3.0 * 0.9 / 0.999)
    for multiple in (2.0, 4.0, 16.0):
        expected = (multiple**-1.5 - 0.001) / 0.999
        assert (silences > multiple * shortest).mean() == pytest.approx(expected, rel=0.1)


@PATTERNS
@given(until=st.integers(0, 3_000_000))
def test_events_before_counts_them(name: str, until: int) -> None:
    times = ARRIVALS[name](1, 100.0, 5_000, 0, 0)
    assert events_before(ARRIVALS[name], 1, 100.0, 0, until) == np.searchsorted(times, until)


def test_events_before_stops_at_the_most() -> None:
    assert events_before(poisson, 1, 1e6, 0, 10**17, most=12_345) == 12_345


def test_draws_are_uniform_and_keys_are_stable() -> None:
    counts = np.bincount(below(draw(key_of(1, "x"), np.arange(100_000)), 10), minlength=10)
    assert counts.sum() == 100_000
    assert abs(counts - 10_000).max() < 500
    # Written down: the data of an experiment must not change with a version.
    assert key_of(1, "A", "k") == 0x93B62001B7274F70
