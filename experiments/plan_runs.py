"""Runs the sets of `plans.py` and sets what was measured beside what was predicted and what the dissertation says.

A plan *qualified* in the run if it kept up with its input and its state never exceeded the memory limit. It kept up if
at the end it was behind by at most `LAG_SHARE` of the time: a plan that needs 1.3 cores of the one it has is behind by
nearly a quarter, and one that needs less than one makes up for what a busy machine took from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from experiments.banded import bind_query
from experiments.paced import Pace, Trace, run_paced
from experiments.plans import (
    BATCHES_A_WINDOW,
    Setting,
    Verdict,
    Work,
    fill_machine,
    find_plans,
    lay_out_plan,
    make_rows,
    predict,
    predict_rows,
    predict_work,
    realised_selectivities,
)
from watersmeet.optimize import Cost, CostModel, Limits, PlannedTree
from watersmeet.plan.join_graph import Pair
from watersmeet.runtime.clock import Clock

LAG_SHARE = 0.1
# The last batch ends after the run's time; how long rows go on, so that those which then wait are counted.
ROWS_BEYOND = 1.3
# Windows of input until sizes have settled: expired rows stay for up to a quarter of a window more.
FILLED_AFTER_WINDOWS = 1.25

Say = Callable[[str], None]


@dataclass(frozen=True)
class PlanOutcome:
    """One plan of one set: the prediction, the run, and the dissertation's verdict."""

    name: str
    plan: PlannedTree
    limits: Limits
    predicted: Cost  # CPU in cores, memory in bytes
    predicted_rows: float
    work: Work  # of each second
    trace: Trace
    seconds: float
    expected: Verdict

    @property
    def foreseen(self) -> Verdict:
        """The prediction; memory comes first, since a plan without memory ends."""
        if self.predicted.memory > self.limits.memory:
            return "memory"
        return "qualifies" if self.predicted.cpu <= self.limits.cpu else "CPU"

    @property
    def observed(self) -> Verdict:
        if self.trace.exceeded_at is not None:
            return "memory"
        return "qualifies" if self.trace.lag_seconds <= LAG_SHARE * self.seconds else "CPU"

    @property
    def disturbed(self) -> bool:
        """Whether the plan fell behind although it needs less than there is: other work had the machine."""
        steady = self.trace.steady
        return self.observed == "CPU" and steady is not None and steady.cores <= self.limits.cpu

    @property
    def results(self) -> int:
        """Until the end of the run, or until the memory limit."""
        return self.trace.allowed()[-1].results

    def to_json(self) -> dict[str, Any]:
        steady = self.trace.steady
        return {
            "plan": self.name,
            "tree": str(self.plan.tree),
            "orders": _named_orders(self.plan),
            "predicted": {
                "cores": self.predicted.cpu,
                "state_rows": self.predicted_rows,
                "state_bytes": self.predicted.memory,
                "work_per_second": asdict(self.work),
                "verdict": self.foreseen,
            },
            "measured": {
                "cores": None if steady is None else steady.cores,
                "steady": None if steady is None else asdict(steady),
                "peak_bytes": self.trace.peak_bytes,
                "lag_seconds": self.trace.lag_seconds,
                "memory_exceeded_at": self.trace.exceeded_at,
                "results": self.results,
                "core_share": None if steady is None else steady.core_share,
                "verdict": self.observed,
            },
            "dissertation": self.expected,
        }


@dataclass(frozen=True)
class SetOutcome:
    setting: Setting
    seconds: float
    realised: dict[Pair, float]
    plans: tuple[PlanOutcome, ...]

    def to_json(self) -> dict[str, Any]:
        setting = self.setting
        return {
            "set": setting.number,
            "copies": setting.copies,
            "speed": setting.speed,
            "window_seconds": setting.width,
            "rates": {name: setting.rate(name) for name in setting.streams},
            "selectivities": {" ".join(pair): value for pair, value in setting.selectivities.items()},
            "realised_selectivities": {" ".join(pair): value for pair, value in self.realised.items()},
            "cpu_limit_cores": setting.limits.cpu,
            "memory_limit_bytes": setting.limits.memory if setting.limits.memory < float("inf") else None,
            "seconds": self.seconds,
            "plans": [outcome.to_json() for outcome in self.plans],
        }


def run_sets(settings: Iterable[Setting], model: CostModel, seconds: float, clock: Clock, say: Say) -> list[SetOutcome]:
    """Run every plan of every set for so many seconds each; the model's prices are seconds."""
    return [run_set(fill_machine(setting, model), model, seconds, clock, say) for setting in settings]


def run_set(setting: Setting, model: CostModel, seconds: float, clock: Clock, say: Say) -> SetOutcome:
    """Run the plans of one set, one after another, on the same rows."""
    say(f"set {setting.number}, {setting.what}: {setting.copies} copies, making rows ..")
    rows = make_rows(setting, ROWS_BEYOND * seconds)
    query = bind_query(setting)
    pace = Pace(
        seconds=seconds,
        batch_seconds=setting.width / BATCHES_A_WINDOW,
        filled_after=FILLED_AFTER_WINDOWS * setting.width,
        memory_bytes=setting.limits.memory,
    )
    outcomes = []
    for name, plan in find_plans(setting, model).items():
        say(f"set {setting.number}, {name} {plan.tree}: {seconds:g} seconds ..")
        trace = run_paced(lay_out_plan(query, plan), rows, pace, clock)
        outcome = PlanOutcome(
            name=name,
            plan=plan,
            limits=setting.limits,
            predicted=predict(setting, plan, model),
            predicted_rows=predict_rows(setting, plan),
            work=predict_work(setting, plan),
            trace=trace,
            seconds=seconds,
            expected=setting.verdicts[name],
        )
        cores = f"{trace.steady.cores:.2f} cores" if trace.steady is not None else "windows never full"
        say(f"set {setting.number}, {name}: {verdict_text(outcome.observed)}, {cores}, {outcome.results:,} results")
        outcomes.append(outcome)
    return SetOutcome(setting, seconds, realised_selectivities(setting, rows), tuple(outcomes))


def verdict_text(verdict: Verdict) -> str:
    """How a verdict is shown.

    >>> verdict_text("qualifies"), verdict_text("CPU")
    ('qualifies', 'lacks CPU')
    """
    return verdict if verdict == "qualifies" else f"lacks {verdict}"


def _named_orders(plan: PlannedTree) -> dict[str, dict[str, tuple[str, ...]]]:
    """The probe orders as text: by node, then by input."""
    return {
        str(node): {
            str(child): tuple(str(node.children[place]) for place in order)
            for child, order in zip(node.children, orders, strict=True)
        }
        for node, orders in plan.orders
    }
