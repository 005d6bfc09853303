"""A plan while it is searched for: its inner nodes by the streams under them, each with its inputs, as bit masks.

A shape is never changed; the moves here return a new one. What a node costs depends on its inputs alone and not on how
those are made (see `estimates.py`), so two shapes that share a node share its price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from watersmeet.optimize.estimates import Blocks, Estimates
from watersmeet.plan.tree import Leaf, Tree

Shape = Mapping[int, Blocks]


def sort_blocks(blocks: tuple[int, ...] | list[int]) -> Blocks:
    """In the order of their first streams, so that equal nodes are equal tuples."""
    return tuple(sorted(blocks, key=lambda mask: mask & -mask))


def mjoin_shape(estimates: Estimates) -> Shape:
    """One node over all streams."""
    return {estimates.everything: tuple(1 << index for index in range(len(estimates.streams)))}


def keep_state(shape: Shape, node: int, state: int) -> Shape:
    """`shape` with the inputs of `node` that make up `state` joined below it, which adds that state.

    >>> keep_state({0b111: (0b001, 0b010, 0b100)}, 0b111, 0b101)
    {7: (5, 2), 5: (1, 4)}
    """
    group = tuple(block for block in shape[node] if block & state)
    rest = [block for block in shape[node] if not block & state]
    return {**shape, node: sort_blocks([*rest, state]), state: group}


def drop_state(shape: Shape, child: int) -> Shape:
    """`shape` with the node over `child` merged into the node above it, which drops the state between them.

    >>> drop_state({0b111: (0b101, 0b010), 0b101: (0b001, 0b100)}, 0b101)
    {7: (1, 2, 4)}
    """
    parent = next(node for node, blocks in shape.items() if child in blocks)
    merged = [block for block in shape[parent] if block != child]
    without = {node: blocks for node, blocks in shape.items() if node != child}
    return {**without, parent: sort_blocks([*merged, *shape[child]])}


def memory(estimates: Estimates, shape: Shape) -> float:
    """The size of all states: one for each input of each node."""
    return math.fsum(estimates.memory(block) for blocks in shape.values() for block in blocks)


def from_tree(estimates: Estimates, tree: Tree) -> dict[int, Blocks]:
    """The shape of a tree, its inputs in the tree's own order."""
    shape: dict[int, Blocks] = {}

    def visit(node: Tree) -> int:
        if isinstance(node, Leaf):
            return estimates.bit[node.alias]
        blocks = tuple(visit(child) for child in node.children)
        mask = sum(blocks)
        shape[mask] = blocks
        return mask

    visit(tree)
    return shape
