"""How many rows a plan holds and moves, and what a row costs: the arithmetic under every algorithm of `optimize/`.

A set of streams S is a bit mask over the streams of the graph. With rates r, window widths w and selectivities s:

- `rows(S)`, the combinations over S that are alive at any moment: the product of r_i w_i over S, times the
  selectivity of every predicate inside S. This is the size of a state over S, whatever made it.
- `churn(S)`: the sum of 1/w_i over S. rows(S) * churn(S) is the rate at which new combinations over S appear.

Both follow from what a window means: a combination counts while every row i of it is younger than w_i. Its
newest row is some a of S, so combinations with a as the newest appear at r_a times the product of r_i w_i over the
others, which is rows(S) / w_a; the sum over a gives the rate. Rows of an input over S that have been extended to a
larger set P by probing thus number rows(P) * churn(S) per unit of time, whatever the order of the probes.

The dissertation [Zhu06, ch. 4] is the case of one window W. Departures, each needed to price a hybrid:

1. It gives a merged vertex the rate r_x r_y s (ch. 5.2, text) or r_x r_y s W (fig. 5.5). Neither is right: a binary
   join emits 2 r_x r_y s W (its own eq. 4.4), a join over n streams n times its size over W. A rate and a state size
   are therefore kept apart here; they differ by the factor churn, not by one W.
2. Under eq. 4.4 it equates 2 r_a r_b s W with 2 |S_AB|; that needs W = 1 (the rate is 2 |S_AB| / W).
3. Its C_j, "cost of joining a pair", multiplies the pairs that match, not the pairs compared, although the join is
   called nested loops. So its equations cannot explain its own experiment set 2, where the bjtree has more than twice
   the mjoin's throughput: with equal constants they give 5 % less CPU, with pairs compared at the same price six times
   less. Both models here have a price per pair compared, 0 unless given: in nested loops that is every pair, with
   hashes every pair with the same hash, of which further predicates may leave few.
4. C_d is charged only for states that expire: not where every window is unbounded.
5. Eq. for C'(R_1) in ch. 5.1 lacks the factor r_1 that its own T(R_1) has; costs here hold it.

Limits: predicates are independent; an expired row is taken to leave at once (lateness and batches keep rows longer);
intermediate rows in flight are not memory; what it costs to move rows between slots is `moves.py`'s to say, and it
takes all of them to be sent, though a routed join leaves out those that it can tell to find nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from watersmeet.errors import JobError
from watersmeet.plan.join_graph import JoinGraph

FloatArray = npt.NDArray[np.float64]
Amount = TypeVar("Amount", float, FloatArray)
Blocks = tuple[int, ...]  # the inputs of a node, each a mask of streams
Order = tuple[int, ...]  # places in Blocks
Orders = tuple[Order, ...]  # for each input of a node, the order in which its rows probe the others


@dataclass(frozen=True)
class CostConstants:
    """What one step of work costs. All 1 (or 0) until somebody measures: costs then count operations.

    In seconds per row, with rates per second, a CPU cost is a number of cores.
    """

    insert: float = 1.0  # C_i: put a row into a state
    delete: float = 1.0  # C_d: take an expired row out of it
    join: float = 1.0  # C_j: make one result of a probe, intermediate or final
    probe: float = 1.0  # hash: look one row's key up in a state
    compare: float = 0.0  # check a predicate on a pair of rows: in nested loops any, else those with the same hash
    operation: float = 0.0  # on such a pair, each step of arithmetic that the predicate takes before its comparison
    send: float = 0.0  # hand one row on to another slot
    # Of each batch, and so not part of a plan's cost, which knows no batches:
    batch: float = 0.0  # one join, however few its rows
    gather: float = 0.0  # a row of a state with a key that comes up in the batch, however often

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < float("inf"):
                raise JobError(f'cost constant "{name}" must be a number from 0 up', detail=f"It is {value!r}.")


class CostModel(Protocol):
    """What it costs to probe. Linear in the probing rows, which is what ordering by rank rests on."""

    @property
    def constants(self) -> CostConstants: ...

    def hop(self, probing: Amount, state: Amount, hashed: Amount, results: Amount) -> Amount:
        """The price of `probing` rows that probe a state of `state` rows and yield `results` rows.

        `hashed` is the share of all pairs that have the same hash, so that only those need be compared.
        """
        ...


@dataclass(frozen=True)
class NestedLoops:
    """The dissertation's equations: C_j for each result; a price per pair compared where one is given."""

    constants: CostConstants = CostConstants()

    def hop(self, probing: Amount, state: Amount, hashed: Amount, results: Amount) -> Amount:
        return self.constants.compare * probing * state + self.constants.join * results


