"""The settings of [Zhu06, chapter 23]: plans that differ by machine, and groups that go from one machine to another.

Three streams in a chain, A with B and B with C, each pair with a band predicate of its own, in 100 groups over 4 slots.
The first slot has half of the groups at the start, and all groups run ((A B) C). From second 30 on the statistics are
others, and (A (B C)) is the better plan. A *contender* may have slots choose for themselves (`replan_scope = "slot"`),
move groups from the slot that has most to the one that has least (`balance = "relocate"`), both, or neither; where
both, `balance_by` says how groups come to the plan that their slot has.

What the dissertation leaves open, and what stands here instead:
- how many machines: 4, so that to level a slot with half of the load can double what there is;
- how much they can do: `load`, the seconds that the fullest slot takes for a second of input, as measured without
  adaptation; "overloaded" is all that is said. Time runs as fast as makes it so (`balancing_runs.fill`);
- window and selectivities of section 23.2, and rates by value of a key: chosen so that comparing rows, as nested loops
  do, is what takes time, and given with each setting;
- what makes plans differ in the table of 23.3, where rates stay as they are: a selectivity that changes;
- how long runs take: 30,000 ms, it says, but they go on after second 30 in its figures. Here, as each setting says.

Departures. To move a group of the same shape is one commit here, whatever `balance_by` says, so that PTLB-only and
MSLB-only are one contender. A move takes the shape of the group along; the change to that of its new slot follows.

Section 23.2 lets B and C fall from 100 to 5 rows a second. So it is in `fall`. But then everything has less to do after
the change than before it, whatever the plan. `rise` comes to the same rates from the other side: A rises to 20 times
those of B and C.

Pure; running is `balancing_runs.py`'s. Invariant: same setting, same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from experiments.banded import Banded, OtherRates, Switch
from experiments.parted import values_between
from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.parallel_track import ParallelTrack
from watersmeet.generate.arrivals import Ints
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.replan import BY_QUERY, BY_SLOT, ReplanSettings
from watersmeet.settings.words import AUTO, OFF

SEED = 23
SLOTS, GROUPS = 4, 100
CROWDED = Fraction(1, 2)  # of the groups, on the first slot
CHANGE = 30.0  # seconds, at normal speed, until the statistics change
AB, BC = ("A", "B"), ("B", "C")
OLD, NEW = "((A B) C)", "(A (B C))"
MOVING, PARALLEL = MovingState.name, ParallelTrack.name
RELOCATE = "relocate"
BALANCE_BATCHES = 2  # from one look at the balance to the next


# --- who competes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contender:
    name: str
    scope: str | None = None  # what is re-planned: the groups of a slot, or all; None: nothing
    balanced: bool = False
    by: str = MOVING

    def memory(self, look_batches: int) -> AdaptSettings:
        replan = ReplanSettings() if self.scope is None else ReplanSettings("refined", look_batches, scope=self.scope)
        policy = RELOCATE if self.balanced else OFF
        balance = BalanceSettings(policy, every=BALANCE_BATCHES, least_bytes=1, by=self.by)
        return AdaptSettings(replan=replan, balance=balance)


NONE = Contender("no adaptation")
LOCAL = Contender("local plans", BY_SLOT)
BALANCED = Contender("balancing", balanced=True)
BOTH_MOVING = Contender("both, moving-state", BY_SLOT, balanced=True)
BOTH_PARALLEL = Contender("both, parallel-track", BY_SLOT, balanced=True, by=PARALLEL)
BOTH_AUTO = Contender("both, auto", BY_SLOT, balanced=True, by=AUTO)
CONTENDERS = (NONE, LOCAL, BALANCED, BOTH_PARALLEL, BOTH_MOVING, BOTH_AUTO)
FEW = (NONE, LOCAL, BALANCED, BOTH_MOVING)  # where ways are not compared
WAYS = (NONE, BOTH_PARALLEL, BOTH_MOVING)  # where nothing else is
ONE_PLAN = Contender("one plan for all", BY_QUERY)
OWN_PLANS = Contender("a plan for each slot", BY_SLOT)
SCOPES = (NONE, ONE_PLAN, OWN_PLANS)


def crowded() -> tuple[int, ...]:
    """The owner of each group: half of them are on the first slot, and the others spread evenly over the rest."""
    first = int(GROUPS * CROWDED)
    return (*[0] * first, *(1 + (SLOTS - 1) * place // (GROUPS - first) for place in range(GROUPS - first)))


# --- settings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Setting(Banded):
    """Times are at normal speed, but for what `Banded` has of its own."""

    name: str
    figures: str
    seconds: float  # that it runs for
    load: float  # seconds that the fullest slot takes for a second of input between these two:
    loaded: tuple[float, float]
    batch_seconds: float
    look_batches: int  # from one look at plans to the next
    owners: tuple[int, ...] = crowded()

    def values(self) -> Ints:
        """As many in each group."""
        each = self.copies // GROUPS
        parts = [values_between(Fraction(n, GROUPS), Fraction(n + 1, GROUPS), each) for n in range(GROUPS)]
        return np.concatenate(parts)


def fall(extent: Extent) -> Setting:
    """As printed: B and C come at a twentieth of their rates from second 30 on."""
    rate = 100 * extent.fall_rate
    return Setting(
        name="fall",
        figures="23.1 to 23.8, 23.15",
        rates=dict.fromkeys("ABC", rate),
        other_rates=(OtherRates(CHANGE, {"B": rate / 20, "C": rate / 20}),),
        selectivities=dict.fromkeys((AB, BC), 0.3 / (rate * CHANGE)),  # a row of A meets 0.3 of B when they fall
        window_seconds=60.0,
        copies=extent.copies,
        seconds=extent.fall_seconds,
        load=2.5,
        loaded=(0.0, CHANGE),
        batch_seconds=1.0 * extent.batches,
        look_batches=10,
    )


def rise(extent: Extent, load: float = 3.5) -> Setting:
    """The same rates after second 30, come to from below: A rises to 20 times those of B and C."""
    rate = 5 * extent.rise_rate
    width = 10.0
    return Setting(
        name="rise",
        figures="23.1 to 23.8",
        rates=dict.fromkeys("ABC", rate),
        other_rates=(OtherRates(CHANGE, {"A": 20 * rate}),),
        selectivities=dict.fromkeys((AB, BC), 0.3 / (rate * width)),  # a row of A meets 0.3 of B
        window_seconds=width,
        copies=extent.copies,
        seconds=extent.rise_seconds,
        load=load,
        loaded=(CHANGE, CHANGE + width),
        batch_seconds=0.5 * extent.batches,
        look_batches=5,
    )


def cell(extent: Extent, rate: float, window_seconds: float, speed: float = 1.0) -> Setting:
    """One of the 12 settings of section 23.3: rates stay, and from second 30 on A and B meet ten times as often."""
    return Setting(
        name=f"{rate:g}/s, {window_seconds:g} s",
        figures="23.9 to 23.14",
        rates=dict.fromkeys("ABC", rate * extent.cell_rate),
        selectivities={AB: 0.0005, BC: 0.0005},
        switches=(Switch(CHANGE, {AB: 0.005}),),
        window_seconds=window_seconds,
        speed=speed,
        copies=extent.copies,
        seconds=extent.cell_seconds,
        load=CELL_LOAD,
        loaded=(CHANGE, 2 * CHANGE),
        batch_seconds=1.0 * extent.batches,
        look_batches=5,
    )


CELL_RATES, CELL_WINDOWS = (30.0, 40.0, 50.0), (15.0, 30.0, 45.0, 60.0)
FILLED_CELL = (40.0, 30.0)  # the one that has the load; all others have the same speed
CELL_LOAD = 1.5


def parted(extent: Extent) -> Setting:
    """Ours: for half of the keys A and B meet often, for the others B and C, and slots have keys of one kind.

    The plan that it starts with is right for the second half.
    """
    base = replace(cell(extent, *FILLED_CELL), name="parted", figures="", seconds=extent.parted_seconds)
    switches = (Switch(0.0, {AB: 0.005}, (0.0, 0.5)), Switch(0.0, {BC: 0.005}, (0.5, 1.0)))
    owners = tuple(SLOTS * group // GROUPS for group in range(GROUPS))
    return replace(base, switches=switches, owners=owners, load=2.5, loaded=(0.0, CHANGE))


# --- how much of it --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Extent:
    """How large the experiment is made. Rates are those of the dissertation, in all, times so much for each copy."""

    copies: int
    fall_rate: float
    rise_rate: float
    cell_rate: float
    fall_seconds: float
    rise_seconds: float
    cell_seconds: float
    parted_seconds: float
    rates: tuple[float, ...]
    windows: tuple[float, ...]
    loads: tuple[float, ...]  # that `rise` is run with, beside its own
    batches: float = 1.0  # times as long as each setting says


FULL = Extent(100, 0.3, 3.0, 0.3, 90.0, 75.0, 90.0, 60.0, CELL_RATES, CELL_WINDOWS, (2.0, 5.0))
QUICK = Extent(100, 0.1, 1.0, 0.1, 45.0, 45.0, 50.0, 40.0, (40.0,), (30.0,), (), batches=2.0)
