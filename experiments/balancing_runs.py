"""Runs the settings of `balancing.py`, and says how each run went. What is found is data, for the claims and the page.

Runs are paced by a `SlotsClock` (`slotted.py`): rows arrive at their event time on a clock on which each slot is a
machine with one core. A run ends at a time of that clock, so that one which falls behind has given fewer results.

All runs of a setting have the same rows. Their results are compared, second by second of event time, as far as both
runs have come: a result belongs to the second of its newest row.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.balancing import (
    CONTENDERS,
    FEW,
    FILLED_CELL,
    GROUPS,
    NONE,
    OLD,
    SCOPES,
    SEED,
    SLOTS,
    WAYS,
    Contender,
    Extent,
    Setting,
    cell,
    fall,
    parted,
    rise,
)
from experiments.banded import bind_query, draw_rows
from experiments.paced import Change, Pace, Trace
from experiments.slotted import SlottedRun
from watersmeet.adapt.controller import Controller
from watersmeet.errors import InternalError
from watersmeet.kernel.hashing import mix
from watersmeet.model.placement import Placement
from watersmeet.optimize.choose import STANDARD_MODEL, choose_plan
from watersmeet.optimize.estimates import CostConstants
from watersmeet.optimize.query_graph import model_for
from watersmeet.optimize.reconsider import Planning
from watersmeet.plan.layout import lay_out

BEYOND = 1.3  # of a run's time, that its rows go on for: the last batch ends after it

Say = Callable[[str], None]
Rows = Mapping[str, pa.RecordBatch]
Answer = Mapping[int, tuple[int, int]]  # by second of event time: how many results, and the sum of their hashes


@dataclass(frozen=True)
class Outcome:
    """All runs of a setting, by contender."""

    setting: Setting
    traces: Mapping[str, Trace]

    def results(self, contender: Contender) -> int:
        return self.traces[contender.name].samples[-1].results

    def gain(self, contender: Contender) -> float:
        """Results of a run, in times of those of the run without adaptation."""
        return self.results(contender) / max(1, self.results(NONE))

    def changes(self, contender: Contender) -> tuple[Change, ...]:
        return self.traces[contender.name].changes

    def normal(self, seconds: float) -> float:
        """Seconds of the clock, as they are at normal speed."""
        return seconds * self.setting.speed

    def to_json(self) -> dict[str, Any]:
        setting = self.setting
        return {
            "setting": setting.name,
            "figures": setting.figures,
            "window_seconds": setting.window_seconds,
            "rates": dict(setting.rates),
            "speed": setting.speed,
            "runs": {name: self._run_json(trace) for name, trace in self.traces.items()},
        }

    def _run_json(self, trace: Trace) -> dict[str, Any]:
        last = trace.samples[-1]
        return {
            "results": last.results,
            "taken_seconds": self.normal(last.taken_seconds),
            "waiting_rows": last.waiting_rows,
            "state_rows": last.state_rows,
            "moves": [(self.normal(moves.seconds), moves.groups) for moves in trace.moves],
            "changes": [asdict(change) for change in trace.changes],
            "slot_cpu_seconds": [sum(each) for each in zip(*(s.slot_cpu for s in trace.samples[1:]), strict=True)],
            "seconds_outside_of_slots": outside(trace),
        }


def outside(trace: Trace) -> float:
    """Seconds of the clock that batches took beside those of their slowest slot."""
    return sum(sample.took_seconds - max(sample.slot_cpu) for sample in trace.samples[1:])


@dataclass(frozen=True)
class Findings:
    extent: Extent
    fall: Outcome
    rises: Mapping[float, Outcome]  # by load
    cells: Mapping[tuple[float, float], Outcome]  # by rate and window
    parted: Outcome
    seconds: float

    @property
    def rise(self) -> Outcome:
        return next(iter(self.rises.values()))

    def to_json(self) -> dict[str, Any]:
        outcomes = (self.fall, *self.rises.values(), *self.cells.values(), self.parted)
        return {"size": asdict(self.extent), "settings": [outcome.to_json() for outcome in outcomes]}


def run_all(extent: Extent, prices: CostConstants, say: Say) -> Findings:
    """Everything, in the order of the page."""
    began = time.perf_counter()
    rising = fill(rise(extent))
    rises = {rising.load: run_setting(rising, CONTENDERS, prices, say)}
    for load in extent.loads:
        other = replace(rising, load=load, speed=rising.speed * load / rising.load)
        rises[load] = run_setting(other, FEW, prices, say)
    falls = run_setting(fill(fall(extent)), CONTENDERS, prices, say)
    speed = fill(cell(extent, *FILLED_CELL)).speed
    cells = {
        (rate, window): run_setting(cell(extent, rate, window, speed), WAYS, prices, say)
        for rate in extent.rates
        for window in extent.windows
    }
    own = run_setting(fill(parted(extent)), SCOPES, prices, say)
    return Findings(
        extent,
        falls,
        dict(sorted(rises.items(), key=lambda e: e[0] != rising.load)),
        cells,
        own,
        time.perf_counter() - began,
    )


def fill(setting: Setting) -> Setting:
    """As fast as makes the fullest slot take `load` seconds for one, in a run without adaptation."""
    since, until = setting.loaded
    slow = replace(setting, speed=1.0)
    run = start(slow, NONE, draw_rows(slow, until + 2 * setting.batch_seconds, SEED, setting.name), float("inf"), None)
    try:
        for sample in run.batches():
            if sample.taken_seconds >= until:
                break
    finally:
        run.close()
    taken = [sample for sample in run.samples if sample.taken_seconds > since]
    took = sum(sample.took_seconds for sample in taken)
    return replace(setting, speed=setting.load * (taken[-1].taken_seconds - since) / took)


def run_setting(setting: Setting, contenders: Sequence[Contender], prices: CostConstants, say: Say) -> Outcome:
    """A run for each contender, all on the same rows, and with the same answers."""
    say(f"{setting.name}, load {setting.load:g}: {setting.seconds:g} s at {setting.speed:.1f} times the speed")
    rows = draw_rows(setting, BEYOND * setting.seconds / setting.speed, SEED, setting.name)
    traces: dict[str, Trace] = {}
    answers: dict[str, Answer] = {}
    for contender in contenders:
        kept: list[pa.RecordBatch] = []
        run = start(setting, contender, rows, setting.seconds / setting.speed, prices, kept)
        try:
            for _ in run.batches():
                pass
        finally:
            run.close()
        trace = traces[contender.name] = run.trace()
        answers[contender.name] = answer_of(kept, rows, 1.0 / setting.speed)
        _compare(setting, answers, traces)
        last = trace.samples[-1]
        say(
            f"  {contender.name}: {last.results:,} results of {last.taken_seconds * setting.speed:.0f} s, "
            f"{len(trace.moves)} moves, {len(trace.changes)} changes of the plan"
        )
    return Outcome(setting, traces)


def start(
    setting: Setting,
    contender: Contender,
    rows: Rows,
    seconds: float,
    prices: CostConstants | None,
    kept: list[pa.RecordBatch] | None = None,
) -> SlottedRun:
    gc.collect()  # what is left of the last run is not to be this one's work
    query = bind_query(setting)
    memory = contender.memory(setting.look_batches)
    plan = lay_out(query, choose_plan(query, OLD).tree, {}, lineage=memory.watched)
    model = STANDARD_MODEL if prices is None else model_for(query, prices)
    planning = Planning(model=model)
    owners = {node.partitioning: setting.owners for node in plan.operators.values()}
    return SlottedRun(
        plan,
        rows,
        Pace(seconds, setting.batch_seconds / setting.speed, 0.0),
        Placement(SLOTS, GROUPS, owners),
        Controller(plan, memory, planning=planning),
        (lambda results: None) if kept is None else kept.extend,
    )


# --- answers ---------------------------------------------------------------------------------------------------------


def answer_of(results: Sequence[pa.RecordBatch], rows: Rows, second: float) -> Answer:
    """What came out, by second of event time; `second` is how long one is. A row's `id` is its place in its stream."""
    table = pa.Table.from_batches([batch for batch in results if batch.num_rows])
    if not table.num_rows:
        return {}
    newest = np.zeros(table.num_rows, np.int64)
    hashes = np.zeros(table.num_rows, np.uint64)
    for stream in rows:
        ids = table[stream.lower()].to_numpy()
        newest = np.maximum(newest, rows[stream].column("ts").to_numpy()[ids])
        hashes = mix(hashes + ids.astype(np.uint64))
    seconds, places = np.unique((newest / (second * 1e6)).astype(np.int64), return_inverse=True)
    sums = np.zeros(len(seconds), np.uint64)
    np.add.at(sums, places, hashes)
    counts = np.bincount(places)
    return {int(s): (int(n), int(h)) for s, n, h in zip(seconds, counts, sums, strict=True)}


def _compare(setting: Setting, answers: Mapping[str, Answer], traces: Mapping[str, Trace]) -> None:
    """The last one with the first, as far as both have come."""
    first, last = next(iter(answers)), list(answers)[-1]
    until = int(min(traces[name].samples[-1].taken_seconds for name in (first, last)) * setting.speed)
    for second in range(until):
        right, found = (answers[name].get(second) for name in (first, last))
        if right != found:
            raise InternalError(f"{last} of {setting.name} differs from {first} in second {second}: {found}, {right}")


def first_change(outcome: Outcome, contender: Contender) -> Change | None:
    return next(iter(outcome.changes(contender)), None)
