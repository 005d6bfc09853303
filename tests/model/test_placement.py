"""Groups and their owners, for each partitioning."""

from __future__ import annotations

import json

import pytest

from watersmeet.errors import InternalError
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import Partitioning
from watersmeet.model.placement import Placement
from watersmeet.model.routing import Routing
from watersmeet.model.spread import Spread

K0, K1 = Partitioning("k0"), Partitioning("k1")
EIGHTH = 1 << 61
SPREAD = Placement(2, 4)
PLACED = Placement(2, 4, {K0: (1, 0, 0, 1)})


def again(placement: Placement) -> Placement:
    return Placement.from_json(json.loads(json.dumps(placement.to_json())))


def test_what_nobody_has_placed_or_cut_is_spread_evenly() -> None:
    assert SPREAD.of(K0) == Routing.even(Bounds(4), 2)
    assert PLACED.of(K0) == Routing(2, (1, 0, 0, 1), Bounds(4))
    assert PLACED.of(K1) == SPREAD.of(K1)


@pytest.mark.parametrize(
    "placement, group, owners",
    [(SPREAD, 1, (0, 0, 0, 1, 1)), (PLACED, 0, (1, 1, 0, 0, 1)), (PLACED, 3, (1, 0, 0, 1, 1))],
    ids=["spread evenly", "the first", "the last"],
)
def test_both_halves_stay_with_their_owner(placement: Placement, group: int, owners: tuple[int, ...]) -> None:
    at_hash = (2 * group + 1) * EIGHTH
    found = placement.cut(K0, group, at_hash)
    assert found.of(K0) == Routing(2, owners, Bounds(4, (at_hash,)))
    assert found.of(K0).groups == 5
    assert found.of(K1) == placement.of(K1), "groups of other keys are others"
    assert (found.groups, found.known) == (4, (K0,)), "what a user has set stays"
    assert again(found) == found


def test_another_number_of_slots_keeps_what_was_cut() -> None:
    found = PLACED.cut(K0, 1, 3 * EIGHTH).cut(K0, 0, EIGHTH).evenly(3)
    assert found.of(K0) == Routing.even(Bounds(4, (EIGHTH, 3 * EIGHTH)), 3)
    assert found.of(K0).owners == (0, 0, 1, 1, 2, 2)
    assert found.of(K1) == Routing.even(Bounds(4), 3)
    assert again(found) == found


@pytest.mark.parametrize("at_hash", [0, EIGHTH, 2 * EIGHTH, 4 * EIGHTH, 5 * EIGHTH])
def test_a_cut_must_be_inside_its_group(at_hash: int) -> None:
    with pytest.raises(InternalError):
        SPREAD.cut(K0, 1, at_hash)


def test_json_of_before_groups_could_be_cut() -> None:
    data = {"slots": 3, "groups": 6, "owners": {"k0": [0, 1, 2, 0, 1, 2]}}
    found = Placement.from_json(data)
    assert found.of(K0) == Routing(3, (0, 1, 2, 0, 1, 2), Bounds(6))
    assert found.to_json() == data, "and what is not cut is written as it was then"


def test_json_has_the_cuts_and_not_the_bounds() -> None:
    data = Placement(2, 300, {}, {K0: (5,)}).to_json()
    assert data == {"slots": 2, "groups": 300, "owners": {}, "cuts": {"k0": [5]}}


def test_a_group_is_spread_and_drawn_together() -> None:
    found = PLACED.spread(K0, 3, "A", (0, 1))
    assert found.spreads == {K0: {3: Spread("A", (1, 0))}}, "its owner first"
    (share,) = found.shares(K0)
    assert (share.group, share.low, share.high, share.owner) == (3, 6 * EIGHTH, 8 * EIGHTH, 1)
    assert found.shares(K1) == ()
    assert found.of(K0) == PLACED.of(K0), "it is owned as before"
    assert again(found) == found
    assert found.draw_together(K0, 3) == PLACED
    assert found.draw_together(K0, 2) == found


def test_the_first_slot_owns_what_is_spread_without_its_owner() -> None:
    found = Placement(3, 4).spread(K0, 0, "A", (2, 1))
    assert found.of(K0).owners[0] == 2
    assert found.spreads == {K0: {0: Spread("A", (2, 1))}}


@pytest.mark.parametrize(
    "slot, spread",
    [(1, (1, 0)), (2, (2, 1)), (0, (0, 1))],
    ids=["one of them", "another, in the place of the owner", "the owner"],
)
def test_to_move_a_spread_group_is_to_change_its_owner(slot: int, spread: tuple[int, ...]) -> None:
    found = Placement(3, 4).spread(K0, 0, "A", (0, 1)).move(K0, {0: slot})
    assert found.spreads == {K0: {0: Spread("A", spread)}}
    assert found.of(K0).owners[0] == slot


def test_a_cut_gives_spread_groups_other_numbers() -> None:
    found = Placement(2, 4).spread(K0, 3, "A", (0, 1)).spread(K0, 0, "B", (0, 1)).spread(K1, 3, "C", (0, 1))
    later = {K0: {0: Spread("B", (0, 1)), 4: Spread("A", (1, 0))}, K1: {3: Spread("C", (1, 0))}}
    assert found.cut(K0, 1, 3 * EIGHTH).spreads == later
    assert found.cut(K0, 0, EIGHTH).spreads == {K0: {4: Spread("A", (1, 0))}, K1: later[K1]}, "one that is cut is none"
    assert again(found.cut(K0, 1, 3 * EIGHTH)).spreads == later


def test_other_slots_leave_a_spread_those_that_there_are() -> None:
    found = Placement(4, 8).spread(K0, 0, "A", (0, 2, 3)).spread(K0, 1, "A", (0, 3))
    assert found.rescale(3).spreads == {K0: {0: Spread("A", (0, 2))}}
    assert found.rescale(6).spreads == found.spreads
    assert found.rescale(1).spreads == found.evenly(4).spreads == found.regroup(9).spreads == {}
