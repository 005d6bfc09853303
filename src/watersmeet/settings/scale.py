"""How many slots there are while a query runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

from watersmeet.errors import JobError
from watersmeet.settings.declaration import Checked, setting
from watersmeet.settings.kinds import Kind, Number, OneOf, Place, expect_list
from watersmeet.settings.words import OFF

IN_TIME = Number("It is a time above 0 that a batch may take.", above=0, below=math.inf)  # seconds of a batch


class SlotLimits(Kind[tuple[int, int]]):
    """The fewest and the most slots."""

    python: ClassVar[str] = "Sequence[int]"

    def read(self, value: Any, place: Place) -> tuple[int, int]:
        given = expect_list(value, place)
        if len(given) != 2 or not all(isinstance(entry, int) and not isinstance(entry, bool) for entry in given):
            raise JobError(
                f'"scale_slots" is {list(given)!r}',
                detail="It is a list of two numbers, the fewest and the most slots, such as [1, 8].",
            )
        return given[0], given[1]

    def read_option(self, value: Any, place: Place) -> tuple[int, int]:
        if isinstance(value, list | tuple):
            return self.read(value, place)
        words = [word.strip() for word in str(value).split(",")]
        return self.read([int(word) if word.isdigit() else word for word in words], place)

    def check(self, value: tuple[int, int], name: str, where: str = "") -> None:
        least, most = value
        if not 1 <= least <= most:
            raise JobError(
                f'"scale_slots" are {least} and {most}', detail="They are the fewest and the most slots, from 1 up."
            )

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2}

    def given(self, value: tuple[int, int]) -> list[int]:
        return list(value)


@dataclass(frozen=True)
class ScaleSettings(Checked):
    """How many slots there are (`policies/scale/`): by what, within which limits, and the seconds a batch may take."""

    policy: str = setting(
        OneOf((OFF, "seconds")),
        OFF,
        "How many slots there are while the query runs.",
        name="scale",
        more="`seconds`: as many as it takes for batches to be done in time. See [below](#more-and-fewer-slots).",
    )
    slots: tuple[int, int] = setting(
        SlotLimits(),
        (1, 8),
        "The fewest and the most slots; `slots` lies between them.",
        name="scale_slots",
    )
    seconds: float | None = setting(
        IN_TIME,
        None,
        "The seconds that a batch may take.",
        name="scale_seconds",
        more="Without an interval of the trigger it must be given.",
        unset="the interval of the trigger",
    )

    @property
    def least(self) -> int:
        return self.slots[0]

    @property
    def most(self) -> int:
        return self.slots[1]

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
