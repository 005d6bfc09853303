"""The settings of [Zhu06, chapter 16]: how long it takes to change a plan, and what is gained by it.

Four streams in a chain, each pair with a band predicate of its own, many copies side by side (`banded.py`). The plan is
changed from (((A B) C) D) to (((B C) D) A) [figure 10.1]: the states of B C and of B C D have to be made.

From the dissertation: rates, windows and selectivities of table 16.1, and the moments at which plans and selectivities
change. Ours, where it says nothing: which windows and rates sets 1 to 3 go through (its axes are in pictures alone),
and how many copies there are, which is how much of a core the run takes. For section 16.2 that number is fixed: enough
for a migration to take longer than what it costs to begin one. For 16.3 and 16.4 it is such that the old plan needs a
`load` of cores (`migration_runs.fill`), since "sufficient" and "not sufficient" are all that is said of its CPU.

Departures: the selectivities of section 16.4 are printed the wrong way round. With .005 above and .02 below, the switch
would make the plan better, and there would be nothing to migrate to; here the run begins with the good order. Its query
also has a select and a project, which are left out: they do not move here. The optimiser is `[adapt] replan`, which
compares costs, and not a rule that sorts joins by selectivity.

Pure; running is `migration_runs.py`'s. Invariant: same setting, same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from experiments.banded import Banded, Switch, row_bytes
from experiments.paced import CAP
from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.parallel_track import ParallelTrack
from watersmeet.adapt.policies.migrate.seeded import Seeded
from watersmeet.optimize.estimates import CostConstants
from watersmeet.plan.join_graph import Pair

MOVING, PARALLEL, SEEDED = MovingState.name, ParallelTrack.name, Seeded.name
ROADS = (MOVING, PARALLEL, SEEDED)
AB, BC, CD = ("A", "B"), ("B", "C"), ("C", "D")
SEED = 16


@dataclass(frozen=True, kw_only=True)
class Setting(Banded):
    name: str
    batches_a_window: int = 20
    old: str = "(((A B) C) D)"
    new: str = "(((B C) D) A)"

    @property
    def batch_seconds(self) -> float:
        return self.width / self.batches_a_window

    @property
    def row_bytes(self) -> float:
        """Of a row that waits, on average over the streams."""
        rates = [self.rate(stream) for stream in self.streams]
        sizes = [row_bytes(self, stream) for stream in self.streams]
        return sum(rate * size for rate, size in zip(rates, sizes, strict=True)) / sum(rates)


def _rates(intervals_ms: Mapping[str, float]) -> dict[str, float]:
    """Rows a second, from the mean milliseconds between two of them."""
    return {stream: 1000.0 / interval for stream, interval in intervals_ms.items()}


def _chain(ab: float, bc: float, cd: float) -> dict[Pair, float]:
    return {AB: ab, BC: bc, CD: cd}


# --- section 16.2: how long a migration takes ------------------------------------------------------------------------


def set_1(window_seconds: float, copies: int) -> Setting:
    """Low rates, and windows of all sizes."""
    return Setting(
        name="set 1",
        rates=_rates(dict.fromkeys("ABCD", 100.0)),
        selectivities=_chain(0.1, 0.05, 0.02),
        window_seconds=window_seconds,
        copies=copies,
    )


def set_2(interval_ms: float, copies: int) -> Setting:
    """A window of a second, and rows of B as often as is said."""
    return Setting(
        name="set 2",
        rates=_rates({"A": 50.0, "B": interval_ms, "C": 50.0, "D": 50.0}),
        selectivities=_chain(0.1, 0.05, 0.02),
        window_seconds=1.0,
        copies=copies,
    )


def set_3(window_seconds: float, copies: int) -> Setting:
    """High rates of B, C and D, and high selectivities: what the new plan keeps grows fast."""
    return Setting(
        name="set 3",
        rates=_rates({"A": 100.0, "B": 12.0, "C": 12.0, "D": 12.0}),
        selectivities=_chain(0.1, 0.1, 0.1),
        window_seconds=window_seconds,
        copies=copies,
        batches_a_window=10,  # windows are short, and a batch takes some 15 ms however few its rows
    )


def back(copies: int) -> Setting:
    """Set 1 the other way round, in small batches: from a plan that costs little to states that take long to make.

    Not from the dissertation. The run keeps up with both plans, and moving state takes as long as many batches.
    """
    there = set_1(4.0, copies)
    return replace(there, name="back", batches_a_window=40, old=there.new, new=there.old)


def moving_seconds(setting: Setting, prices: CostConstants) -> float:
    """Equation 16.1, for all copies: what it takes to make the states of B C and of B C D.

    With the sizes that states have when rows keep all of their times: lambda W for a stream, and the product of the
    sizes and the selectivity for a joined one, where the dissertation has twice that (its equation 12.2).
    T_j is the price of a comparison, T_s that of a pair that matched and of a row that is put into a state.

    >>> prices = CostConstants(insert=1.0, delete=0.0, join=0.0, probe=0.0, compare=0.0)
    >>> moving_seconds(set_1(1.0, 1), prices), moving_seconds(set_1(2.0, 10), prices)
    (6.0, 280.0)
    """
    size = {stream: setting.rates[stream] * setting.window_seconds for stream in setting.streams}
    bc = size["B"] * size["C"] * setting.selectivities[BC]
    bcd = bc * size["D"] * setting.selectivities[CD]
    compared = size["B"] * size["C"] + bc * size["D"]
    return setting.copies * (compared * prices.compare + (bc + bcd) * (prices.join + prices.insert))


# --- section 16.3: with enough CPU, and without ----------------------------------------------------------------------

LOW = Setting(
    name="low",
    rates=_rates(dict.fromkeys("ABCD", 100.0)),
    selectivities=_chain(0.1, 0.02, 0.02),
    window_seconds=1.0,
    batches_a_window=10,
)
HIGH = Setting(
    name="high",
    rates=_rates(dict.fromkeys("ABCD", 50.0)),
    selectivities=_chain(0.2, 0.05, 0.05),
    window_seconds=2.0,
)
LOW_LOAD = 0.4  # of a core, that the old plan needs
HIGH_LOAD = 1.6

# --- section 16.4: the run decides by itself -------------------------------------------------------------------------

LOOK_SECONDS = 10.0  # from one look of the optimiser to the next, at normal speed, where it matters
RUN_LOAD = 1.6  # cores that the wrong plan needs
STABLE_LOAD = 0.6  # that the right one needs, where nothing ever changes


def _switching(name: str, low: float, high: float, seconds: tuple[float, ...], speed: float, batches: int) -> Setting:
    """Three streams; one pair has the higher selectivity, and at each of `seconds` it is the other's turn."""
    turns = [Switch(at, {(BC, AB)[turn % 2]: high}) for turn, at in enumerate((0.0, *seconds))]
    return Setting(
        name=name,
        rates=dict.fromkeys("ABC", 20.0),
        selectivities={AB: low, BC: low},
        window_seconds=5.0,
        speed=speed,
        switches=tuple(turns),
        batches_a_window=batches,
        old="((A B) C)",
        new="(A (B C))",
    )


