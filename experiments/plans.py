"""Experiment sets 1 to 4 of [Zhu06, table 8.1]: which plan lives with the CPU and the memory that there is.

Each set is a `Setting`: the rates, selectivities and window of the table, what the dissertation found, and how the set
is brought to today's machines. The dissertation ran nested loops at 20 rows a second on 1.5 GHz. Here the join is made
of band predicates, in many copies side by side, and time runs faster (`banded.py`). `fill_machine` chooses the number
of copies from the predicted CPU, so that the CPU limit comes to lie where the set wants it.

*Limits*: the CPU limit is one core, the one that a run with one slot has: a plan that needs more falls behind. The
memory limit is in bytes of active state for each copy, chosen for the states of our rows as the dissertation chose its
Java heaps, so that it lies between the plans of sets 3 and 4.

Departure: set 4 has a window of 50 s in the table, with which every copy has 16 million results a second. It has 5 s
here: 100 rows of each stream, 200 AB, 500 CD, and 16 thousand results a second.

Plans are the optimiser's (`find_plans`), their probe orders too. `predict` is the one place where a price is put on
them, in seconds if the model's constants are (`runtime/calibration.py`). Pure; running is `plan_runs.py`'s.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from experiments.banded import Banded, band, band_column, draw_rows, row_bytes
from watersmeet.optimize import (
    Cost,
    CostConstants,
    CostModel,
    HashProbes,
    Limits,
    PlannedTree,
    bjtree_init,
    cost,
    exhaustive,
    mjoin_init,
)
from watersmeet.optimize.estimates import Estimates
from watersmeet.plan.join_graph import JoinGraph, Pair
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query

Verdict = Literal["qualifies", "CPU", "memory"]  # or what there is too little of

CPU_LIMIT = 1.0  # cores: one slot
# Share of the CPU limit that the dearest plan is to need in a set in which none lacks CPU.
AMPLE = 0.5
BATCHES_A_WINDOW = 10
SEED = 8


@dataclass(frozen=True, kw_only=True)
class Setting(Banded):
    """One set: rates, selectivities and window as the table has them, for one copy at normal speed."""

    number: int
    what: str
    verdicts: Mapping[str, Verdict]  # the dissertation's, by plan
    found: str  # what the dissertation reports
    memory_bytes: float = math.inf  # the limit for each copy
    table_window_seconds: float | None = None  # where it differs

    @property
    def limits(self) -> Limits:
        return Limits(CPU_LIMIT, self.memory_bytes * self.copies)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        number=1,
        what="CPU and memory suffice for both plans",
        rates={"A": 20, "B": 20, "C": 20},
        selectivities={("A", "B"): 0.05, ("B", "C"): 0.5},
        window_seconds=5,
        speed=2.5,
        verdicts={"mjoin": "qualifies", "bjtree": "qualifies"},
        found="Both plans qualify and have like throughputs; the bjtree's states are much larger.",
    ),
    Setting(
        number=2,
        what="much CPU is needed",
        rates={"A": 20, "B": 20, "C": 50},
        selectivities={("A", "B"): 0.02, ("B", "C"): 0.5},
        window_seconds=15,
        speed=5,
        verdicts={"mjoin": "CPU", "bjtree": "qualifies"},
        found="Only the bjtree qualifies, with more than twice the mjoin's throughput; the mjoin's input queues grow.",
    ),
    Setting(
        number=3,
        what="memory is short",
        rates={"A": 10, "B": 10, "C": 10, "D": 10},
        selectivities={("A", "B"): 0.1, ("B", "C"): 0.15, ("C", "D"): 0.1},
        window_seconds=15,
        speed=3,
        verdicts={"mjoin": "qualifies", "bjtree": "memory"},
        found="Only the mjoin qualifies: the bjtree's memory keeps growing and soon reaches the limit.",
        memory_bytes=110_000,
    ),
    Setting(
        number=4,
        what="much CPU is needed, and memory is short",
        rates={"A": 20, "B": 20, "C": 20, "D": 20},
        selectivities={("A", "B"): 0.02, ("B", "C"): 0.2, ("C", "D"): 0.05},
        window_seconds=5,
        speed=2.5,
        verdicts={"mjoin": "CPU", "bjtree": "memory", "hybrid": "qualifies"},
        found="Only the hybrid qualifies: the bjtree runs out of memory, and the mjoin has the least throughput.",
        memory_bytes=56_000,
        table_window_seconds=50,
    ),
)


# --- the rows --------------------------------------------------------------------------------------------------------


def make_rows(setting: Setting, seconds: float, seed: int = SEED) -> dict[str, pa.RecordBatch]:
    """Rows of every stream that arrive in so many seconds."""
    return draw_rows(setting, seconds, seed, setting.number)


def realised_selectivities(setting: Setting, rows: Mapping[str, pa.RecordBatch], most: int = 2000) -> dict[Pair, float]:
    """The share of pairs that satisfy each predicate, among the first rows of the streams."""
    found = {}
    for pair, selectivity in setting.selectivities.items():
        left, right = (rows[stream].column(band_column(pair)).to_numpy()[:most] for stream in pair)
        found[pair] = float(np.mean(np.abs(left[:, None] - right[None, :]) < band(selectivity)))
    return found


# --- plans and what they should cost ---------------------------------------------------------------------------------


def make_graph(setting: Setting, *, in_bytes: bool = True) -> JoinGraph:
    """What the optimiser is told. The key leaves 1/copies of all pairs, and the predicates are checked on those."""
    widths = {name: row_bytes(setting, name) for name in setting.streams}
    return JoinGraph(
        {name: setting.rate(name) for name in setting.streams},
        {pair: share / setting.copies for pair, share in setting.selectivities.items()},
        setting.width,
        hashed=dict.fromkeys(setting.selectivities, 1 / setting.copies),
        row_bytes=widths if in_bytes else None,
    )


def predict(setting: Setting, plan: PlannedTree, model: CostModel) -> Cost:
    """What the plan should cost: CPU in cores where the model's prices are seconds, memory in bytes.

    Batches cost something however few their rows, which is not in the plan's cost: all keys come up in each, and so the
    rows of every state are gathered.
    """
    price = cost(plan, make_graph(setting), model)
    constants = model.constants
    a_batch = constants.batch * len(plan.orders) + constants.gather * predict_rows(setting, plan)
    return Cost(price.cpu + a_batch * BATCHES_A_WINDOW / setting.width, price.memory)


def predict_rows(setting: Setting, plan: PlannedTree) -> float:
    """How many rows the plan's states should hold."""
    return cost(plan, make_graph(setting, in_bytes=False)).memory


