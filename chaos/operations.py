"""What an operator does to a checkpoint: looks through all of it while its query runs, backs it up, restores it."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from dataclasses import dataclass
from typing import ClassVar

from chaos.deaths import arrive
from chaos.judge import WrongError
from chaos.shapes import Shape
from chaos.world import World
from watersmeet.cli.main import main
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.verify.findings import Report
from watersmeet.state.verify.walk import verify


@dataclass(frozen=True)
class Verify:
    """`watersmeet state verify`, between two batches of a run: whatever has happened, it is sound."""

    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        report = look_through(world)
        if report is None:
            raise WrongError("verify found no checkpoint, while a run is under way")
        if not report.sound:
            raise WrongError(f"verify says of a checkpoint that nobody has damaged: {report}")
        return "sound"


@dataclass(frozen=True)
class BackUpAndRestore:
    """A backup is made, so many batches follow, the checkpoint is lost, and the backup restored.

    What was delivered after the backup is set aside, and is delivered once more.
    """

    batches: int
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        name = "backup and restore"
        world.try_fault(name)
        world.settle()
        backups = str(world.feed.folder / "backups")
        _command(world, "state", "backup", world.places.checkpoint, backups)
        for _ in range(self.batches):
            arrive(world)
            world.run_to_end()
        shutil.rmtree(world.places.checkpoint)
        _command(world, "state", "restore", backups, world.places.checkpoint, "--set-aside")
        world.mortal.forget_log()
        world.judge.look_again()
        report = look_through(world)
        if report is None or not report.sound:
            raise WrongError(f"verify says of a checkpoint that was restored: {report}")
        world.came_to_pass(name)
        return "restored"


def _command(world: World, *arguments: str) -> None:
    told = io.StringIO()
    with world.mortal.alive(), contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = main(list(arguments))
    if code:
        raise WrongError(f"{' '.join(arguments)}: {told.getvalue()}")


def look_through(world: World) -> Report | None:
    return verify(CheckpointFolders(world.places.checkpoint, world.places.cache))


def draw_back_up(draw: random.Random, shape: Shape) -> BackUpAndRestore:
    return BackUpAndRestore(draw.choice((0, 1, 2)))


def draw_verify(draw: random.Random, shape: Shape) -> Verify:
    return Verify()
