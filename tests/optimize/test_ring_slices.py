"""Slices over the slots of a ring."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watersmeet.optimize.ring_slices import even_runs, level, rows_held

sizes = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(sizes, st.integers(1, 8))
def test_even_runs_are_off_by_a_slice_at_most(rows: list[int], slots: int) -> None:
    owners = even_runs(rows, slots)
    assert list(owners) == sorted(owners), "from the head to the tail"
    share = sum(rows) / slots
    assert all(abs(held - share) <= max(rows) for held in rows_held(rows, owners, slots)[:-1])


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
