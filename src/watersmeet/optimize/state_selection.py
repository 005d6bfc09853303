"""From an mjoin towards less CPU: keep the intermediate results that are recomputed most for their size.

After the state-selection algorithm of [Zhu06, ch. 5.2, algorithm 2]. Each step takes groups of a node's inputs by
frequency / weight, and keeps the first one that lowers the CPU: the group becomes a join below the node. Then the new
join is merged with each join under it where that saves both CPU and memory. Yields every plan on the way, the mjoin
first; CPU falls from each to the next.

Departures:

1. *Frequency* is the number of probe orders in which the inputs stand next to each other. "Appears in the join
   sequences" taken as "is used by" would say nothing: every sequence over an acyclic graph uses every edge once.
2. Candidates are not only pairs but also what a probe order starts with, of any length. In a dense graph every pair is
   large and what many predicates leave of five streams is tiny: no pair lowers the CPU there, and pairs alone end at
   the mjoin. Groups are looked for in every node, not the top one alone. Cartesian pairs are candidates where an order
   holds them side by side.
3. A group whose state would not fit into memory is passed over; the dissertation stops at the first such pair.
4. A group that does not help is set aside; the pseudo-code never takes it out of its set.
5. It gives up once `effort_limit` has been spent on pricing groups, which bounds the time for many streams.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, combinations, pairwise
from operator import or_

from watersmeet.optimize.cost import Cost, shape_cost
from watersmeet.optimize.estimates import Estimates
from watersmeet.optimize.mjoin_order import order_node
from watersmeet.optimize.shape import Shape, drop_state, keep_state, mjoin_shape


def select_states(
    estimates: Estimates, memory_limit: float, effort_limit: float = math.inf
) -> Iterator[tuple[Shape, Cost]]:
    """The mjoin, then the same with one more intermediate state each, as long as that saves CPU and fits."""
    shape = mjoin_shape(estimates)
    price = shape_cost(estimates, shape)
    yield shape, price
    while (step := _keep_one(estimates, shape, price, memory_limit, effort_limit)) is not None:
        shape, price = step
        yield shape, price


def _keep_one(
    estimates: Estimates, shape: Shape, price: Cost, memory_limit: float, effort_limit: float
) -> tuple[Shape, Cost] | None:
    for node, state in _candidates(estimates, shape):
        if estimates.effort > effort_limit:
            break
        tried = keep_state(shape, node, state)
        tried_price = shape_cost(estimates, tried)
        if tried_price.cpu < price.cpu:
            tried, tried_price = _merge_below(estimates, tried, tried_price, state)
            if tried_price.memory <= memory_limit:
                return tried, tried_price
    return None


def _candidates(estimates: Estimates, shape: Shape) -> list[tuple[int, int]]:
    """Nodes, each with a state that it could keep, by how often the state would be used for its size."""
    frequency: Counter[tuple[int, int]] = Counter()
    for node, blocks in shape.items():
        if len(blocks) > 2:
            frequency.update({(node, a | b): 0 for a, b in combinations(blocks, 2) if estimates.joined(a, b)})
            for origin, order in enumerate(order_node(estimates, blocks).orders):
                sequence = [blocks[place] for place in (origin, *order)]
                frequency.update((node, state) for state in _runs(sequence))

    def ratio(candidate: tuple[int, int]) -> float:
        weight = estimates.memory(candidate[1])
        return frequency[candidate] / weight if weight > 0 else math.inf

    return sorted(frequency, key=lambda candidate: (-ratio(candidate), candidate))


def _runs(sequence: list[int]) -> set[int]:
    """The states over what stands together: every two neighbours, and what the order starts with, short of all."""
    runs = {first | second for first, second in pairwise(sequence)}
    with_origin = list(accumulate(sequence, or_))
    without = list(accumulate(sequence[1:], or_))
    return runs | set(with_origin[1:-1]) | set(without[1:])


def _merge_below(estimates: Estimates, shape: Shape, price: Cost, node: int) -> tuple[Shape, Cost]:
    for child in shape[node]:
        if child in shape:
            merged = drop_state(shape, child)
            merged_price = shape_cost(estimates, merged)
            if merged_price.cpu < price.cpu and merged_price.memory < price.memory:
                shape, price = merged, merged_price
    return shape, price
