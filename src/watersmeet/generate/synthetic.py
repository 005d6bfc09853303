"""Synthetic streams whose statistics are known: keys, rates and how they shift, as frozen specs and a generator.

A stream has one or several join key columns (default `k`), a payload `v` uniform in 0..999 and the event time `ts` in
microseconds, all BIGINT. Keys are of two kinds:

- `Uniform(domain)`: uniform in 0..domain-1, independently row by row.
- `Ranged(shares)`: a value appears exactly `ratio` times in every `range_rows` rows, the tuple range K and range join
  ratio R of [Liu06] and [Liu05] (Liu, Rundensteiner, WPI-CS-TR-05-04). The same values come again in the next range, so
  a join earns more with every range. Shares of the key space may have different K and R. A share is a range of the
  64-bit key hash, and so a share of the groups (the papers' partitions) of an operator that joins on the column.

Invariant: a row is a function of the spec, the stream and the row's number. Batch sizes do not matter, and a part made
alone equals the slice of the whole. There is no loop over rows.

"Every K rows" means the blocks of K rows counted from the first row of the phase. With `disorder`, rows keep their
order and their event times lag by up to that duration: a stream read with that lateness has no late row.

Known limit: a phase begins its arrivals anew, so a shift of a Pareto stream starts with a burst.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from watersmeet.errors import JobError, did_you_mean
from watersmeet.generate.arrivals import ARRIVALS, Bits, Ints, below, draw, events_before, key_of
from watersmeet.kernel.hashing import hash_keys, mix
from watersmeet.model.quantities import microseconds

PAYLOADS = 1000  # `v` is uniform below this
BATCH_ROWS = (
    65_536  # its arrays stay in a core's cache: measured 60M rows/s of uniform keys, 30M in batches of a million
)


@dataclass(frozen=True)
class Uniform:
    """Keys uniform in 0..domain-1."""

    domain: int

    def __post_init__(self) -> None:
        if not 0 < self.domain < 2**53:
            raise JobError(f"domain {self.domain} is not a number of keys", detail="It is from 1 to 2^53 - 1.")


@dataclass(frozen=True)
class Share:
    """A share of the key values, each of which appears `ratio` times in every `range_rows` rows of the stream."""

    of_values: Fraction
    range_rows: int
    ratio: int

    def __post_init__(self) -> None:
        if not 0 < self.of_values <= 1:
            raise JobError(f"share {self.of_values} is not between 0 and 1")
        if self.range_rows < 1 or self.ratio < 1:
            raise JobError(
                "tuple range and join ratio must be positive",
                detail=f"The range is {self.range_rows} and the ratio is {self.ratio}.",
            )
        if self.ratio > self.range_rows:
            raise JobError(
                f"join ratio {self.ratio} is larger than tuple range {self.range_rows}",
                detail="A value cannot appear more often than there are rows.",
            )


@dataclass(frozen=True)
class Ranged:
    """Keys by tuple range and join ratio, in shares that make up the whole key space."""

    shares: tuple[Share, ...]

    def __post_init__(self) -> None:
        total = sum((share.of_values for share in self.shares), Fraction(0))
        if total != 1:
            raise JobError(f"shares of the key space add up to {total}, not to 1")
        lay_out(self)  # refuses ranges and ratios that do not fit


Keys = Uniform | Ranged


def ranged(range_rows: int, ratio: int) -> Ranged:
    """One tuple range and join ratio for all keys."""
    return Ranged((Share(Fraction(1), range_rows, ratio),))


@dataclass(frozen=True)
class KeyColumn:
    """A join key column and how its values are drawn."""

    name: str
    values: Keys


@dataclass(frozen=True)
class Phase:
    """From `after` on (since the start of the stream), another rate or other keys; None and () change nothing."""

    after: timedelta
    rate: float | None = None
    keys: tuple[KeyColumn, ...] = ()

    def __post_init__(self) -> None:
        if self.after < timedelta(0):
            raise JobError(f"phase begins before the stream, at {self.after}")
        if self.rate is not None:
            _check_rate(self.rate)


@dataclass(frozen=True)
class StreamSpec:
    """A stream: how many rows (None: without end), their keys, how they arrive, and when that changes."""

    name: str
    rows: int | None = None
    keys: tuple[KeyColumn, ...] = (KeyColumn("k", Uniform(1000)),)
    rate: float = 1000.0
    arrivals: str = "steady"
    disorder: timedelta = timedelta(0)
    phases: tuple[Phase, ...] = ()

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 1:
            raise JobError(f'stream "{self.name}" has {self.rows} rows', detail="The number of rows must be positive.")
        _check_rate(self.rate)
        if self.arrivals not in ARRIVALS:
            raise JobError(
                f'unknown arrivals "{self.arrivals}"',
                detail=f"Known are {', '.join(ARRIVALS)}.",
                hint=did_you_mean(self.arrivals, ARRIVALS),
            )
        if self.disorder < timedelta(0):
            raise JobError(f'disorder of stream "{self.name}" is negative', detail=f"It is {self.disorder}.")
        names = [column.name for column in self.keys]
        if not names:
            raise JobError(f'stream "{self.name}" has no key column')
        for name in names:
            if name in ("v", "ts") or names.count(name) > 1:
                raise JobError(f'stream "{self.name}" has two columns "{name}"', detail="v and ts are always there.")
        for phase in self.phases:
            for column in phase.keys:
                if column.name not in names:
                    raise JobError(
                        f'stream "{self.name}" has no key column "{column.name}"',
                        detail=f"Its key columns are {', '.join(names)}.",
                        hint=did_you_mean(column.name, names),
                    )
        starts = [phase.after for phase in self.phases]
        if any(later <= earlier for earlier, later in pairwise(starts)):
            raise JobError(f'phases of stream "{self.name}" are not in ascending order of time')

    @property
    def schema(self) -> pa.Schema:
        """Key columns, payload, event time."""
        return pa.schema([(name, pa.int64()) for name in (*(column.name for column in self.keys), "v", "ts")])


@dataclass(frozen=True)
class SyntheticSpec:
    """Streams that are made from one seed and begin at one time; streams of different names are independent."""

    streams: tuple[StreamSpec, ...]
    seed: int = 1
    start_us: int = 0

    def __post_init__(self) -> None:
        names = [stream.name for stream in self.streams]
        for name in names:
            if names.count(name) > 1:
                raise JobError(f'two streams are called "{name}"')

    def stream(self, name: str) -> StreamSpec:
        """The stream called `name`."""
        for stream in self.streams:
            if stream.name == name:
                return stream
        names = [stream.name for stream in self.streams]
        raise JobError(
            f'unknown stream "{name}"',
            detail=f"The streams are {', '.join(names)}.",
            hint=did_you_mean(name, names),
        )


def _check_rate(rate: float) -> None:
    if not (rate > 0 and math.isfinite(rate)):
        raise JobError(f"rate {rate:g} is not positive", detail="A rate is a number of rows a second.")


def batches(
    spec: SyntheticSpec, stream: str, *, batch_rows: int = BATCH_ROWS, first: int = 0, last: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows `first` to `last` - 1 of `stream` (default: all), in batches of `batch_rows` rows.

    >>> spec = SyntheticSpec((StreamSpec("A", rows=4, keys=(KeyColumn("k", ranged(4, 2)),)),))
    >>> [batch.to_pydict() for batch in batches(spec, "A")]
    [{'k': [1, 1, 0, 0], 'v': [564, 856, 385, 505], 'ts': [0, 1000, 2000, 3000]}]
    """
    if batch_rows < 1:
        raise JobError(f"batches of {batch_rows} rows", detail="The number of rows must be positive.")
    chosen = spec.stream(stream)
    ends = [end for end in (last, chosen.rows) if end is not None]
    stretches = _stretches(spec, chosen)
    row = max(first, 0)
    while not ends or row < min(ends):
        until = min([row + batch_rows, *ends])
        yield _batch(spec, chosen, stretches, row, until)
        row = until


