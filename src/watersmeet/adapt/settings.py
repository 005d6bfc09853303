"""What a user asks for in the way of memory: a budget, who chooses what to spill and to merge, and forced steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import timedelta

from watersmeet.adapt.forced_step import ForcedStep
from watersmeet.adapt.policies.balance import BALANCE_POLICIES
from watersmeet.adapt.policies.migrate import AUTO, find_road
from watersmeet.adapt.policies.migrate.balancing import BALANCE_BY
from watersmeet.adapt.policies.ring.relocation import AGGRESSIVE, RELOCATE
from watersmeet.adapt.policies.spill import SPILL_POLICIES, find_spill_policy
from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.smoothing import SMOOTHINGS, find_smoothing
from watersmeet.optimize.allocate import SPREAD, check_way

OFF = "off"
MERGE_POLICIES = ("state-manager", OFF)
BALANCE = (AUTO, OFF, *(name for name, _ in BALANCE_POLICIES))
BALANCE_WITHIN_LIMITS = "lazy-disk"  # what "auto" is where memory is limited
SCALE = (OFF, "seconds")
RING_ADAPT = (OFF, "smooth", AUTO)
BY_QUERY, BY_SLOT = "query", "slot"
REPLAN_SCOPES = (BY_QUERY, BY_SLOT)
REPLAN = (AUTO, OFF, "data-driven", "memory-driven", "refined")
DEFAULT_POLICY = SPILL_POLICIES[0][0]
# Shares of the active state that one spill takes, as the papers have them.
SHARE = 0.3
FLUSH_SHARE = 0.05  # of adaptive-global-flush


@dataclass(frozen=True)
class ReplanSettings:
    """When the plan is looked at again (`policies/replan/`): for what reason, how often, and the way to another one."""

    trigger: str = OFF  # AUTO: not known before the plan is, see `for_plan`
    every: int = 10  # batches
    threshold: float = 0.2  # by which figures must have changed
    by: str = AUTO
    quota: float = 0.02  # of the time between two looks, that a search for a plan may take; 0: none is made
    scope: str = BY_QUERY  # what gets another plan: all groups together, or those of each slot by what it has measured

    def __post_init__(self) -> None:
        if self.trigger not in REPLAN:
            raise JobError(
                f'unknown replan "{self.trigger}"',
                detail=f"There are {', '.join(REPLAN)}.",
                hint=did_you_mean(self.trigger, REPLAN),
            )
        if self.scope not in REPLAN_SCOPES:
            raise JobError(
                f'unknown replan_scope "{self.scope}"',
                detail=f"There are {', '.join(REPLAN_SCOPES)}.",
                hint=did_you_mean(self.scope, REPLAN_SCOPES),
            )
        find_road(self.by)
        if self.every < 1:
            raise JobError(f'"replan_every" is {self.every}', detail="It is a number of batches, from 1.")
        if not 0 <= self.threshold <= 1:
            raise JobError(f'"replan_threshold" is {self.threshold:g}', detail="It is a share: from 0 to 1.")
        if not 0 <= self.quota <= 1:
            raise JobError(
                f'"replan_quota" is {self.quota:g}',
                detail="It is a share of the time between two looks: from 0 to 1.",
            )

    @property
    def is_by_slot(self) -> bool:
        return self.trigger != OFF and self.scope == BY_SLOT

    def for_plan(self, plan: str) -> ReplanSettings:
        """With `AUTO` made out: who leaves the choice of a plan to us leaves it to us later on as well.

        >>> ReplanSettings(AUTO).for_plan("auto").trigger, ReplanSettings(AUTO).for_plan("mjoin").trigger
        ('refined', 'off')
        """
        return replace(self, trigger="refined" if plan == AUTO else OFF) if self.trigger == AUTO else self


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


@dataclass(frozen=True)
class ScaleSettings:
    """How many slots there are (`policies/scale/`): by what, between which bounds, and the seconds a batch may take."""

    policy: str = OFF
    least: int = 1
    most: int = 8
    seconds: float | None = None  # None: as a trigger says

    def __post_init__(self) -> None:
        if self.policy not in SCALE:
            raise JobError(
                f'unknown scale "{self.policy}"',
                detail=f"There are {', '.join(SCALE)}.",
                hint=did_you_mean(self.policy, SCALE),
            )
        if not 1 <= self.least <= self.most:
            raise JobError(
                f'"scale_slots" are {self.least} and {self.most}',
                detail="They are the fewest and the most slots, from 1 up.",
            )
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise JobError(f'"scale_seconds" is {self.seconds:g}', detail="It is a time above 0 that a batch may take.")

    def following(self, interval: timedelta | None, slots: int) -> ScaleSettings:
        """With the interval of a trigger, if it says no time itself, for a run that begins with so many slots."""
        if self.policy == OFF:
            return self
        if not self.least <= slots <= self.most:
            raise JobError(
                f'a run with {slots} slots is outside of "scale_slots", {self.least} to {self.most}',
                hint="Have it begin with a number between these.",
            )
        seconds = self.seconds or (None if interval is None else interval.total_seconds())
        if not seconds:
            raise JobError(
                '"scale" has no time that a batch may take',
                detail="It compares what batches take with the interval of the trigger, and there is none.",
                hint="Set a trigger with an interval, or scale_seconds.",
            )
        return replace(self, seconds=seconds)


@dataclass(frozen=True)
class RingSettings:
    """How a join that no hash serves lies over slots (`policies/ring/`): at the start, and what is done while it runs.

    `smooth` levels its rows over the slots that it has; `auto` changes how many these are, too. `max_candidates` are
    the pairs that a task may compare in a batch.
    """

    slots: int = 0  # that it lies over at the start; 0: auto, as many as the cost model says
    policy: str = OFF
    relocate: str = AGGRESSIVE  # how it gets from one length to another
    seconds: float | None = None  # that a batch may take; None: as a trigger says
    max_candidates: int | None = None

    def __post_init__(self) -> None:
        for key, value, known in (("ring_adapt", self.policy, RING_ADAPT), ("ring_relocate", self.relocate, RELOCATE)):
            if value not in known:
                raise JobError(
                    f'unknown {key} "{value}"',
                    detail=f"There are {', '.join(known)}.",
                    hint=did_you_mean(value, known),
                )
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise JobError(f'"ring_seconds" is {self.seconds:g}', detail="It is a time above 0 that a batch may take.")
        if self.max_candidates is not None and self.max_candidates < 1:
            raise JobError(
                f'"max_candidates" is {self.max_candidates}',
                detail="It is how many pairs of rows a task may compare in a batch, from 1 up.",
            )

    def following(self, interval: timedelta | None, slots: int) -> RingSettings:
        """With the interval of a trigger, if it says no time itself, for a run that begins with so many slots."""
        if self.slots > slots:
            raise JobError(
                f'"ring_slots" is {self.slots}, and there are {slots} slots',
                detail="A ring lies over some of the slots of the run, or all of them.",
                hint='Have more slots in [run], or say ring_slots = "auto".',
            )
        if self.policy != AUTO:
            return self
        seconds = self.seconds or (None if interval is None else interval.total_seconds())
        if not seconds:
            raise JobError(
                'ring_adapt = "auto" has no time that a batch may take',
                detail="It compares what slots take with the interval of the trigger, and there is none.",
                hint='Set a trigger with an interval, or ring_seconds; ring_adapt = "smooth" needs neither.',
            )
        return replace(self, seconds=seconds)


def read_ring_slots(value: object) -> int:
    """How many slots a ring is to lie over, as users write it; 0 for auto.

    >>> read_ring_slots("auto"), read_ring_slots(3), read_ring_slots("3")
    (0, 3, 3)
    """
    if value == AUTO:
        return 0
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise JobError(f'"ring_slots" is {value!r}', detail='It is "auto", or a number of slots, from 1.')
    return number


@dataclass(frozen=True)
class MemorySettings:
    """`budget_bytes` None is no limit. A spill begins when the active state passes `spill_at` of the budget.

    `slot_bytes` is a limit for each slot: a spill takes from the slot that is over.
    """

    budget_bytes: int | None = None
    spill: str = DEFAULT_POLICY
    spill_at: float = 1.0
    spill_share: float | None = None  # None: the policy's own
    merge: str = MERGE_POLICIES[0]
    smoothing: str = SMOOTHINGS[0].name
    forced: tuple[ForcedStep, ...] = ()
    replan: ReplanSettings = ReplanSettings()
    balance: BalanceSettings = BalanceSettings()
    slot_bytes: int | None = None
    scale: ScaleSettings = ScaleSettings()
    ring: RingSettings = RingSettings()

    def __post_init__(self) -> None:
        if self.spill != OFF:
            find_spill_policy(self.spill)
        if self.merge not in MERGE_POLICIES:
            raise JobError(
                f'unknown merge policy "{self.merge}"',
                detail=f"There are {', '.join(MERGE_POLICIES)}.",
                hint=did_you_mean(self.merge, MERGE_POLICIES),
            )
        find_smoothing(self.smoothing)
        for name, value in (("spill_at", self.spill_at), ("spill_share", self.spill_share)):
            if value is not None and not 0 < value <= 1:
                raise JobError(f'"{name}" is {value:g}', detail="It is a share: above 0 and at most 1.")

    @property
    def share(self) -> float:
        """The share of the active state that one spill takes."""
        if self.spill_share is not None:
            return self.spill_share
        return FLUSH_SHARE if self.spill == "adaptive-global-flush" else SHARE

    @property
    def watched(self) -> bool:
        """Whether figures of groups are kept: a policy may have to choose by them."""
        balanced = self.balancing != OFF
        return self.spills or balanced or any(step.spill_share is not None for step in self.forced)

    @property
    def merge_bytes(self) -> int | None:
        """What merges may take at once: the budget, or that of one slot, where all of it may be. None is no limit."""
        return self.budget_bytes if self.slot_bytes is None else self.slot_bytes

    @property
    def balancing(self) -> str:
        """The policy by which groups go to other slots, or off."""
        if self.balance.policy != AUTO:
            return self.balance.policy
        return BALANCE_WITHIN_LIMITS if self.spills else OFF

    @property
    def spills(self) -> bool:
        """Whether there is a limit, and spills keep to it."""
        return (self.budget_bytes is not None or self.slot_bytes is not None) and self.spill != OFF
