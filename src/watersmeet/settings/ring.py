"""How a join without an equality lies over slots."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

from watersmeet.errors import JobError
from watersmeet.settings.declaration import Checked, setting
from watersmeet.settings.kinds import Kind, OneOf, Place, expect
from watersmeet.settings.scale import IN_TIME
from watersmeet.settings.words import AUTO, OFF

AGGRESSIVE, PASSIVE = "aggressive", "passive"
RELOCATE = (AGGRESSIVE, PASSIVE)
RING_ADAPT = (OFF, "smooth", AUTO)


class RingSlots(Kind[int]):
    """A number of slots, or "auto", which is 0."""

    python: ClassVar[str] = "int | str"

    def read(self, value: Any, place: Place) -> int:
        if place.where:
            expect(value, (int, str), place)
        if value == AUTO:
            return 0
        number = int(value) if isinstance(value, str) and value.isdecimal() else value
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise JobError(f'"ring_slots" is {value!r}', detail='It is "auto", or a number of slots, from 1.')
        return number

    def read_option(self, value: Any, place: Place) -> int:
        return self.read(value if isinstance(value, int) and not isinstance(value, bool) else str(value), place)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 1}, {"const": AUTO}]}

    def given(self, value: int) -> int | str:
        return value or AUTO


@dataclass(frozen=True)
class RingSettings(Checked):
    """How a join that no hash serves lies over slots (`policies/ring/`): at the start, and what is done while it "
    "runs."""

    slots: int = setting(
        RingSlots(),
        0,
        "How many of the slots a join without an equality (a *ring*) lies over when a checkpoint is new.",
        name="ring_slots",
        more="The first so many: a number from 1 to `slots`, or `auto`, by the cost model. See [below](#rings).",
    )
    policy: str = setting(
        OneOf(RING_ADAPT),
        OFF,
        "How that number, and the rows of a ring in each slot, change while the query runs.",
        name="ring_adapt",
        more="`smooth` levels the rows of a ring over its slots; `auto` makes it longer and shorter, too.",
    )
    relocate: str = setting(
        OneOf(RELOCATE),
        AGGRESSIVE,
        "How a ring comes to another length: at once, or a little with each batch.",
        name="ring_relocate",
        more="`aggressive` or `passive`.",
    )
    seconds: float | None = setting(
        IN_TIME,
        None,
        'With `ring_adapt = "auto"`, the seconds that a batch may take.',
        name="ring_seconds",
        more="Without an interval of the trigger it must be given.",
        unset="the interval of the trigger",
    )

    def following(self, interval: timedelta | None, slots: int) -> RingSettings:
        """With the interval of a trigger, if it says no time itself, for a run that begins with so many slots."""
        if self.slots > slots:
            raise JobError(
                f'"ring_slots" is {self.slots}, and there are {slots} slots',
                detail="A ring lies over some of the slots of the run, or all of them.",
                hint='Have more slots, or say ring_slots = "auto".',
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
