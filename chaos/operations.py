"""What an operator does to a checkpoint: looks through all of it, backs it up, restores it, goes back, compacts it.

On any runtime. A command may die in the middle; what it has begun is then for the next run to finish, or to find as it
was.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace
from typing import ClassVar

from chaos.ground import Ground
from chaos.mortal import Blow
from chaos.shapes import Shape
from chaos.wrong import WrongError
from watersmeet.faults import ROLLBACK_POINTS
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.verify.findings import Report
from watersmeet.state.verify.walk import verify

KEPT = 40  # versions, so that there is something to go back to
# What a rollback may say of a version at which results waited that are in one file with later ones by now.
GATHERED = "were gathered with later ones"


@dataclass(frozen=True)
class Verify:
    """`watersmeet state verify`, between two batches of a run: whatever has happened, it is sound."""

    running: ClassVar[bool] = True

    def apply(self, world: Ground) -> str:
        check_sound(world)
        return "sound"


@dataclass(frozen=True)
class BackUpAndRestore:
    """A backup is made, so many batches follow, the checkpoint is lost, and the backup restored.

    What was delivered after the backup is set aside, and is delivered once more.
    """

    batches: int
    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        name = "backup and restore"
        world.try_fault(name)
        world.settle()
        _back_up(world)
        _run_batches(world, self.batches)
        restore(world)
        world.came_to_pass(name)
        return "restored"


@dataclass(frozen=True)
class RollBack:
    """So many batches are run, and undone again, back to any version that can be gone back to."""

    batches: int
    pick: float  # which of the versions
    how: str = "aside"  # what becomes of results that were delivered since
    blow: Blow | None = None  # that ends the command in the middle
    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        world.try_fault("rollback")
        _keep_versions(world)
        _run_batches(world, self.batches)
        came = _roll_back(world, self.pick, self.how, self.blow)
        if came == "ended":
            world.came_to_pass("rollback")
        return came


@dataclass(frozen=True)
class BackUpRollBackRestore:
    """A backup, a rollback to before or after it, and the backup is restored: its results are in the output again."""

    before: int  # batches, that can be gone back behind
    after: int  # between the backup and the rollback
    again: int  # after the rollback
    pick: float
    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        name = "backup, rollback, restore"
        world.try_fault(name)
        world.settle()
        _keep_versions(world)
        _run_batches(world, self.before)
        _back_up(world)
        _run_batches(world, self.after)
        came = _roll_back(world, self.pick, "aside")
        _run_batches(world, self.again)
        restore(world)
        if came == "ended":
            world.came_to_pass(name)
        return came


@dataclass(frozen=True)
class Compact:
    """`watersmeet state compact`, between two runs."""

    blow: Blow | None = None
    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        world.try_fault("compaction")
        world.arrive()
        world.run_to_end()
        if self.blow is not None:
            world.try_fault("compaction dies", self.blow)
        came = world.command("state", "compact", world.places.checkpoint)
        if came == "ended":
            check_sound(world)
            world.came_to_pass("compaction")
        return came


def _keep_versions(world: Ground) -> None:
    world.settings = replace(world.settings, keep_versions=max(KEPT, world.settings.keep_versions))


def _run_batches(world: Ground, batches: int) -> None:
    for _ in range(batches):
        world.arrive()
        world.run_to_end()


def _back_up(world: Ground) -> None:
    world.command("state", "backup", world.places.checkpoint, backups_of(world))


def backups_of(world: Ground) -> str:
    return str(world.feed.folder / "backups")


def restore(world: Ground) -> None:
    shutil.rmtree(world.places.checkpoint)
    world.command("state", "restore", backups_of(world), world.places.checkpoint, "--set-aside")
    world.forget_log()
    world.judge.look()
    check_sound(world)


def _roll_back(world: Ground, pick: float, how: str, blow: Blow | None = None) -> str:
    """Go back to one of the versions that can be; input and results of those before the last sweep have gone."""
    versions = world.versions()
    can = [m.version for m in versions if versions[-1].can_go_back_to(m.version) and m.version >= world.swept_at]
    if not can:
        return "no version"
    version = str(can[int(pick * len(can))])
    if blow is not None:
        world.try_fault("rollback dies", blow)
    world.excused.append(GATHERED)
    came = world.command(
        "state", "rollback", world.places.checkpoint, "--to-version", version, "--yes", "--results", how
    )
    if came == "ended":
        check_sound(world)
    return came


def check_sound(world: Ground) -> None:
    report = look_through(world)
    if report is None or not report.sound:
        raise WrongError(f"verify says of a checkpoint that nobody has damaged: {report or 'there is none'}")


def look_through(world: Ground) -> Report | None:
    return verify(CheckpointFolders(world.places.checkpoint, world.places.cache))


def draw_back_up(draw: random.Random, shape: Shape) -> BackUpAndRestore:
    return BackUpAndRestore(draw.choice((0, 1, 2)))


def draw_roll_back(draw: random.Random, shape: Shape) -> RollBack:
    blow = None if draw.random() < 0.5 else draw_blow(draw, ("", "", *ROLLBACK_POINTS[:3], "in-commit", "after-commit"))
    return RollBack(draw.choice((1, 2, 3)), draw.random(), draw.choice(("aside", "remove")), blow)


def draw_back_up_roll_back(draw: random.Random, shape: Shape) -> BackUpRollBackRestore:
    return BackUpRollBackRestore(draw.choice((1, 2)), draw.choice((0, 1, 2)), draw.choice((0, 1)), draw.random())


def draw_compact(draw: random.Random, shape: Shape) -> Compact:
    return Compact(None if draw.random() < 0.5 else draw_blow(draw, ("", "", "before-commit", "after-commit")))


def draw_blow(draw: random.Random, points: tuple[str, ...]) -> Blow:
    """A command dies at one of these points; empty: at any operation on the disk, where the power may go too."""
    point = draw.choice(points)
    return Blow(draw.randint(1, 2), point) if point else Blow(draw.randint(1, 25), power=draw.random() < 0.4)


def draw_verify(draw: random.Random, shape: Shape) -> Verify:
    return Verify()
