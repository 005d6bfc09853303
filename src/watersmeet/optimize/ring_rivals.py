"""What the rivals of a ring cost: aligned and coordinated tuple routing (ATR, CTR). Pure.

Both are those of Gu, Yu and Wang (ICDE 2007) as [Wang09], section 7 and 8, describes them; we have not read the former.

*Aligned*: one stream, the master, is cut into segments of T seconds, which go to one slot after the other. A row of
another stream, a slave, is copied to every slot with a segment that its windows reach: those of masters at most
w_master older or w_slave younger, so 1 + (w_slave + w_master) / T of them on average. All work on a row is done where
its segment is.

*Coordinated*: segments of all streams are stored in several slots each (`copies`). A row, and then its partials, go to
a
*cover*: slots that have between them every segment that is to be probed. The more copies, the fewer slots in a
cover, and the more state.

Limits: as in `ring_cost.py`; one slot is taken to keep its segment until its windows have passed, and no longer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from watersmeet.errors import JobError
from watersmeet.optimize.ring_cost import Ring, central_seconds, course, sends, state_rows

# --- aligned ----------------------------------------------------------------------------------------------------------


def atr_copies(slave_window: float, master_window: float, segment: float) -> float:
    """Slots that hold a row of a slave, on average.

    >>> atr_copies(10, 10, 10), atr_copies(10, 10, 50)
    (3.0, 1.4)
    """
    if segment <= 0:
        raise JobError(f"segments of {segment:g} seconds cannot be", detail="They last for more than 0.")
    return 1 + (slave_window + master_window) / segment


def _copies(ring: Ring, master: int, segment: float) -> list[float]:
    """Of a row of each stream."""
    return [
        1.0 if place == master else atr_copies(stream.window, ring.streams[master].window, segment)
        for place, stream in enumerate(ring.streams)
    ]


def atr_state_rows(ring: Ring, master: int, segment: float) -> float:
    """Rows that all slots hold together."""
    copies = _copies(ring, master, segment)
    return math.fsum(stream.rows * number for stream, number in zip(ring.streams, copies, strict=True))


def atr_master(ring: Ring, segment: float) -> int:
    """The stream to cut: the one with which the others' copies are fewest; the first of equals."""
    return min(range(len(ring.streams)), key=lambda place: (atr_state_rows(ring, place, segment), place))


def atr_seconds(ring: Ring, master: int, segment: float) -> float:
    """The CPU of the average row over all slots.

    A copy is sent and kept like a row. What a slave probes before the master is probed by every copy; from there on
    each pair is compared in one slot, since each master is in one.
    """
    prices, copies = ring.prices, _copies(ring, master, segment)
    total = 0.0
    for origin, stream in enumerate(ring.streams):
        seconds = course(ring, origin).compare_seconds
        order = [step.stream for step in ring.routes[origin]]
        alone = 0 if origin == master else order.index(master)  # steps before the master
        each = prices.send + prices.insert + prices.delete
        total += stream.rate * (copies[origin] * (each + math.fsum(seconds[:alone])) + math.fsum(seconds[alone:]))
    return total / ring.rate if ring.rate else 0.0


def atr_latency(ring: Ring, master: int, segment: float) -> float:
    """Seconds from a row to its average result, with slots enough that each is done with a segment before its next.

    A slot is probed by all rows while its segment is the newest, and by fewer at both ends of it, for as long as a
    window. Where all of them are more than one slot can do, they wait, the longer the segments are. More slots do not
    change it.
    """
    seconds = atr_seconds(ring, master, segment)
    load = ring.rate * seconds
    late = (load - 1.0) * max(0.0, segment - ring.streams[master].window / load) if load > 1.0 else 0.0
    return ring.prices.hop + seconds + late / 2


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


def ctr_cover_slots(slots: int, copies: int, segments: int) -> int:
    """Slots in a cover of so many segments in a row.

    >>> ctr_cover_slots(18, 2, 11), ctr_cover_slots(18, 9, 11), ctr_cover_slots(100, 2, 11)
    (9, 2, 11)
    """
    return len(cover([ctr_holders(segment, slots, copies) for segment in range(segments)], {}))


def ctr_state_rows(ring: Ring, copies: int) -> float:
    """Rows that all slots hold together."""
    return copies * state_rows(ring)


def ctr_seconds(ring: Ring, slots: int, copies: int, segments: int) -> float:
    """The CPU of the average row over all slots: pairs are compared once, rows and partials go to a cover."""
    prices = ring.prices
    kept = copies * (prices.send + prices.insert + prices.delete)
    compared = central_seconds(ring) - prices.insert - prices.delete
    return kept + compared + prices.send * ctr_cover_slots(slots, copies, segments) * sends(ring)


def ctr_latency(ring: Ring, slots: int, copies: int, segments: int) -> float:
    """Seconds from a row to its average result, where nothing waits in a queue: one hop for each step."""
    steps = len(ring.streams) - 1
    return steps * ring.prices.hop + ctr_seconds(ring, slots, copies, segments) / ctr_cover_slots(
        slots, copies, segments
    )