@dataclass(frozen=True)
class HashProbes:
    """The hash-based kernel: a look-up for each probing row, a price per pair that a predicate checks, C_j per result.

    A predicate checks the pairs with the same hash. Without one all of these are results.
    """

    constants: CostConstants = CostConstants()

    def hop(self, probing: Amount, state: Amount, hashed: Amount, results: Amount) -> Amount:
        constants = self.constants
        pairs = probing * state * hashed
        # Where all pairs with the same hash are results, there is no predicate to check them with.
        checked = pairs * (pairs > results * _MORE)
        return constants.probe * probing + constants.compare * checked + constants.join * results


@dataclass(frozen=True)
class OrderedNode:
    """A node with its probe orders and what it costs: CPU of its probes and the upkeep of its inputs' states."""

    orders: Orders
    cpu: float


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a node by place: their sizes and the selectivities between them."""

    rows: list[float]
    between: list[list[float]]  # 1 on the diagonal
    links: list[list[tuple[int, float]]]  # the same without the ones
    hashed: list[list[float]]  # the part of the selectivities that a hash serves


_MORE = 1 + 1e-6  # beyond what rounding can do to two products of the same numbers

DEFAULT_MODEL: CostModel = NestedLoops()


class Estimates:
    """Sizes and rates of all sets of streams of one graph under one model; remembers what it has worked out."""

    def __init__(self, graph: JoinGraph, model: CostModel) -> None:
        self.graph = graph
        self.model = model
        self.streams = graph.streams
        self.bit = {name: 1 << index for index, name in enumerate(graph.streams)}
        self.everything = (1 << len(graph.streams)) - 1
        self.ordered: dict[Blocks, OrderedNode] = {}  # filled by mjoin_order.order_node
        self.effort = 0  # spent so far: inputs² of each node ordered, and a little for each plan looked at
        self._sizes = [graph.rates[name] * graph.width(name) for name in graph.streams]
        self._churns = [1 / graph.width(name) for name in graph.streams]
        self._bytes = None if graph.row_bytes is None else [graph.row_bytes[name] for name in graph.streams]
        self._windowed = sum(self.bit[name] for name in graph.streams if graph.windows[name] is not None)
        self._edges = [(self.bit[a] | self.bit[b], s) for (a, b), s in graph.selectivities.items()]
        self._rows: dict[int, float] = {}
        self._between: dict[tuple[int, int], float] = {
            (x, y): s
            for (a, b), s in graph.selectivities.items()
            for x, y in ((self.bit[a], self.bit[b]), (self.bit[b], self.bit[a]))
        }
        self._hashed: dict[tuple[int, int], float] = {
            (x, y): s
            for (a, b), s in graph.hashed.items()
            for x, y in ((self.bit[a], self.bit[b]), (self.bit[b], self.bit[a]))
        }
        self._neighbours: dict[int, int] = {0: 0}
        for first, second in self._between:
            self._neighbours[first] = self._neighbours.get(first, 0) | second

    def rows(self, mask: int) -> float:
        """The combinations over these streams that are alive at any moment."""
        known = self._rows.get(mask)
        if known is None:
            known = 1.0
            for index in members(mask):
                known *= self._sizes[index]
            for edge, selectivity in self._edges:
                if mask & edge == edge:
                    known *= selectivity
            self._rows[mask] = known
        return known

    def churn(self, mask: int) -> float:
        """New combinations per unit of time, as a share of those alive."""
        return sum(self._churns[index] for index in members(mask))

    def memory(self, mask: int) -> float:
        """The size of a state over these streams, in rows, or in bytes where the graph knows them."""
        if self._bytes is None:
            return self.rows(mask)
        return self.rows(mask) * sum(self._bytes[index] for index in members(mask))

    def upkeep(self, mask: int) -> float:
        """The price of a row of these streams that enters a state and, in time, leaves it."""
        constants = self.model.constants
        return constants.insert + (constants.delete if mask & self._windowed else 0.0)

    def selectivity(self, first: int, second: int) -> float:
        """Of all predicates between two disjoint sets of streams."""
        return self._product(self._between, first, second)

    def hashed(self, first: int, second: int) -> float:
        """The share of all pairs of rows of two disjoint sets of streams that have the same hash."""
        return self._product(self._hashed, first, second)

    def _product(self, shares: dict[tuple[int, int], float], first: int, second: int) -> float:
        known = shares.get((first, second))
        if known is None:
            if first & (first - 1):
                low = first & -first
                known = self._product(shares, low, second) * self._product(shares, first ^ low, second)
            elif second & (second - 1):
                known = self._product(shares, second, first)
            else:
                known = 1.0
            shares[first, second] = known
        return known

    def joined(self, first: int, second: int) -> bool:
        """Whether any predicate stands between the two sets."""
        return bool(self._neighbours_of(first) & second)

    def _neighbours_of(self, mask: int) -> int:
        known = self._neighbours.get(mask)
        if known is None:
            low = mask & -mask
            known = self._neighbours_of(mask ^ low) | self._neighbours.get(low, 0)
            self._neighbours[mask] = known
        return known

    def inputs(self, blocks: Blocks) -> Inputs:
        """The inputs of a node, ready to be ordered."""
        between = [[1.0 if a == b else self.selectivity(a, b) for b in blocks] for a in blocks]
        links = [[(place, s) for place, s in enumerate(row) if s != 1.0] for row in between]
        hashed = [[1.0 if a == b else self.hashed(a, b) for b in blocks] for a in blocks]
        return Inputs([self.rows(block) for block in blocks], between, links, hashed)

    def order_cpu(self, inputs: Inputs, origin: int, order: Order) -> float:
        """CPU of a row of `origin` that probes in `order`."""
        rows, links, hop = inputs.rows, inputs.links, self.model.hop
        reach = inputs.between[origin].copy()  # selectivity between what has been joined so far and each input
        hashed = inputs.hashed[origin].copy()  # the part of it that a hash serves
        total, partial = 0.0, 1.0
        for place in order:
            results = partial * rows[place] * reach[place]
            total += hop(partial, rows[place], hashed[place], results)
            partial = results
            for other, selectivity in links[place]:
                reach[other] *= selectivity
                hashed[other] *= inputs.hashed[place][other]
        return total

    def node_cpu(self, blocks: Blocks, orders: Orders) -> float:
        """CPU of one node, per unit of time: its probes, and the upkeep of its inputs' states."""
        inputs = self.inputs(blocks)
        return self.sum_node(blocks, [self.order_cpu(inputs, origin, order) for origin, order in enumerate(orders)])

    def sum_node(self, blocks: Blocks, cpus: list[float]) -> float:
        """CPU of one node, where a row of each input costs `cpus` in probes."""
        return math.fsum(
            self.rows(block) * self.churn(block) * (self.upkeep(block) + cpu)
            for block, cpu in zip(blocks, cpus, strict=True)
        )


def members(mask: int) -> list[int]:
    """The places of the bits that are set.

    >>> members(0b1101)
    [0, 2, 3]
    """
    return [index for index in range(mask.bit_length()) if mask >> index & 1]
