"""How many slots there are while a query runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import timedelta

from watersmeet.errors import JobError, did_you_mean
from watersmeet.settings.words import OFF

SCALE = (OFF, "seconds")


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
