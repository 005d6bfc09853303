"""From one length of a ring to another, where rows move from the head to the tail as they age: [Wang09], section 6.

A slot is its place in the ring, 0 the head. Departures: a new slot j follows the least k with k * added / slots >= j;
the paper has > there, which has no solution for the last one. Moves are worked out from what slots have before and
after, since the paper's formula leaves out what goes into a new slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate


@dataclass(frozen=True)
class Relocation:
    """From one length to another at once (aggressive).

    `ring` has the slots from head to tail while rows move, new ones numbered after the old;
    `moves` what each but the last hands on to the next, as a share of the window: below 0 where it goes to the head.
    """

    ring: tuple[int, ...]
    moves: tuple[Fraction, ...]

    @property
    def moved(self) -> Fraction:
        """Rows that change slots, as a share of all; one that goes over two counts twice."""
        return sum(map(abs, self.moves), Fraction(0))


def relocate(before: int, after: int) -> Relocation:
    """Longer or shorter by whole slots, each with an even share before and after.

    >>> longer = relocate(3, 4)
    >>> longer.ring, [str(share) for share in longer.moves]
    ((0, 1, 2, 3), ['1/12', '1/6', '1/4'])
    >>> relocate(4, 3).moved == longer.moved
    True
    """
    assert before >= 1 and after >= 1, "a ring has at least one slot"
    if after < before:
        longer = relocate(after, before)
        return Relocation(tuple(range(before)), tuple(-share for share in longer.moves))
    added = after - before
    ring: list[int] = []
    for slot in range(before):
        ring.append(slot)
        # After the slot with the number k (from 1): new slots j with k the least such that k * added / before >= j.
        ring.extend(range(before + added * slot // before, before + added * (slot + 1) // before))
    gains = (Fraction(1, before) * (slot < before) - Fraction(1, after) for slot in ring)
    return Relocation(tuple(ring), tuple(accumulate(gains))[:-1])
