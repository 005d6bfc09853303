"""What goes to which slot while a query runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from watersmeet.errors import JobError, did_you_mean
from watersmeet.optimize.allocate import SPREAD, check_way
from watersmeet.settings.words import AUTO, OFF

TIME = "time"
BALANCE = (AUTO, OFF, "relocate", "lazy-disk", "active-disk", TIME)  # the policies of `adapt/policies/balance/`
BALANCE_WITHIN_LIMITS = "lazy-disk"  # what "auto" is where memory is limited
BALANCE_BY = (AUTO, "moving-state", "parallel-track")  # roads that lead to a plan for some groups alone


@dataclass(frozen=True)
class BalanceSettings:
    """What goes where (`policies/balance/`): by which policy, from which difference on, and how often at most."""

    policy: str = AUTO
    threshold: float = 0.8  # of the most loaded slot: what the least loaded one has at least
    every: int = 5  # batches
    weights: tuple[float, ...] = ()  # the strength of each slot; empty: as it is seen
    allocate: str = SPREAD  # where operators run when they begin (`optimize/allocate.py`)
    by_cpu: bool = False  # what a slot takes is its CPU time: slots are threads, and wait for each other
    span: timedelta = timedelta(0)  # the least time from one move to the next
    least_bytes: int | None = None  # that a slot must hold before memory is levelled; None: the policy's own
    rates: float = 2.0  # times the results a group of another slot, from which on `active-disk` makes that one spill
    by: str = AUTO  # the way to a plan for some groups alone

    def __post_init__(self) -> None:
        if self.policy not in BALANCE:
            raise JobError(
                f'unknown balance "{self.policy}"',
                detail=f"There are {', '.join(BALANCE)}.",
                hint=did_you_mean(self.policy, BALANCE),
            )
        check_way(self.allocate)
        if not 0 < self.threshold < 1:
            raise JobError(
                f'"balance_threshold" is {self.threshold:g}',
                detail="It is a share of what the most loaded slot has: above 0 and below 1.",
            )
        if self.every < 1:
            raise JobError(f'"balance_every" is {self.every}', detail="It is a number of batches, from 1.")
        if self.span < timedelta(0):
            raise JobError(f'"balance_span" is {self.span.total_seconds():g} seconds', detail="It cannot be negative.")
        if not 1 <= self.rates < math.inf:
            raise JobError(
                f'"balance_rates" is {self.rates:g}',
                detail="It is how many times the results of another slot's groups: a number from 1.",
            )
        if self.by not in BALANCE_BY:
            raise JobError(
                f'unknown balance_by "{self.by}"',
                detail=f"There are {', '.join(BALANCE_BY)}.",
                hint=did_you_mean(self.by, BALANCE_BY),
            )
        if not all(0 < weight < math.inf for weight in self.weights):
            given = ", ".join(f"{weight:g}" for weight in self.weights)
            raise JobError(f'"slot_weights" are {given}', detail="Each is a number above 0: how strong a slot is.")
