"""Which inputs should be weighed: what that does to the price of a plan, and the cheapest choice for it.

Where rows of an input that agree are combined (`plan/weighing.py`), the joins work on a share of them, which is known
of inputs that have been looked at (`JoinGraph.alike`). A plan is priced on the graph in which the rates of these inputs
are multiplied by their shares, with what it takes to put their rows together. Shares are those of the rows of a batch:
rows of several batches that agree are combined too, when files are merged, so that memory is less than what is said
here.

Limits: inputs are tried one after the other, the one with most to combine first. What columns of weights take in memory
is not counted. Where nothing is known of an input, it is not weighed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from watersmeet.optimize.cost import PlannedTree
from watersmeet.optimize.place_filters import with_rates
from watersmeet.plan.join_graph import JoinGraph
from watersmeet.plan.tree import marks_of, with_marks

# Seconds for each row: to find those that agree and put them together, and to carry weights on. Measured on the build
# machine with a key, a group column and one sum: 120 to 130 ns more than as they are where no two of 10,000 or 100,000
# rows agree (230 of 3,333), 50 ns or less where 4.5 do; 20 to 35 ns to carry weights.
COMBINE_SECONDS = 130e-9
CARRY_SECONDS = 30e-9
# Of rows that are left, above which nothing is gained that estimates could tell.
MOST_LEFT = 0.7


def weighed_graph(graph: JoinGraph, plan: PlannedTree) -> JoinGraph:
    """The graph as the joins of a plan see it: of inputs whose rows are combined, those that are left."""
    combined = [alias for alias, together in marks_of(plan.tree).items() if together and alias in graph.alike]
    if not combined:
        return graph
    return with_rates(graph, {a: rate * (graph.alike[a] if a in combined else 1.0) for a, rate in graph.rates.items()})


def price_weighing(graph: JoinGraph, plan: PlannedTree) -> float:
    """Seconds a second that weighing takes."""
    each = {True: COMBINE_SECONDS, False: CARRY_SECONDS}
    return sum(graph.rates[alias] * each[together] for alias, together in marks_of(plan.tree).items())


def weigh_inputs(graph: JoinGraph, plan: PlannedTree, price: Callable[[PlannedTree], PlannedTree]) -> PlannedTree:
    """`plan`, which has its price, with those inputs combined that make it cheaper; itself where none does."""
    promising = [alias for alias, share in graph.alike.items() if share <= MOST_LEFT]
    best = plan
    for alias in sorted(promising, key=graph.alike.__getitem__):
        tried = price(replace(best, tree=with_marks(best.tree, {**marks_of(best.tree), alias: True})))
        if tried.cost.cpu < best.cost.cpu:
            best = tried
    return best
