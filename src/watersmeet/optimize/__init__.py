"""Which plan to run: costs of plans, and the search for one that fits limits on CPU and memory.

    from watersmeet.optimize import Limits, auto
    from watersmeet.plan import JoinGraph

    graph = JoinGraph({"A": 100, "B": 20, "C": 5}, {"A B": 0.01, "B C": 0.2}, windows=30)
    plan = auto(graph, Limits(cpu=50_000, memory=10_000))
    plan.tree, plan.cost, plan.qualifies, plan.reason

Pure: nothing here runs a query, reads a clock or keeps anything between two calls but tables that depend on the number
of streams alone. One algorithm a file; `strategies.py` puts them together.
"""

from watersmeet.optimize.cost import NO_LIMITS, Cost, Limits, PlannedTree, cost
from watersmeet.optimize.dominating import dominating
from watersmeet.optimize.estimates import CostConstants, CostModel, HashProbes, NestedLoops
from watersmeet.optimize.exhaustive import exhaustive
from watersmeet.optimize.mjoin_order import mjoin_order
from watersmeet.optimize.strategies import STRATEGIES, auto, bjtree_init, find_strategy, mjoin_init

__all__ = [
    "NO_LIMITS",
    "STRATEGIES",
    "Cost",
    "CostConstants",
    "CostModel",
    "HashProbes",
    "Limits",
    "NestedLoops",
    "PlannedTree",
    "auto",
    "bjtree_init",
    "cost",
    "dominating",
    "exhaustive",
    "find_strategy",
    "mjoin_init",
    "mjoin_order",
]
