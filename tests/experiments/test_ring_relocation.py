"""A ring that gets longer or shorter: where slots come in, and what each hands on."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.ring_relocation import relocate


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
    wider = relocate(after, before) if after < before else found
    gone = [place for place, slot in enumerate(wider.ring) if slot >= after]
    longest = max(before, after)
    assert len(gone) == max(0, before - after) and len(found.moves) == longest - 1
    had = [Fraction(slot < before, before) for slot in found.ring]
    given_on = [*found.moves, Fraction(0)]
    has = [share + (given_on[place - 1] if place else 0) - given_on[place] for place, share in enumerate(had)]
    expected = [Fraction(0) if place in gone else Fraction(1, after) for place in range(longest)]
    assert has == expected
    if after >= before:
        assert min(found.moves, default=0) >= 0, "towards the tail alone"
