"""How a join that no hash serves lies over slots."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import timedelta

from watersmeet.errors import JobError, did_you_mean
from watersmeet.settings.words import AUTO, OFF

RING_ADAPT = (OFF, "smooth", AUTO)
AGGRESSIVE, PASSIVE = "aggressive", "passive"
RELOCATE = (AGGRESSIVE, PASSIVE)


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
