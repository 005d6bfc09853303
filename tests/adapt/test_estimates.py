"""Estimates: the paper's figures, its formulas for two inputs, and for more what counting finds."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapt.views import LOWER, cold, group, memory
from watersmeet.adapt.estimates import global_share, new_results, next_results, owed_by

rows = st.integers(0, 5)


def owed(generations: list[tuple[int, ...]], unique: float) -> float:
    return owed_by(cold("J1", 0, *generations, unique=unique))


def test_a_flush_adds_to_what_is_owed_as_in_the_paper() -> None:
    assert owed([(300, 60), (140, 10)], unique=5) == ((140 * 60) + (300 * 10)) / 5 == 2280


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999)), min_size=1, max_size=5), st.integers(1, 50))
def test_owed_is_the_sum_of_what_the_paper_adds_at_each_flush(flushes: list[tuple[int, ...]], unique: int) -> None:
    disk_a, disk_b, counter = 0, 0, 0
    for part_a, part_b in flushes:
        counter += disk_a * part_b + disk_b * part_a
        disk_a, disk_b = disk_a + part_a, disk_b + part_b
    assert owed(flushes, unique) == counter / unique


@given(
    st.integers(2, 4).flatmap(lambda sides: st.lists(st.tuples(*[st.integers(0, 3)] * sides), min_size=1, max_size=3))
)
def test_owed_counts_the_combinations_across_generations(generations: list[tuple[int, ...]]) -> None:
    sides = range(len(generations[0]))
    kept = [[number for number, counts in enumerate(generations) for _ in range(counts[side])] for side in sides]
    across = sum(len(set(combination)) > 1 for combination in product(*kept))
    assert owed(generations, unique=1) == across
    assert owed(generations, unique=2) == across / 2 ** (len(sides) - 1)


def test_nothing_is_owed_without_two_generations() -> None:
    assert owed([(7, 9)], unique=5) == 0


@given(st.tuples(rows, rows), st.tuples(rows, rows), st.integers(1, 9))
def test_two_inputs_give_the_formulas_of_the_paper(kept: tuple[int, int], new: tuple[int, int], unique: int) -> None:
    with_kept = kept[0] * new[1] + kept[1] * new[0]
    assert next_results(kept, new, unique) == with_kept / unique
    assert new_results(kept, new, unique) == (with_kept + new[0] * new[1]) / unique


@given(
    st.integers(2, 4).flatmap(
        lambda n: st.tuples(st.tuples(*[st.integers(0, 3)] * n), st.tuples(*[st.integers(0, 2)] * n))
    )
)
def test_new_results_count_combinations_with_a_row_to_come(both: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    kept, coming = both
    sides = [[False] * old + [True] * new for old, new in zip(kept, coming, strict=True)]
    assert new_results(kept, coming, unique=1) == sum(any(which) for which in product(*sides))
    assert next_results(kept, coming, unique=1) == sum(sum(which) == 1 for which in product(*sides))


def test_a_group_has_at_least_one_key() -> None:
    assert new_results((2, 3), (1, 0), unique=0) == 3


@pytest.mark.parametrize(
    ("operator", "number", "share"),
    [
        pytest.param("J2", 0, 1.0, id="a result of the root is a result of the query"),
        pytest.param("J1", 0, 0.5, id="what was seen lately counts first"),
        pytest.param("J1", 1, 0.25, id="then the totals of the group"),
        pytest.param("J1", 2, 0.75, id="then its operator"),
        pytest.param("J1", 9, 0.75, id="a group without a live generation too"),
    ],
)
def test_the_share_that_becomes_results_of_the_query(operator: str, number: int, share: float) -> None:
    view = memory(
        group("J1", 0, recent_local=4.0, recent_global=2.0, local_output=1.0, global_output=9.0),
        group("J1", 1, local_output=8.0, global_output=2.0),
        group("J1", 2),
        group("J1", 3, recent_local=4.0, recent_global=4.0),
        group("J2", 0, recent_local=4.0, recent_global=2.0),
    )
    assert global_share(view, operator, number) == share


def test_where_nothing_came_out_at_all_every_result_counts() -> None:
    assert global_share(memory(group("J1", 0), operators=(LOWER,)), "J1", 0) == 1.0
