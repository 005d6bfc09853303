"""The process dies: at a named point, at any operation on the disk, again and again; or the power goes with it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from chaos.mortal import Blow
from chaos.shapes import Shape
from chaos.world import World
from watersmeet.faults import POINTS

# Points that only a run with a budget comes to.
OF_MEMORY = ("in-merge", "before-spill", "after-spill")

# Points that every start with new files comes to, each at least so often; the last is any operation on the disk.
CERTAIN = (
    ("before-commit", 2),
    ("in-commit", 2),
    ("after-commit", 2),
    ("before-collect-garbage", 2),
    ("before-prepare", 1),
    ("", 12),
)


@dataclass(frozen=True)
class DieAt:
    """The run dies when it comes to a named point for the `nth` time from now. Files arrive, for it to come there."""

    point: str
    nth: int = 1
    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        world.try_fault(f"dies {self.point}", Blow(self.nth, self.point))
        arrive(world)
        return "armed"


@dataclass(frozen=True)
class DieAnywhere:
    """The run dies at the `nth` operation on the disk from now."""

    nth: int
    power: bool = False
    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        world.try_fault("power loss" if self.power else "dies anywhere", Blow(self.nth, power=self.power))
        arrive(world)
        return "armed"


@dataclass(frozen=True)
class DieInARow:
    """So many runs die one after the other, before or after they get anywhere."""

    blows: tuple[tuple[str, int], ...]  # points ("" for any operation) and counts
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        name = f"{len(self.blows)} deaths in a row"
        world.try_fault(name)
        for point, count in self.blows:
            arrive(world)
            world.mortal.blow = Blow(count, point, name="dies in a row")
            ended = world.run_to_end()
            if ended != "died":  # it came to the end before; what has arrived since is another chance
                return f"{ended} before"
        world.came_to_pass(name)
        return "died"


def arrive(world: World) -> None:
    for name in world.shape.streams:
        world.feed.arrive(name, extra_late=1)


def points_of(shape: Shape) -> tuple[str, ...]:
    return POINTS if shape.memory and "routed" not in shape.name else tuple(p for p in POINTS if p not in OF_MEMORY)


def draw_die_at(draw: random.Random, shape: Shape) -> DieAt:
    return DieAt(draw.choice(points_of(shape)), draw.choice((1, 1, 2, 3, 5)))


def draw_die_anywhere(draw: random.Random, shape: Shape) -> DieAnywhere:
    return DieAnywhere(draw.randint(1, 80))


def draw_power_loss(draw: random.Random, shape: Shape) -> DieAnywhere:
    return DieAnywhere(draw.randint(1, 80), power=True)


def draw_in_a_row(draw: random.Random, shape: Shape) -> DieInARow:
    return DieInARow(tuple((point, draw.randint(1, most)) for point, most in draw.choices(CERTAIN, k=15)))
