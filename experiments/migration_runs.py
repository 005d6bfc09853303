"""Runs the settings of `migration.py`, and says how each run went. What is found is data, for the claims and the page.

Runs are paced by a `CpuClock`: rows arrive at their event time on a clock that moves with the CPU time of this process,
and leaps where the run waits for rows. So a run has one core to itself, however busy the machine is, and a plan that
needs more falls behind. How long something took is in seconds of that clock, unless it is said to be of the input.

All runs of a setting have the same rows.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import pyarrow as pa

from experiments.banded import bind_query, draw_rows
from experiments.grouped_changes import GroupedFindings, key_to_foreign_key, many_to_many, measure_grouped
from experiments.migration import (
    HIGH,
    HIGH_LOAD,
    LOW,
    LOW_LOAD,
    MOVING,
    ROADS,
    RUN_LOAD,
    SEED,
    STABLE_LOAD,
    Extent,
    Setting,
    back,
    look_batches,
    moving_seconds,
    once,
    set_1,
    set_2,
    set_3,
    settled,
    several,
    stable,
)
from experiments.paced import Change, CpuClock, Pace, PacedRun, Sample, Trace
from watersmeet.adapt.controller import Controller
from watersmeet.optimize.choose import choose_plan
from watersmeet.optimize.estimates import CostConstants
from watersmeet.optimize.query_graph import model_for
from watersmeet.optimize.reconsider import Planning
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.replan import ReplanSettings

FILLED_AFTER = 1.25  # windows until sizes have settled: expired rows stay for up to a quarter of a window more
AFTERWARDS = 0.25  # windows that a run of section 16.2 goes on for after the switch
PATIENCE = 4.0  # windows of input in which a migration is to come to its end
FEW_COPIES, MORE = 50, 4  # that a run is tried with first, and times as many each time, to find how many fill a core

REPEATED = ("set 3",)  # by all roads: its runs are short, and two of them differ by a third

Say = Callable[[str], None]
Rows = Mapping[str, pa.RecordBatch]


@dataclass(frozen=True)
class Length:
    """Changes of the plan in one setting of section 16.2, by road: the middle one's trace, and how long each took."""

    setting: Setting
    varied: float  # what the set goes through: the window in seconds, or rows of B a second
    modelled: float | None  # equation 16.1 with the prices of this machine, where it is for these states
    traces: Mapping[str, Trace]
    changes: Mapping[str, tuple[Change, ...]]  # none: it did not come to its end in time

    def seconds(self, road: str) -> float | None:
        """By the machine's clock: the median."""
        return median(change.seconds for change in self.changes[road]) if self.changes[road] else None

    def input_seconds(self, road: str) -> float | None:
        """By the stream's clock: how much input was taken in meanwhile."""
        return median(change.input_seconds for change in self.changes[road]) if self.changes[road] else None

    def to_json(self) -> dict[str, Any]:
        return {
            "set": self.setting.name,
            "window_seconds": self.setting.window_seconds,
            "rates": dict(self.setting.rates),
            "copies": self.setting.copies,
            "modelled_moving_seconds": self.modelled,
            "roads": {
                road: {
                    "seconds": [change.seconds for change in changes],
                    "input_seconds": [change.input_seconds for change in changes],
                    "work_seconds": [change.work_seconds for change in changes],
                    "rows": [change.rows for change in changes],
                    "gap_seconds": gap_of(self.traces[road]),
                }
                for road, changes in self.changes.items()
            },
        }


@dataclass(frozen=True)
class Effect:
    """Runs of one setting with the old plan, the new one, and by each road from one to the other."""

    setting: Setting
    load: float  # cores that the old plan needs, as it was tried
    seconds: float
    migrate_at: float
    traces: Mapping[str, Trace]  # by road, OLD_ONLY and NEW_ONLY

    def to_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting.name,
            "copies": self.setting.copies,
            "old_plan_cores": self.load,
            "runs": {
                name: {
                    "results": trace.samples[-1].results,
                    "lag_seconds": trace.lag_seconds,
                    "joined_rows": trace.samples[-1].joined_rows,
                    "gap_seconds": gap_of(trace),
                    "changes": [asdict(change) for change in trace.changes],
                }
                for name, trace in self.traces.items()
            },
        }


OLD_ONLY, NEW_ONLY = "old plan only", "new plan only"
WITHOUT = "without migration"
LOOKING, BLIND = "with looks at the plan", "without"


