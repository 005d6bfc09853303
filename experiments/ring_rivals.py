"""The rivals of the ring on the same virtual clock: aligned and coordinated tuple routing (ATR, CTR), with the same
rows.

As [Wang09] built them, sections 7 and 8.1: a node of its own deals rows out, at no cost but the hop; slots serve what
comes in order of arrival, at the prices of `ring_simulation.py`.

*ATR*: segments of the first stream go to one slot after the other, with all rows of other streams that may join them. A
row is worked on at once, where it comes to: first against the master stream, so that no pair is compared twice. Since
no slot waits for another, all rows are worked out at once, slot by slot.

*CTR*: segments of `SEGMENT` seconds of all streams are stored in `copies` slots each. A row goes to a cover of its
window, and its partial results to a cover of theirs; covers are greedy, of equal slots the one with less work so far.
Rows of a segment wait until those of the one before are done ("no interleaved processing of multiple input segments").

State is counted in two ways: rows that have not expired (`state_rows`), and rows that are still there if a slot takes
out expired ones only when another row comes to it (`kept_rows`), as a join that purges by what it probes with does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from experiments.ring_simulation import Draws, FloatArray, IntArray, Load, Outcome, Rows
from watersmeet.errors import JobError
from watersmeet.optimize.ring_cost import RingPrices

SEGMENT = 1.0  # seconds of a segment of CTR; the paper has no figure for it
SAMPLES = 200  # moments at which state is counted


@dataclass(frozen=True)
class RivalOutcome(Outcome):
    kept_rows: float


# --- aligned ----------------------------------------------------------------------------------------------------------


def atr_copies(slave_window: float, master_window: float, segment: float) -> float:
    """Slots that hold a row of a slave, on average.

    >>> atr_copies(10, 10, 10), atr_copies(10, 10, 50)
    (3.0, 1.4)
    """
    if segment <= 0:
        raise JobError(f"segments of {segment:g} seconds cannot be", detail="They last for more than 0.")
    return 1 + (slave_window + master_window) / segment


def simulate_atr(load: Load, slots: int, segment: float, prices: RingPrices, rows: Rows) -> RivalOutcome:
    """Segments of the first stream over the slots, the others' rows copied."""
    row, number = _copies(load, segment, rows)
    slot = number % slots
    pairs, results = _joined(load, segment, rows, row, number)
    upkeep = prices.send + prices.insert + prices.delete
    service = upkeep + pairs * prices.compare
    came = rows.times[row] + prices.way
    done = np.empty(len(row))
    worked = []
    for place in range(slots):
        here = np.flatnonzero(slot == place)  # in order of arrival
        done[here] = _in_turn(came[here], service[here])
        worked.append(float(service[here].sum() / load.seconds))
    found, waited, left = (np.zeros(len(rows.times)) for _ in range(3))
    np.add.at(found, row, results)
    np.add.at(waited, row, results * (done - pairs * prices.compare / 2 - rows.times[row]))
    np.maximum.at(left, row, done)
    state, kept = _held(load, slots, slot, rows.times[row])
    return RivalOutcome(rows.times, found.astype(np.int64), waited, left, state, tuple(worked), kept)


def _copies(load: Load, segment: float, rows: Rows) -> tuple[IntArray, IntArray]:
    """Every row that is sent, and the segment that it is sent for, in order of arrival."""
    at = rows.times
    slave = rows.streams != 0
    first = np.floor((at - load.window * slave) / segment).astype(np.int64).clip(0)
    last = np.floor((at + load.window * slave) / segment).astype(np.int64)
    times = last - first + 1
    row = np.repeat(np.arange(len(at)), times)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times) + first[row]


