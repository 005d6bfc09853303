"""The disk: full, failing, or holding other bits than were written."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chaos.mortal import Blow
from chaos.operations import look_through
from chaos.shapes import Shape
from chaos.world import World
from chaos.wrong import WrongError
from small_disk import used_kilobytes

# Where files of each kind lie, in the folder of a job.
KINDS = (
    "ck/state/versions/*",
    "ck/state/snapshots/*",
    "ck/state/head",
    "ck/state/files/*",
    "ck/state/segments/*",
    "out*/_watersmeet*/*",
    "late*/_watersmeet*/*",
)
# What a run may say of a file that is not as it was written.
DAMAGE = ("corrupt", "is missing", "damaged", "checksum")


@dataclass(frozen=True)
class FailDisk:
    """An operation on the disk fails: the run ends with an error, or does without."""

    nth: int
    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        failure = OSError(errno.EIO, os.strerror(errno.EIO))
        world.try_fault("disk fails", Blow(self.nth, error=failure))
        world.excused.append(os.strerror(errno.EIO))
        world.arrive()
        return "armed"


@dataclass(frozen=True)
class FillDisk:
    """The disk has so many kilobytes left: the run ends with an error, and the next one has space again."""

    free_kilobytes: int
    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        world.try_fault("full disk")
        assert world.resize is not None, "a world with a full disk has a disk of its own"
        world.excused.append(os.strerror(errno.ENOSPC))
        world.fill_disk(used_kilobytes(world.home) + self.free_kilobytes)
        world.arrive()
        return "filled"


@dataclass(frozen=True)
class FlipBit:
    """A bit changes in a file while no run is under way. Told, or without harm; then the file is put back."""

    kind: str
    pick: float
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        files = sorted(path for path in world.home.glob(self.kind) if path.is_file() and path.stat().st_size)
        if not files:
            return "no file"
        path = files[int(self.pick * len(files))]
        sound = path.read_bytes()
        place = int(self.pick * 7919) % (8 * len(sound))
        rotten = bytearray(sound)
        rotten[place // 8] ^= 1 << place % 8
        name = "bit flips"
        world.try_fault(name)
        path.write_bytes(rotten)
        world.mortal.forget_log()
        world.arrive()
        report = look_through(world)
        world.excused += DAMAGE
        ended = world.run_to_end()
        if ended != "ended" and report is not None and report.sound:
            raise WrongError(f"verify found nothing wrong with {path.name}, and a run was refused: {ended}")
        _repair(path, bytes(rotten), sound)
        world.mortal.forget_log()
        world.came_to_pass(name)
        if ended != "ended":
            world.came_to_pass(f"{name}, refused")
        return "harmless" if ended == "ended" else "refused"


def _repair(path: Path, rotten: bytes, sound: bytes) -> None:
    """Put the file back from the copy, unless it has gone, or another has its name."""
    if path.exists() and path.read_bytes() == rotten:
        path.write_bytes(sound)


def draw_fail_disk(draw: random.Random, shape: Shape) -> FailDisk:
    return FailDisk(draw.randint(1, 60))


def draw_fill_disk(draw: random.Random, shape: Shape) -> FillDisk:
    return FillDisk(draw.choice((0, 0, 4, 8, 16, 32)))


def draw_flip_bit(draw: random.Random, shape: Shape) -> FlipBit:
    return FlipBit(draw.choice(KINDS), draw.random())
