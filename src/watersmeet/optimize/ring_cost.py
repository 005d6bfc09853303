"""What a ring of time slices costs: CPU, rows per second, latency, bandwidth and state by its length. Pure.

Equations 1 to 6 of [Wang09] for any rates, windows, selectivities and orders of probing. A row of stream i is an
*origin*; along its route it probes one stream after the other, and what it has become before a step are its *partials*
(one, itself, before the first). With n_k = rate * window rows of the stream that step k probes:

    partials(k)  = partials(k - 1) * n_k * selectivity_k
    comparisons  = sum over the steps of partials(k - 1) * n_k
    sends        = sum over the steps of partials(k - 1), for each slot of the ring
    L_C          = T_i + T_p + sum of T_j * comparisons                                (1, one slot holds all)
    L_PSP        = L_C + T_s * N * sends                                               (1, ring of N)
    rows/second  = N / L_PSP                                                           (3, 4)
    latency      = (N - 1) / 2 * T_n + max(L_PSP / N, (M - 1) * N * T_n)               (5)
                   where L_PSP is without T_i and T_p
    bandwidth    = bytes of a row / (T_j * the least n_k / N)                          (6)

All are of the average row, which is of stream i with a share of rate_i.

Departures:
1. The paper's eq. 1 charges T_j for each match. Its eq. 2 follows only if it is for each comparison, as here: then
   L_PSP = L_C (1 + T_s N / (n T_j)) holds exactly where streams are alike, but for T_i and T_p.
2. The best length for latency is the minimum of eq. 5 over whole numbers. The paper sets (N - 1)/2 * T_n = L_C/N, which
   is not where the derivative of the sum is 0: for L_C/T_n = 500 that gives 32.1, calculus 31.6.
3. Eq. 5 has M rounds along the ring; a row and its partials make M - 1, as the paper's own section 4.1 has it.
4. Eq. 3 is the rate of a ring in which one row is at work at a time and no two slots work together. Rows are
   interleaved here, so that eq. 4's N / L_PSP is what a ring sustains.
5. A ring may have another length for each stream (5.4); `latency_of` takes them one by one. All begin at the head,
   which is then the slot with most work.
6. An engine that works in batches sends a row to all slots of a step at once, not from one to the next. What a batch
   takes is `batch_seconds`: its work side by side, and for each step and slot a task. It has a best length too.

7. Eq. 5 has rows wait for nothing, and go the whole way round for each step. `response` has them wait where slots are
   busy, and go as far as a result goes on average, half of the ring for each step. `python -m experiments ring` shows
   how near both are to a simulation.

Limits: predicates are independent; slices are balanced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watersmeet.errors import JobError
from watersmeet.optimize.allocate import FULL


@dataclass(frozen=True)
class RingPrices:
    """In seconds; any may be 0."""

    compare: float  # T_j: check the predicates of a step on a pair of rows; a step may have a price of its own
    send: float  # T_s: CPU to hand a row on to another slot and to take it there
    hop: float = 0.0  # T_n: until a row that was sent is there, however many go together
    wire: float = 0.0  # of T_n, what each row takes up of the way between two slots: others wait for it
    insert: float = 0.0  # T_i
    delete: float = 0.0  # T_p
    task: float = 0.0  # one task of a batch, however few its rows

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _check_number(f'price "{name}"', value)

    @property
    def way(self) -> float:
        """T_n of a row that goes alone."""
        return self.hop + self.wire


@dataclass(frozen=True)
class RingStream:
    rate: float  # rows per second
    window: float  # seconds

    def __post_init__(self) -> None:
        _check_number("rate", self.rate)
        _check_number("window", self.window)

    @property
    def rows(self) -> float:
        """That the window holds."""
        return self.rate * self.window


@dataclass(frozen=True)
class Probe:
    """A step of a route. `compare` is the price of its predicates, where that is not the one of all."""

    stream: int
    selectivity: float
    compare: float | None = None

    def __post_init__(self) -> None:
        _check_number("selectivity", self.selectivity)


Route = tuple[Probe, ...]


@dataclass(frozen=True)
class Ring:
    """Streams that a ring joins. `routes` has, for each of them, the steps of its rows: every other stream once."""

    streams: tuple[RingStream, ...]
    routes: tuple[Route, ...]
    prices: RingPrices

    def __post_init__(self) -> None:
        places = set(range(len(self.streams)))
        assert len(places) >= 2, "a ring joins two streams or more"
        assert len(self.routes) == len(places), "one route for each stream"
        for origin, route in enumerate(self.routes):
            assert sorted(step.stream for step in route) == sorted(places - {origin}), "every other stream once"

    @property
    def rate(self) -> float:
        """Rows per second of all streams."""
        return math.fsum(stream.rate for stream in self.streams)


def alike(streams: int, rate: float, window: float, selectivity: float, prices: RingPrices) -> Ring:
    """A ring of streams that do not differ, as most of the paper's are; each row probes the streams after its own.

    >>> ring = alike(3, 50, 10, 0.1, RingPrices(compare=1e-6, send=1e-5))
    >>> ring.routes[1]
    (Probe(stream=2, selectivity=0.1, compare=None), Probe(stream=0, selectivity=0.1, compare=None))
    """
    routes = tuple(
        tuple(Probe((origin + step) % streams, selectivity) for step in range(1, streams)) for origin in range(streams)
    )
    return Ring((RingStream(rate, window),) * streams, routes, prices)


# --- what one row comes to --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """What a row of one stream comes to along its route, step by step."""

    partials: tuple[float, ...]  # rows before each step, and the results after the last
    compared: tuple[float, ...]  # pairs at each step
    compare_seconds: tuple[float, ...]  # for these

    @property
    def comparisons(self) -> float:
        return math.fsum(self.compared)

    @property
    def sends(self) -> float:
        """Rows that every slot of the ring gets."""
        return math.fsum(self.partials[:-1])

    @property
    def results(self) -> float:
        return self.partials[-1]


def course(ring: Ring, origin: int) -> Course:
    """The paper's example, 500 rows in each window and a selectivity of .1:

    >>> found = course(alike(3, 50, 10, 0.1, RingPrices(compare=1e-6, send=1e-5)), 0)
    >>> found.comparisons, found.sends, found.results
    (25500.0, 51.0, 2500.0)
    """
    partials, compared, seconds = [1.0], [], []
    for step in ring.routes[origin]:
        pairs = partials[-1] * ring.streams[step.stream].rows
        compared.append(pairs)
        seconds.append(pairs * (ring.prices.compare if step.compare is None else step.compare))
        partials.append(pairs * step.selectivity)
    return Course(tuple(partials), tuple(compared), tuple(seconds))


def _average(ring: Ring, value: Callable[[int], float]) -> float:
    """Of the rows of all streams."""
    if not ring.rate:
        return math.fsum(map(value, range(len(ring.streams)))) / len(ring.streams)
    return math.fsum(stream.rate * value(origin) for origin, stream in enumerate(ring.streams)) / ring.rate


def comparisons(ring: Ring) -> float:
    """For the average row."""
    return _average(ring, lambda origin: course(ring, origin).comparisons)


def sends(ring: Ring) -> float:
    """Rows that every slot gets for the average row."""
    return _average(ring, lambda origin: course(ring, origin).sends)


def results(ring: Ring) -> float:
    """Of the average row."""
    return _average(ring, lambda origin: course(ring, origin).results)


# --- a ring of N slots ------------------------------------------------------------------------------------------------


def central_seconds(ring: Ring) -> float:
    """L_C: the CPU of the average row where one slot holds everything (eq. 1).

    >>> central_seconds(alike(3, 50, 10, 0.1, RingPrices(compare=1e-6, send=1e-5)))
    0.0255
    """
    upkeep = ring.prices.insert + ring.prices.delete
    return upkeep + _average(ring, lambda origin: math.fsum(course(ring, origin).compare_seconds))


def ring_seconds(ring: Ring, slots: int) -> float:
    """L_PSP: the CPU of the average row in all slots together (eq. 1).

    >>> round(ring_seconds(alike(3, 50, 10, 0.1, RingPrices(compare=1e-6, send=1e-5)), 10), 5)
    0.0306
    """
    return central_seconds(ring) + ring.prices.send * slots * sends(ring)


def service_rate(ring: Ring, slots: int) -> float:
    """Rows per second of all streams that a ring sustains with every slot busy (eq. 3, 4); infinity if all is free."""
    seconds = ring_seconds(ring, slots)
    return slots / seconds if seconds else math.inf


def busy(ring: Ring, slots: int) -> float:
    """What a slot does of what it can, where rows come at their rates."""
    return ring.rate * ring_seconds(ring, slots) / slots


def latency(ring: Ring, slots: int) -> float:
    """Seconds from a row to its average result, where nothing waits in a queue (eq. 5)."""
    return latency_of(ring, (slots,) * len(ring.streams))


def latency_of(ring: Ring, lengths: Sequence[int]) -> float:
    """The same, where the slices of each stream lie in so many slots, the first of the ring.

    >>> ring = alike(3, 50, 10, 0.1, RingPrices(compare=1e-6, send=1e-5, hop=1e-4))
    >>> latency_of(ring, (8, 8, 8)) == latency(ring, 8) < latency_of(ring, (8, 8, 1))
    True
    """
    return _average(ring, lambda origin: _latency_from(ring, origin, lengths))


def _latency_from(ring: Ring, origin: int, lengths: Sequence[int]) -> float:
    prices, route, taken = ring.prices, ring.routes[origin], course(ring, origin)
    passed = [lengths[step.stream] for step in route]  # slots, by step
    shares = [seconds / slots for seconds, slots in zip(taken.compare_seconds, passed, strict=True)]
    work = math.fsum(shares) + prices.send * taken.sends
    return (passed[-1] - 1) / 2 * prices.way + max(work, sum(passed) * prices.way)


def response(ring: Ring, slots: int) -> float:
    """Seconds from a row to its average result, with all that it waits for; infinity if slots or ways are too busy.

    The row or a partial takes a send and a hop for each slot that it passes, and its own comparisons at each step. Of
    the partials that a row has become, half are before it on the average, once: they pass the slots one behind the
    other. What other rows have in a slot is that of a queue with one server (Pollaczek and Khinchine), for which work
    comes in single visits, at every slot anew, and in what a row brings there in all.

    >>> ring = alike(2, 50, 10, 0.0, RingPrices(compare=1e-6, send=0.0))
    >>> round(response(ring, 1) * 1e3, 4)  # 0.5 ms, and 5 % of the time half of that to wait, twice
    0.5263
    """
    load, taken = busy(ring, slots), ring.rate * sends(ring) * ring.prices.wire
    if load >= 1.0 or taken >= 1.0:
        return math.inf
    return _average(ring, lambda origin: _response_from(ring, origin, slots, load / (1 - load), taken / (1 - taken)))


def _response_from(ring: Ring, origin: int, slots: int, waiting: float, way_waiting: float) -> float:
    prices, steps = ring.prices, len(ring.streams) - 1
    partials, visits = course(ring, origin).partials[:-1], _visits(ring, origin, slots)
    passed = (slots - 1) / 2 + (steps - 1) * (slots + 1) / 2  # slots on the way of the average result, but the last
    each = list(zip(partials, visits, strict=True))
    before = math.fsum(number / 2 * max(visit, prices.wire) for number, visit in each[1:])
    brought = math.fsum(number * visit for number, visit in each)
    squares = math.fsum(number * visit**2 for number, visit in each)
    single = squares / brought / 2 if brought else 0.0
    return (
        passed * (prices.way + prices.send)
        + math.fsum(visits)
        + before
        + waiting * ((passed + 1) * single + brought / 2)
        + way_waiting * sum(partials) * prices.wire / 2
    )


def _visits(ring: Ring, origin: int, slots: int) -> list[float]:
    """How long a slot has to do with one row, by step."""
    prices = ring.prices
    prices_of = [prices.compare if step.compare is None else step.compare for step in ring.routes[origin]]
    rows = [ring.streams[step.stream].rows / slots for step in ring.routes[origin]]
    return [prices.send + count * price for count, price in zip(rows, prices_of, strict=True)]


def batch_seconds(ring: Ring, slots: int, rows: float) -> float:
    """What a batch of so many rows takes where a step is an exchange with one task for each slot.

    >>> ring = alike(3, 50, 10, 0.1, RingPrices(compare=1e-6, send=0.0, task=1e-3))
    >>> round(batch_seconds(ring, 4, 100), 4)  # 2.55 s of comparisons, and 2 exchanges of 4 tasks
    0.6455
    """
    steps = len(ring.streams) - 1
    return rows * ring_seconds(ring, slots) / slots + steps * slots * ring.prices.task


def bandwidth(ring: Ring, slots: int, row_bytes: float) -> float:
    """Bytes per second with which the way to the next slot is no slower than the slot itself (eq. 6).

    >>> ring = alike(3, 50, 10, 0.1, RingPrices(compare=1e-5, send=0.0))
    >>> round(bandwidth(ring, 10, 30_000))  # a row every half millisecond: 10 us for each of 50
    60000000
    """
    seconds = min(
        (ring.prices.compare if step.compare is None else step.compare) * ring.streams[step.stream].rows / slots
        for route in ring.routes
        for step in route
    )
    return row_bytes / seconds if seconds else math.inf


def state_rows(ring: Ring) -> float:
    """Rows that the ring holds, whatever its length: each once."""
    return math.fsum(stream.rows for stream in ring.streams)


# --- how long it should be --------------------------------------------------------------------------------------------


def best_for_rate(ring: Ring, most: int) -> int:
    """The length that sustains most rows per second. More slots always do, though each adds less than the one before:
    so all of them, unless rows cost nothing but their sends.
    """
    return min(range(1, most + 1), key=lambda slots: (-service_rate(ring, slots), slots))


def best_for_latency(ring: Ring, most: int, seconds: Callable[[Ring, int], float] = latency) -> int:
    """The length with the least latency, or with the least of another measure; the shorter of equals.

    >>> prices = RingPrices(compare=1e-6, send=0.0, hop=1e-6)
    >>> best_for_latency(alike(2, 50, 10, 0.1, prices), 100)
    22
    """
    _check_slots(most)
    return min(range(1, most + 1), key=lambda slots: (seconds(ring, slots), slots))


def ring_slots(ring: Ring, most: int, seconds: Callable[[Ring, int], float] = response) -> int:
    """How many slots a ring should have: of those lengths that keep up, with room for a slot to be late, the one with
    the least response time; where none does, the one that sustains most.

    >>> light = alike(3, 50, 10, 0.001, RingPrices(compare=1e-8, send=1e-6, hop=1e-4))
    >>> heavy = alike(3, 50, 10, 0.1, RingPrices(compare=1e-6, send=1e-6, hop=1e-4))
    >>> ring_slots(light, 16), ring_slots(heavy, 16), ring_slots(heavy, 4)
    (1, 16, 4)
    """
    _check_slots(most)
    enough = [slots for slots in range(1, most + 1) if busy(ring, slots) <= FULL]
    if not enough:
        return best_for_rate(ring, most)
    return min(enough, key=lambda slots: (seconds(ring, slots), slots))


def initial_lengths(ring: Ring, most: int) -> tuple[int, ...]:
    """For each stream, over how many slots its slices lie at the start, by the paper's heuristic (5.4).

    Streams are taken by how many partials a row of others becomes at them, the least first. Each gets the length that
    is best with those that are known; those that are not are taken to be as long.

    >>> prices = RingPrices(compare=1e-6, send=1e-6, hop=1e-4)
    >>> initial_lengths(alike(3, 50, 10, 0.1, prices), 16)
    (11, 11, 12)
    """
    _check_slots(most)
    known: dict[int, int] = {}

    def lengths(other: int) -> tuple[int, ...]:
        return tuple(known.get(stream, other) for stream in range(len(ring.streams)))

    for stream in sorted(range(len(ring.streams)), key=lambda stream: (_weight(ring, stream), stream)):
        known[stream] = min(range(1, most + 1), key=lambda slots: (latency_of(ring, lengths(slots)), slots))
    return lengths(most)


def _weight(ring: Ring, stream: int) -> float:
    """Rows of a stream times the average selectivity of the steps that probe it."""
    probed = [step.selectivity for route in ring.routes for step in route if step.stream == stream]
    return ring.streams[stream].rows * math.fsum(probed) / len(probed)


# --- where a result passes --------------------------------------------------------------------------------------------


def hops(places: Sequence[int], slots: int) -> int:
    """From slot to slot until the result is there whose rows lie at `places` (0 is the head), in the order of probing.

    A partial result goes on from the slot that made it once round the ring, and last to that slot itself.

    >>> hops((2, 1, 3), 4), hops((0,), 4), hops((0, 0), 4)
    (7, 0, 4)
    """
    at, passed = -1, 0
    for place in places:
        passed += (place - at - 1) % slots + 1
        at = place
    return passed - 1


def _check_number(what: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise JobError(f"{what} must be a number from 0 up", detail=f"It is {value!r}.")


def _check_slots(most: int) -> None:
    if most < 1:
        raise JobError(f"{most} slots cannot form a ring", detail="It has at least one.")
