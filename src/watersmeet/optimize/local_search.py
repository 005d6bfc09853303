"""From a plan to better ones nearby: take an input out of its join and put it somewhere else.

Not in the dissertation, whose searches add states only or remove states only and so miss plans that need another
grouping. A neighbour of a plan has one input, stream or join, moved to another place: as one more input of some join,
or paired with some other input in a new join of two; or it has one intermediate state less. The search goes to the best
neighbour for as long as that is better, in a fixed order: the same plan leads to the same plans.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from watersmeet.optimize.cost import Cost, Limits, shape_cost
from watersmeet.optimize.estimates import Blocks, Estimates
from watersmeet.optimize.shape import Shape, drop_state, sort_blocks


def improve(estimates: Estimates, limits: Limits, shape: Shape, price: Cost) -> Iterator[tuple[Shape, Cost]]:
    """Every neighbour that is priced on the way to a plan with no better neighbour."""
    here = _distance(limits, price)
    while True:
        nearest, found = here, shape
        for tried in _neighbours(estimates, shape):
            price = shape_cost(estimates, tried)
            estimates.effort += len(tried)  # even where every node has been priced before
            yield tried, price
            if (there := _distance(limits, price)) < nearest:
                nearest, found = there, tried
        if found is shape:
            return
        here, shape = nearest, found


def _distance(limits: Limits, price: Cost) -> tuple[float, float]:
    """How far a plan is beyond both limits together, then its CPU.

    The larger of the two alone would not do: a step that mends the other one must count as progress.
    """
    return _beyond(price.cpu, limits.cpu) + _beyond(price.memory, limits.memory), price.cpu


def _beyond(amount: float, limit: float) -> float:
    return math.log(amount / limit) if amount > limit else 0.0


def _neighbours(estimates: Estimates, shape: Shape) -> Iterator[Shape]:
    for state in shape:
        if state != estimates.everything:
            yield drop_state(shape, state)
    for blocks in shape.values():
        for moved in blocks:
            rest = _take_out(shape, moved)
            inside = {node: inputs for node, inputs in shape.items() if node & moved == node}
            for node in rest:
                yield {**_grow(rest, node, moved, (*rest[node], moved)), **inside}
            for node, inputs in rest.items():
                for other in inputs:
                    pair = sort_blocks((other, moved))
                    others = [block for block in inputs if block != other]
                    yield {**_grow(rest, node, moved, (*others, other | moved)), other | moved: pair, **inside}
            if rest:
                whole = estimates.everything ^ moved
                yield {**rest, **inside, estimates.everything: sort_blocks((whole, moved))}


def _take_out(shape: Shape, moved: int) -> dict[int, Blocks]:
    """The shape over the other streams: a join that is left with one input gives way to that input."""
    rest: dict[int, Blocks] = {}
    for node, blocks in shape.items():
        if node & moved == node:
            continue
        left = sort_blocks([block & ~moved for block in blocks if block & ~moved])
        if len(left) > 1:
            rest[node & ~moved] = left
    return rest


def _grow(rest: Shape, node: int, moved: int, inputs: tuple[int, ...]) -> dict[int, Blocks]:
    """`rest` with `inputs` for `node`, and `moved` added to that and to every join above it."""
    grown: dict[int, Blocks] = {}
    for mask, blocks in rest.items():
        if mask == node:
            grown[mask | moved] = sort_blocks(inputs)
        elif mask & node == node:
            grown[mask | moved] = sort_blocks([b | moved if b & node == node else b for b in blocks])
        else:
            grown[mask] = blocks
    return grown
