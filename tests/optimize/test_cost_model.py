"""Costs against the dissertation's equations by hand, and sizes and rates against streams that are counted."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.optimize import Cost, CostConstants, HashProbes, NestedLoops, cost, mjoin_order
from watersmeet.optimize.estimates import Estimates
from watersmeet.plan import JoinGraph
from watersmeet.plan.tree import Join, Leaf

A, B, C, D = map(Leaf, "ABCD")

# Three streams in a chain A - B - C, as in figure 4.1. Powers of two throughout, so that every sum is exact.
RATE_A, RATE_B, RATE_C, W = 8, 4, 16, 2
S_AB, S_BC = 0.125, 0.25
INSERT, DELETE, JOIN = 2, 3, 5
GRAPH = JoinGraph({"A": RATE_A, "B": RATE_B, "C": RATE_C}, {"A B": S_AB, "B C": S_BC}, W)
MODEL = NestedLoops(CostConstants(insert=INSERT, delete=DELETE, join=JOIN))


def test_equation_4_1_and_4_2() -> None:
    assert mjoin_order(GRAPH) == {"A": ("B", "C"), "B": ("A", "C"), "C": ("B", "A")}
    # A: 8 rows, each matches 4*2*0.125 = 1 of B, and then 16*2*0.25 = 8 of C.
    cpu_a = 8 * (2 + 3) + (8 * 1 + 8 * 1 * 8) * 5
    # B: 4 rows, each matches 8*2*0.125 = 2 of A, and then 8 of C.
    cpu_b = 4 * (2 + 3) + (4 * 2 + 4 * 2 * 8) * 5
    # C: 16 rows, each matches 4*2*0.25 = 2 of B, and then 2 of A.
    cpu_c = 16 * (2 + 3) + (16 * 2 + 16 * 2 * 2) * 5
    by_equation = (
        (RATE_A + RATE_B + RATE_C) * (INSERT + DELETE)
        + RATE_B * RATE_C * S_BC * W * JOIN
        + 3 * RATE_A * RATE_B * RATE_C * S_AB * S_BC * W**2 * JOIN
        + 2 * RATE_A * RATE_B * S_AB * W * JOIN
    )
    assert cpu_a + cpu_b + cpu_c == by_equation == 1340
    # Equation 4.3: (8 + 4 + 16) * 2 rows.
    assert cost(Join((A, B, C)), GRAPH, MODEL) == Cost(1340, 56)


def test_equation_4_4_and_4_5() -> None:
    by_equation = (
        (RATE_A + RATE_B + RATE_C) * (INSERT + DELETE)
        + 3 * RATE_A * RATE_B * RATE_C * S_AB * S_BC * W**2 * JOIN
        + 2 * RATE_A * RATE_B * S_AB * W * (JOIN + INSERT + DELETE)
    )
    # 140 for the streams, 3 * 64 results, and 16 rows a unit of time into and out of the state of AB, which holds 16.
    assert by_equation == 140 + 960 + 160 == 1260
    assert cost(Join((Join((A, B)), C)), GRAPH, MODEL) == Cost(1260, 56 + 16)


def test_the_difference_of_section_4_3() -> None:
    mjoin = cost(Join((A, B, C)), GRAPH, MODEL)
    bjtree = cost(Join((Join((A, B)), C)), GRAPH, MODEL)
    recompute_bc = RATE_B * RATE_C * S_BC * W * JOIN
    keep_up_ab = 2 * RATE_A * RATE_B * S_AB * W * (INSERT + DELETE)
    assert mjoin.cpu - bjtree.cpu == recompute_bc - keep_up_ab == 80


def test_hybrid_over_four_streams_by_hand() -> None:
    graph = JoinGraph({"A": 8, "B": 4, "C": 16, "D": 2}, {"A B": 0.125, "B C": 0.25, "C D": 0.5}, 2)
    # ((A B C) D): the lower node costs 1340 as above and emits 3 * 64 = 192 rows, of which 64*2 = 128 are kept: not
    # rate * W = 384, because each combination lives for W/3 on average.
    # The upper node: 192 rows in, each matches 2*2*0.5 = 2 rows of D; 2 rows of D, each matches 128*0.5 = 64.
    upper = (192 + 2) * 5 + (192 * 2 + 2 * 64) * 5
    assert cost(Join((Join((A, B, C)), D)), graph, MODEL) == Cost(1340 + upper, 56 + 128 + 4)


def test_hash_probes_by_hand() -> None:
    model = HashProbes(CostConstants(insert=2, delete=3, join=5, probe=7))
    # Each row of a stream probes once, and so does each of the 8 + 8 + 32 intermediate rows (as counted above).
    probes = 8 + 4 + 16 + 8 + 8 + 32
    assert cost(Join((A, B, C)), GRAPH, model) == Cost(1340 + 7 * probes, 56)


def test_pairs_compared_have_a_price_of_their_own() -> None:
    model = NestedLoops(CostConstants(insert=2, delete=3, join=5, compare=1))
    compared = (8 * 8 + 8 * 32) + (4 * 16 + 8 * 32) + (16 * 8 + 32 * 16)
    assert cost(Join((A, B, C)), GRAPH, model) == Cost(1340 + compared, 56)


def test_a_hash_leaves_only_pairs_with_the_same_key_to_compare() -> None:
    # 100 rows a side; one pair in ten has the same key, and half of those pass.
    graph = JoinGraph({"A": 100, "B": 100}, {"A B": 0.05}, 1, hashed={"A B": 0.1})
    model = HashProbes(CostConstants(insert=0, delete=0, probe=0, join=0, compare=1))
    assert cost(Join((Leaf("A"), Leaf("B"))), graph, model).cpu == pytest.approx(2 * 100 * 100 * 0.1)


def test_without_a_predicate_no_pair_is_compared() -> None:
    graph = JoinGraph({"A": 100, "B": 100}, {"A B": 0.05}, 1)
    model = HashProbes(CostConstants(insert=0, delete=0, probe=0, join=0, compare=1))
    assert cost(Join((Leaf("A"), Leaf("B"))), graph, model).cpu == 0


def test_only_pairs_compared_explain_experiment_set_2() -> None:
    # Table 8.1: the bjtree had more than twice the throughput of the mjoin, both short of CPU.
    graph = JoinGraph({"A": 20, "B": 20, "C": 50}, {"A B": 0.02, "B C": 0.5}, 15)
    mjoin, bjtree = Join((A, B, C)), Join((Join((A, B)), C))
    assert cost(mjoin, graph).cpu / cost(bjtree, graph).cpu == pytest.approx(1.05, abs=0.01)
    compared = NestedLoops(CostConstants(compare=1))
    assert cost(mjoin, graph, compared).cpu / cost(bjtree, graph, compared).cpu > 2


def test_unbounded_states_are_sized_at_the_horizon_and_never_deleted_from() -> None:
    bounded = JoinGraph({"A": 8, "B": 4}, {"A B": 0.125}, 10)
    unbounded = JoinGraph({"A": 8, "B": 4}, {"A B": 0.125}, None, horizon=10)
    tree = Join((A, B))
    assert cost(tree, unbounded).memory == cost(tree, bounded).memory
    assert cost(tree, unbounded).cpu == cost(tree, bounded).cpu - 12


def test_memory_in_bytes_adds_up_the_streams_of_a_combined_row() -> None:
    graph = JoinGraph(GRAPH.rates, GRAPH.selectivities, 2, row_bytes={"A": 10, "B": 20, "C": 40})
    assert cost(Join((Join((A, B)), C)), graph).memory == 16 * 10 + 8 * 20 + 32 * 40 + 16 * 30


@pytest.mark.parametrize("widths", [(2, 2, 2), (1, 2, 4), (0.5, 6, 1)])
def test_sizes_and_rates_agree_with_streams_that_are_counted(widths: tuple[float, ...]) -> None:
    # All predicates true: combinations at a moment are products of counts, so they need not be made to be counted.
    rates, length = (6.0, 3.0, 4.0), 4000.0
    random = np.random.default_rng(5)
    times = [np.sort(random.uniform(0, length, random.poisson(rate * length))) for rate in rates]

    def alive(stream: int, moments: np.ndarray) -> np.ndarray:
        later, earlier = (np.searchsorted(times[stream], t) for t in (moments, moments - widths[stream]))
        return later - earlier

    graph = JoinGraph(dict(zip("ABC", rates, strict=True)), {}, dict(zip("ABC", widths, strict=True)))
    estimates = Estimates(graph, NestedLoops())
    for mask in (0b011, 0b110, 0b111):
        streams = [i for i in range(3) if mask >> i & 1]
        moments = random.uniform(10, length, 20_000)
        size = np.prod([alive(i, moments) for i in streams], axis=0).mean()
        # Each combination is emitted when its newest row comes.
        emitted = sum(
            np.prod([alive(i, times[newest]) for i in streams if i != newest], axis=0).sum() for newest in streams
        )
        assert size == pytest.approx(estimates.rows(mask), rel=0.05)
        assert emitted / length == pytest.approx(estimates.rows(mask) * estimates.churn(mask), rel=0.05)