@dataclass(frozen=True)
class _Stretch:
    """What holds from row `first_row` on: a phase with everything filled in."""

    phase: int
    first_row: int
    start_us: int
    rate: float
    keys: tuple[KeyColumn, ...]


def _stretches(spec: SyntheticSpec, stream: StreamSpec) -> list[_Stretch]:
    now = _Stretch(0, 0, spec.start_us, stream.rate, stream.keys)
    result = []
    for number, phase in enumerate(stream.phases, 1):
        start_us = spec.start_us + microseconds(phase.after)
        # Rows past the end of the stream are of no interest, however far off the shift is.
        arrivals, seed = ARRIVALS[stream.arrivals], _arrival_seed(spec, stream, now)
        rows = events_before(arrivals, seed, now.rate, now.start_us, start_us, stream.rows)
        result.append(now)
        changed = {column.name: column for column in phase.keys}
        keys = tuple(changed.get(column.name, column) for column in now.keys)
        now = _Stretch(number, now.first_row + rows, start_us, phase.rate or now.rate, keys)
    return [*result, now]


def _arrival_seed(spec: SyntheticSpec, stream: StreamSpec, stretch: _Stretch) -> int:
    return key_of(spec.seed, stream.name, "arrivals", stretch.phase)


def _batch(spec: SyntheticSpec, stream: StreamSpec, stretches: list[_Stretch], first: int, last: int) -> pa.RecordBatch:
    pieces = []
    for stretch, following in zip(stretches, [*stretches[1:], None], strict=True):
        start = max(first, stretch.first_row)
        end = last if following is None else min(last, following.first_row)
        if start < end:
            pieces.append(_rows(spec, stream, stretch, start, end))
    columns = [np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*pieces, strict=True)]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=stream.schema)


