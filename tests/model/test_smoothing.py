"""Smoothing of statistics: the paper's example, and what each method keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import JobError
from watersmeet.model.smoothing import SMOOTHINGS, Average, Ewma, Recent, Smoothing, find_smoothing


def figure(method: Smoothing, observations: list[float]) -> float:
    kept: tuple[float, ...] = ()
    for observed in observations:
        kept = method.then(kept, observed)
    return method.value(kept)


@given(st.integers(0, 200), st.integers(0, 171))
def test_the_example_of_the_paper(first: int, second: int) -> None:
    """Four observations, the last one 60, the last three 77 on average; the others are in a figure that we lack."""
    observations = [first, second, 171 - second, 60]
    assert figure(Recent(), observations) == 60
    assert figure(Average(of_last=3), observations) == 77


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        pytest.param(0.2, 0.2 * (0.2 * 100 + 0.8 * 50) + 0.8 * 60, id="a new one counts 0.8"),
        pytest.param(0.5, 67.5, id="the default halves the past"),
        pytest.param(0.9, 0.9 * 95 + 6, id="a large alpha clings to the past"),
    ],
)
def test_alpha_is_the_weight_of_the_past(alpha: float, expected: float) -> None:
    assert figure(Ewma(alpha), [100, 50, 60]) == pytest.approx(expected)


def test_averages_of_fewer_than_asked_are_of_those_there_are() -> None:
    assert figure(Average(), [10, 20]) == 15
    assert figure(Average(), [1000, 1, 2, 3, 4, 5]) == 3


@pytest.mark.parametrize("method", SMOOTHINGS, ids=lambda method: method.name)
@given(observations=st.lists(st.floats(0, 1e6), min_size=1, max_size=12))
def test_figures_lie_among_the_observations(method: Smoothing, observations: list[float]) -> None:
    slack = 1e-9 * (1 + max(observations))
    assert min(observations) - slack <= figure(method, observations) <= max(observations) + slack


@pytest.mark.parametrize("method", SMOOTHINGS, ids=lambda method: method.name)
def test_arrays_hold_a_figure_for_each_group(method: Smoothing) -> None:
    observations = np.arange(21.0).reshape(7, 3) ** 2
    kept: tuple[np.ndarray, ...] = ()
    for row in observations:
        kept = method.then(kept, row)
    each = [figure(method, list(column)) for column in observations.T]
    assert method.value(kept).tolist() == pytest.approx(each)


def test_methods_are_found_by_name() -> None:
    assert [find_smoothing(name) for name in ("recent", "average", "ewma")] == [Recent(), Average(5), Ewma(0.5)]
    with pytest.raises(JobError) as caught:
        find_smoothing("averege")
    assert caught.value.hint == 'Did you mean "average"?'
