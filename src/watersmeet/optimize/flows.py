"""What flows through a plan and what it keeps: the rate and the size of every input of every join, and of the results.

The figures are those that the cost model prices (`estimates.py`), one by one instead of summed: `draw_plan` puts them
on a picture of the plan. They depend on the streams that have been joined and not on how, so they are given by the set
of those. The states of a plan add up to the memory of its cost.

Limits: those of `estimates.py`. Filters of a stream are not counted, a row has all the columns of its streams, and a
state that a routed join keeps under several keys is given once.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.optimize.estimates import DEFAULT_MODEL, Estimates
from watersmeet.optimize.query_graph import HORIZON_SECONDS, Statistics
from watersmeet.optimize.shape import from_tree
from watersmeet.plan.join_graph import JoinGraph
from watersmeet.plan.tree import Tree


@dataclass(frozen=True)
class Flow:
    """Rows that go by, and rows that are kept. `bytes` is 0 where the graph does not know the size of a row."""

    rate: float  # rows a second
    rows: float
    bytes: float


def flows(tree: Tree, graph: JoinGraph) -> dict[frozenset[str], Flow]:
    """The flow into each input of each join of `tree`, by the streams in it, and the results, which are kept nowhere.

    >>> from watersmeet.plan.tree import Join, Leaf
    >>> graph = JoinGraph({"A": 10, "B": 20}, {"A B": 0.01}, {"A": 5, "B": 2}, row_bytes={"A": 8, "B": 16})
    >>> for streams, flow in flows(Join((Leaf("A"), Leaf("B"))), graph).items():
    ...     print(sorted(streams), flow)
    ['A'] Flow(rate=10.0, rows=50.0, bytes=400.0)
    ['B'] Flow(rate=20.0, rows=40.0, bytes=640.0)
    ['A', 'B'] Flow(rate=14.0, rows=0.0, bytes=0.0)
    """
    estimates = Estimates(graph, DEFAULT_MODEL)  # sizes and rates are the same under every model
    shape = from_tree(estimates, tree)

    def names(mask: int) -> frozenset[str]:
        return frozenset(name for name in graph.streams if estimates.bit[name] & mask)

    def rate(mask: int) -> float:
        return estimates.rows(mask) * estimates.churn(mask)

    def size(mask: int) -> float:
        return 0.0 if graph.row_bytes is None else estimates.memory(mask)

    kept = {
        names(block): Flow(rate(block), estimates.rows(block), size(block))
        for blocks in shape.values()
        for block in blocks
    }
    root = estimates.everything
    return {**kept, names(root): Flow(rate(root), 0.0, 0.0)}


def estimate_source(graph: JoinGraph, statistics: Statistics) -> str:
    """Where the figures of `flows` come from, to stand after "rates and sizes are".

    >>> estimate_source(JoinGraph({"A": 1, "B": 1}, {}, 1), Statistics())
    'estimated from default statistics, as none were given'
    """
    unbounded = any(width is None for width in graph.windows.values())
    after = f"; unbounded windows as they are after {HORIZON_SECONDS / 60:g} minutes" if unbounded else ""
    return f"estimated from {statistics.source}{after}"