def _rows(spec: SyntheticSpec, stream: StreamSpec, stretch: _Stretch, first: int, last: int) -> list[Ints]:
    rows = np.arange(first, last)
    times = ARRIVALS[stream.arrivals](
        _arrival_seed(spec, stream, stretch),
        stretch.rate,
        last - first,
        stretch.start_us,
        first - stretch.first_row,
    )
    lag = microseconds(stream.disorder)
    if lag:
        times = times - below(draw(key_of(spec.seed, stream.name, "disorder"), rows), lag + 1)
        times = np.maximum(times, spec.start_us)
    payload = below(draw(key_of(spec.seed, stream.name, "payload"), rows), PAYLOADS)
    keys = []
    for column in stretch.keys:
        key = key_of(spec.seed, stream.name, "key", column.name, stretch.phase)
        match column.values:
            case Uniform(domain):
                keys.append(below(draw(key, rows), domain))
            case Ranged() as values:
                keys.append(_ranged_keys(key, rows - stretch.first_row, values))
    return [*keys, payload, times]


@dataclass(frozen=True)
class Placed:
    """A share fitted into blocks of rows: `block_rows` of each block are its, from slot `first_slot` on."""

    share: Share
    first_slot: int
    block_rows: int
    values: int

    @property
    def range_rows(self) -> int:
        """How many of every `share.range_rows` rows of the stream are this share's."""
        return self.values * self.share.ratio


