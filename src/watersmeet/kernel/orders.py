"""Rows that are met, put in an order in which each visiting row meets one stretch of them.

There is an order for event time, where windows limit who meets whom, and one for each value of which there are bands
(`bands.py`): those of one value have one order, and a row meets the stretch that all of them leave, as of the two that
`B.x BETWEEN A.x - 1 AND A.x + 1` is. Of these orders the one is used that leaves the fewest candidates, by a sample;
none, where it would save less than it costs to sort.

Invariant: every pair that is in time and satisfies all bands is proposed, once. Rows whose value has no order (NaN,
infinities) stand apart, behind the others, and are proposed to everybody; those with NULL to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from watersmeet.kernel.bands import Band, FloatArray
from watersmeet.kernel.combine import Bench, Partial
from watersmeet.kernel.indexed import BoolArray
from watersmeet.kernel.rows import Int64Array
from watersmeet.kernel.window import LONG_AGO, Lifetimes
from watersmeet.model.expressions import Expr
from watersmeet.plan.physical import State

# Candidates that take as long as to sort a row does: with m visiting rows, an order pays where it spares each of the
# rows met so many of its m candidates. Tuned with `benchmarks.scan`, on 30,000 and 50,000 rows met and a comparison of
# numbers: even at some 4 (8 visiting rows and half of the pairs, or 4 and a hundredth); with a predicate over vectors,
# at 2. Where nine tenths of the pairs are left, it neither pays nor costs from 64 visiting rows on.
SORT_CANDIDATES = 5
# Rows of either side that are looked at to tell how many candidates an order leaves.
SAMPLE_ROWS = 256

Numbers = Int64Array | FloatArray


@dataclass(frozen=True)
class Stretch:
    """For each visiting row, which rows it meets: `rows[begin : begin + count]`, or as they lie where that is None."""

    rows: Int64Array | None
    begins: Int64Array
    counts: Int64Array


@dataclass(frozen=True)
class Proposal:
    """The candidates, as stretches that have no pair in common. `in_time`: none of them fails a window."""

    stretches: tuple[Stretch, ...]
    in_time: bool

    @property
    def candidates(self) -> int:
        return sum(int(each.counts.sum()) for each in self.stretches)


@dataclass(frozen=True)
class Range:
    """For each visiting row, from where to where the values of rows are that it can meet; both ends are included."""

    low: Numbers
    high: Numbers
    nobody: BoolArray | None = None  # the rows that can meet none, whatever its value


@dataclass(frozen=True)
class Values:
    """What rows that are met are put in order by; those `apart` have no place in it, those that are `null` no value."""

    numbers: Numbers
    apart: BoolArray | None = None
    null: BoolArray | None = None

    def share(self, reach: Range) -> float:
        """Of the pairs with rows that reach so far, about how many are candidates."""
        rows, visitors = _sample(len(self.numbers)), _sample(len(reach.low))
        some = Values(
            self.numbers[rows],
            None if self.apart is None else self.apart[rows],
            None if self.null is None else self.null[rows],
        )
        nobody = None if reach.nobody is None else reach.nobody[visitors]
        found = some.ordered().between(Range(reach.low[visitors], reach.high[visitors], nobody))
        return sum(int(each.counts.sum()) for each in found) / max(1, len(rows) * len(visitors))

    def ordered(self) -> Order:
        if self.apart is None and self.null is None:
            # Stable, which merges runs that are in order already: rows of a slice of time are.
            order = np.argsort(self.numbers, kind="stable")
            return Order(order, self.numbers[order])
        out = np.zeros(len(self.numbers), dtype=bool)
        apart = out if self.apart is None else self.apart
        some = np.flatnonzero(~(apart | (out if self.null is None else self.null)))
        order = some[np.argsort(self.numbers[some], kind="stable")]
        return Order(np.concatenate([order, np.flatnonzero(apart)]), self.numbers[order])


def _sample(count: int) -> Int64Array:
    return np.arange(0, count, max(1, count // SAMPLE_ROWS))


@dataclass(frozen=True)
class Order:
    """Rows in the order of their numbers, and behind them those that stand apart."""

    rows: Int64Array
    numbers: Numbers

    def between(self, reach: Range) -> tuple[Stretch, ...]:
        begins = np.searchsorted(self.numbers, reach.low, side="left")
        ends = np.searchsorted(self.numbers, reach.high, side="right")
        ordered = Stretch(self.rows, begins, np.maximum(0, ends - begins))
        if not (apart := len(self.rows) - len(self.numbers)):
            return (ordered,)
        counts = np.full(len(begins), apart)
        if reach.nobody is not None:
            counts[reach.nobody] = 0
        return ordered, Stretch(self.rows, np.full(len(begins), len(self.numbers)), counts)


@dataclass
class Visitors:
    """Visiting rows, and how far each of them reaches in every order. What was worked out is kept."""

    bench: Bench
    start: Partial
    ranges: dict[tuple[Band, ...], Range | None] = field(default_factory=dict)

    def reach(self, bands: tuple[Band, ...]) -> Range | None:
        """In the order of the value of some bands, how far rows reach by all of them; None where no band tells."""
        if bands not in self.ranges:
            found = [bounds for band in bands if (bounds := band.bounds(self.bench.rows)) is not None]
            own = self.start.rows[0]
            if found:
                low = np.max([bounds.low for bounds in found], axis=0)[own]
                high = np.min([bounds.high for bounds in found], axis=0)[own]
            self.ranges[bands] = Range(low, high, low == np.inf) if found else None
        return self.ranges[bands]


@dataclass
class Met:
    """Rows that are met, and their orders. What was worked out is kept."""

    bench: Bench
    state: State
    values: dict[Band | None, Values | None] = field(default_factory=dict)
    orders: dict[Band | None, Order] = field(default_factory=dict)

    def by(self, band: Band) -> Values | None:
        """What rows are put in the order of a band by; None where that cannot be computed."""
        if band not in self.values:
            found = band.values(self.bench.rows)
            if found is None:
                self.values[band] = None
            else:
                numbers, null = found
                apart = np.isnan(numbers) & ~null
                self.values[band] = Values(numbers, apart if apart.any() else None, null if null.any() else None)
        return self.values[band]

    def order(self, band: Band | None, values: Values) -> Order:
        if band not in self.orders:
            self.orders[band] = values.ordered()
        return self.orders[band]


def propose(visitors: Visitors, met: Met, bands: Sequence[Band], all_in_time: bool) -> Proposal:
    """Who meets whom: pairs, among which are all that are in time and within all bands."""
    count, rows = len(visitors.start.key), met.bench.rows.num_rows
    ways: list[tuple[Band | None, Values, Range]] = []
    life, other = visitors.start.lifetimes, met.bench.lifetimes
    if not all_in_time and life is not None and other is not None:
        ways.append((None, Values(other.newest), _in_time(life, met.state)))
    for same in _by_value(bands):
        values, reach = met.by(same[0]), visitors.reach(same)
        if values is not None and reach is not None:
            ways.append((same[0], values, reach))
    shares = [values.share(reach) for _, values, reach in ways]
    spared = count * (1 - min(shares, default=1.0))
    if not ways or spared <= SORT_CANDIDATES:
        everything = Stretch(None, np.zeros(count, dtype=np.int64), np.full(count, rows))
        return Proposal((everything,), all_in_time)
    chosen, numbers, to = ways[int(np.argmin(shares))]
    # Rows of one input are in time where they are in the stretch, no more and no less.
    in_time = all_in_time or (chosen is None and len(met.state.time_fields) == 1)
    return Proposal(met.order(chosen, numbers).between(to), in_time)


def _by_value(bands: Sequence[Band]) -> list[tuple[Band, ...]]:
    """The bands of each value, in the order of the first ones."""
    found: dict[Expr, list[Band]] = {}
    for band in bands:
        found.setdefault(band.value, []).append(band)
    return [tuple(same) for same in found.values()]


def _in_time(life: Lifetimes, state: State) -> Range:
    """For each visiting row, the times of rows of `state` that can be in time for it."""
    width = min((width for _, width in state.windows), default=None)
    if width is None or width > -LONG_AGO - 1:
        oldest = np.full(len(life.newest), LONG_AGO, dtype=np.int64)
    else:
        oldest = np.where(life.newest < LONG_AGO + width, LONG_AGO, life.newest - (width - 1))
    return Range(oldest, life.expiry - 1)
