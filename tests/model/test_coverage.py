"""Copies of rows in slices, and who serves in a turn: every row once, by as few slots as greedy search finds."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from watersmeet.model.bounds import HASH_END, Bounds
from watersmeet.model.coverage import Coverage, copy_places, copy_step, cover, folded
from watersmeet.model.routing import Routing


def any_routing(random: Random) -> Routing:
    slots, even = random.randint(1, 6), random.randint(1, 20)
    cuts = tuple(sorted({random.randrange(1, HASH_END) for _ in range(random.randint(0, 4))}))
    bounds = Bounds(even, cuts)
    return Routing(slots, tuple(random.randrange(slots) for _ in range(len(bounds))), bounds)


@pytest.mark.parametrize("seed", range(60))
def test_of_the_copies_of_a_row_one_serves_and_its_owner_is_visited(seed: int) -> None:
    random = Random(seed)
    routing, copies = any_routing(random), random.randint(2, 5)
    drawn = [random.randrange(HASH_END) for _ in range(200)]
    at_bounds = [routing.bounds.hash_start(group) for group in range(routing.groups)]
    steps = [number * copy_step(copies) for number in range(copies)]
    near = [place + shift for place in (*at_bounds, *steps, 0, HASH_END - 1) for shift in (-1, 0, 1)]
    places = np.array([place for place in (*drawn, *near) if 0 <= place < HASH_END], dtype=np.uint64)
    row, lies_at = copy_places(places, copies)
    assert np.bincount(row).tolist() == [copies] * len(places)
    for turn in range(routing.slots):
        found = cover(routing, copies, turn)
        serves = np.zeros(len(lies_at), dtype=bool)
        for low, high in found.serving:
            serves |= (lies_at >= np.uint64(low)) & (lies_at <= np.uint64(high - 1))
        assert np.bincount(row[serves], minlength=len(places)).tolist() == [1] * len(places)
        owners = np.array(routing.owners)[routing.bounds.groups_of(lies_at[serves])]
        visited = found.slots[np.searchsorted(found.starts, folded(places, copies), side="right") - 1]
        assert owners.tolist() == visited[row[serves]].tolist()


def visited_in(found: Coverage, copies: int) -> set[int]:
    """The slots of a turn, less those that serve what rounding leaves between groups of one width."""
    lengths = np.diff(np.append(found.starts, np.uint64(copy_step(copies))))
    return set(found.slots[lengths > 16].tolist())


@pytest.mark.parametrize(("slots", "copies", "visited"), [(4, 2, 2), (6, 2, 3), (6, 3, 2), (5, 5, 1), (5, 2, 3)])
def test_slots_that_are_placed_evenly_take_turns(slots: int, copies: int, visited: int) -> None:
    routing = Routing.even(Bounds(slots * 50), slots)
    turns = [visited_in(cover(routing, copies, turn), copies) for turn in range(slots)]
    assert {len(turn) for turn in turns} == {visited}
    assert set().union(*turns) == set(range(slots))
    lie_in = routing.bounds.groups_of(copy_places(np.array([7, 1 << 63], dtype=np.uint64), copies)[1])
    assert len(set(np.array(routing.owners)[lie_in[:copies]].tolist())) == copies