@lru_cache(maxsize=64)
def lay_out(keys: Ranged) -> tuple[int, tuple[Placed, ...]]:
    """The rows of a block, and what each share holds of it, so that every tuple range comes out exactly.

    A block has gcd(K1, K2, ..) rows: if each block has the same number of rows of a share, then so has every tuple
    range. With v values in all, share i brings v * w_i * R_i / K_i of the rows, which fixes v; whole numbers near those
    are then chosen so that they fill the block.

    >>> block, placed = lay_out(Ranged(tuple(Share(Fraction(1, 3), 30_000, ratio) for ratio in (4, 2, 1))))
    >>> block, [(p.values, p.block_rows) for p in placed]
    (30000, [(4286, 17144), (4285, 8570), (4286, 4286)])
    """
    block = math.gcd(*(share.range_rows for share in keys.shares))
    weights = [share.of_values * share.ratio / share.range_rows for share in keys.shares]
    # Rows of a share in a block come in steps, so that its values are whole.
    steps = [share.ratio // math.gcd(share.ratio, share.range_rows // block) for share in keys.shares]
    rows = [int(block * weight / sum(weights)) // step * step for weight, step in zip(weights, steps, strict=True)]
    extra = _make_up(block - sum(rows), tuple(steps))
    if len(keys.shares) == 1 and extra is None:
        raise JobError(
            f"tuple range {block} is no multiple of join ratio {steps[0]}",
            detail="Every value appears exactly so many times in every range of rows.",
        )
    if extra is None or not all(rows):
        pairs = ", ".join(f"{share.range_rows}:{share.ratio}" for share in keys.shares)
        raise JobError(
            "tuple ranges cannot be filled exactly with these join ratios",
            detail=f"The ranges and ratios are {pairs}; a block of {block} rows does not divide into them.",
            hint="With equal shares, one range for all that is a multiple of the sum of the ratios always fits.",
        )
    placed = []
    slot = 0
    for share, step, own, more in zip(keys.shares, steps, rows, extra, strict=True):
        own += more * step
        placed.append(Placed(share, slot, own, own * (share.range_rows // block) // share.ratio))
        slot += own
    return block, tuple(placed)


@lru_cache(maxsize=1024)
def _make_up(amount: int, steps: tuple[int, ...]) -> tuple[int, ...] | None:
    """How often to take each step to reach `amount` exactly, each as rarely as can be; None if it cannot be done."""
    if not steps:
        return () if amount == 0 else None
    # More than one of each is seldom needed, so the rounding errors stay spread over the shares.
    for times in sorted(range(amount // steps[0] + 1), key=lambda times: abs(times - 1)):
        rest = _make_up(amount - times * steps[0], steps[1:])
        if rest is not None:
            return (times, *rest)
    return None


@lru_cache(maxsize=64)
def _values(keys: Ranged) -> tuple[Ints, ...]:
    """The values of each share: the smallest numbers whose hash lies in the share's range of the hash."""
    _, placed = lay_out(keys)
    if len(placed) == 1:
        return (np.arange(placed[0].values),)
    ends = [sum((share.of_values for share in keys.shares[: i + 1]), Fraction(0)) for i in range(len(placed) - 1)]
    bounds = np.array([int(end * 2**64) for end in ends], dtype=np.uint64)
    tried = 1024 + sum(p.values for p in placed)
    while True:
        numbers = np.arange(tried)
        share_of = np.searchsorted(bounds, hash_keys([pa.array(numbers)]), side="right")
        chosen = tuple(numbers[share_of == i][: p.values] for i, p in enumerate(placed))
        if all(len(values) == p.values for values, p in zip(chosen, placed, strict=True)):
            return chosen
        tried += tried // 8


def _ranged_keys(key: int, rows: Ints, keys: Ranged) -> Ints:
    block_rows, placed = lay_out(keys)
    values = _values(keys)
    blocks, places = np.divmod(rows, block_rows)
    slots = shuffle(key, blocks, places, block_rows)
    if len(placed) == 1:
        return values[0][slots // placed[0].share.ratio]
    result = np.empty(len(rows), np.int64)
    for number, (p, own) in enumerate(zip(placed, values, strict=True)):
        here = np.flatnonzero((slots >= p.first_slot) & (slots < p.first_slot + p.block_rows))
        ranks = slots[here] - p.first_slot
        if p.block_rows != p.range_rows:  # the share's tuple range spans several blocks: shuffle across them
            cycles, ranks = np.divmod(blocks[here] * p.block_rows + ranks, p.range_rows)
            ranks = shuffle(key_of(key, number), cycles, ranks, p.range_rows)
        result[here] = own[ranks // p.share.ratio]
    return result


def shuffle(key: int, blocks: Ints, places: Ints, size: int) -> Ints:
    """Where each place of 0..size-1 goes in a random permutation, another one for each block.

    A Feistel network over a rectangle of at least `size` cells, walked until it lands inside (Black and Rogaway, CT-RSA
    2002): a part of a permutation costs in proportion to the part, whatever its size.

    >>> shuffle(1, np.zeros(5, np.int64), np.arange(5), 5).tolist()
    [1, 4, 0, 2, 3]
    """
    salts = draw(key, blocks)
    result = _round_trip(salts, places.astype(np.uint64), size)
    while len(outside := np.flatnonzero(result >= size)):
        result[outside] = _round_trip(salts[outside], result[outside], size)
    return result.astype(np.int64)


def _round_trip(salts: Bits, places: Bits, size: int) -> Bits:
    columns = math.isqrt(size - 1) + 1 if size > 1 else 1
    rows = -(-size // columns)
    row, column = np.divmod(places, np.uint64(columns))
    for turn in range(4):  # four half rounds on either side hide the order of the inputs
        salt = salts + np.uint64(turn)
        if turn % 2:
            row = _turn(row, column, salt, rows)
        else:
            column = _turn(column, row, salt, columns)
    return row * np.uint64(columns) + column


def _turn(moved: Bits, by: Bits, salts: Bits, size: int) -> Bits:
    # Multiplying the upper half instead of taking a remainder: numpy's 64-bit remainder is the slowest step by far.
    offset = ((mix(salts ^ (by << np.uint64(32))) >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)
    moved = moved + offset
    moved -= np.uint64(size) * (moved >= size)
    return moved
