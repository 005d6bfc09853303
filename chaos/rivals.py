"""A second driver on the same checkpoint: refused where there is a lock, and where there is none it takes over."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar
from unittest import mock

from chaos.shapes import Shape
from chaos.world import World
from chaos.wrong import WrongError
from rival_runs import TAKEN_OVER
from watersmeet.errors import CheckpointError
from watersmeet.runtime.events import Event
from watersmeet.runtime.local.job import run_job
from watersmeet.state.lock import CheckpointLock

IN_USE = "another run is using the checkpoint"


@dataclass(frozen=True)
class StartTwice:
    """Another run of the same job is started: it is refused, and the first goes on."""

    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        world.try_fault("second start, locked")
        try:
            run_job(world.job_to_end(), world.hear, clock=world.mortal.clock)
        except CheckpointError as error:
            if error.primary != IN_USE:
                raise WrongError(f"a second start was told: {error.render()}") from None
            world.came_to_pass("second start, locked")
            return "refused"
        raise WrongError("a second run had the checkpoint while the first was alive")


@dataclass(frozen=True)
class TakeOver:
    """The same where there is no lock: the second takes over, for a few batches. The first must change nothing more."""

    batches: int
    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        name = "second start, takes over"
        world.try_fault(name)
        world.arrive()
        done: list[Event] = []

        def hear(event: Event) -> None:
            world.hear(event)
            if event["event"] == "batch":
                done.append(event)

        world.excused.append(TAKEN_OVER)
        with mock.patch.object(CheckpointLock, "acquire", lambda lock: None):
            run_job(world.job_to_end(), hear, lambda: len(done) >= self.batches, world.mortal.clock)
        world.came_to_pass(name)
        world.arrive()
        return "taken"


def draw_start_twice(draw: random.Random, shape: Shape) -> StartTwice:
    return StartTwice()


def draw_take_over(draw: random.Random, shape: Shape) -> TakeOver:
    return TakeOver(draw.choice((0, 1, 2, 100)))