@dataclass(frozen=True)
class Deciding:
    """Runs of one setting that decide by themselves, by each road, and one that keeps its plan."""

    setting: Setting
    load: float  # cores that the plan that it starts with needs after the switch
    seconds: float
    traces: Mapping[str, Trace]  # by road, and WITHOUT

    def to_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting.name,
            "copies": self.setting.copies,
            "speed": self.setting.speed,
            "wrong_plan_cores": self.load,
            "runs": {
                name: {
                    "results": trace.samples[-1].results,
                    "lag_seconds": trace.lag_seconds,
                    "state_bytes": trace.samples[-1].state_bytes,
                    "waiting_bytes": trace.samples[-1].waiting_rows * self.setting.row_bytes,
                    "changes": [asdict(change) for change in trace.changes],
                }
                for name, trace in self.traces.items()
            },
        }


@dataclass(frozen=True)
class Overhead:
    """CPU seconds of the same run with looks at its plan and without, one pair for each repeat."""

    setting: Setting
    pairs: tuple[tuple[float, float], ...]  # with, without
    traces: Mapping[str, Trace]  # LOOKING and BLIND: the last of them
    looks: int

    @property
    def share(self) -> float:
        """The median over the pairs, as a share of the run without."""
        return median(looking / blind for looking, blind in self.pairs) - 1.0

    def to_json(self) -> dict[str, Any]:
        return {"copies": self.setting.copies, "overhead": self.share, "pairs": self.pairs, "looks": self.looks}


@dataclass(frozen=True)
class Findings:
    extent: Extent
    prices: CostConstants
    lengths: Mapping[str, tuple[Length, ...]]  # by set
    back: Length
    effects: Mapping[str, Effect]  # "low" and "high"
    overhead: Overhead
    once: Deciding
    several: Deciding
    grouped: tuple[GroupedFindings, ...]  # chapter 14: many to many, and key to foreign key
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "prices_seconds": asdict(self.prices),
            "lengths": [length.to_json() for lengths in self.lengths.values() for length in lengths],
            "back": self.back.to_json(),
            "effects": [effect.to_json() for effect in self.effects.values()],
            "overhead": self.overhead.to_json(),
            "once": self.once.to_json(),
            "several": self.several.to_json(),
            "grouped": [found.to_json() for found in self.grouped],
        }


def run_all(extent: Extent, prices: CostConstants, say: Say) -> Findings:
    """Everything, in the order of the page."""
    began = time.perf_counter()
    lengths = {
        "set 1": [(window, set_1(window, extent.copies[0])) for window in extent.windows],
        "set 2": [(1000.0 / interval, set_2(interval, extent.copies[1])) for interval in extent.intervals_ms],
        "set 3": [(window, set_3(window, extent.copies[2])) for window in extent.large_windows],
    }
    return Findings(
        extent,
        prices,
        {
            name: tuple(
                measure_length(setting, varied, extent.repeats, prices, say, name in REPEATED)
                for varied, setting in points
            )
            for name, points in lengths.items()
        },
        measure_length(back(extent.back_copies), 4.0, extent.repeats, prices, say, True),
        {
            "low": measure_effect(LOW, LOW_LOAD, extent, say),
            "high": measure_effect(HIGH, HIGH_LOAD, extent, say),
        },
        measure_overhead(extent, prices, say),
        decide_once(extent, prices, say),
        decide_often(extent, prices, say),
        tuple(measure_grouped(case(extent.grouped_rate), say) for case in (many_to_many, key_to_foreign_key)),
        time.perf_counter() - began,
    )


# --- section 16.2 ----------------------------------------------------------------------------------------------------


