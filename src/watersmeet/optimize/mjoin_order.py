"""The order in which the rows of each input of a multi-way join probe the other inputs: ranks on a rooted tree.

After the mjoin-ordering algorithm of [Zhu06, ch. 5.1], itself [IK84] with [KBZ86]'s spanning tree. From each input the
join graph is a rooted tree. A module, a run of inputs that stay together, has T, the rows that come out for one that
goes in, and C, what that costs; rank = (T - 1) / C. Bottom up, each node's branches are merged by rising rank, and a
node that ranks above what follows it is merged with that into one module; at the root the modules are un-merged. For an
acyclic graph the order is the cheapest of all that follow its edges, under every model that is linear in the probing
rows. A cyclic graph is cut down to its minimum spanning tree, with the size of the pair's state as weight (r_a r_b s,
times both windows where these differ).

Departures:

1. The dissertation adds cartesian edges before it takes the spanning tree and holds that the result is never worse
   (ch. 5.1.3). It can be: a cheap cartesian pair may push a selective predicate out of the tree. Here the tree with
   cartesian edges, the one without, and the greedy order are all priced with **every** predicate, and each input takes
   the cheapest; so on acyclic graphs no order without cartesian products is cheaper.
2. What lies behind a directed edge is the same from every root that sees the edge that way round, so it is worked out
   once for each direction and not for each root.
3. C and T differ where the model charges for probes, so the rank is not 1 - 1/C there.

Exact for acyclic graphs without cartesian products; otherwise a heuristic. `exhaustive.py` has the exact order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from watersmeet.optimize.estimates import DEFAULT_MODEL, Blocks, CostModel, Estimates, Inputs, Order, OrderedNode
from watersmeet.plan.join_graph import JoinGraph

Neighbours = list[list[int]]


@dataclass(frozen=True, slots=True)
class Module:
    """A run of inputs that stay together: rows out for a row in, the cost of that, and (T - 1) / C."""

    places: Order
    growth: float
    cost: float
    rank: float


def mjoin_order(graph: JoinGraph, model: CostModel = DEFAULT_MODEL) -> dict[str, tuple[str, ...]]:
    """For each stream, the order in which its rows probe the other streams in a single multi-way join.

    >>> graph = JoinGraph({"A": 10, "B": 10, "C": 10}, {"A B": 0.01, "B C": 0.5}, windows=1)
    >>> mjoin_order(graph)
    {'A': ('B', 'C'), 'B': ('A', 'C'), 'C': ('B', 'A')}
    """
    estimates = Estimates(graph, model)
    blocks = tuple(1 << index for index in range(len(graph.streams)))
    names = graph.streams
    orders = order_node(estimates, blocks).orders
    return {names[origin]: tuple(names[place] for place in order) for origin, order in enumerate(orders)}


def order_node(estimates: Estimates, blocks: Blocks) -> OrderedNode:
    """Probe orders for a node over `blocks`, and its CPU."""
    known = estimates.ordered.get(blocks)
    if known is None:
        inputs = estimates.inputs(blocks)
        chosen = [_cheapest(estimates, inputs, *entry) for entry in enumerate(_candidates(estimates, blocks, inputs))]
        cpu = estimates.sum_node(blocks, [cpu for cpu, _ in chosen])
        known = estimates.ordered[blocks] = OrderedNode(tuple(order for _, order in chosen), cpu)
        estimates.effort += len(blocks) ** 2
    return known


def _cheapest(estimates: Estimates, inputs: Inputs, origin: int, orders: Iterable[Order]) -> tuple[float, Order]:
    return min((estimates.order_cpu(inputs, origin, order), order) for order in orders)


def _candidates(estimates: Estimates, blocks: Blocks, inputs: Inputs) -> list[set[Order]]:
    """For each input, the orders to choose from."""
    everyone = range(len(blocks))
    if len(blocks) == 2:
        return [{(1,)}, {(0,)}]
    joined = [[a != b and estimates.joined(blocks[a], blocks[b]) for b in everyone] for a in everyone]
    found = [{_greedy(inputs, origin)} for origin in everyone]
    with_products = _spanning_tree(inputs, None)
    without = _spanning_tree(inputs, joined)
    for tree in [without] if without == with_products else [without, with_products]:
        for origin, order in enumerate(_orders_of_tree(estimates.model, inputs, tree)):
            found[origin].add(order)
    return found


def _spanning_tree(inputs: Inputs, joined: list[list[bool]] | None) -> Neighbours:
    """The minimum spanning tree by size of the pair's state, as lists of neighbours.

    With `joined`, cartesian edges are taken only where nothing else connects the graph.
    """
    sizes, between = inputs.rows, inputs.between
    count = len(sizes)
    neighbours: Neighbours = [[] for _ in range(count)]

    def weigh(a: int, b: int) -> tuple[bool, float, int]:
        return joined is not None and not joined[a][b], sizes[a] * sizes[b] * between[a][b], a

    nearest = {place: weigh(0, place) for place in range(1, count)}
    while nearest:
        place = min(nearest, key=nearest.__getitem__)
        other = nearest.pop(place)[2]
        neighbours[place].append(other)
        neighbours[other].append(place)
        for waiting, found in nearest.items():
            weight = weigh(place, waiting)
            if weight < found:
                nearest[waiting] = weight
    for entry in neighbours:
        entry.sort()
    return neighbours


def _orders_of_tree(model: CostModel, inputs: Inputs, neighbours: Neighbours) -> list[Order]:
    """The best order from every input, among those that follow the edges of the tree."""
    chains: dict[tuple[int, int], list[Module]] = {}

    def chain(place: int, parent: int) -> list[Module]:
        """The inputs on `place`'s side of the edge, as modules of rising rank that starts with `place`."""
        known = chains.get((place, parent))
        if known is None:
            size = inputs.rows[place]
            growth = size * inputs.between[parent][place]
            head = _module((place,), growth, model.hop(1.0, size, inputs.hashed[parent][place], growth))
            rest = _merge_branches(chain(child, place) for child in neighbours[place] if child != parent)
            taken = 0
            while taken < len(rest) and rest[taken].rank < head.rank:
                head = _append(head, rest[taken])
                taken += 1
            known = chains[place, parent] = [head, *rest[taken:]]
        return known

    return [
        tuple(place for module in _merge_branches(chain(child, root) for child in branches) for place in module.places)
        for root, branches in enumerate(neighbours)
    ]


def _merge_branches(branches: Iterable[list[Module]]) -> list[Module]:
    # Each branch rises in rank and the sort is stable, so nobody overtakes the input that it hangs from.
    return sorted((module for branch in branches for module in branch), key=lambda module: module.rank)


def _module(places: Order, growth: float, cost: float) -> Module:
    # Selectivity 0 costs nothing where only results cost: nothing can be better to have first.
    rank = (growth - 1) / cost if cost > 0 else -float("inf")
    return Module(places, growth, cost, rank)


def _append(first: Module, second: Module) -> Module:
    return _module(first.places + second.places, first.growth * second.growth, first.cost + first.growth * second.cost)


def _greedy(inputs: Inputs, origin: int) -> Order:
    """Always the input that yields the fewest rows next, cartesian products included."""
    growth = [size * selectivity for size, selectivity in zip(inputs.rows, inputs.between[origin], strict=True)]
    waiting = [place for place in range(len(growth)) if place != origin]
    order: list[int] = []
    while waiting:
        place = min(waiting, key=growth.__getitem__)
        waiting.remove(place)
        order.append(place)
        for other, selectivity in inputs.links[place]:
            growth[other] *= selectivity
    return tuple(order)
