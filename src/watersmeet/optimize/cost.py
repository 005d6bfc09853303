"""What a plan costs: CPU per unit of time and memory of any mjoin, bjtree or hybrid, and the limits that it must meet.

Equations 4.1 to 4.5 of [Zhu06] for any tree, with a window for each stream and any number of predicates for each pair.
Over all inputs I of all nodes, with the sizes and rates of `estimates.py`:

    memory = sum of the size of I's state
    cpu    = sum of rate(I) * (C_i + C_d + the price of the probes that a row of I makes in its node)

The root's results are handed on and kept nowhere. What a probe costs is the model's to say: `NestedLoops` (the
dissertation's equations, the default) or `HashProbes`. Where the dissertation's formulas are generalised or corrected
stands in the header of `estimates.py`. Its remark that a smaller bjtree is also a cheaper one (ch. 4.2) holds for three
streams with one window: a state over n streams is refilled n times in a window, so CPU counts large sets of streams
for more than memory does.

A plan's cost is the same number to the last digit whoever computes it: nodes are summed exactly (`math.fsum`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from watersmeet.errors import JobError
from watersmeet.model.quantities import bytes_text
from watersmeet.optimize.estimates import DEFAULT_MODEL, CostModel, Estimates, Orders
from watersmeet.optimize.mjoin_order import order_node
from watersmeet.optimize.shape import Shape, from_tree, memory
from watersmeet.plan.join_graph import JoinGraph
from watersmeet.plan.tree import Join, Leaf, Tree


@dataclass(frozen=True)
class Cost:
    """CPU per unit of time in units of the cost constants; memory in rows, or in bytes where the graph knows them."""

    cpu: float
    memory: float

    def __str__(self) -> str:
        return f"CPU {self.cpu:.4g}, memory {self.memory:.4g}"


def cores_text(cores: float) -> str:
    """To three digits, and to a whole one where there are more before the point.

    >>> cores_text(0.01254), cores_text(0.0000512), cores_text(2046.3)
    ('0.0125', '5.12e-05', '2,046')
    """
    return f"{cores:,.0f}" if cores >= 1000 else f"{cores:.3g}"


def price_text(cores: float, memory_bytes: float) -> str:
    """What a plan costs, for a reader.

    >>> price_text(0.0125, 3_400_000)
    'CPU 0.0125 cores, memory 3.2 MB'
    """
    return f"CPU {cores_text(cores)} cores, memory {bytes_text(memory_bytes)}"


@dataclass(frozen=True)
class Limits:
    """The most that a plan may cost, in the units of `Cost`; infinity is no limit."""

    cpu: float = math.inf
    memory: float = math.inf

    def __post_init__(self) -> None:
        for name, value in (("CPU", self.cpu), ("memory", self.memory)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise JobError(
                    f"the limit on {name} must be above zero",
                    detail=f"It is {value!r}; no plan runs on that.",
                    hint="Leave it out for no limit.",
                )

    def allow(self, cost: Cost) -> bool:
        return cost.cpu <= self.cpu and cost.memory <= self.memory

    def overload(self, cost: Cost) -> float:
        """How far the cost goes beyond the limits, as a ratio; at most 1 when it is within them."""
        return max(cost.cpu / self.cpu, cost.memory / self.memory)

    def merit(self, cost: Cost) -> tuple[bool, float, float]:
        """A key to sort plans by, the best first: those that qualify by CPU, the others by how far they are off."""
        if self.allow(cost):
            return False, cost.cpu, cost.memory
        return True, self.overload(cost), cost.cpu

    def __str__(self) -> str:
        return f"CPU {_limit(self.cpu)}, memory {_limit(self.memory)}"


NO_LIMITS = Limits()


@dataclass(frozen=True)
class PlannedTree:
    """A plan that an optimiser chose: the tree, its probe orders, its cost, whether it qualifies, and why this one.

    `orders` has an entry for each join of the tree, the root first: for each of its children, the order in which that
    child's rows probe the other children, as places in `children` (as a plan spec has them).
    """

    strategy: str
    tree: Tree
    orders: tuple[tuple[Join, Orders], ...]
    cost: Cost
    qualifies: bool
    reason: str


def cost(plan: PlannedTree | Tree, graph: JoinGraph, model: CostModel = DEFAULT_MODEL) -> Cost:
    """The cost of `plan` on `graph`; a tree without probe orders gets those of `mjoin_order`.

    >>> from watersmeet.plan.tree import Leaf
    >>> a, b, c = map(Leaf, "ABC")
    >>> graph = JoinGraph({"A": 10, "B": 10, "C": 10}, {"A B": 0.01, "B C": 0.5}, windows=1)
    >>> print(cost(Join((a, b, c)), graph))
    CPU 127, memory 30
    >>> print(cost(Join((Join((a, b)), c)), graph))
    CPU 81, memory 31
    """
    tree = plan.tree if isinstance(plan, PlannedTree) else plan
    if sorted(_leaves(tree)) != sorted(graph.streams):
        raise JobError(
            f'plan "{tree}" is not over the streams of the graph',
            detail=f"The streams are {', '.join(graph.streams)}; a plan names each exactly once.",
        )
    estimates = Estimates(graph, model)
    shape = from_tree(estimates, tree)
    if isinstance(plan, PlannedTree):
        orders = {sum(estimates.bit[alias] for alias in node.aliases): orders for node, orders in plan.orders}
        return shape_cost(estimates, shape, orders)
    return shape_cost(estimates, shape)


def _leaves(tree: Tree) -> list[str]:
    if isinstance(tree, Leaf):
        return [tree.alias]
    return [alias for child in tree.children for alias in _leaves(child)]


def shape_cost(estimates: Estimates, shape: Shape, orders: Mapping[int, Orders] | None = None) -> Cost:
    """The cost of a shape, with the given probe orders of each node or those of `mjoin_order`."""
    if orders is None:
        cpus = [order_node(estimates, blocks).cpu for blocks in shape.values()]
    else:
        cpus = [estimates.node_cpu(blocks, orders[mask]) for mask, blocks in shape.items()]
    return Cost(math.fsum(cpus), memory(estimates, shape))


def _limit(value: float) -> str:
    return "without limit" if math.isinf(value) else f"{value:.4g}"


def finish_plan(
    estimates: Estimates,
    strategy: str,
    shape: Shape,
    limits: Limits,
    reason: str,
    orders: Mapping[int, Orders] | None = None,
) -> PlannedTree:
    """A shape as a plan to hand out; `reason` is followed by how its cost compares with the limits."""
    orders = orders or {mask: order_node(estimates, blocks).orders for mask, blocks in shape.items()}
    price = shape_cost(estimates, shape, orders)
    nodes: list[tuple[Join, Orders]] = []

    def build(mask: int) -> Tree:
        if mask not in shape:
            return Leaf(estimates.streams[mask.bit_length() - 1])
        place = len(nodes)
        join = Join(tuple(build(block) for block in shape[mask]))
        nodes.insert(place, (join, orders[mask]))
        return join

    tree = build(estimates.everything)
    qualifies = limits.allow(price)
    verdict = "fits" if qualifies else "does not fit"
    sentence = f"{strategy}: {reason}; {price} {verdict} the limits {limits}"
    return PlannedTree(strategy, tree, tuple(nodes), price, qualifies, sentence)
