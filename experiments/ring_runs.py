"""Runs the ring experiments. What is found is data, for `ring_claims.py` and `ring_page.py`.

On a virtual clock but for `real_runs`: a ring of this package in the local runtime, with one slot and with two, over
the same rows. There slots are threads of one process, so that what counts is the CPU of the slot that works most, as
where each slot is a machine (see `slotted.py`); seconds by the clock are those of a machine that may have other work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import watersmeet as wm
from experiments import ring
from experiments.ring import Extent
from experiments.ring_calibration import compare_seconds
from experiments.ring_images import Picture, measure
from experiments.ring_rivals import RivalOutcome, simulate_atr, simulate_ctr
from experiments.ring_simulation import (
    AGGRESSIVE,
    ANY,
    BY_COUNT,
    BY_TIME,
    PASSIVE,
    Change,
    Load,
    Outcome,
    Regime,
    Rows,
    adapted,
    simulate,
    steady,
)
from watersmeet.api import LocalQuery
from watersmeet.errors import InternalError
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.optimize.estimates import CostConstants
from watersmeet.optimize.ring_cost import RingPrices, alike, central_seconds, ring_slots

Say = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A run, or the average of several that differ by their seed."""

    slots: int
    response: float  # seconds
    state_rows: float
    busy: float  # of the busiest slot
    kept_rows: float = 0.0  # where only arrivals purge


@dataclass(frozen=True)
class Curve:
    name: str
    points: tuple[Point, ...]

    @property
    def best(self) -> Point:
        """With the least response time."""
        return min(self.points, key=lambda point: point.response)

    def at(self, slots: int) -> Point:
        return next(point for point in self.points if point.slots == slots)


@dataclass(frozen=True)
class Adaptation:
    """A run in which rates change."""

    name: str
    times: tuple[float, ...]
    responses: tuple[float, ...]
    before: float  # average response, before rates double
    during: float  # in the window after that
    after: float  # from then on
    lengths: tuple[tuple[float, int], ...]  # of the ring, from when on
    busy: float


@dataclass(frozen=True)
class RealRun:
    """A ring of this package, in the local runtime."""

    slots: int
    rows: int
    results: int
    seconds: float
    cpu_seconds: float  # of the process
    slowest_cpu: float  # of the tasks of the slot that took most, batch by batch
    all_cpu: float  # of the tasks of all slots
    most_state_rows: int
    comparisons: int  # that the windows ask for
    compare: float  # T_j of the predicate, as calibration has it


@dataclass(frozen=True)
class Findings:
    extent: Extent
    pictures: Mapping[str, Picture]
    divisor: int
    curves: Mapping[str, tuple[Curve, ...]]
    doubled: tuple[Adaptation, ...]
    bursts: tuple[Adaptation, ...]
    real: tuple[RealRun, ...]
    seconds: float

    @property
    def prices(self) -> RingPrices:
        return self.pictures["middle"].prices

    @property
    def wired(self) -> RingPrices:
        return self.pictures["middle"].wired

    @property
    def rate(self) -> float:
        """Rows a second of a stream."""
        return ring.RATE / self.divisor

    def to_json(self) -> dict[str, Any]:
        return {
            "size": asdict(self.extent),
            "prices_seconds": {name: asdict(picture.prices) for name, picture in self.pictures.items()},
            "divisor": self.divisor,
            "curves": {name: [asdict(curve) for curve in curves] for name, curves in self.curves.items()},
            "doubled": [asdict(entry) for entry in self.doubled],
            "bursts": [asdict(entry) for entry in self.bursts],
            "real": [asdict(entry) for entry in self.real],
        }


def run_all(extent: Extent, constants: CostConstants, say: Say) -> Findings:
    """Everything, in the order of the page."""
    began = time.perf_counter()
    pictures = {name: measure(name, constants) for name in extent.pictures}
    for picture in pictures.values():
        say(f"pictures, {picture.name}: {prices_text(picture.prices)}")
    runs = Runs(extent, pictures, ring.divisor(pictures["middle"].prices), say)
    curves = {
        "gigabit": runs.by_selectivity(runs.middle.wired),
        "sockets": runs.by_selectivity(runs.middle.prices),
        "streams": runs.by_streams(),
        "pictures": runs.by_picture(),
        "in flight": runs.by_rows_in_flight(),
        "atr": runs.atr(),
        "ctr": runs.ctr(),
    }
    doubled, bursts = runs.doubled(), runs.bursts()
    real = real_runs(extent.real_rows, say)
    return Findings(extent, pictures, runs.divisor, curves, doubled, bursts, real, time.perf_counter() - began)


