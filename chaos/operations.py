"""What an operator does to a checkpoint while its query runs: looks through all of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from chaos.judge import WrongError
from chaos.shapes import Shape
from chaos.world import World
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.verify.findings import Report
from watersmeet.state.verify.walk import verify


@dataclass(frozen=True)
class Verify:
    """`watersmeet state verify`, between two batches of a run: whatever has happened, it is sound."""

    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        world.try_fault("verify")
        report = look_through(world)
        if report is None:
            raise WrongError("verify found no checkpoint, while a run is under way")
        if not report.sound:
            raise WrongError(f"verify says of a checkpoint that nobody has damaged: {report}")
        world.came_to_pass("verify")
        return "sound"


def look_through(world: World) -> Report | None:
    return verify(CheckpointFolders(world.places.checkpoint, world.places.cache))


def draw_verify(draw: random.Random, shape: Shape) -> Verify:
    return Verify()
