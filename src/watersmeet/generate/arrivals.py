"""When rows arrive: event times in microseconds, by the name of a pattern, and the draws that all generators rest on.

Every pattern is a function `(seed, rate, n, start, first)` that gives the times of events `first` to `first + n - 1` of
an endless run which begins at `start` and brings `rate` rows a second in the long run. The time of an event depends on
its number, the seed, the rate and the start alone: a part made alone equals the slice of the whole. Times never fall.

Draws are counted, not consumed: `draw(key, numbers)` hashes each number with SplitMix64 (Steele, Lea, Flood, OOPSLA
2014). Nothing here uses numpy's own generators, whose streams may change from one version to the next.

Bursts follow [Levandoski11] (Levandoski, Khalefa, Mokbel, TKDE 2011), whose inputs are slow and bursty by a Pareto
distribution. The paper gives no parameters; ours are bursts and silences with Pareto-distributed lengths, cut off at a
hundred times the shortest, so that no single silence outlasts an experiment.

Known limit: logarithms and powers may differ in their last bit from one make of CPU to the next, so a time of `poisson`
or `pareto_bursty` may, rarely, differ by a microsecond between machines. `steady` is the same everywhere.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernel.hashing import mix

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]
Floats = NDArray[np.float64]
Arrivals = Callable[[int, float, int, int, int], Ints]

_GAMMA = np.uint64(0x9E37_79B9_7F4A_7C15)

# Events of a Poisson run that are drawn together: large enough that the sum of their gaps is all but normal.
_BLOCK_EVENTS = 1024

BURST_SHAPE = 1.5  # between 1 and 2: finite mean, and a tail so heavy that bursts of all sizes occur
BURST_BOUND = 100.0  # longest over shortest burst (and silence)
BURST_SECONDS = 1.0  # mean length of a burst
BURST_ROWS = 16.0  # mean rows of a burst at rates so low that a second would hold fewer
BUSY_SHARE = 0.25  # share of the time spent in bursts; inside them the rate is four times the mean


def key_of(*parts: int | str) -> int:
    """A 64-bit key for the draws that `parts` name, such as a seed, a stream and a column.

    >>> key_of(1, "A", "k") == key_of(1, "A", "k"), key_of(1, "A", "k") == key_of(1, "B", "k")
    (True, False)
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def draw(key: int, numbers: Ints | Bits) -> Bits:
    """64 random bits for each number: the `number`-th output of SplitMix64 seeded with `key`.

    >>> [hex(bits) for bits in draw(0, np.arange(2)).tolist()]
    ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
    """
    bits = numbers.astype(np.uint64)
    bits *= _GAMMA
    bits += np.uint64(key)
    return mix(bits)