def prices_text(prices: RingPrices) -> str:
    """
    >>> prices_text(RingPrices(compare=17e-6, send=2.2e-5, hop=6e-5))
    '17.0 us to compare a pair, 22 us to send a row, 60 us until it is there'
    """
    return (
        f"{prices.compare * 1e6:.1f} us to compare a pair, {prices.send * 1e6:.0f} us to send a row, "
        f"{prices.hop * 1e6:.0f} us until it is there"
    )


class Runs:
    """The runs on a virtual clock. Rows of a load are drawn once for all that run them."""

    def __init__(self, extent: Extent, pictures: Mapping[str, Picture], divisor: int, say: Say) -> None:
        self.extent, self.pictures, self.divisor, self.say = extent, pictures, divisor, say
        self.middle, self.rate = pictures["middle"], ring.RATE / divisor
        self._rows: dict[Load, Rows] = {}

    def by_selectivity(self, prices: RingPrices) -> tuple[Curve, ...]:
        """Figures 8(a) and (b)."""
        return tuple(
            self._curve(f"selectivity {selectivity:g}", self._loads(selectivity), prices, self.extent.lengths)
            for selectivity in ring.SELECTIVITIES
        )

    def by_streams(self) -> tuple[Curve, ...]:
        """With one partial result of a row at each step."""
        level = ring.level_selectivity(self.rate)
        return tuple(
            self._curve(f"{streams}-way", self._loads(level, streams), self.middle.wired, self.extent.some_lengths)
            for streams in self.extent.joined
        )

    def by_picture(self) -> tuple[Curve, ...]:
        loads, lengths = self._loads(ring.MIDDLE), self.extent.some_lengths
        return tuple(self._curve(picture.name, loads, picture.wired, lengths) for picture in self.pictures.values())

    def by_rows_in_flight(self) -> tuple[Curve, ...]:
        loads, lengths = self._loads(max(ring.SELECTIVITIES)), self.extent.some_lengths
        return tuple(
            self._curve(name, loads, self.middle.wired, lengths, in_flight)
            for name, in_flight in ring.IN_FLIGHT.items()
        )

    def _curve(
        self, name: str, loads: Sequence[Load], prices: RingPrices, lengths: Sequence[int], in_flight: int = ANY
    ) -> Curve:
        def point(slots: int) -> Point:
            regime = Regime(steady(slots), in_flight=in_flight)
            return _point(slots, [simulate(load, regime, prices, self.rows(load)) for load in loads])

        return self._told(Curve(name, tuple(map(point, lengths))))

    def atr(self) -> tuple[Curve, ...]:
        """Figures 8(c) and (d)."""
        load = ring.load(self.rate, ring.MIDDLE, self.extent.segment_seconds, self.extent.seeds[0])

        def curve(segment: float) -> Curve:
            outcomes = {
                slots: simulate_atr(load, slots, segment, self.middle.wired, self.rows(load))
                for slots in self.extent.lengths
            }
            return self._told(
                Curve(f"segments of {segment:g} s", tuple(_point(slots, [found]) for slots, found in outcomes.items()))
            )

        return tuple(map(curve, self.extent.segments))

    def ctr(self) -> tuple[Curve, ...]:
        """Figures 8(e) and (f)."""
        loads = self._loads(ring.MIDDLE)[:1]

        def curve(copies: int) -> Curve:
            lengths = [slots for slots in self.extent.lengths if slots >= 2 * copies]
            outcomes = {
                slots: [simulate_ctr(load, slots, copies, self.middle.wired, self.rows(load)) for load in loads]
                for slots in lengths
            }
            return self._told(
                Curve(f"{copies} copies", tuple(_point(slots, found) for slots, found in outcomes.items()))
            )

        return tuple(map(curve, self.extent.copies))

    def doubled(self) -> tuple[Adaptation, ...]:
        """Figures 8(g) and (h)."""
        load = ring.doubled(self.rate, ring.CHANGING, self.extent.adapting_seconds, self.extent.seeds[0])
        rows, prices = self.rows(load), self.middle.wired
        slots = ring_slots(alike(ring.STREAMS, self.rate, ring.WINDOW, ring.CHANGING, prices), ring.LONGEST)
        changes = adapted(load, rows, prices, slots, ring.LONGEST, ring.LOOK)
        regimes = {
            f"no adaptation, {ring.SHORTEST} slots": Regime(steady(ring.SHORTEST)),
            f"no adaptation, {slots} slots": Regime(steady(slots)),
            "adaptation, passive": Regime(changes, BY_TIME, PASSIVE),
            "adaptation, aggressive": Regime(changes, BY_TIME, AGGRESSIVE),
            "adaptation, aggressive and smoothed": Regime(changes, BY_COUNT, AGGRESSIVE),
        }
        return self._adaptations(load, regimes, load.seconds / 2)

    def bursts(self) -> tuple[Adaptation, ...]:
        """Smoothing alone: the same rates on average, in bursts, and a ring that keeps its length."""
        load = ring.bursts(self.rate, ring.CHANGING, self.extent.adapting_seconds, self.extent.seeds[0])
        changes = adapted(load, self.rows(load), self.middle.wired, ring.SHORTEST, ring.SHORTEST, ring.LOOK / 2)
        regimes = {
            "slices by time": Regime(steady(ring.SHORTEST)),
            "slices by count": Regime(changes, BY_COUNT),
        }
        return self._adaptations(load, regimes, 2 * ring.WINDOW)

    def _adaptations(self, load: Load, regimes: Mapping[str, Regime], at: float) -> tuple[Adaptation, ...]:
        found = []
        for name, regime in regimes.items():
            outcome = simulate(load, regime, self.middle.wired, self.rows(load))
            times, responses = outcome.course(ring.LOOK)
            found.append(
                Adaptation(
                    name,
                    tuple(times),
                    tuple(responses),
                    outcome.response(ring.WINDOW, at),
                    outcome.response(at, at + ring.WINDOW),
                    outcome.response(at + ring.WINDOW),
                    _lengths(regime.changes),
                    max(outcome.busy),
                )
            )
            self.say(f"{name}: {found[-1].before * 1e3:.1f} ms, then {found[-1].after * 1e3:.1f} ms")
        return tuple(found)

    def _loads(self, selectivity: float, streams: int = ring.STREAMS) -> list[Load]:
        return [ring.load(self.rate, selectivity, self.extent.seconds, seed, streams) for seed in self.extent.seeds]

    def rows(self, load: Load) -> Rows:
        if load not in self._rows:
            self._rows[load] = load.rows()
        return self._rows[load]

    def _told(self, curve: Curve) -> Curve:
        best = curve.best
        self.say(f"{curve.name}: least response {best.response * 1e3:.2f} ms with {best.slots} slots")
        return curve