def predict_state_rows(setting: Setting, streams: Sequence[str]) -> float:
    """How many rows a state over these streams should hold, whichever plan has it."""
    estimates = Estimates(make_graph(setting), HashProbes())  # sizes are the same under every model
    return estimates.rows(sum(estimates.bit[name] for name in streams))


@dataclass(frozen=True)
class Work:
    """What the plan has to do each second, as the model counts it."""

    inserts: float  # rows that enter a state
    probes: float  # rows, complete or in the making, that look a key up
    candidates: float  # pairs with the same key
    joined: float  # pairs that match, results among them


def predict_work(setting: Setting, plan: PlannedTree) -> Work:
    graph = make_graph(setting)
    nothing = CostConstants(insert=0.0, delete=0.0, join=0.0, probe=0.0, compare=0.0)

    def count(name: str) -> float:
        return cost(plan, graph, HashProbes(replace(nothing, **{name: 1.0}))).cpu

    return Work(count("insert"), count("probe"), count("compare"), count("join"))


def find_plans(setting: Setting, model: CostModel) -> dict[str, PlannedTree]:
    """The optimiser's mjoin, bjtree and, where the set has one, the best plan within its limits, which is a hybrid."""
    graph = make_graph(setting)
    plans = {"mjoin": mjoin_init(graph, model=model), "bjtree": bjtree_init(graph, model=model)}
    if "hybrid" in setting.verdicts:
        plans["hybrid"] = exhaustive(graph, setting.limits, model)
    return plans


def lay_out_plan(query: Query, plan: PlannedTree) -> PhysicalPlan:
    return lay_out(query, plan.tree, dict(plan.orders))


def fill_machine(setting: Setting, model: CostModel) -> Setting:
    """The setting with as many copies as put the CPU limit where the set wants it, by the predicted costs.

    Where some plan is to lack CPU, the limit lies between it and those that do not, at the geometric mean; elsewhere
    the dearest plan gets `AMPLE` of it.
    """

    def cores(copies: int) -> dict[str, float]:
        many = replace(setting, copies=copies)
        return {name: predict(many, plan, model).cpu for name, plan in find_plans(many, model).items()}

    def level(copies: int) -> float:
        """What is to reach the limit; it grows with the copies, though not in proportion: a batch has a price too."""
        wanted = cores(copies)
        dear = max(wanted[name] for name, verdict in setting.verdicts.items() if verdict != "CPU")
        short = [wanted[name] for name, verdict in setting.verdicts.items() if verdict == "CPU"]
        return math.sqrt(dear * min(short)) if short else dear / AMPLE

    high = 1
    while level(high) < CPU_LIMIT:
        high *= 2
    return replace(setting, copies=bisect.bisect_left(range(1, high), CPU_LIMIT, key=level) + 1)
