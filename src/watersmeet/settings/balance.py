"""What goes to which slot while a query runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from watersmeet.errors import JobError
from watersmeet.optimize.allocate import SPREAD, WAYS
from watersmeet.settings.declaration import Checked, setting
from watersmeet.settings.kinds import Duration, Number, OneOf, Size, Whole
from watersmeet.settings.words import AUTO, OFF

TIME = "time"
BALANCE = (AUTO, OFF, "relocate", "lazy-disk", "active-disk", TIME)  # the policies of `adapt/policies/balance/`
BALANCE_WITHIN_LIMITS = "lazy-disk"  # what "auto" is where memory is limited
BALANCE_BY = (AUTO, "moving-state", "parallel-track")  # roads that lead to a plan for some groups alone


@dataclass(frozen=True)
class BalanceSettings(Checked):
    """What goes where (`policies/balance/`): by which policy, from which difference on, and how often at most."""

    policy: str = setting(
        OneOf(BALANCE),
        AUTO,
        "What is moved from slot to slot while the query runs.",
        name="balance",
        more="`off`, `relocate`, `lazy-disk`, `active-disk` or `time`. `auto` is `lazy-disk` where `memory` or "
        "`slot_memory` is set and `spill` is not off, and `off` elsewhere. See [below](#where-the-work-runs).",
    )
    threshold: float = setting(
        Number("It is a share of what the most loaded slot has: above 0 and below 1.", above=0, below=1),
        0.8,
        "Slots are out of balance if the least loaded one has less than this share of the most loaded one.",
        name="balance_threshold",
    )
    every: int = setting(
        Whole("It is a number of batches, from 1."),
        5,
        "The number of batches between two looks, and after a move before the next.",
        name="balance_every",
    )
    weights: tuple[float, ...] = ()  # the strength of each slot; empty: as it is seen
    allocate: str = setting(
        OneOf(WAYS),
        SPREAD,
        "Where joins run when a checkpoint is new.",
        more="`spread`: each over all slots. `fewest`: on as few slots as there need be. `even`: dealt out over slots "
        "by the estimated load of each join. See [below](#where-the-work-runs).",
    )
    by_cpu: bool = False  # what a slot takes is its CPU time: slots are threads, and wait for each other
    span: timedelta = setting(
        Duration(),
        timedelta(0),
        "The least time from one move to the next, beside `balance_every`.",
        name="balance_span",
        more='Example: `"45 seconds"`.',
        unset="none",
    )
    least_bytes: int | None = setting(
        Size(),
        None,
        "How much the most loaded slot holds at least before memory is levelled.",
        name="balance_least",
        unset='half of the limit of a slot; `"1MB"` without a limit',
    )
    rates: float = setting(
        Number("It is how many times the results of another slot's groups: a number from 1.", least=1, below=math.inf),
        2.0,
        "With `active-disk`, a slot spills for another one that gives this many times as many results a group.",
        name="balance_rates",
    )
    by: str = setting(
        OneOf(BALANCE_BY),
        AUTO,
        "How some groups come to another plan than others, where nobody names a way.",
        name="balance_by",
        more="`moving-state`, `parallel-track`, or `auto`, the cheaper one. See [below](#plans-that-differ-by-group).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 < weight < math.inf for weight in self.weights):
            given = ", ".join(f"{weight:g}" for weight in self.weights)
            raise JobError(f'"slot_weights" are {given}', detail="Each is a number above 0: how strong a slot is.")