def _point(slots: int, outcomes: Sequence[Outcome]) -> Point:
    """Rows of the first window do not count."""
    return Point(
        slots,
        fmean(outcome.response(ring.WINDOW) for outcome in outcomes),
        fmean(outcome.state_rows for outcome in outcomes),
        fmean(max(outcome.busy) for outcome in outcomes),
        fmean(outcome.kept_rows if isinstance(outcome, RivalOutcome) else 0.0 for outcome in outcomes),
    )


def _lengths(changes: Iterable[Change]) -> tuple[tuple[float, int], ...]:
    found: list[tuple[float, int]] = []
    for change in changes:
        if not found or found[-1][1] != change.slots:
            found.append((change.at, change.slots))
    return tuple(found)


# --- for real ---------------------------------------------------------------------------------------------------------

TEXT = """SELECT A.x AS a, B.x AS b, C.x AS c
FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS], C [RANGE 10 SECONDS]
WHERE near(A.x, B.x) AND near(B.x, C.x)"""
VALUES = 1000.0  # of x, from 0: a pair matches with a chance of 2 in 1000
REAL_RATE = 400  # rows a second of a stream, by event time
BATCH_ROWS = 400  # of a stream
PAIR_MATCHES = 2 / VALUES
VISITING = 3000  # rows that T_j is measured with: partial results of a batch, which make most of the comparisons


