"""Experiment sets 1 to 4 of [Zhu06, table 8.1]: which plan lives with the CPU and the memory that there is.

Each set is a `Setting`: the rates, selectivities and window of the table, what the dissertation found, and how the set
is brought to today's machines. The dissertation ran nested loops at 20 rows a second on 1.5 GHz. Here

- *the join* is made of band predicates, which no hash serves: `abs(A.ab - B.ab) < r` on values uniform in [0, 1), with
  columns of its own for each pair of streams. r = 1 - sqrt(1 - sigma) gives exactly the selectivity sigma;
- *copies*: all streams also share a key `g` of `copies` values, and rates are multiplied by as many. Within each value
  the experiment has the rates, windows and selectivities of the table, and nested loops: so many of them run side by
  side. `fill_machine` chooses the number from the predicted CPU, so that the CPU limit comes to lie where the set wants
  it;
- *speed*: time runs `speed` times faster, so that a run takes seconds: rates are multiplied and windows divided by it.
  The sizes of states stay what they are;
- *limits*: the CPU limit is one core, the one that a run with one slot has: a plan that needs more falls behind. The
  memory limit is in bytes of active state for each copy, chosen for the states of our rows as the dissertation chose
  its Java heaps, so that it lies between the plans of sets 3 and 4.

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
from datetime import timedelta
from typing import Literal

import numpy as np
import pyarrow as pa

from watersmeet.generate.arrivals import draw, events_before, key_of, poisson, unit
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
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


@dataclass(frozen=True)
class Setting:
    """One set: rates, selectivities and window as the table has them, for one copy at normal speed."""

    number: int
    what: str
    rates: Mapping[str, float]  # rows a second
    selectivities: Mapping[Pair, float]
    window_seconds: float
    speed: float
    verdicts: Mapping[str, Verdict]  # the dissertation's, by plan
    found: str  # what the dissertation reports
    memory_bytes: float = math.inf  # the limit for each copy
    table_window_seconds: float | None = None  # where it differs
    copies: int = 1

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(self.rates)

    @property
    def width(self) -> float:
        """The window as it runs, in seconds."""
        return self.window_seconds / self.speed

    @property
    def limits(self) -> Limits:
        return Limits(CPU_LIMIT, self.memory_bytes * self.copies)

    def rate(self, stream: str) -> float:
        """Rows a second as they come."""
        return self.rates[stream] * self.speed * self.copies

    @property
    def window_rows(self) -> float:
        """Rows of all streams that come in a window's time."""
        return sum(self.rate(stream) for stream in self.streams) * self.width

    def band_columns(self, stream: str) -> tuple[str, ...]:
        return tuple(band_column(pair) for pair in self.selectivities if stream in pair)


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


# --- the query and its rows ------------------------------------------------------------------------------------------


def band_column(pair: Pair) -> str:
    """The column that both streams of a pair have for their predicate.

    >>> band_column(("A", "B"))
    'ab'
    """
    return "".join(pair).lower()


def band(selectivity: float) -> float:
    """How far apart two values uniform in [0, 1) may be so that a share of `selectivity` of all pairs is that near.

    >>> band(0.75)
    0.5
    """
    return 1.0 - math.sqrt(1.0 - selectivity)


def schema(setting: Setting, stream: str) -> pa.Schema:
    bands = [(name, pa.float64()) for name in setting.band_columns(stream)]
    return pa.schema([("g", pa.int64()), ("id", pa.int64()), ("ts", pa.int64()), *bands])


def query_text(setting: Setting) -> str:
    first, *others = setting.streams
    select = ", ".join(f"{name}.id AS {name.lower()}" for name in setting.streams)
    windowed = ", ".join(f"{name} [RANGE {setting.width:.6g} SECONDS]" for name in setting.streams)
    conditions = [f"{first}.g = {other}.g" for other in others]
    for pair, selectivity in setting.selectivities.items():
        left, right = (f"{stream}.{band_column(pair)}" for stream in pair)
        conditions.append(f"abs({left} - {right}) < {band(selectivity):.12f}")
    return f"SELECT {select}\nFROM {windowed}\nWHERE " + "\n  AND ".join(conditions)


def bind_query(setting: Setting) -> Query:
    streams = {name: Stream(name, schema(setting, name), "ts", timedelta(0)) for name in setting.streams}
    return bind(query_text(setting), streams)


def make_rows(setting: Setting, seconds: float, seed: int = SEED) -> dict[str, pa.RecordBatch]:
    """Rows of every stream that arrive in so many seconds, a Poisson process; `ts` is microseconds from the start."""
    rows = {}
    for stream in setting.streams:
        own = key_of(seed, setting.number, stream)
        rate = setting.rate(stream)
        count = events_before(poisson, own, rate, 0, round(seconds * 1e6))
        numbers = np.arange(count)
        copy = (unit(draw(key_of(own, "g"), numbers)) * setting.copies).astype(np.int64)
        bands = [unit(draw(key_of(own, name), numbers)) for name in setting.band_columns(stream)]
        columns = [copy, numbers, poisson(own, rate, count), *bands]
        rows[stream] = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema(setting, stream))
    return rows


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
    widths = {name: _row_bytes(setting, name) for name in setting.streams}
    return JoinGraph(
        {name: setting.rate(name) for name in setting.streams},
        {pair: share / setting.copies for pair, share in setting.selectivities.items()},
        setting.width,
        hashed=dict.fromkeys(setting.selectivities, 1 / setting.copies),
        row_bytes=widths if in_bytes else None,
    )


def _row_bytes(setting: Setting, stream: str) -> float:
    """A row of the stream's own state: what the schema has, and a hash."""
    return float(8 + sum(field.type.bit_width // 8 for field in schema(setting, stream)))


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
