"""The process dies: at a named point, at any operation on the disk, again and again; or the power goes with it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import ClassVar

from chaos.mortal import Blow
from chaos.shapes import Shape
from chaos.world import World
from watersmeet.faults import OF_GATHERING, POINTS

# Points that only a run with a budget comes to.
OF_MEMORY = ("in-merge", "before-spill", "after-spill")

IN_A_ROW = 15

# Points that every start with new files comes to, each at least so often; the last is any operation on the disk.
CERTAIN = (
    ("before-commit", 2),
    ("in-commit", 2),
    ("after-commit", 2),
    ("before-collect-garbage", 2),
    ("before-prepare", 1),
    ("before-segment", 2),
    ("in-segment", 2),
    ("after-segment", 2),
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
        world.arrive()
        return "armed"


@dataclass(frozen=True)
class DieAnywhere:
    """The run dies at the `nth` operation on the disk from now."""

    nth: int
    power: bool = False
    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        world.try_fault("power loss" if self.power else "dies anywhere", Blow(self.nth, power=self.power))
        world.arrive()
        return "armed"


@dataclass(frozen=True)
class DieInARow:
    """So many runs die one after the other, before or after they get anywhere."""

    blows: tuple[Blow, ...]
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        name = f"{len(self.blows)} deaths in a row"
        world.try_fault(name)
        for blow in self.blows:
            world.arrive()
            world.deal(replace(blow, name="dies in a row"))
            ended = world.run_to_end()
            if ended != "died":  # it came to the end before; what has arrived since is another chance
                return f"{ended} before"
        world.came_to_pass(name)
        return "died"


@dataclass(frozen=True)
class DieGathering:
    """Results of several batches are put into one file when the run ends, and it dies around that."""

    point: str
    batches: int
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        world.settings = replace(world.settings, deliver_every="1 hour", max_files=1)
        for _ in range(self.batches):
            world.arrive()
        world.try_fault(f"dies {self.point}", Blow(1, self.point))
        return world.run_to_end()


def points_of(shape: Shape) -> tuple[str, ...]:
    return POINTS if shape.memory and "routed" not in shape.name else tuple(p for p in POINTS if p not in OF_MEMORY)


def draw_die_at(draw: random.Random, shape: Shape) -> DieAt:
    return DieAt(draw.choice(points_of(shape)), draw.choice((1, 1, 2, 3, 5)))


def draw_die_anywhere(draw: random.Random, shape: Shape) -> DieAnywhere:
    return DieAnywhere(draw.randint(1, 80))


def draw_power_loss(draw: random.Random, shape: Shape) -> DieAnywhere:
    return DieAnywhere(draw.randint(1, 80), power=True)


def draw_in_a_row(draw: random.Random, shape: Shape) -> DieInARow:
    def draw_one() -> Blow:
        point, most = draw.choice(CERTAIN)
        return Blow(draw.randint(1, most), point, power=not point and draw.random() < 0.3)

    return DieInARow(tuple(draw_one() for _ in range(IN_A_ROW)))


def draw_die_gathering(draw: random.Random, shape: Shape) -> DieGathering:
    return DieGathering(draw.choice(OF_GATHERING), draw.choice((2, 3)))