def measure_length(
    setting: Setting, varied: float, repeats: int, prices: CostConstants, say: Say, all_roads: bool = False
) -> Length:
    """Change the plan by each road, once windows are full; by moving state, or all, as often as `repeats` says."""
    traces, changes = {}, {}
    for road in ROADS:
        runs = [_change_once(setting, road, turn) for turn in range(repeats if all_roads or road == MOVING else 1)]
        traces[road] = sorted(runs, key=_seconds)[len(runs) // 2]
        changes[road] = tuple(change for run in runs for change in run.changes)
    modelled = None if setting.name == "back" else moving_seconds(setting, prices)
    length = Length(setting, varied, modelled, traces, changes)
    told = ", ".join(f"{road} {_text(length.seconds(road))}" for road in ROADS)
    say(f"{setting.name}, {varied:g}: {told}")
    return length


def _seconds(trace: Trace) -> float:
    """That the change took."""
    return trace.changes[0].seconds if trace.changes else float("inf")


def _text(seconds: float | None) -> str:
    return "not in time" if seconds is None else f"{seconds:.3f} s"


def _change_once(setting: Setting, road: str, turn: int) -> Trace:
    """Fill the windows, change the plan, and go on for a little."""
    most = (FILLED_AFTER + PATIENCE) * setting.width
    rows = draw_rows(setting, most + setting.width, SEED, setting.name, turn)
    run = _paced(setting, setting.old, rows, float("inf"))
    end = most
    try:
        for sample in run.batches():
            if not run.changes and not run.migrating and sample.taken_seconds >= FILLED_AFTER * setting.width:
                run.migrate(setting.new, road)
            if run.changes:
                end = min(end, sample.taken_seconds + AFTERWARDS * setting.width) if end == most else end
            if sample.taken_seconds >= end:
                break
    finally:
        run.close()
    return run.trace()


# --- section 16.3 ----------------------------------------------------------------------------------------------------


def measure_effect(setting: Setting, load: float, extent: Extent, say: Say) -> Effect:
    """The old plan, the new one, and all roads between them, on the same rows."""
    filled, cores = fill(replace(setting, speed=extent.effect_speed), setting.old, load)
    seconds, migrate_at = extent.effect_seconds / filled.speed, extent.migrate_at / filled.speed
    say(f"{setting.name}: {filled.copies} copies, of which the old plan needs some {cores:.2f} cores")
    rows = draw_rows(filled, 1.3 * seconds, SEED, filled.name)
    traces = {}
    for name in (OLD_ONLY, NEW_ONLY, *ROADS):
        run = _paced(filled, filled.new if name == NEW_ONLY else filled.old, rows, seconds)
        try:
            for sample in run.batches():
                if name in ROADS and not run.changes and not run.migrating and sample.seconds >= migrate_at:
                    run.migrate(filled.new, name)
        finally:
            run.close()
        traces[name] = run.trace()
        took = "".join(f", changed in {change.seconds:.2f} s" for change in run.changes)
        say(f"  {name}: {traces[name].samples[-1].results:,} results{took}")
    return Effect(filled, cores, seconds, migrate_at, traces)


# --- section 16.4 ----------------------------------------------------------------------------------------------------


def measure_overhead(extent: Extent, prices: CostConstants, say: Say) -> Overhead:
    """Runs in which nothing changes, with looks and without; they take turns, so that both see the same machine."""
    setting, _ = fill(stable(extent.once_speed), stable(extent.once_speed).old, STABLE_LOAD)
    seconds = extent.once_seconds / setting.speed
    rows = draw_rows(setting, 1.3 * seconds, SEED, setting.name)
    pairs, traces = [], {}
    for _ in range(extent.repeats):
        traces = {
            LOOKING: _decide(setting, rows, seconds, MOVING, prices),
            BLIND: _decide(setting, rows, seconds, None, prices),
        }
        pairs.append((_cpu(traces[LOOKING]), _cpu(traces[BLIND])))
    looks = (len(traces[LOOKING].samples) - 1) // look_batches(setting)
    found = Overhead(setting, tuple(pairs), traces, looks)
    say(f"stable: {looks} looks at the plan took {found.share:+.1%} of CPU")
    return found


def _cpu(trace: Trace) -> float:
    """What a run needs for a second of input."""
    return 0.0 if trace.steady is None else trace.steady.cores


def decide_once(extent: Extent, prices: CostConstants, say: Say) -> Deciding:
    return _decide_all(once(extent.once_speed), extent.once_seconds, extent.roads, prices, say)


def decide_often(extent: Extent, prices: CostConstants, say: Say) -> Deciding:
    setting = several(extent.several_speed, extent.several_switches)
    return _decide_all(setting, extent.several_seconds, extent.roads[-1:], prices, say)


def _decide_all(
    setting: Setting, normal_seconds: float, roads: Sequence[str], prices: CostConstants, say: Say
) -> Deciding:
    wrong, cores = fill(settled(setting), setting.old, RUN_LOAD)
    filled = replace(setting, copies=wrong.copies)
    say(f"{filled.name}: {filled.copies} copies, of which the wrong plan needs some {cores:.2f} cores")
    seconds = normal_seconds / filled.speed
    rows = draw_rows(filled, 1.3 * seconds, SEED, filled.name)
    traces = {}
    for road in (None, *roads):
        trace = _decide(filled, rows, seconds, road, prices)
        traces[WITHOUT if road is None else road] = trace
        at = ", ".join(f"{change.plan} at {change.done_at * filled.speed:.0f} s" for change in trace.changes)
        say(f"  {road or WITHOUT}: {trace.samples[-1].results:,} results{f'; {at}' if at else ''}")
    return Deciding(filled, cores, seconds, traces)


def _decide(setting: Setting, rows: Rows, seconds: float, road: str | None, prices: CostConstants) -> Trace:
    """A run that looks at its plan, and changes it by `road`; without one it keeps the plan."""
    controller = None
    if road is not None:
        replan = ReplanSettings("data-driven", look_batches(setting), by=road)
        model = model_for(bind_query(setting), prices)
        planning = Planning(model=model)
        controller = Controller(_plan(setting, setting.old), AdaptSettings(replan=replan), planning=planning)
    run = _paced(setting, setting.old, rows, seconds, controller)
    try:
        for _ in run.batches():
            pass
    finally:
        run.close()
    return run.trace()


# --- what they share -------------------------------------------------------------------------------------------------


def fill(setting: Setting, tree: str, load: float) -> tuple[Setting, float]:
    """The setting with as many copies as make `tree` need `load` cores, and the cores that it should need then.

    It is tried with few copies, and with more and more until these cost half of what is left to fill. From there on
    each copy is taken to cost what the last ones did: a batch costs something however few its rows.
    """
    copies, cores = FEW_COPIES, _cores(replace(setting, copies=FEW_COPIES), tree)
    first, before = cores, (0, 0.0)
    while cores - first < (load - first) / 2:
        before = (copies, cores)
        copies *= MORE
        cores = _cores(replace(setting, copies=copies), tree)
    each = max(1e-9, (cores - before[1]) / (copies - before[0]))
    wanted = max(1, round(copies + (load - cores) / each))
    return replace(setting, copies=wanted), cores + (wanted - copies) * each


def _cores(setting: Setting, tree: str) -> float:
    """What `tree` needs to keep up, once windows are full."""
    seconds = (FILLED_AFTER + 1.0) * setting.width
    rows = draw_rows(setting, seconds + setting.width, SEED, setting.name, "pilot")
    run = _paced(setting, tree, rows, float("inf"))
    try:
        for sample in run.batches():
            if sample.taken_seconds >= seconds:
                break
    finally:
        run.close()
    steady = run.trace().steady
    assert steady is not None, "it ran for as long as it takes"
    return steady.cores


def _plan(setting: Setting, tree: str) -> PhysicalPlan:
    query = bind_query(setting)
    return lay_out(query, choose_plan(query, tree).tree, {})


def _paced(setting: Setting, tree: str, rows: Rows, seconds: float, controller: Controller | None = None) -> PacedRun:
    gc.collect()  # what is left of the last run is not to be this one's work
    pace = Pace(seconds, setting.batch_seconds, FILLED_AFTER * setting.width)
    return PacedRun(_plan(setting, tree), rows, pace, CpuClock(), controller=controller)


def gaps(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """When one batch with results was done, and when the next one."""
    found, last, results = [], 0.0, 0
    for sample in samples:
        if sample.results > results:
            found.append((last, sample.seconds))
            last, results = sample.seconds, sample.results
    return found


def gap_of(trace: Trace) -> dict[str, float] | None:
    """The longest times without a result: a while before the first migration, until the new plan has some, and then."""
    if not trace.changes:
        return None
    change, found = trace.changes[0], gaps(trace.samples)
    asked, done = change.asked_at, change.done_at

    def longest(chosen: list[tuple[float, float]]) -> float:
        return max((end - begin for begin, end in chosen), default=0.0)

    return {
        "before": longest([(begin, end) for begin, end in found if asked * 3 / 4 < end <= asked]),
        "during": longest([(begin, end) for begin, end in found if end > asked and begin < done]),
        "after": longest([(begin, end) for begin, end in found if begin >= done]),
    }
