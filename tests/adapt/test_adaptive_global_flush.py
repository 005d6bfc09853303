"""AdaptiveGlobalFlush: the worked example of the paper to the digit, and its algorithm line by line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapt.views import group, memory, views
from watersmeet.adapt.policies.spill.adaptive_global_flush import (
    adaptive_global_flush,
    expected_arrivals,
    expected_local,
    expected_score,
)
from watersmeet.adapt.view import GroupView, MemoryView

# Group 2 of JoinAB in figure 4. Half of its results become results of the query.
SECOND = group(
    "J1", 2, rows=(100, 15), bytes=(1000, 120), unique=5.0, arrivals=(6.0, 4.0), recent_local=20.0, recent_global=10.0
)


def test_the_worked_example_of_the_paper() -> None:
    view = memory(SECOND, arrivals_total=100.0)
    assert expected_arrivals(view, SECOND, 2000) == (12, 10)
    assert expected_local(view, SECOND, 2000) == 200 + 36 + 24 == 260
    assert expected_score(view, SECOND, 2000) == 130 / 115


def test_of_two_that_promise_the_same_the_larger_goes() -> None:
    """25 results are expected of each; P has 20 rows and Q 10 (step 3)."""
    arriving = {"unique": 1.0, "recent_local": 1.0, "recent_global": 1.0}
    q = group("J1", 1, rows=(5, 5), arrivals=(0.0, 5.0), **arriving)
    p = group("J1", 2, rows=(5, 15), arrivals=(0.0, 5.0), **arriving)
    view = memory(q, p, arrivals_total=8.0)
    assert expected_local(view, p, 64) == expected_local(view, q, 64) == 25
    assert adaptive_global_flush(view, 64).groups == (("J1", 2),)


def by_the_paper(view: MemoryView, entry: GroupView, n: int) -> float:
    """Lines 6 to 15 of algorithm 1."""
    wide = view.operator(entry.operator).row_bytes
    total = view.arrivals_total
    exp_a, exp_b = ((n * entry.arrivals[side] / total) / wide[side] if total else 0.0 for side in (0, 1))
    unique = max(entry.unique, 1)
    local = entry.rows[0] * exp_b / unique + entry.rows[1] * exp_a / unique + exp_a * exp_b / unique
    if view.operator(entry.operator).depth == 0:
        ratio = 1.0
    else:
        ratio = entry.recent_global / entry.recent_local
    return local * ratio / sum(entry.rows)


@settings(max_examples=100, deadline=None)
@given(views(most_inputs=2), st.integers(1, 500))
def test_with_two_inputs_it_is_the_algorithm_of_the_paper(view: MemoryView, n: int) -> None:
    # The paper's ratio is not defined for groups that have put out nothing.
    known = [entry for entry in view.groups if entry.recent_local and sum(entry.rows)]
    for entry in known:
        assert expected_score(view, entry, n) == pytest.approx(by_the_paper(view, entry, n), rel=1e-9, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(views(), st.integers(1, 500))
def test_the_lowest_scores_go(view: MemoryView, n: int) -> None:
    chosen = set(adaptive_global_flush(view, n).groups)
    gone = [expected_score(view, entry, n) for entry in view.spillable if entry.key in chosen]
    kept = [expected_score(view, entry, n) for entry in view.spillable if entry.key not in chosen]
    assert not gone or not kept or max(gone) <= min(kept)


def test_without_arrivals_the_larger_group_goes() -> None:
    view = memory(group("J1", 0), group("J1", 1, bytes=(70, 70)), arrivals_total=0.0)
    assert adaptive_global_flush(view, 1).groups == (("J1", 1),)
