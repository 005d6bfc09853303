"""The cost model of the ring: the paper's worked figures, its equations where streams are alike, and its rivals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import JobError
from watersmeet.optimize.allocate import FULL
from watersmeet.optimize.ring_cost import (
    Probe,
    Ring,
    RingPrices,
    RingStream,
    alike,
    bandwidth,
    batch_seconds,
    best_for_latency,
    best_for_rate,
    busy,
    central_seconds,
    comparisons,
    course,
    hops,
    initial_lengths,
    latency,
    latency_of,
    results,
    ring_seconds,
    ring_slots,
    sends,
    service_rate,
)

PRICES = RingPrices(compare=1e-6, send=1e-5, hop=1e-4)
PAPER = alike(3, 50, 10, 0.1, PRICES)  # lambda W = 500

prices = st.builds(
    RingPrices,
    compare=st.floats(1e-8, 1e-4),
    send=st.floats(0, 1e-4),
    hop=st.floats(0, 1e-3),
    insert=st.floats(0, 1e-5),
    delete=st.floats(0, 1e-5),
)
rings = st.builds(alike, st.integers(2, 6), st.floats(1, 100), st.floats(1, 20), st.floats(1e-5, 0.1), prices)


# --- worked figures ---------------------------------------------------------------------------------------------------


def test_comparisons_and_sends_of_the_papers_example() -> None:
    """T_j is for a comparison, not for a match: only so does equation 2 follow from equation 1."""
    assert comparisons(PAPER) == 25_500
    assert sends(PAPER) == 51
    assert results(PAPER) == 2_500


def test_the_printed_load_is_beyond_any_ring() -> None:
    """A selectivity of .5 gives 62,500 results a row, at 150 rows a second."""
    printed = alike(3, 50, 10, 0.5, PRICES)
    assert results(printed) == 62_500
    assert printed.rate * results(printed) == 9_375_000


def test_the_best_length_is_the_minimum_and_not_the_printed_condition() -> None:
    """L_C / T_n = 500. Calculus on (N - 1)/2 + 500/N gives 31.6, the printed (N - 1)/2 = 500/N gives 32.1."""

    def sum_of_both(ring: Ring, slots: int) -> float:
        return (slots - 1) / 2 * ring.prices.hop + central_seconds(ring) / slots

    ring = alike(2, 50, 10, 0.1, RingPrices(compare=1e-6, send=0.0, hop=1e-6))
    assert central_seconds(ring) / ring.prices.hop == pytest.approx(500)
    assert math.sqrt(2 * 500) == pytest.approx(31.6, abs=0.05)
    assert (1 + math.sqrt(1 + 8 * 500)) / 2 == pytest.approx(32.1, abs=0.05)
    assert best_for_latency(ring, 100, sum_of_both) == 32
    # Equation 5 as a whole is at its least earlier, where the ring's hops take as long as its work: 500 / N = N.
    assert best_for_latency(ring, 100) == 22
    # For 520 the printed condition names another whole number, which is worse.
    dearer = replace(ring, prices=replace(ring.prices, compare=1.04e-6))
    assert best_for_latency(dearer, 100, sum_of_both) == 32
    assert round((1 + math.sqrt(1 + 8 * 520)) / 2) == 33
    assert sum_of_both(dearer, 32) < sum_of_both(dearer, 33)


@given(st.data(), st.integers(1, 9), st.integers(2, 6))
def test_a_result_takes_at_most_m_minus_1_rounds(data: st.DataObject, slots: int, streams: int) -> None:
    places = data.draw(st.lists(st.integers(0, slots - 1), min_size=streams - 1, max_size=streams - 1))
    found = hops(places, slots)
    assert places[-1] == found % slots
    assert found < (streams - 1) * slots


# --- equations --------------------------------------------------------------------------------------------------------


@given(rings, st.integers(1, 40))
def test_equation_2_is_exact_where_streams_are_alike(ring: Ring, slots: int) -> None:
    ring = replace(ring, prices=replace(ring.prices, insert=0.0, delete=0.0))
    rows = ring.streams[0].rows
    expected = central_seconds(ring) * (1 + ring.prices.send * slots / (rows * ring.prices.compare))
    assert ring_seconds(ring, slots) == pytest.approx(expected)


@given(rings, st.integers(1, 40))
def test_more_slots_sustain_more_rows_and_never_twice_as_many(ring: Ring, slots: int) -> None:
    one, more = service_rate(ring, slots), service_rate(ring, slots + 1)
    assert one < more <= one * (slots + 1) / slots * (1 + 1e-9)
    assert best_for_rate(ring, slots) == slots
    assert busy(ring, slots) == pytest.approx(ring.rate / one)


@given(rings, st.integers(1, 60))
def test_no_length_has_less_latency_than_the_best(ring: Ring, most: int) -> None:
    best = best_for_latency(ring, most)
    assert 1 <= best <= most
    assert latency(ring, best) == min(latency(ring, slots) for slots in range(1, most + 1))


def test_latency_without_hops_is_the_share_of_the_work() -> None:
    ring = replace(PAPER, prices=RingPrices(compare=1e-6, send=1e-5))
    assert latency(ring, 10) == pytest.approx(25_500e-6 / 10 + 51e-5)
    assert best_for_latency(ring, 19) == 19


def test_latency_of_rows_that_cost_nothing_is_their_way() -> None:
    ring = replace(PAPER, prices=RingPrices(compare=0.0, send=0.0, hop=1e-3))
    assert latency(ring, 10) == pytest.approx(4.5e-3 + 2 * 10 * 1e-3)
    assert best_for_latency(ring, 19) == 1


def test_bandwidth_grows_with_the_ring() -> None:
    assert bandwidth(PAPER, 10, 30_000) == pytest.approx(30_000 / (1e-6 * 50))
    assert bandwidth(replace(PAPER, prices=RingPrices(0.0, 0.0)), 10, 30_000) == math.inf


def test_streams_that_differ() -> None:
    """A meets 20 of B, then 40 of C; worked out by hand, with predicates that do not cost the same."""
    ring = Ring(
        (RingStream(1, 10), RingStream(2, 10), RingStream(4, 10)),
        (
            (Probe(1, 0.1), Probe(2, 0.5, compare=3e-6)),
            (Probe(0, 0.1), Probe(2, 0.5, compare=3e-6)),
            (Probe(1, 0.5, compare=3e-6), Probe(0, 0.1)),
        ),
        RingPrices(compare=1e-6, send=1e-6),
    )
    found = course(ring, 0)
    assert found.partials == (1, 2, 40)
    assert found.compared == (20, 80)
    assert found.compare_seconds == pytest.approx((20e-6, 240e-6))
    by_origin = [20 + 240, 10 + 1 * 40 * 3, 20 * 3 + 10 * 10]
    assert central_seconds(ring) == pytest.approx(sum(r * c for r, c in zip((1, 2, 4), by_origin, strict=True)) / 7e6)
    assert sends(ring) == pytest.approx((1 * 3 + 2 * 2 + 4 * 11) / 7)


# --- how long a ring should be ----------------------------------------------------------------------------------------


@given(rings, st.integers(1, 30))
def test_auto_keeps_up_where_any_length_does(ring: Ring, most: int) -> None:
    chosen = ring_slots(ring, most)
    if min(busy(ring, slots) for slots in range(1, most + 1)) <= FULL:
        assert busy(ring, chosen) <= FULL
    else:
        assert chosen == most


def test_a_light_join_is_not_spread() -> None:
    assert ring_slots(alike(2, 10, 1, 0.001, PRICES), 16) == 1


def test_batches_have_a_best_length_too() -> None:
    """2.55 s of comparisons, and 2 exchanges with a task of 5 ms for each slot: sqrt(2.55 / .01) is 16."""
    ring = alike(3, 50, 10, 0.1, RingPrices(compare=1e-6, send=0.0, task=5e-3))
    assert best_for_latency(ring, 64, lambda ring, slots: batch_seconds(ring, slots, 100)) == 16


@given(rings, st.integers(1, 12))
def test_initial_lengths_are_no_worse_than_one_for_all(ring: Ring, most: int) -> None:
    found = initial_lengths(ring, most)
    assert all(1 <= length <= most for length in found)
    assert latency_of(ring, found) <= latency(ring, best_for_latency(ring, most)) * (1 + 1e-9)


def test_streams_with_fewest_partials_are_sliced_first() -> None:
    """The first gets what is best for all, and the others what is best once that is known."""
    small, large = RingStream(1, 10), RingStream(50, 10)
    routes = tuple(tuple(Probe(other, 0.01) for other in (2, 1, 0) if other != origin) for origin in range(3))
    ring = Ring((large, small, large), routes, replace(PRICES, compare=1e-5))
    first, second, third = initial_lengths(ring, 16)
    assert second == best_for_latency(ring, 16)
    assert latency_of(ring, (first, second, first)) == min(latency_of(ring, (n, second, n)) for n in range(1, 17))
    assert latency_of(ring, (first, second, third)) == min(latency_of(ring, (first, second, n)) for n in range(1, 17))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(JobError, match='price "hop" must be a number from 0 up'):
        RingPrices(compare=1.0, send=0.0, hop=-1.0)
    with pytest.raises(JobError, match="0 slots cannot form a ring"):
        ring_slots(PAPER, 0)
