"""Groups and their owners, for each partitioning."""

from __future__ import annotations

import json

import pytest

from watersmeet.errors import InternalError
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import Partitioning
from watersmeet.model.placement import Placement
from watersmeet.model.routing import Routing

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
    found = PLACED.cut(K0, 1, 3 * EIGHTH).cut(K0, 0, EIGHTH).spread(3)
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
