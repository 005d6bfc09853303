"""Slices over the slots of a ring: balance, smoothing by count, longer and shorter rings."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import JobError
from watersmeet.optimize.ring_slices import (
    aged_owners,
    count_bound,
    even_runs,
    leaving,
    level,
    relocate,
    rows_held,
    smooth,
)

sizes = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(sizes, st.integers(1, 8))
def test_even_runs_are_off_by_a_slice_at_most(rows: list[int], slots: int) -> None:
    owners = even_runs(rows, slots)
    assert list(owners) == sorted(owners), "from the head to the tail"
    share = sum(rows) / slots
    assert all(abs(held - share) <= max(rows) for held in rows_held(rows, owners, slots)[:-1])


@given(sizes, st.integers(1, 8))
def test_smoothing_keeps_the_bound_and_the_order(rows: list[int], slots: int) -> None:
    before = tuple(place * slots // len(rows) for place in range(len(rows)))  # as even in time as they come
    bound = count_bound(rows, slots)
    after = smooth(rows, before, bound)
    assert list(after) == sorted(after)
    assert all(now >= then for now, then in zip(after, before, strict=True)), "rows never go back to the head"
    tail = max(before)
    assert all(held <= max(bound, *rows) for held in rows_held(rows, after, slots)[:tail])
    assert smooth(rows, after, bound) == after


def test_a_burst_is_handed_on() -> None:
    """Rates have doubled for the newest third of the window: the head has half of all rows, until it is smoothed."""
    rows = (20,) * 4 + (10,) * 8
    owners = (0,) * 4 + (1,) * 4 + (2,) * 4
    assert rows_held(rows, owners, 3) == (80, 40, 40)
    after = smooth(rows, owners, count_bound(rows, 3))
    assert rows_held(rows, after, 3) == (40, 50, 70)
    assert rows_held(rows, even_runs(rows, 3), 3) == (60, 50, 50)


@given(sizes, st.integers(1, 8), st.integers(1, 8), st.data())
def test_level_rows(rows: list[int], before: int, after: int, data: st.DataObject) -> None:
    owners = tuple(data.draw(st.lists(st.integers(0, before - 1), min_size=len(rows), max_size=len(rows))))
    found = level(rows, owners, after)
    held = rows_held(rows, found, after)
    assert sum(held) == sum(rows)
    assert max(held) <= sum(rows) / after + max(rows)
    assert set(found) <= set(range(after))


def test_where_rows_stay_a_new_slot_gets_its_share_and_nothing_else_moves() -> None:
    rows, owners = (1,) * 120, tuple(place % 3 for place in range(120))
    after = level(rows, owners, 4)
    moved = [place for place in range(120) if after[place] != owners[place]]
    assert len(moved) == 30 and {after[place] for place in moved} == {3}
    assert relocate(3, 4).moved == Fraction(1, 2), "of all rows, where they have to stay in the order of the ring"


# --- longer and shorter rings -----------------------------------------------------------------------------------------


def test_three_slots_become_four() -> None:
    """The new slot comes last: >= and not >, with which there is no place for it."""
    found = relocate(3, 4)
    assert found.ring == (0, 1, 2, 3)
    assert found.moves == (Fraction(1, 12), Fraction(1, 6), Fraction(1, 4))


@pytest.mark.parametrize(
    "before, after, ring",
    [
        (2, 4, (0, 2, 1, 3)),
        (4, 6, (0, 1, 4, 2, 3, 5)),
        (1, 3, (0, 1, 2)),
        (3, 3, (0, 1, 2)),
    ],
)
def test_where_new_slots_come_in(before: int, after: int, ring: tuple[int, ...]) -> None:
    assert relocate(before, after).ring == ring


@given(st.integers(1, 20), st.integers(1, 20))
def test_after_a_relocation_all_have_as_much(before: int, after: int) -> None:
    found = relocate(before, after)
    gone = leaving(before, after)
    longest = max(before, after)
    assert len(gone) == max(0, before - after) and len(found.moves) == longest - 1
    had = [Fraction(slot < before, before) for slot in found.ring]
    given_on = [*found.moves, Fraction(0)]
    has = [share + (given_on[place - 1] if place else 0) - given_on[place] for place, share in enumerate(had)]
    expected = [Fraction(0) if place in gone else Fraction(1, after) for place in range(longest)]
    assert has == expected
    if after >= before:
        assert min(found.moves, default=0) >= 0, "towards the tail alone"


@given(st.lists(st.floats(0, 9.99), min_size=1, max_size=20), st.integers(1, 9), st.integers(1, 9))
def test_passive_relocation_ends_with_the_window(ages: list[float], before: int, after: int) -> None:
    began, ended = aged_owners(ages, 10, -1, before, after), aged_owners(ages, 10, 10, before, after)
    assert began.tolist() == [int(age * before / 10) for age in ages]
    assert ended.tolist() == [int(age * after / 10) for age in ages]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(JobError, match="a ring of 0 slots cannot be"):
        relocate(3, 0)
