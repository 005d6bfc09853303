"""A ring of slots on a virtual clock: rows arrive, wait, are compared and travel, each step at its price.

As [Wang09] has it. Rows of M streams come as Poisson processes and enter at the head (slot 0). A row is kept there,
pushes out the oldest row of each slice, and goes once along the ring; each slot hands it on before it compares it with
its slice of the next stream. Partial results go on from the slot that made them, once round, that slot's own slice
last. A slot serves what comes in order of arrival, one after the other. It takes

    T_s for each row that comes and is handed on, T_s + T_i + T_p for the kept row that a new one pushes out,
    T_j for each pair compared, and T_n until what was sent is at the next slot; its `wire` takes rows one by one.

Which rows a slice holds when a row probes it follows from the times of both (property 1 of the paper), so it is worked
out beforehand, for all rows at once. How many pairs match is drawn: Poisson, with the selectivity for each pair;
matches are found evenly over the comparisons of a visit. What is found at one visit travels together, one row behind
the other.

Slices: `BY_TIME` cuts windows evenly; `BY_COUNT` gives all slots but the tail as many rows as the last look found to be
even (smoothing). A ring may change its length while it runs: `Change`. Passive: rows that came before are in slices of
the old ring until they expire. Aggressive: at once, while all slots pause for as long as the slot with most to send
takes.

PSP admits a row when the one before has left the ring (`in_flight=1`), PSP-I up to so many. All is determined by the
seed. Limits: rows waiting at the head are not state; slots are alike; numbers of slots go by place, so that a new one
in the midst of the ring takes over the queue of the one that stood there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from experiments.ring_relocation import relocate
from watersmeet.optimize.allocate import FULL
from watersmeet.optimize.ring_cost import RingPrices, alike, busy, response, ring_slots

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ANY = 1 << 30  # rows in flight: as many as there are
LEFT = -1  # in the place of a slot: a row has left the ring
DRAWS = 1 << 16  # numbers that are drawn at once
GAIN = 1.2  # times less response, for which a ring that keeps up changes its length
MANY = 20.0  # matches, from which on they are drawn singly


@dataclass(frozen=True)
class Load:
    """Rows that come. `rates` are rows a second of each stream: from when on, and how many."""

    streams: int
    rates: tuple[tuple[float, float], ...]
    window: float
    selectivity: float
    seconds: float
    seed: int

    def rows(self) -> Rows:
        """All rows of all streams, in order of time."""
        source = np.random.default_rng(self.seed)
        times, streams = [], []
        for stream in range(self.streams):
            for (since, rate), (until, _) in pairwise((*self.rates, (self.seconds, 0.0))):
                number = source.poisson(rate * (until - since))
                times.append(np.sort(source.uniform(since, until, number)))
                streams.append(np.full(number, stream))
        moments = np.concatenate(times)
        order = np.argsort(moments, kind="stable")
        return Rows(moments[order], np.concatenate(streams)[order], self.streams)


@dataclass(frozen=True)
class Rows:
    times: FloatArray
    streams: IntArray
    count: int  # of streams

    def of(self, stream: int) -> FloatArray:
        times: FloatArray = self.times[self.streams == stream]
        return times

    def probed(self, step: int) -> IntArray:
        """The stream that each row probes at a step: the ones after its own."""
        return (self.streams + step + 1) % self.count


@dataclass(frozen=True)
class Change:
    """From `at` on the ring has `slots`, and slices of so many rows of each stream where they go by count."""

    at: float
    slots: int
    bound: float = 0.0


BY_TIME, BY_COUNT = "by time", "by count"
PASSIVE, AGGRESSIVE = "passive", "aggressive"


@dataclass(frozen=True)
class Regime:
    """How a ring runs: its lengths from time to time (the first from 0 on), how it is sliced, what may be at work."""

    changes: tuple[Change, ...]
    slices: str = BY_TIME
    relocation: str = AGGRESSIVE
    in_flight: int = ANY


@dataclass(frozen=True)
class Outcome:
    """What came of each row, in order of arrival."""

    arrived: FloatArray
    results: IntArray
    waited: FloatArray  # sum over its results, of seconds from the row to the result
    left: FloatArray  # when the last of it was done
    state_rows: float  # in all slots, on average
    busy: tuple[float, ...]  # the share of time that each slot worked

    def response(self, since: float = 0.0, until: float = math.inf) -> float:
        """Seconds from a row to a result, on average over the results of rows that came then."""
        there = (self.arrived >= since) & (self.arrived < until)
        return float(self.waited[there].sum() / max(1, self.results[there].sum()))

    def course(self, every: float) -> tuple[list[float], list[float]]:
        """The average response of every so many seconds."""
        edges = np.arange(0.0, float(self.arrived[-1]) + every, every)
        return edges[:-1].tolist(), [self.response(a, b) for a, b in pairwise(edges.tolist())]


# --- what is in a slice -----------------------------------------------------------------------------------------------


def slice_counts(rows: Rows, load: Load, regime: Regime) -> list[list[list[int]]]:
    """For each row, step and slot, how many rows it is compared with there."""
    found: list[list[list[int]]] = [[] for _ in range(len(rows.times))]
    ends = [*(change.at for change in regime.changes[1:]), math.inf]
    for number, (change, end) in enumerate(zip(regime.changes, ends, strict=True)):
        chosen = np.flatnonzero((rows.times >= change.at) & (rows.times < end))
        by_step = [_counts(rows, load, regime, chosen, step, number) for step in range(rows.count - 1)]
        for row, *steps in zip(chosen.tolist(), *(counts.tolist() for counts in by_step), strict=True):
            found[row] = steps
    return found


def _counts(rows: Rows, load: Load, regime: Regime, chosen: IntArray, step: int, number: int) -> IntArray:
    """Of rows that come under one change of the ring, at one step: a line for each, a column for each slot."""
    change = regime.changes[number]
    counts = np.zeros((len(chosen), change.slots), dtype=np.int64)
    probed = rows.probed(step)[chosen]
    for stream in range(rows.count):
        lines = np.flatnonzero(probed == stream)
        now, kept = rows.times[chosen[lines]], rows.of(stream)
        if regime.slices == BY_COUNT:
            counts[lines] = _by_count(_within(kept, now, 0.0, load.window), change)
        elif regime.relocation == AGGRESSIVE:
            counts[lines] = _by_time(kept, now, load.window, change.slots, -math.inf, math.inf)[:, : change.slots]
        else:
            born = [*(entry.at for entry in regime.changes[: number + 1]), math.inf]
            for former, (since, until) in zip(regime.changes, pairwise(born), strict=False):
                held = _by_time(kept, now, load.window, former.slots, since, until)
                width = min(former.slots, change.slots)
                counts[lines, :width] += held[:, :width]
                counts[lines, -1] += held[:, width:].sum(axis=1)  # of slots that are no more
    return counts


def _within(kept: FloatArray, now: FloatArray, young: float, old: float) -> IntArray:
    """Rows with an age from `young` to below `old`."""
    found: IntArray = np.searchsorted(kept, now - young, "right") - np.searchsorted(kept, now - old, "right")
    return found


def _by_time(kept: FloatArray, now: FloatArray, window: float, slots: int, since: float, until: float) -> IntArray:
    """Rows in each of so many even slices of the window, of those that came from `since` to before `until`."""
    edges = now[:, None] - np.linspace(0.0, window, slots + 1)[None, :]
    places = np.searchsorted(kept, edges.clip(since - 1e-12, until - 1e-12), "right")
    found: IntArray = places[:, :-1] - places[:, 1:]
    return found


def _by_count(held: IntArray, change: Change) -> IntArray:
    """`bound` rows for each slot from the head on, the rest for the tail."""
    bound = min(1 << 40, max(1.0, change.bound))
    bound = math.ceil(bound)
    before = bound * np.arange(change.slots)[None, :]
    rest = (held[:, None] - before).clip(0)
    rest[:, :-1] = rest[:, :-1].clip(max=bound)
    return rest


def live_rows(rows: Rows, load: Load) -> FloatArray:
    """Rows within their windows, of all streams, when each row comes."""
    alive = sum(_within(rows.of(stream), rows.times, 0.0, load.window) for stream in range(rows.count))
    return np.asarray(alive, dtype=np.float64)


# --- what happens -----------------------------------------------------------------------------------------------------


class Draws:
    """Poisson numbers of any mean, from uniform ones that are drawn many at a time."""

    def __init__(self, seed: int) -> None:
        self._source = np.random.default_rng([seed, 1])
        self._left: list[float] = []

    def matches(self, mean: float) -> int:
        if mean > MANY:
            return int(self._source.poisson(mean))
        if not self._left:
            self._left = self._source.random(DRAWS).tolist()
        drawn = self._left.pop()
        chance = math.exp(-mean)
        number = 0
        while drawn >= chance and number < 200:
            drawn -= chance
            number += 1
            chance *= mean / number
        return number


def simulate(load: Load, regime: Regime, prices: RingPrices, rows: Rows | None = None) -> Outcome:
    """Run the rows of a load through a ring."""
    rows = rows or load.rows()
    run = _Run(load, regime, prices, rows)
    run.go()
    lasted = np.maximum(run.left - rows.times, 0.0)
    settled = rows.times >= load.window
    state = live_rows(rows, load)[settled].mean() if settled.any() else 0.0
    if regime.in_flight > 1:  # rows that a slot has handed on are deleted when no row in flight can need them
        rate = settled.sum() / max(1e-9, load.seconds - load.window)
        ways = np.mean([change.slots for change in regime.changes]) - 1
        state += ways * rate * float(np.minimum(lasted[settled], load.window).mean() if settled.any() else 0.0)
    busy = tuple(worked / load.seconds for worked in run.worked)
    return Outcome(rows.times, run.results, run.waited, run.left, float(state), busy)


# When the first of some rows comes, the slot, the row, its step, how many come, slots yet to visit, when the last comes
Visit = tuple[float, int, int, int, int, int, float]


class _Run:
    """The event loop. A visit is taken up in order of arrival, so each slot's queue is in order by itself."""

    def __init__(self, load: Load, regime: Regime, prices: RingPrices, rows: Rows) -> None:
        self.load, self.regime, self.prices, self.rows = load, regime, prices, rows
        self.counts = slice_counts(rows, load, regime)
        self.slots = max(change.slots for change in regime.changes)
        self.free = [0.0] * self.slots
        self.way_free = [0.0] * self.slots
        self.worked = [0.0] * self.slots
        self.results = np.zeros(len(rows.times), dtype=np.int64)
        self.waited = np.zeros(len(rows.times))
        self.left = np.zeros(len(rows.times))
        self.draws = Draws(load.seed)
        self.at_work: dict[int, list[float]] = {}  # visits of a row to come, and when it can have left at the earliest

    def go(self) -> None:
        """Rows enter when they come and fewer than `in_flight` are on the ring."""
        waiting, pauses = self.rows.times.tolist(), self._pauses()
        visits: list[Visit] = []
        row, rows, free, gate = 0, len(waiting), self.regime.in_flight, 0.0
        while visits or row < rows:
            enters = max(waiting[row], gate) if row < rows and free else math.inf
            if visits and visits[0][0] < enters:
                visit = heappop(visits)
            else:
                while pauses and pauses[0][0] <= enters:
                    self._pause(*pauses.pop(0))
                visit = (enters, 0, row, 0, 1, len(self.counts[row][0]) - 1, enters)
                row, free = row + 1, free - 1
            if visit[1] == LEFT:
                free, gate = free + 1, visit[0]
                continue
            following = self._serve(visit)
            if self.regime.in_flight < ANY:
                following += self._leaving(visit, len(following))
            for entry in following:
                heappush(visits, entry)

    def _leaving(self, visit: Visit, following: int) -> list[Visit]:
        """That a row has left the ring, once all of it has: its last mark is back at the head then, after a round for
        each step but the first and the last.
        """
        came, slot, row, step, _, further, _ = visit
        slots = len(self.counts[row][0])
        hop = self.prices.way
        if not step and further == slots - 1:  # it has just entered
            self.at_work[row] = [1, came + max(1, self.load.streams - 2) * slots * hop]
        entry = self.at_work[row]
        entry[0] += following - 1
        entry[1] = max(entry[1], self.free[slot] + (slots - slot) % slots * hop)
        if entry[0]:
            return []
        del self.at_work[row]
        return [(entry[1], LEFT, row, 0, 0, 0, 0.0)]

    def _serve(self, visit: Visit) -> list[Visit]:
        """Work on what has come to a slot, and what goes on from there. Rows that came together go on one by one."""
        came, slot, row, step, number, further, last = visit
        prices, counts = self.prices, self.counts[row]
        slots = len(counts[0])
        began = max(came, self.free[slot])
        sending, pairs = number * prices.send, number * counts[step][slot]
        handed = began + sending
        if not step:
            handed += prices.send + prices.insert + prices.delete
        done = max(handed + pairs * prices.compare, last + (sending + pairs * prices.compare) / number)
        self.free[slot] = done
        self.worked[slot] += handed - began + pairs * prices.compare
        if done > self.left[row]:
            self.left[row] = done
        following: list[Visit] = []
        if further:
            first, end = self._sent(slot, began + prices.send, max(began + sending, last + prices.send), number)
            following.append((first, (slot + 1) % slots, row, step, number, further - 1, end))
        found = self.draws.matches(pairs * self.load.selectivity) if pairs else 0
        if found and step == len(counts) - 1:
            self.results[row] += found
            self.waited[row] += found * ((handed + done) / 2 - self.rows.times[row])
        elif found:
            first, end = self._sent(slot, handed + (done - handed) / (found + 1), done, found)
            following.append((first, (slot + 1) % slots, row, step + 1, found, slots - 1, end))
        return following

    def _sent(self, slot: int, first: float, last: float, number: int) -> tuple[float, float]:
        """When rows that a slot sends from `first` to `last` begin to be at the next one, and when all are."""
        wire, hop = self.prices.wire, self.prices.hop
        if not wire:
            return first + hop, last + hop
        first = max(first, self.way_free[slot])
        self.way_free[slot] = first + number * wire
        return first + wire + hop, max(self.way_free[slot], last + wire) + hop

    def _pauses(self) -> list[tuple[float, float]]:
        """When the ring stands still for a change, and for how long."""
        if self.regime.relocation != AGGRESSIVE:
            return []
        alive = live_rows(self.rows, self.load)
        each = max(self.prices.wire, self.prices.send + self.prices.insert + self.prices.delete)
        found = []
        for before, after in pairwise(self.regime.changes):
            if before.slots != after.slots:
                most = max(map(abs, relocate(before.slots, after.slots).moves))
                rows = alive[min(int(np.searchsorted(self.rows.times, after.at)), len(alive) - 1)]
                found.append((after.at, float(most) * rows * each + self.prices.way))
        return found

    def _pause(self, at: float, seconds: float) -> None:
        self.free = [max(free, at) + seconds for free in self.free]


def steady(slots: int) -> tuple[Change, ...]:
    """A ring that keeps its length."""
    return (Change(0.0, slots),)


def adapted(load: Load, rows: Rows, prices: RingPrices, first: int, most: int, every: float) -> tuple[Change, ...]:
    """A ring that is looked at every so many seconds: by the rates of the last half of a window the cost model says how
    long it should be, and its slices are bounded so that they are even.

    It changes its length where that is worth a pause: slots are too busy, or the response would be `GAIN` times less.
    """
    changes = [Change(0.0, first, math.inf)]
    alive = live_rows(rows, load) / rows.count
    for at in np.arange(every, load.seconds, every).tolist():
        lasted = min(at, load.window / 2)
        here, before = np.searchsorted(rows.times, (at, at - lasted))
        ring = alike(rows.count, (here - before) / lasted / rows.count, load.window, load.selectivity, prices)
        slots = changes[-1].slots
        wanted = ring_slots(ring, most)
        full = busy(ring, slots) > FULL
        if at >= load.window and wanted != slots and (full or response(ring, slots) > GAIN * response(ring, wanted)):
            slots = wanted
        changes.append(Change(at, slots, alive[max(0, here - 1)] / slots))
    return tuple(changes)
