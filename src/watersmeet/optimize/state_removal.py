"""From a bjtree towards less memory: drop the intermediate state that costs the least CPU for the memory it frees.

The state-removal algorithm of [Zhu06, ch. 6.2, algorithm 4]. Each step merges two joins, one of which feeds the other,
and so drops the state between them; the pair with the smallest (CPU added) / (memory freed) goes first. That ratio is
negative where the state costs more to keep up than to recompute. Yields every plan on the way, from the tree that it
is given down to the mjoin; memory falls from each to the next.

What a node costs depends on its inputs alone, so a step prices only the merges next to the one before it; the rest is
remembered.
"""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.optimize.cost import Cost, shape_cost
from watersmeet.optimize.estimates import Estimates
from watersmeet.optimize.shape import Shape, drop_state


def remove_states(estimates: Estimates, shape: Shape) -> Iterator[tuple[Shape, Cost]]:
    """`shape`, then the same with one intermediate state less each, until a single join is left."""
    price = shape_cost(estimates, shape)
    yield shape, price
    while len(shape) > 1:
        removals = ((drop_state(shape, state), state) for state in shape if state != estimates.everything)
        priced = [(tried, shape_cost(estimates, tried), state) for tried, state in removals]
        old_cpu = price.cpu
        shape, price, _ = min(priced, key=lambda entry: _ratio(estimates, entry[1].cpu - old_cpu, entry[2]))
        yield shape, price


def _ratio(estimates: Estimates, added_cpu: float, state: int) -> tuple[float, int]:
    freed = estimates.memory(state)
    if freed > 0:
        return added_cpu / freed, state
    # An empty state frees nothing: worth dropping at once if that saves CPU, last of all if it costs some.
    return (float("inf") if added_cpu > 0 else -float("inf")), state
