"""Where the work runs is changed: other slots, groups that move and are cut, at batches that the job file names.

Policies that do all of this by themselves are settings of a restart (`ordinary.CHOICES`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import ClassVar

from chaos.ground import Ground
from chaos.mortal import Blow
from chaos.shapes import Shape
from chaos.steps import Picked, Placed
from chaos.world import World

SLOTS = (1, 2, 3, 4)
BATCHES = 4
# Around the commits that change placement, and those next to them.
POINTS = ("before-spill", "after-spill", "before-commit", "in-commit", "after-commit")


@dataclass(frozen=True)
class ForcePlacement:
    """Runs have other slots and owners from then on, after so many batches, beside what else they are forced to."""

    steps: tuple[Placed, ...]  # their batches are counted from the next one
    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        first = world.next_batch
        placed = tuple(replace(step, at_batch=first + step.at_batch) for step in self.steps)
        world.settings = replace(world.settings, placed=placed)
        return "forced"


@dataclass(frozen=True)
class DiePlacing:
    """A run changes its placement, and dies at a point of that, or close to it."""

    change: ForcePlacement
    point: str
    nth: int
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        world.settings = replace(world.settings, max_files=1)
        self.change.apply(world)
        for _ in range(BATCHES):
            world.arrive()
        world.try_fault(f"dies {self.point}, placing", Blow(self.nth, self.point))
        return world.run_to_end()


def draw_force_placement(draw: random.Random, shape: Shape) -> ForcePlacement:
    return ForcePlacement(tuple(_draw_step(draw, after) for after in sorted(draw.sample(range(6), 3))))


def draw_die_placing(draw: random.Random, shape: Shape) -> DiePlacing:
    first = replace(_draw_step(draw, 0), slots=draw.choice(SLOTS))
    return DiePlacing(ForcePlacement((first, _draw_step(draw, 1))), draw.choice(POINTS), draw.choice((1, 1, 2)))


def _draw_step(draw: random.Random, after: int) -> Placed:
    slots = draw.choice((None, None, *SLOTS))
    moves = tuple(Picked(draw.random(), draw.random(), draw.random()) for _ in range(draw.choice((0, 1, 3))))
    return Placed(after, slots, moves, Picked(draw.random(), draw.random()) if draw.random() < 0.15 else None)
