"""A binary tree with little intermediate state: join the pair with the smallest result, again and again.

The min-state algorithm of [Zhu06, ch. 6.1, algorithm 3]; linear and bushy trees both arise. For a star it finds the
smallest of all binary trees without cartesian products; elsewhere it is a heuristic.

Departures:

1. The weight of a pair is the size of its state; the dissertation leaves the windows out, which are the same there.
2. Once with cartesian products and once without, and the smaller tree is taken. The dissertation adds cartesian edges
   only; with them the smallest pair first is no longer the best for a star (two slow streams of the rim may go first).
3. The result over all streams is kept nowhere, so it does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from watersmeet.optimize.estimates import Estimates
from watersmeet.optimize.shape import Shape, memory, sort_blocks


def min_state(estimates: Estimates) -> Shape:
    """The smaller of the two trees, with and without cartesian products."""
    both = (join_smallest_joined(estimates), join_smallest(estimates))
    return min(both, key=lambda shape: memory(estimates, shape))


def join_smallest(estimates: Estimates) -> Shape:
    """Join the pair with the smallest result until one is left, cartesian products among the pairs."""
    return _join_pairs(estimates, lambda first, second: (False, estimates.memory(first | second)))


def join_smallest_joined(estimates: Estimates) -> Shape:
    """The same, with cartesian products only between parts of the graph that no predicate connects."""
    return _join_pairs(
        estimates, lambda first, second: (not estimates.joined(first, second), estimates.memory(first | second))
    )


def _join_pairs(estimates: Estimates, weigh: Callable[[int, int], tuple[bool, float]]) -> Shape:
    shape: dict[int, tuple[int, ...]] = {}
    parts = {1 << index for index in range(len(estimates.streams))}
    weights = {pair: weigh(*pair) for pair in combinations(sorted(parts), 2)}
    while len(parts) > 1:
        chosen = min(weights, key=lambda pair: (weights[pair], pair))
        joined = chosen[0] | chosen[1]
        shape[joined] = sort_blocks(chosen)
        parts -= set(chosen)
        weights = {pair: weight for pair, weight in weights.items() if pair[0] in parts and pair[1] in parts}
        weights |= {(part, joined): weigh(part, joined) for part in parts}
        parts.add(joined)
    return shape
