"""Runs the spill experiments, and what keeping figures of groups costs. What is found is data, for `spill_page.py`.

Every run of a setting has the same rows; each goes on to the end of its clean-up, and must give as many results in all
as the run without a budget does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from experiments.budgeted import History, run_budgeted
from experiments.spill import (
    JOIN_RANGE,
    NEVER,
    Extent,
    Setting,
    Size,
    join_setting,
    join_settings,
    tree_setting,
    tree_settings,
)
from watersmeet.errors import InternalError
from watersmeet.generate.synthetic import ranged
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.words import OFF

Say = Callable[[str], None]

REPEATS = 3  # of each pair of runs with figures and without
WITH_FIGURES = AdaptSettings(NEVER, balance=BalanceSettings(OFF))


@dataclass(frozen=True)
class Outcome:
    """All runs of a setting: without a budget, and with each contender."""

    setting: Setting
    unlimited: History
    budget_bytes: int
    runs: Mapping[str, History]

    def results(self, name: str) -> int:
        return self.runs[name].run_time_results

    def to_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting.name,
            "figures": self.setting.figures,
            "budget_bytes": self.budget_bytes,
            "unlimited_bytes": self.unlimited.most_bytes,
            "results": self.unlimited.results,
            "runs": {
                name: {
                    "run_time_results": run.run_time_results,
                    "spills": run.spills,
                    "spilled_groups": run.spilled_groups,
                    "most_bytes": max(sample.peak_bytes for sample in run.run_time),
                    "clean_up_results": run.clean_up_results,
                    "clean_up_cpu_seconds": round(run.clean_up_cpu, 3),
                    "clean_up_most_bytes": max((sample.peak_bytes for sample in run.clean_up), default=0),
                    "run_time_cpu_seconds": round(run.run_time_cpu, 3),
                }
                for name, run in self.runs.items()
            },
        }


@dataclass(frozen=True)
class Upkeep:
    """CPU seconds of the same run with figures of groups and without, one pair for each repeat."""

    what: str
    batch_rows: int  # of all streams together
    pairs: tuple[tuple[float, float], ...]  # with, without

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(sorted(with_figures / without for with_figures, without in self.pairs))

    @property
    def overhead(self) -> float:
        """The median over the pairs, as a share of the run without."""
        return median(self.ratios) - 1.0

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "batch_rows": self.batch_rows,
            "overhead": round(self.overhead, 4),
            "ratios": [round(ratio, 4) for ratio in self.ratios],
        }


@dataclass(frozen=True)
class Findings:
    extent: Extent
    trees: tuple[Outcome, ...]
    joins: tuple[Outcome, ...]
    upkeep: tuple[Upkeep, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "sizes": asdict(self.extent),
            "trees": [outcome.to_json() for outcome in self.trees],
            "joins": [outcome.to_json() for outcome in self.joins],
            "upkeep": [entry.to_json() for entry in self.upkeep],
        }


def run_all(extent: Extent, repeats: int, say: Say) -> Findings:
    """Everything, in the order of the page."""
    began = time.perf_counter()
    trees = tuple(run_setting(setting, extent.trees, say) for setting in tree_settings(extent.trees))
    joins = tuple(run_setting(setting, extent.joins, say) for setting in join_settings(extent.joins))
    upkeep = measure_upkeep(extent.trees, repeats, say)
    return Findings(extent, trees, joins, upkeep, time.perf_counter() - began)


def run_setting(setting: Setting, size: Size, say: Say) -> Outcome:
    """The run without a budget, which says how large the budget is, then one for each contender."""
    query, rows, course = setting.query(), setting.rows(), setting.course(size)
    unlimited = run_budgeted(query, rows, course, AdaptSettings())
    budget = int(setting.budget_share * unlimited.most_bytes)
    say(f"{setting.name}: {unlimited.results:,} results, budget {budget / 1e6:.2f} MB")
    runs = {}
    for contender in setting.contenders:
        run = run_budgeted(query, rows, course, contender.memory(budget))
        if run.results != unlimited.results:
            raise InternalError(
                f"{contender.name} of {setting.name} has {run.results} results, and {unlimited.results} are right"
            )
        share = run.run_time_results / unlimited.results
        say(f"  {contender.name}: {share:.1%} at run time, {run.spills} spills, clean-up {run.clean_up_cpu:.1f} s CPU")
        runs[contender.name] = run
    return Outcome(setting, unlimited, budget, runs)


def measure_upkeep(size: Size, repeats: int, say: Say) -> tuple[Upkeep, ...]:
    """A plan of three joins and one of one, in batches of `size` and in a few large ones.

    Runs with and without figures take turns, so that both see the machine in the same moods.
    """
    large = Size(max(1, size.scale // 5), max(1, size.batches // 5), size.groups)
    cases = []
    for each, what in ((size, "small batches"), (large, "large batches")):
        tree = tree_setting((3, 1, 1), "", each)
        join = join_setting("", "", "", ranged(JOIN_RANGE // each.scale, 1), (), each, 1.0)
        cases += [("three joins", what, tree, each), ("one join", what, join, each)]
    found = []
    for plan, what, setting, each in cases:
        query, rows, course = setting.query(), setting.rows(), setting.course(each)
        pairs = []
        for _ in range(repeats):
            with_figures = run_budgeted(query, rows, course, WITH_FIGURES).run_time_cpu
            pairs.append((with_figures, run_budgeted(query, rows, course, AdaptSettings()).run_time_cpu))
        batch_rows = sum(batch.num_rows for batch in rows.values()) // each.batches
        found.append(Upkeep(f"{plan}, {what}", batch_rows, tuple(pairs)))
        say(f"figures of groups, {found[-1].what}: {found[-1].overhead:+.1%} of CPU")
    return tuple(found)