def near(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    """What `TEXT` compares rows by: a function, of which nothing is known."""
    close: npt.NDArray[np.bool_] = np.abs(left.to_numpy() - right.to_numpy()) < 1
    return close


def real_runs(rows: int, say: Say) -> tuple[RealRun, ...]:
    """The same rows with one slot and with two; each pair of them must be the same results."""
    tables = {name: _stream(rows, seed) for seed, name in enumerate("ABC")}
    compare = _compare_price(tables)
    found = []
    for slots in (1, 2):
        run = _real_run(tables, slots, compare)
        say(f"for real, {slots} slots: {run.results:,} results, {run.slowest_cpu:.2f} s of CPU in the slowest slot")
        found.append(run)
    if len({run.results for run in found}) != 1:
        raise InternalError(f"rings of one slot and of two differ: {[run.results for run in found]} results")
    return tuple(found)


def _stream(rows: int, seed: int) -> pa.Table:
    source = np.random.default_rng([ring.QUICK.seeds[0], seed])
    times = np.sort(source.integers(0, int(rows / REAL_RATE * 1e6), rows))
    return pa.table({"x": source.random(rows) * VALUES, "ts": times})


def _real_run(tables: Mapping[str, pa.Table], slots: int, compare: float) -> RealRun:
    events: list[Mapping[str, Any]] = []
    rates = dict.fromkeys(tables, float(REAL_RATE))
    known = {"A B": PAIR_MATCHES, "B C": PAIR_MATCHES}
    query = wm.sql(TEXT, rates=rates, selectivity=known, functions={"near": near}, **tables)
    assert isinstance(query, LocalQuery)
    began, cpu = time.perf_counter(), time.process_time()
    results = query.run(plan="(A B C)", slots=slots, batch_rows=BATCH_ROWS, report=events.append)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    batches = [event for event in events if event["event"] == "batch"]
    by_slot = [[slot["cpu_seconds"] for slot in event["slots"]] for event in batches]
    return RealRun(
        slots,
        sum(table.num_rows for table in tables.values()),
        results.num_rows,
        seconds,
        cpu,
        sum(max(each) for each in by_slot),
        sum(map(sum, by_slot)),
        max(event["state_rows"] for event in batches),
        _comparisons(tables),
        compare,
    )


def _comparisons(tables: Mapping[str, pa.Table]) -> int:
    """Pairs that the windows leave to compare, as an origin meets them: A and C go by B, B by A."""
    rows = {name: table.column("ts").to_numpy() / 1e6 for name, table in tables.items()}
    values = {name: table.column("x").to_numpy() for name, table in tables.items()}
    total = 0
    for first, second, third in (("A", "B", "C"), ("B", "A", "C"), ("C", "B", "A")):
        now = rows[first]
        low, high = (np.searchsorted(rows[second], edge, "right") for edge in (now - ring.WINDOW, now))
        held = np.searchsorted(rows[third], now, "right") - np.searchsorted(rows[third], now - ring.WINDOW, "right")
        total += int((high - low).sum())
        for row, (begin, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            met = np.count_nonzero(np.abs(values[second][begin:end] - values[first][row]) < 1)
            total += int(met) * int(held[row])
    return total


def _compare_price(tables: Mapping[str, pa.Table]) -> float:
    """T_j of the predicate of `TEXT`."""
    left, right = (tables[name].combine_chunks().to_batches()[0] for name in "AB")
    left = left.slice(max(0, left.num_rows - VISITING))
    streams = {name: Stream(name, left.schema) for name in "AB"}
    text = "SELECT A.x FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE near(A.x, B.x)"
    return compare_seconds(bind(text, streams, {"near": near}), left, right)


def expected_cpu(run: RealRun) -> float:
    """What the cost model has for the comparisons of a run."""
    return run.comparisons * run.compare


def central_load(findings: Findings, selectivity: float) -> float:
    """Cores that one slot would need for the load of a selectivity."""
    joined = alike(ring.STREAMS, findings.rate, ring.WINDOW, selectivity, findings.prices)
    return joined.rate * central_seconds(joined)
