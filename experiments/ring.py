"""The ring experiments of [Wang09, section 8] as data: loads, lengths, rivals, and how they are brought to what can be.

Three streams (or 5, 7, 9) of pictures, 50 rows a second each, windows of 10 seconds, on 4 to 19 slots. Every curve of
figure 8 is a list of runs on a virtual clock (`ring_simulation.py`, `ring_rivals.py`) with prices that are measured on
this machine.

What the paper prints cannot be: at a selectivity of .5 each row has 250 partners in either window and 62,500 results,
at 150 rows a second; at .05 a row still takes 13,000 comparisons. Here rates are divided by one number, `divisor`: the
least whole one with which the slots of the shortest ring are at most `HALF` busy with the highest selectivity.
Comparisons of a row fall with it, and so do the partners of each; selectivities, windows, lengths, segments and copies
are the paper's. Where more than three streams are joined a row becomes one partial result at each step on average: with
any of the paper's selectivities there would be ten times as many at every further one.

What it leaves open, and what stands here instead:
- its network: a gigabit, on which a picture takes its bytes; and for comparison none but the sockets of this machine;
- how many rows may be in flight with PSP-I: any number, and for comparison 1 (PSP), 2 and 8;
- how its rings adapt: looked at every 2 seconds, by our cost model, with up to 19 slots; and at which selectivity: .25,
  since at .1 there is too little to do for it to matter, and at .5 no ring of 19 could do it when rates have doubled;
- runs of 600 seconds: a window to fill up, and as long again as figures take to settle (`seconds`); ATR, whose segments
  last for up to 50 seconds, has the whole of it.

Pure; running is `ring_runs.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.ring_simulation import Load
from watersmeet.optimize.ring_cost import RingPrices, alike, busy

STREAMS = 3
RATE = 50.0  # rows a second of a stream, in the paper
WINDOW = 10.0
SELECTIVITIES = (0.05, 0.1, 0.5)
MIDDLE, CHANGING = 0.1, 0.25  # of all other figures; and of those in which rates change
SHORTEST, LONGEST = 4, 19
STREAMS_JOINED = (3, 5, 7, 9)
IN_FLIGHT: Mapping[str, int] = {"PSP": 1, "PSP-I, 2 rows": 2, "PSP-I, 8 rows": 8}
LOOK = 2.0  # seconds between two looks at a ring that adapts
HALF = 0.5  # of the time, that slots of the shortest ring work
MOST_DIVISOR = 50
BURST = (0.4, 1.6, 5.0)  # times the rate, in turns, and how long each lasts: half a window


@dataclass(frozen=True)
class Extent:
    """How large the experiment is made."""

    lengths: tuple[int, ...]
    seconds: float  # of a run, the first window of which does not count
    seeds: tuple[int, ...]
    segments: tuple[float, ...]  # of ATR, in seconds
    segment_seconds: float  # of a run of ATR
    copies: tuple[int, ...]  # of CTR
    joined: tuple[int, ...]  # streams
    pictures: tuple[str, ...]
    adapting_seconds: float  # of a run in which rates change; they double half-way
    real_rows: int  # of each stream, in a run for real

    @property
    def some_lengths(self) -> tuple[int, ...]:
        """For what is not a figure of the paper's."""
        return tuple(sorted({*self.lengths[::3], self.lengths[-1]}))


FULL_EXTENT = Extent(
    (4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 19),
    40.0,
    (7, 8),
    (10.0, 20.0, 30.0, 40.0, 50.0),
    600.0,
    (2, 3, 5, 7, 9),
    STREAMS_JOINED,
    ("small", "middle", "large"),
    160.0,
    6_000,
)
QUICK = Extent(
    (4, 6, 8, 12, 16, 19),
    40.0,
    (7,),
    (10.0, 50.0),
    300.0,
    (2, 5, 9),
    (3, 5),
    ("small", "middle", "large"),
    100.0,
    4_500,
)


def divisor(prices: RingPrices) -> int:
    """What rates are divided by.

    >>> divisor(RingPrices(compare=17e-6, send=22e-6))
    6
    """
    for number in range(1, MOST_DIVISOR):
        if busy(alike(STREAMS, RATE / number, WINDOW, max(SELECTIVITIES), prices), SHORTEST) <= HALF:
            return number
    return MOST_DIVISOR


def load(rate: float, selectivity: float, seconds: float, seed: int, streams: int = STREAMS) -> Load:
    return Load(streams, ((0.0, rate),), WINDOW, selectivity, seconds, seed)


def doubled(rate: float, selectivity: float, seconds: float, seed: int) -> Load:
    """Twice as many rows from the middle on."""
    return Load(STREAMS, ((0.0, rate), (seconds / 2, 2 * rate)), WINDOW, selectivity, seconds, seed)


def bursts(rate: float, selectivity: float, seconds: float, seed: int) -> Load:
    """As many rows as ever, in bursts."""
    low, high, lasts = BURST
    turns = range(int(seconds / lasts))
    rates = tuple((turn * lasts, rate * (high if turn % 2 else low)) for turn in turns)
    return Load(STREAMS, rates, WINDOW, selectivity, len(turns) * lasts, seed)


def level_selectivity(rate: float) -> float:
    """With which a row finds one partner in a window.

    >>> level_selectivity(10.0)
    0.01
    """
    return 1 / (rate * WINDOW)
