"""Stretches of time with rows: of parts as of the whole, and how far one comes along them, against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strategies import contract_settings
from watersmeet.model.stretches import Stretch, find_stretches, reach_us, unite_stretches

LOW, HIGH = -(2**63), 2**63 - 1
TIMES = st.lists(st.one_of(st.integers(-30, 60), st.sampled_from([LOW, LOW + 1, HIGH, 10**15])), max_size=25)
GAPS = st.sampled_from([1, 2, 5, 40, 10**14, 2**62])


def found(times: list[int], gap: int) -> list[Stretch]:
    return find_stretches(np.array(times, dtype=np.int64), gap)


def by_hand(times: list[int], gap: int) -> list[list[int]]:
    runs: list[list[int]] = []
    for time in sorted(times):
        if runs and time - runs[-1][-1] <= gap:
            runs[-1].append(time)
        else:
            runs.append([time])
    return runs


@contract_settings(200)
@given(TIMES, GAPS)
def test_stretches_are_the_runs_without_a_longer_gap(times: list[int], gap: int) -> None:
    assert found(times, gap) == [Stretch(run[0], run[-1], len(run)) for run in by_hand(times, gap)]


@contract_settings(200)
@given(st.lists(TIMES, max_size=5), GAPS, st.randoms(use_true_random=False))
def test_parts_unite_to_the_whole(parts: list[list[int]], gap: int, random: object) -> None:
    pieces = [stretch for part in parts for stretch in found(part, gap)]
    random.shuffle(pieces)  # type: ignore[attr-defined]
    assert unite_stretches(pieces, gap) == found([time for part in parts for time in part], gap)


@contract_settings(300)
@given(TIMES, GAPS, st.integers(0, 50), st.one_of(st.none(), st.integers(-40, 70), st.just(10**15 - 9)))
def test_one_comes_as_far_as_row_follows_row(times: list[int], gap: int, wider: int, since: int | None) -> None:
    """A wider gap than the stretches were found with gives the same as its own stretches."""
    most = gap + wider
    expected = since
    if since is None and times:
        expected = max(by_hand(times, most), key=len)[-1]
    for time in sorted(times):
        if expected is not None and 0 < time - expected <= most:
            expected = time
    assert reach_us(found(times, gap), most, since) == reach_us(found(times, most), most, since) == expected
