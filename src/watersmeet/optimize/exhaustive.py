"""The best of all plans: every tree of multi-way joins, every probe order, cartesian products included.

Bottom up over sets of streams, as [Zhu06, ch. 7]. What a node costs depends on its inputs alone (`estimates.py`), so
for each set only the plans that no other plan for the set dominates in CPU and memory can be part of a best plan: this
*frontier* is kept, and is built from every partition of the set into two or more inputs. `exhaustive` returns the
cheapest in CPU within the limits.

Departures:

1. The dissertation grows whole trees, one stream at a time, and runs out of memory at 8 streams (660 032 trees). With
   frontiers, 8 streams have 20 891 partitions to price, and nothing is lost.
2. It drops a partial plan when **both** of its costs are beyond the limits. Costs only grow on the way up, so a plan
   may go as soon as **either** is. Where that leaves no plan, the search runs again without limits and returns the plan
   that is least beyond them.
3. It stops at the first plan that qualifies; here the best one is found.
4. Probe orders are exact: the cheapest way from each input up the lattice of sets of inputs, by dynamic programming.

numpy prices all partitions with the same number of inputs at once. CPU time on one core of the build machine: 2.5 ms
for 6 streams, 6 ms for 7, 30 ms for 8, 0.3 s for 9; more are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from watersmeet.errors import JobError
from watersmeet.optimize.cost import NO_LIMITS, Cost, Limits, PlannedTree, finish_plan
from watersmeet.optimize.estimates import (
    DEFAULT_MODEL,
    Blocks,
    CostModel,
    Estimates,
    FloatArray,
    Order,
    Orders,
    members,
)
from watersmeet.optimize.shape import Shape, sort_blocks
from watersmeet.plan.join_graph import JoinGraph

TINY = 1e-30  # in place of a share of 0, which has no logarithm
MOST_STREAMS = 9  # 115 463 partitions; 10 streams have six times as many

IntArray = npt.NDArray[np.int64]


def exhaustive(graph: JoinGraph, limits: Limits = NO_LIMITS, model: CostModel = DEFAULT_MODEL) -> PlannedTree:
    """Of all plans, the one with the least CPU within the limits; if there is none, the one least beyond them."""
    check_size(graph)
    estimates = Estimates(graph, model)
    frontier = find_frontier(estimates, limits)
    if frontier.count == 0:
        frontier = find_frontier(estimates, NO_LIMITS)
    ranked = sorted(range(frontier.count), key=lambda point: limits.merit(frontier.cost(point)))
    # The search adds in another order than `cost`, which has the last word on a plan that just fits.
    for point in ranked:
        plan = _plan(estimates, frontier, point, limits)
        if plan.qualifies or not limits.allow(frontier.cost(point)):
            return plan
    return _plan(estimates, frontier, ranked[0], limits)


def check_size(graph: JoinGraph) -> None:
    """Refuse a graph with more streams than the search can take."""
    if len(graph.streams) > MOST_STREAMS:
        raise JobError(
            f"exhaustive search takes at most {MOST_STREAMS} streams",
            detail=f"The graph has {len(graph.streams)}, and time grows five to ten times with each.",
            hint="Use auto, mjoin_init or bjtree_init.",
        )


def plan_of_point(
    estimates: Estimates, frontier: Frontier, point: int, limits: Limits, strategy: str, reason: str
) -> PlannedTree:
    """A point of the frontier over all streams as a plan."""
    shape = frontier.shape(point)
    orders = {mask: exact_orders(estimates, blocks) for mask, blocks in shape.items()}
    return finish_plan(estimates, strategy, shape, limits, reason, orders)


def _plan(estimates: Estimates, frontier: Frontier, point: int, limits: Limits) -> PlannedTree:
    fits = limits.allow(frontier.cost(point))
    reason = "least CPU of all plans within the limits" if fits else "no plan qualifies, this one is the nearest"
    return plan_of_point(estimates, frontier, point, limits, "exhaustive", reason)


@dataclass(frozen=True)
class Partitions:
    """Every way to divide a set of two or more streams into two or more inputs, for sets of `count` streams."""

    whole: IntArray  # the set that is divided
    blocks: tuple[IntArray, ...]  # for each number of inputs from 2 up: a row for each partition, its inputs' masks
    inner: IntArray  # a row for each partition: its inputs that are themselves joins, 0 for none
    layers: tuple[IntArray, ...]  # for each number of streams from 2 up: the partitions of sets of that many


@dataclass
class Frontier:
    """For each set of streams, the plans that no other dominates, by rising CPU; all sets in one flat table."""

    partitions: Partitions
    everything: int
    start: IntArray  # by mask: where its plans start in the table
    length: IntArray  # by mask: how many there are
    cpu: FloatArray
    memory: FloatArray
    partition: IntArray  # which partition a plan's root makes
    choice: IntArray  # which plans of the inputs it takes, as one mixed-radix number

    @property
    def count(self) -> int:
        """The number of plans over all streams."""
        return int(self.length[self.everything])

    def cost(self, point: int) -> Cost:
        row = int(self.start[self.everything]) + point
        return Cost(float(self.cpu[row]), float(self.memory[row]))

    def shape(self, point: int) -> Shape:
        """The plan behind a point of the set of all streams."""
        shape: dict[int, Blocks] = {}

        def visit(mask: int, point: int) -> None:
            row = int(self.start[mask]) + point
            partition, choice = int(self.partition[row]), int(self.choice[row])
            shape[mask] = _blocks_of(self.partitions, partition)
            for child in map(int, self.partitions.inner[partition]):
                if child:
                    choice, taken = divmod(choice, int(self.length[child]))
                    visit(child, taken)

        visit(self.everything, point)
        return shape


def find_frontier(estimates: Estimates, limits: Limits) -> Frontier:
    """For every set of streams, its plans that are within the limits and that no other plan dominates."""
    count = len(estimates.streams)
    partitions = _partitions(count)
    node_cpu, node_memory = _price_nodes(estimates, partitions)
    start = np.zeros(1 << count, dtype=np.int64)
    length = np.zeros(1 << count, dtype=np.int64)
    # Row 0 is the plan of a single stream, and of "no input here": nothing to do, nothing to keep.
    length[[0, *(1 << index for index in range(count))]] = 1
    table = Frontier(
        partitions,
        estimates.everything,
        start,
        length,
        np.zeros(1),
        np.zeros(1),
        np.zeros(1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    for layer in partitions.layers:
        _add_layer(table, layer, node_cpu, node_memory, limits)
    return table


def _add_layer(table: Frontier, layer: IntArray, node_cpu: FloatArray, node_memory: FloatArray, limits: Limits) -> None:
    """The frontiers of all sets of one size, from those of the smaller sets."""
    inner = table.partitions.inner[layer]
    lengths = table.length[inner]
    combinations = lengths.prod(axis=1)
    row = np.repeat(np.arange(len(layer)), combinations)
    choice = np.arange(len(row)) - np.repeat(np.cumsum(combinations) - combinations, combinations)
    cpu, memory = node_cpu[layer][row], node_memory[layer][row]
    rest = choice
    for column in range(inner.shape[1]):
        rest, taken = np.divmod(rest, lengths[row, column])
        entry = table.start[inner[row, column]] + taken
        cpu = cpu + table.cpu[entry]
        memory = memory + table.memory[entry]
    fits = np.flatnonzero((cpu <= limits.cpu) & (memory <= limits.memory))
    whole = table.partitions.whole[layer][row[fits]]
    ranked = fits[np.lexsort((memory[fits], cpu[fits], whole))]
    whole = table.partitions.whole[layer][row[ranked]]
    ends = np.flatnonzero(np.diff(whole, append=-1)) + 1
    kept: list[IntArray] = []
    begin, place = 0, len(table.cpu)
    for end in map(int, ends):
        below = np.minimum.accumulate(memory[ranked[begin:end]])
        better = np.flatnonzero(np.diff(below, prepend=math.inf) < 0) + begin
        mask = int(whole[begin])
        table.start[mask], table.length[mask] = place, len(better)
        kept.append(ranked[better])
        place += len(better)
        begin = end
    if kept:
        found = np.concatenate(kept)
        table.cpu = np.concatenate([table.cpu, cpu[found]])
        table.memory = np.concatenate([table.memory, memory[found]])
        table.partition = np.concatenate([table.partition, layer[row[found]]])
        table.choice = np.concatenate([table.choice, choice[found]])


def _price_nodes(estimates: Estimates, partitions: Partitions) -> tuple[FloatArray, FloatArray]:
    """CPU (with the best probe orders) and memory of the node that each partition makes."""
    masks = range(1 << len(estimates.streams))
    rows = np.array([estimates.rows(mask) for mask in masks])
    churn = np.array([estimates.churn(mask) for mask in masks])
    upkeep = rows * np.array([estimates.upkeep(mask) for mask in masks])
    memory = np.array([estimates.memory(mask) for mask in masks])
    cpus: list[FloatArray] = []
    memories: list[FloatArray] = []
    within = np.zeros(len(masks))
    for mask in masks[1:] if estimates.model.constants.compare else ():  # without a price nobody looks at it
        low = mask & -mask
        within[mask] = within[mask ^ low] + math.log(max(TINY, estimates.hashed(low, mask ^ low)))
    for blocks in partitions.blocks:
        paths = _cheapest_paths(estimates.model, rows, within, blocks)
        cpus.append((churn[blocks] * (upkeep[blocks] + paths)).sum(axis=1))
        memories.append(memory[blocks].sum(axis=1))
    return np.concatenate(cpus), np.concatenate(memories)


def _cheapest_paths(model: CostModel, rows: FloatArray, within: FloatArray, blocks: IntArray) -> FloatArray:
    """For each input of each node, the cheapest way to join it with all others, per row(s) of its state.

    Partial results over a set P of inputs number rows(P) whatever the order, so one pass from the full set down serves
    all inputs: the price from P on is the least, over the input that comes next, of that hop and the price from there.
    `within` has, for each set of streams, the logarithm of the hash shares of all its pairs; what stands between two
    sets is the difference.
    """
    nodes, inputs = blocks.shape
    union = np.zeros((nodes, 1 << inputs), dtype=np.int64)
    for subset in range(1, 1 << inputs):
        low = subset & -subset
        union[:, subset] = union[:, subset ^ low] | blocks[:, low.bit_length() - 1]
    size = rows[union]
    inside = within[union]
    onward = np.zeros((nodes, 1 << inputs))
    for subsets, following, places in _lattice(inputs):
        between = inside[:, following] - inside[:, subsets][:, :, None] - within[blocks][:, places]
        hop = model.hop(size[:, subsets][:, :, None], rows[blocks][:, places], np.exp(between), size[:, following])
        onward[:, subsets] = (hop + onward[:, following]).min(axis=2)
    return onward[:, [1 << place for place in range(inputs)]]


@lru_cache(maxsize=MOST_STREAMS)
def _lattice(inputs: int) -> tuple[tuple[IntArray, IntArray, IntArray], ...]:
    """From large sets of inputs to small: the sets of one size, what each becomes with one more input, and which."""
    layers = []
    for size in range(inputs - 1, 0, -1):
        subsets = [subset for subset in range(1 << inputs) if subset.bit_count() == size]
        places = [[place for place in range(inputs) if not subset >> place & 1] for subset in subsets]
        following = [[s | 1 << place for place in absent] for s, absent in zip(subsets, places, strict=True)]
        layers.append((np.array(subsets), np.array(following), np.array(places)))
    return tuple(layers)


@lru_cache(maxsize=MOST_STREAMS)
def _partitions(count: int) -> Partitions:
    # A partition of a subset is a label for each stream: 0 for "not in it", else the number of its input, where a new
    # number is always the next one. All at once: each step repeats every row for each label that it may go on with.
    labels = np.zeros((1, 0), dtype=np.int64)
    highest = np.zeros(1, dtype=np.int64)
    for _ in range(count):
        ways = highest + 2
        source = np.repeat(np.arange(len(labels)), ways)
        label = np.arange(len(source)) - np.repeat(np.cumsum(ways) - ways, ways)
        labels = np.column_stack([labels[source], label])
        highest = np.maximum(highest[source], label)
    bits = 1 << np.arange(count)
    by_inputs = tuple(
        np.column_stack([((labels[highest == k] == j) * bits).sum(axis=1) for j in range(1, k + 1)])
        for k in range(2, count + 1)
    )
    padded = np.concatenate([np.pad(blocks, ((0, 0), (0, count - blocks.shape[1]))) for blocks in by_inputs])
    inner = np.where(padded & (padded - 1), padded, 0)
    inner = -np.sort(-inner, axis=1)[:, : max(1, count // 2)]
    whole = padded.sum(axis=1)
    sizes = np.bitwise_count(whole)
    layers = tuple(np.flatnonzero(sizes == size) for size in range(2, count + 1))
    return Partitions(whole, by_inputs, inner, layers)


def _blocks_of(partitions: Partitions, index: int) -> Blocks:
    for blocks in partitions.blocks:
        if index < len(blocks):
            return sort_blocks([int(mask) for mask in blocks[index]])
        index -= len(blocks)
    raise AssertionError("every partition has its place")


def exact_orders(estimates: Estimates, blocks: Blocks) -> Orders:
    """The cheapest probe order of each input of one node, cartesian products included."""
    full = (1 << len(blocks)) - 1

    def union(subset: int) -> int:
        return sum(blocks[place] for place in members(subset))

    rows = {subset: estimates.rows(union(subset)) for subset in range(1, full + 1)}
    onward: dict[int, tuple[float, int]] = {full: (0.0, 0)}
    for subset in range(full - 1, 0, -1):
        onward[subset] = min(
            (
                estimates.model.hop(
                    rows[subset],
                    rows[1 << place],
                    estimates.hashed(union(subset), blocks[place]),
                    rows[subset | 1 << place],
                )
                + onward[subset | 1 << place][0],
                place,
            )
            for place in members(full ^ subset)
        )

    def path(origin: int) -> Order:
        subset, order = 1 << origin, []
        while subset != full:
            place = onward[subset][1]
            order.append(place)
            subset |= 1 << place
        return tuple(order)

    return tuple(path(origin) for origin in range(len(blocks)))