def _joined(load: Load, segment: float, rows: Rows, row: IntArray, number: IntArray) -> tuple[FloatArray, FloatArray]:
    """Pairs that each copy compares in its slot, and its results: against the master first, then stream by stream."""
    source = np.random.default_rng([load.seed, 2])
    at, origin = rows.times[row], rows.streams[row]
    begin, end = number * segment, (number + 1) * segment
    pairs, partials = np.zeros(len(row)), np.ones(len(row))
    for stream in range(rows.count):
        kept, reach = rows.of(stream), 0.0 if stream == 0 else load.window
        until = np.searchsorted(kept, np.minimum(at, np.nextafter(end + reach, 0)), "right")
        since = np.searchsorted(kept, np.maximum(at - load.window, begin - reach), "right")
        held = (until - since).clip(0) * (origin != stream)
        compared = partials * held
        pairs += compared
        matched = source.poisson(compared * load.selectivity).astype(np.float64)
        partials = np.where(origin == stream, partials, matched)
    return pairs, partials


def _in_turn(came: FloatArray, service: FloatArray) -> FloatArray:
    """When a slot is done with each, one after the other.

    >>> _in_turn(np.array([0.0, 1.0, 5.0]), np.array([2.0, 2.0, 1.0])).tolist()
    [2.0, 4.0, 6.0]
    """
    total = np.cumsum(service)
    done: FloatArray = total + np.maximum.accumulate(came - (total - service)) if len(came) else total
    return done


def _held(load: Load, slots: int, slot: IntArray, at: FloatArray) -> tuple[float, float]:
    """Rows that have not expired, and those that are still there where only arrivals purge; averages over time."""
    moments = np.linspace(load.window, load.seconds, SAMPLES)
    alive = kept = 0.0
    for place in range(slots):
        here = at[slot == place]
        alive += _after(here, moments, load.window).mean()
        newest = np.searchsorted(here, moments, "right")
        last = np.where(newest > 0, here[np.maximum(newest - 1, 0)], 0.0) if len(here) else np.zeros(SAMPLES)
        kept += _after(here, last, load.window).mean()
    return float(alive), float(kept)


def _after(here: FloatArray, moments: FloatArray, window: float) -> IntArray:
    found: IntArray = np.searchsorted(here, moments, "right") - np.searchsorted(here, moments - window, "right")
    return found


# --- coordinated ------------------------------------------------------------------------------------------------------


def cover(holders: Sequence[Sequence[int]], loads: Mapping[int, float]) -> dict[int, tuple[int, ...]]:
    """Slots that between them hold all segments, and which segments each is to serve; none is served twice.

    `holders` has the slots of each segment. Greedy: the slot with most segments that no other serves yet, of equals the
    one with the least load. Within 1 + ln(segments) of the fewest.

    >>> cover([(0, 1), (1, 2), (2, 3)], {})
    {1: (0, 1), 2: (2,)}
    >>> cover([(0, 1), (0, 1)], {0: 2.0, 1: 1.0})
    {1: (0, 1)}
    """
    left = dict(enumerate(map(frozenset, holders)))
    chosen: dict[int, tuple[int, ...]] = {}
    while left:
        counts: dict[int, int] = {}
        for slots in left.values():
            for slot in slots:
                counts[slot] = counts.get(slot, 0) + 1
        assert counts, "a segment is in some slot"
        best = min(counts, key=lambda slot: (-counts[slot], loads.get(slot, 0.0), slot))
        chosen[best] = tuple(number for number, slots in left.items() if best in slots)
        for number in chosen[best]:
            del left[number]
    return chosen


def ctr_holders(segment: int, slots: int, copies: int) -> tuple[int, ...]:
    """Slots that get a segment: `copies` of them, next to those of the segment before.

    >>> [ctr_holders(segment, 5, 2) for segment in range(3)]
    [(0, 1), (2, 3), (4, 0)]
    """
    if not 1 <= copies <= slots:
        raise JobError(
            f"{copies} copies cannot be in {slots} slots", detail="There is at least one, and a slot for each."
        )
    return tuple((segment * copies + number) % slots for number in range(copies))


Visit = tuple[float, int, int, int, int]  # arrival, slot, row, step, rows that come together
STORE = -1  # in the place of a step: a row is kept


