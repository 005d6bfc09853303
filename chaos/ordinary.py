"""What happens on any day: files arrive, time passes, runs are stopped and started again, with other settings too."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from chaos.ground import OUTPUTS, Ground
from chaos.shapes import Shape
from chaos.world import World

MOST_AHEAD = 6  # files that a stream may be ahead of another


@dataclass(frozen=True)
class Arrive:
    """Files of streams arrive: so many of each of these, in one of the ways of `Feed.arrive`."""

    streams: tuple[str, ...]
    files: int = 1
    how: str = ""
    extra_late: int = 0
    running: ClassVar[bool] = True

    def apply(self, world: Ground) -> str:
        for _ in range(self.files):
            for name in self.streams:
                if world.feed.ahead(name) < MOST_AHEAD:
                    world.feed.arrive(name, self.how, self.extra_late)
        return "arrived"


def draw_arrive(draw: random.Random, shape: Shape) -> Arrive:
    streams = shape.streams if draw.random() < 0.8 else (draw.choice(shape.streams),)
    how = draw.choices(("", "swap", "hold"), (8, 2, 1))[0]
    return Arrive(streams, draw.choices((1, 2, 3), (12, 2, 1))[0], how, draw.choice((0, 0, 0, 2)))


@dataclass(frozen=True)
class Wait:
    """Nothing arrives for a while: a run does what is worth doing when sources are silent."""

    seconds: float
    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        world.mortal.clock.sleep(self.seconds)
        return "waited"


def draw_wait(draw: random.Random, shape: Shape) -> Wait:
    return Wait(draw.choice((0.5, 3.0, 30.0, 600.0)))


@dataclass(frozen=True)
class JumpClock:
    """The clock is set, forwards or back."""

    seconds: float
    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        world.try_fault("clock jumps")
        before = world.mortal.clock.now()
        world.mortal.clock.jump(self.seconds)
        if world.mortal.clock.now() != before:
            world.came_to_pass("clock jumps")
        return "jumped"


def draw_jump(draw: random.Random, shape: Shape) -> JumpClock:
    return JumpClock(draw.choice((-86_400.0, -3.0, -0.001, 61.0, 86_400.0, 10.0**8)))


@dataclass(frozen=True)
class Restart:
    """The run is stopped, and the next one goes on with the same settings, or others."""

    slots: int | None = None
    memory: str | None = None
    spill: str | None = None
    merge: str | None = None
    max_files: int | None = None
    max_batch_rows: int | None = None
    keep_versions: int | None = None
    keep_for: str | None = None
    output: int | None = None
    deliver_every: str | None = None
    max_rows_per_file: int | None = None
    drain: bool | None = None
    balance: str | None = None
    balance_every: int | None = None
    slot_memory: str | None = None
    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        asked = {name: value for name, value in vars(self).items() if value is not None}
        world.settings = replace(world.settings, **asked)
        return "changed" if asked else "stopped"


# What a restart may change, and to what: on every runtime, and on the local one alone.
CHOICES: dict[str, tuple[object, ...]] = {
    "slots": (1, 2, 3, 4),
    "memory": ("", "1500", "3000", "6000", "40000"),
    "spill": ("global-output-penalty", "largest", "random", "bottom-up", "off"),
    "merge": ("state-manager", "off"),
    "keep_versions": (1, 2, 5, 10),
    "max_files": (1, 2, 3),
    "output": tuple(range(OUTPUTS)),
    "deliver_every": ("", "1 second", "1 minute", "1 hour"),
    "balance": ("off", "relocate", "lazy-disk", "active-disk", "time"),
    "balance_every": (1, 2, 5),
    "slot_memory": ("", "800", "1500", "20000"),
}
LIMITS = ("memory", "slot_memory")
LOCAL_CHOICES: dict[str, tuple[object, ...]] = {
    "max_batch_rows": (0, 1, 5, 12, 20),
    "keep_for": ("", "1 second", "1 hour"),
    "max_rows_per_file": (0, 7, 1000),
    "drain": (True, False),
}


def draw_restart(draw: random.Random, shape: Shape) -> Restart:
    return draw_change(draw, shape, CHOICES | LOCAL_CHOICES)


def draw_balance(draw: random.Random, shape: Shape) -> Restart:
    """Another policy of balance, which looks often, with a limit for each slot or none."""
    every, limit = draw.choice((1, 2, 5)), str(draw.choice(CHOICES["slot_memory"]))
    policy = str(draw.choice(CHOICES["balance"][1:]))
    return Restart(balance=policy, balance_every=every, slot_memory=limit if shape.spills else None)


def draw_change(draw: random.Random, shape: Shape, choices: dict[str, tuple[object, ...]]) -> Restart:
    """A restart with another value of one setting, or with the same of all."""
    if draw.random() < 0.3:
        return Restart()
    name = draw.choice([name for name in choices if shape.spills or name not in LIMITS])
    change: dict[str, Any] = {name: draw.choice(choices[name])}
    return Restart(**change)


@dataclass(frozen=True)
class Settle:
    """A run to the end of what has arrived, after which the answer is compared whole."""

    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        world.settle()
        return "exact"


def draw_settle(draw: random.Random, shape: Shape) -> Settle:
    return Settle()
