"""Where a plan's operators run when it begins, as tables: load factors in, the share of each slot out."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_plans import chain_plan
from watersmeet.model.ids import Partitioning
from watersmeet.model.placement import Placement
from watersmeet.model.statistics import Measured
from watersmeet.optimize.allocate import FULL, SLACK, allocate, load_factors
from watersmeet.optimize.query_graph import Statistics

GROUPS = 100


def shares(placement: Placement, *names: str) -> list[dict[int, int]]:
    """The groups that each slot has of these."""
    return [dict(sorted(Counter(placement.of(Partitioning(name)).owners).items())) for name in names]


@pytest.mark.parametrize(
    "how, loads, slots, weights, expected",
    [
        ("spread", (0.4, 0.4), 2, (), [{0: 50, 1: 50}, {0: 50, 1: 50}]),
        ("fewest", (0.3, 0.3), 4, (), [{0: 100}, {0: 100}]),
        ("fewest", (0.5, 0.4), 4, (), [{0: 100}, {0: 50, 1: 50}]),
        ("fewest", (1.5, 0.5), 4, (), [{0: 47, 1: 46, 2: 7}, {2: 100}]),
        ("fewest", (0.5, 0.4), 2, (0.5, 1.0), [{1: 100}, {0: 50, 1: 50}]),
        ("fewest", (3.0, 1.0), 2, (), [{0: 67, 1: 33}, {1: 100}]),
        ("even", (0.3, 0.3), 2, (), [{0: 100}, {1: 100}]),
        ("even", (0.1, 0.5), 2, (), [{1: 100}, {0: 60, 1: 40}]),
        ("even", (0.2, 0.1, 0.2, 0.1), 2, (), [{0: 100}, {0: 100}, {1: 100}, {1: 100}]),
        ("even", (0.3, 0.3), 3, (1.0, 1.0, 2.0), [{2: 100}, {0: 50, 1: 50}]),
        ("even", (0.31, 0.29), 2, (), [{0: 100}, {1: 100}]),
        ("even", (0.0, 0.3), 2, (), [{0: 100}, {0: 50, 1: 50}]),
        ("even", (0.5, 0.5), 1, (), [{0: 100}, {0: 100}]),
    ],
    ids=[
        "each over all slots",
        "all of it in one",
        "what does not fit goes on in the next",
        "over as many as it takes",
        "the strongest first",
        "evenly where they are not enough",
        "one each",
        "the largest first, cut where it is more than a share",
        "dealt out",
        "twice as much for one that is twice as strong",
        "about as even, and whole",
        "one that takes nothing is somewhere",
        "one slot",
    ],
)
def test_allocate(
    how: str, loads: tuple[float, ...], slots: int, weights: tuple[float, ...], expected: list[dict[int, int]]
) -> None:
    names = [f"k{place}" for place in range(len(loads))]
    given = {Partitioning(name): load for name, load in zip(names, loads, strict=True)}
    assert shares(allocate(how, given, Placement(slots, GROUPS), weights), *names) == expected


def test_what_was_placed_before_stays_and_counts() -> None:
    before = Placement(2, GROUPS).move(Partitioning("k0"), dict.fromkeys(range(GROUPS), 0))
    loads = {Partitioning("k0"): 0.3, Partitioning("k1"): 0.3}
    assert shares(allocate("even", loads, before), "k0", "k1") == [{0: 100}, {1: 100}]
    assert shares(allocate("even", {Partitioning("k1"): 0.3}, before), "k0", "k1") == [{0: 100}, {0: 50, 1: 50}]


def test_without_statistics_it_is_spread() -> None:
    assert load_factors(chain_plan(), Statistics()) == {}
    assert allocate("even", {}, Placement(2, GROUPS)) == Placement(2, GROUPS)


@pytest.mark.parametrize("tree", ["((A B) C)", "(A B C)", "(A (B C))"])
def test_load_factors_are_of_the_cost_model(tree: str) -> None:
    given = Statistics({"A": 1000.0, "B": 1000.0, "C": 10.0}, {"A B": 1e-3, "B C": 1e-3})
    loads = load_factors(chain_plan(tree=tree), given)
    assert set(loads) == {"k0", "k1"}
    assert all(load > 0 for load in loads.values())
    measured = Statistics(measured=Measured(10.0, {"A": 10.0, "B": 10.0, "C": 10_000.0}))
    by_measure = load_factors(chain_plan(tree=tree), measured)
    if tree == "(A B C)":
        assert loads["k0"] == loads["k1"], "a routed join has two states on each"
    else:
        assert by_measure["k1"] / by_measure["k0"] > loads["k1"] / loads["k0"], "C counts for more, and is on k1"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(0, 3), min_size=1, max_size=6),
    st.integers(1, 5),
    st.lists(st.floats(0.2, 4), min_size=5, max_size=5),
    st.sampled_from(["fewest", "even"]),
)
def test_no_slot_has_more_than_its_share(drawn: list[float], slots: int, weights: list[float], how: str) -> None:
    loads = {Partitioning(f"k{place}"): load for place, load in enumerate(drawn)}
    placed = allocate(how, loads, Placement(slots, GROUPS), weights[:slots])
    held = [0.0] * slots
    for name, load in loads.items():
        owners = placed.of(name).owners
        assert len(owners) == GROUPS
        for slot in owners:
            held[slot] += load / GROUPS
    total, rounding = sum(drawn), sum(drawn) / GROUPS * slots + 1e-9
    strength = sum(weights[:slots])
    for slot, load in enumerate(held):
        share = total * weights[slot] / strength
        if how == "fewest" and total <= FULL * strength:
            assert load <= FULL * weights[slot] + rounding
        elif slots > 1:
            assert load <= share * (1 + SLACK) + rounding