def once(speed: float, switch_seconds: float = 5.0) -> Setting:
    """Selectivities switch once, shortly after the start."""
    return _switching("once", 0.005, 0.02, (switch_seconds,), speed, 20)


def stable(speed: float) -> Setting:
    return _switching("stable", 0.005, 0.02, (), speed, 20)


def several(speed: float, seconds: tuple[float, ...]) -> Setting:
    """Selectivities, and higher ones, switch several times."""
    return _switching("several", 0.02, 0.3, seconds, speed, 10)


def settled(setting: Setting) -> Setting:
    """As it is after the first switch: the plan that it starts with is wrong from the start."""
    return replace(setting, switches=(Switch(0.0, setting.switches[1].selectivities),))


def look_batches(setting: Setting) -> int:
    """Batches from one look of the optimiser to the next, for a run that falls behind and takes in as much as it may.

    A run that keeps up has shorter batches, and looks more often.
    """
    return round(LOOK_SECONDS / setting.window_seconds * setting.batches_a_window / CAP)


# --- how much of it --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """What one run of the experiment goes through."""

    windows: tuple[float, ...]  # of set 1, in seconds
    intervals_ms: tuple[float, ...]  # of B in set 2
    large_windows: tuple[float, ...]  # of set 3
    copies: tuple[int, int, int]  # of sets 1, 2 and 3
    back_copies: int
    repeats: int  # of each moving state, and of runs with and without the optimiser
    effect_speed: float
    migrate_at: float  # at normal speed, as all that follow
    effect_seconds: float
    once_speed: float
    once_seconds: float
    several_speed: float
    several_switches: tuple[float, ...]
    several_seconds: float
    roads: tuple[str, ...]  # that a run that decides by itself takes, a run for each
    grouped_rate: float  # rows of B a second in chapter 14


FULL = Extent(
    windows=(1.0, 2.0, 3.0, 4.0, 6.0, 8.0),
    intervals_ms=(100.0, 50.0, 25.0, 16.0, 12.0),
    large_windows=(0.25, 0.4, 0.5, 0.6, 0.7, 0.8),
    copies=(200, 500, 400),
    back_copies=1200,
    repeats=3,
    effect_speed=1.0,
    migrate_at=10.0,
    effect_seconds=20.0,
    once_speed=2.5,
    once_seconds=60.0,
    several_speed=5.0,
    several_switches=(5.0, 25.0, 65.0, 125.0),
    several_seconds=150.0,
    roads=ROADS,
    grouped_rate=10_000.0,
)
QUICK = Extent(
    windows=(2.0, 4.0, 8.0),
    intervals_ms=(50.0, 12.0),
    large_windows=(0.3, 0.7),
    copies=(50, 150, 400),
    back_copies=600,
    repeats=1,
    effect_speed=2.0,
    migrate_at=4.0,
    effect_seconds=9.0,
    once_speed=5.0,
    once_seconds=30.0,
    several_speed=5.0,
    several_switches=(4.0, 18.0),
    several_seconds=35.0,
    roads=(SEEDED,),
    grouped_rate=2_000.0,
)
