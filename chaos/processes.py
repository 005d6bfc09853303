"""Real processes that are killed: at a named point, or whenever it comes.

What `mortal.py` plays in this process happens here to one of its own, with threads, real syncs and locks that the
system releases. When a signal arrives is not drawn from the seed, so that these histories do not repeat exactly.
"""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass
from typing import ClassVar

from chaos.deaths import points_of
from chaos.shapes import Shape
from chaos.world import World
from chaos.wrong import WrongError
from forked_runs import begin_run

LONGEST_SECONDS = 120


@dataclass(frozen=True)
class KillProcess:
    """A process runs the job and gets SIGKILL after a while, or comes to its end before."""

    after_seconds: float
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        world.try_fault("SIGKILL")
        world.arrive()
        process = begin_run(world.job_file, world.overrides())
        process.join(self.after_seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
        return _judge(world, process.exitcode, "SIGKILL")


@dataclass(frozen=True)
class DieInProcess:
    """A process runs the job and kills itself at a named point."""

    point: str
    nth: int
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        world.try_fault("process dies at a point")
        world.arrive()
        marker = world.feed.folder / f"reached-{world.counts['runs']}-{self.point}"
        fault = f"{self.point}:{self.nth}@{marker}"
        process = begin_run(world.job_file, world.overrides(), fault)
        process.join(LONGEST_SECONDS)
        return _judge(world, process.exitcode, "process dies at a point")


def _judge(world: World, code: int | None, name: str) -> str:
    world.counts["runs"] += 1
    world.mortal.forget_log()  # nobody has noted down what the process did
    world.judge.look()
    if code == -signal.SIGKILL:
        world.came_to_pass(name)
        return "killed"
    if code != 0:
        raise WrongError(f"a process ended with code {code}")
    return "ended"


def draw_kill_process(draw: random.Random, shape: Shape) -> KillProcess:
    return KillProcess(draw.uniform(0.02, 0.6))


def draw_die_in_process(draw: random.Random, shape: Shape) -> DieInProcess:
    return DieInProcess(draw.choice(points_of(shape)), 1)