def simulate_ctr(load: Load, slots: int, copies: int, prices: RingPrices, rows: Rows) -> RivalOutcome:
    """Segments of all streams in `copies` slots each, covers for every step."""
    run = _Coordinated(load, slots, copies, prices, rows)
    run.go()
    lines = np.arange(len(rows.times))
    number = np.floor(rows.times / SEGMENT).astype(np.int64)
    holders = np.array([ctr_holders(segment, slots, copies) for segment in range(int(load.seconds / SEGMENT) + 1)])
    slot, at = holders[number].ravel(), np.repeat(rows.times[lines], copies)
    state, kept = _held(load, slots, slot, at)
    busy = tuple(seconds / load.seconds for seconds in run.worked)
    return RivalOutcome(rows.times, run.results, run.waited, run.left, state, busy, kept)


class _Coordinated:
    """The event loop; a segment of rows begins when the one before is done."""

    def __init__(self, load: Load, slots: int, copies: int, prices: RingPrices, rows: Rows) -> None:
        self.load, self.slots, self.copies, self.prices, self.rows = load, slots, copies, prices, rows
        self.free, self.worked = [0.0] * slots, [0.0] * slots
        self.results = np.zeros(len(rows.times), dtype=np.int64)
        self.waited, self.left = np.zeros(len(rows.times)), np.zeros(len(rows.times))
        self.draws = Draws(load.seed)
        self.kept = [rows.of(stream) for stream in range(rows.count)]

    def go(self) -> None:
        segments = np.floor(self.rows.times / SEGMENT).astype(np.int64)
        gate = 0.0
        for segment in range(int(segments.max(initial=0)) + 1):
            gate = self._segment(segment, np.flatnonzero(segments == segment).tolist(), gate)

    def _segment(self, segment: int, rows: list[int], gate: float) -> float:
        """All rows of a segment; when the last of it was done."""
        first = max(0, math.floor((segment * SEGMENT - self.load.window) / SEGMENT))
        window = list(range(first, segment + 1))
        holders = [ctr_holders(entry, self.slots, self.copies) for entry in window]
        chosen = cover(holders, dict(enumerate(self.worked)))
        self.serves = {slot: [window[place] for place in places] for slot, places in chosen.items()}
        visits: list[Visit] = []
        for row in rows:
            at = max(gate, float(self.rows.times[row])) + self.prices.way
            for slot in holders[-1]:
                heappush(visits, (at, slot, row, STORE, 1))
            for slot in self.serves:
                heappush(visits, (at, slot, row, 0, 1))
        while visits:
            visit = heappop(visits)
            for following in self._serve(visit):
                heappush(visits, following)
        return max([gate, *(float(self.left[row]) for row in rows)])

    def _serve(self, visit: Visit) -> list[Visit]:
        came, slot, row, step, number = visit
        prices = self.prices
        began = max(came, self.free[slot])
        done = began + number * prices.send
        pairs = 0
        if step == STORE:
            done += prices.insert + prices.delete
        else:
            pairs = number * self._held(slot, row, step)
            done += pairs * prices.compare
        self.free[slot] = done
        self.worked[slot] += done - began
        self.left[row] = max(self.left[row], done)
        found = self.draws.matches(pairs * self.load.selectivity) if pairs else 0
        if found and step == self.rows.count - 2:
            self.results[row] += found
            self.waited[row] += found * (done - pairs * prices.compare / 2 - self.rows.times[row])
            return []
        if found:
            away = prices.hop + found * prices.wire
            return [(done + away * (to != slot), to, row, step + 1, found) for to in self.serves]
        return []

    def _held(self, slot: int, row: int, step: int) -> int:
        """Rows of the next stream in the segments that a slot serves, within the window of the row."""
        at = float(self.rows.times[row])
        kept = self.kept[(int(self.rows.streams[row]) + step + 1) % self.rows.count]
        edges = [
            (max(at - self.load.window, entry * SEGMENT), min(at, np.nextafter((entry + 1) * SEGMENT, 0)))
            for entry in self.serves[slot]
        ]
        places = kept.searchsorted(np.array(edges), "right")
        return int((places[:, 1] - places[:, 0]).clip(0).sum())
