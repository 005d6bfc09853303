"""The plan is changed: at a batch that the job file names, by any road, or by the settings of a restart."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import ClassVar

from chaos.ground import Ground
from chaos.mortal import Blow
from chaos.shapes import Shape
from chaos.steps import Step
from chaos.world import World
from watersmeet.adapt.policies.migrate import ROADS
from watersmeet.faults import OF_MIGRATION

WINDOWS_ALONE = "parallel-track"
IN_STEPS = ("before-advance", "after-advance")
BATCHES = 4


@dataclass(frozen=True)
class ForcePlan:
    """The next run changes its plan, after so many batches, and perhaps once more."""

    changes: tuple[tuple[int, str, str], ...]  # after how many batches, to which plan, by what
    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        first = world.next_batch
        forced = tuple(Step(first + after, {"plan": plan, "by": by}) for after, plan, by in self.changes)
        world.settings = replace(world.settings, forced=forced)
        return "forced"


@dataclass(frozen=True)
class AskForPlan:
    """The next run has another plan in its settings."""

    plan: str
    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        world.settings = replace(world.settings, plan=self.plan)
        return "changed"


@dataclass(frozen=True)
class DieMigrating:
    """A run changes its plan, and dies at a point of that."""

    change: ForcePlan
    point: str
    nth: int
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        world.settings = replace(world.settings, max_files=1)
        self.change.apply(world)
        for _ in range(BATCHES):
            world.arrive()
        world.try_fault(f"dies {self.point}", Blow(self.nth, self.point))
        return world.run_to_end()


def draw_force_plan(draw: random.Random, shape: Shape) -> ForcePlan:
    return ForcePlan(tuple(_draw_change(draw, shape, after) for after in sorted(draw.sample(range(6), 2))))


def draw_ask_for_plan(draw: random.Random, shape: Shape) -> AskForPlan:
    return AskForPlan(draw.choice(shape.plans))


def draw_die_migrating(draw: random.Random, shape: Shape) -> DieMigrating:
    point = draw.choice(OF_MIGRATION)
    left_out = ("moving-state",) if point in IN_STEPS else ("parallel-track",)  # which may not come to its end in time
    return DieMigrating(ForcePlan((_draw_change(draw, shape, 0, left_out),)), point, draw.choice((1, 1, 2)))


def _draw_change(draw: random.Random, shape: Shape, after: int, left_out: tuple[str, ...] = ()) -> tuple[int, str, str]:
    roads = [road.name for road in ROADS if shape.windowed or road.name != WINDOWS_ALONE]
    return after, draw.choice(shape.plans), draw.choice([road for road in roads if road not in left_out])