def unit(bits: Bits) -> Floats:
    """Uniform in [0, 1), from the upper 53 bits."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(bits: Bits, bound: int | Ints) -> Ints:
    """Uniform in 0..bound-1; `bound` may differ by row and must be less than 2**53.

    >>> below(draw(7, np.arange(6)), 10).tolist()
    [3, 0, 9, 5, 4, 2]
    """
    return (unit(bits) * bound).astype(np.int64)


def on_the_beat(numbers: Ints, rate: float, start: int) -> Ints:
    """The times of events `numbers` when one comes every 1/rate seconds."""
    # The product is exact up to nine thousand million events, and the quotient is then rounded once.
    return _microseconds(numbers.astype(np.float64) * 1e6 / rate, start)


def _microseconds(since_start: Floats, start: int) -> Ints:
    times: Ints = np.floor(since_start).astype(np.int64)
    times += start
    return times


def steady(seed: int, rate: float, n: int, start: int = 0, first: int = 0) -> Ints:
    """One event every 1/rate seconds, the first at `start`; the seed plays no part.

    >>> steady(1, 1000, 3).tolist(), steady(1, 1000, 2, first=1).tolist()
    ([0, 1000, 2000], [1000, 2000])
    """
    return on_the_beat(np.arange(first, first + n), rate, start)


def poisson(seed: int, rate: float, n: int, start: int = 0, first: int = 0) -> Ints:
    """Independent gaps with an exponential distribution.

    So that event number one million needs no sum over a million gaps, the length of each block of 1,024 events is drawn
    first (a gamma distribution, by the cube of a normal one after Wilson and Hilferty, 1931) and the gaps in it are
    scaled to that length: proportions and sum of exponential gaps are independent, so the result is a Poisson process.
    """
    if n <= 0:
        return np.empty(0, np.int64)
    first_block, last_block = first // _BLOCK_EVENTS, (first + n - 1) // _BLOCK_EVENTS
    lengths = _block_lengths(seed, last_block + 1)
    starts = np.concatenate(([0.0], np.cumsum(lengths)))[first_block:-1, None]
    lengths = lengths[first_block:, None]
    numbers = np.arange(first_block * _BLOCK_EVENTS, (last_block + 1) * _BLOCK_EVENTS)
    gaps = -np.log1p(-unit(draw(key_of(seed, "poisson gap"), numbers)))
    within = np.cumsum(gaps.reshape(-1, _BLOCK_EVENTS), axis=1)
    within *= lengths / within[:, -1:]
    np.minimum(within, lengths, out=within)  # rounding must not push an event past the first of the next block
    times = (starts + within).ravel()[first - first_block * _BLOCK_EVENTS :][:n]
    return _microseconds(times * (1e6 / rate), start)


def _block_lengths(seed: int, blocks: int) -> Floats:
    numbers = np.arange(blocks)
    radius = np.sqrt(-2.0 * np.log1p(-unit(draw(key_of(seed, "poisson radius"), numbers))))
    normal = radius * np.cos(2.0 * math.pi * unit(draw(key_of(seed, "poisson angle"), numbers)))
    k = float(_BLOCK_EVENTS)
    lengths: Floats = k * (1.0 - 1.0 / (9.0 * k) + normal / (3.0 * math.sqrt(k))) ** 3
    return lengths


def pareto_bursty(seed: int, rate: float, n: int, start: int = 0, first: int = 0) -> Ints:
    """Bursts at four times the rate, and silences between them, both with lengths of a bounded Pareto distribution.

    Events tick steadily on a clock that runs during bursts only; a silence is put in wherever a burst ends.
    """
    if n <= 0:
        return np.empty(0, np.int64)
    peak = rate / BUSY_SHARE
    burst_seconds = max(BURST_SECONDS, BURST_ROWS / peak)
    busy = np.arange(first, first + n) / peak
    count = int(busy[-1] / burst_seconds) + 16
    while True:
        ends = np.cumsum(_pareto(key_of(seed, "burst"), count, burst_seconds))
        if ends[-1] > busy[-1]:
            break
        count *= 2
    silences = _pareto(key_of(seed, "silence"), count, burst_seconds * (1.0 / BUSY_SHARE - 1.0))
    silent = np.concatenate(([0.0], np.cumsum(silences)))
    times = busy + silent[np.searchsorted(ends, busy, side="right")]
    return _microseconds(times * 1e6, start)


def _pareto(key: int, n: int, mean: float) -> Floats:
    tail = BURST_BOUND**-BURST_SHAPE
    lengths: Floats = (1.0 - unit(draw(key, np.arange(n))) * (1.0 - tail)) ** (-1.0 / BURST_SHAPE)
    # So far the shortest is 1, and the mean is that of a Pareto distribution between 1 and the bound.
    mean_so_far = BURST_SHAPE / (BURST_SHAPE - 1.0) * (1.0 - tail * BURST_BOUND) / (1.0 - tail)
    lengths *= mean / mean_so_far
    return lengths


ARRIVALS: Mapping[str, Arrivals] = {
    "steady": steady,
    "poisson": poisson,
    "pareto": pareto_bursty,
}


def events_before(arrivals: Arrivals, seed: int, rate: float, start: int, until: int, most: int | None = None) -> int:
    """How many events of the run come before the time `until`; counts no further than `most`.

    >>> events_before(steady, 1, 1000, 0, 2_000), events_before(steady, 1, 1000, 0, 2_001)
    (2, 3)
    """

    def come_before(count: int) -> bool:
        return count == 0 or int(arrivals(seed, rate, 1, start, count - 1)[0]) < until

    low, high = 0, 1
    while come_before(high):
        if most is not None and high >= most:
            return most
        low, high = high, high * 2
    while low < high - 1:  # `low` events come before `until`, `high` do not
        middle = (low + high) // 2
        if come_before(middle):
            low = middle
        else:
            high = middle
    return low
