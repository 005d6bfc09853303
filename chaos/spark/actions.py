"""What is done to a job on Spark, beside what `chaos/ordinary.py` and `chaos/operations.py` have for any runtime."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from chaos.mortal import Blow
from chaos.operations import backups_of, check_sound, restore
from chaos.rivals import IN_USE
from chaos.spark.world import WANTED, SparkWorld
from chaos.wrong import WrongError


@dataclass(frozen=True)
class Run:
    """A run over all that has arrived, and a file more of each stream."""

    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        world.arrive()
        return world.run_to_end()


PATIENCE_SECONDS = 40.0  # with a run that waits for more, and may have no more to commit


@dataclass(frozen=True)
class Terminate:
    """A run that waits for more is told to end by SIGTERM, which it does between two batches."""

    versions: int
    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        world.try_fault("SIGTERM")
        world.arrive()
        driver = world.start(endless=True)
        world.wait_for_versions(driver, self.versions, PATIENCE_SECONDS)
        driver.send(signal.SIGTERM)
        ended = world.finish(driver)
        if ended == "stopped":
            world.came_to_pass("SIGTERM")
        return ended


@dataclass(frozen=True)
class KillDriver:
    """The driver is killed so long after it has committed so many versions; with none, after it was started."""

    versions: int
    seconds: float
    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        name = "driver killed at any moment"
        world.try_fault(name)
        world.arrive()
        world.arrive()
        driver = world.start()
        world.wait_for_versions(driver, self.versions)
        driver.wait_until(lambda: False, self.seconds)
        driver.send(signal.SIGKILL)
        ended = world.finish(driver)
        if ended == "died":
            world.came_to_pass(name)
        return ended


@dataclass(frozen=True)
class DieAtPoint:
    """The driver, or a Python worker of a task, dies at a named point."""

    point: str
    nth: int
    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        name = "dies at a point"
        world.try_fault(name, Blow(self.nth, self.point))
        world.arrive()
        before = world.faults.fired[name]
        ended = world.run_to_end()
        if world.faults.fired[name] > before:
            world.came_to_pass(f"dies {self.point}")
        return ended


@dataclass(frozen=True)
class DieAgainAndAgain:
    """So many drivers die one after the other."""

    points: tuple[tuple[str, int], ...]
    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        name = f"{len(self.points)} deaths in a row"
        world.try_fault(name)
        for point, nth in self.points:
            world.arrive()
            world.deal(Blow(nth, point, name="dies in a row"))
            if (ended := world.run_to_end()) != "died":
                return f"{ended} before"
        world.came_to_pass(name)
        return "died"


@dataclass(frozen=True)
class FailFunction:
    """The function of `foreachBatch` raises, in so many starts one after the other; then it does not."""

    failing: tuple[int, ...]  # the call that raises, of each start
    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        name = "function of foreachBatch raises"
        for call in self.failing:
            world.try_fault(name)
            world.arrive()
            world.excused.append(WANTED)
            if world.finish(world.start(fail=call)) != "ended":
                world.came_to_pass(name)
        return world.run_to_end()


@dataclass(frozen=True)
class StartTwice:
    """Another driver of the same job, while one is under way: it is refused, and the first goes on."""

    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        name = "second driver, locked"
        world.try_fault(name)
        world.arrive()
        first = world.start(endless=True)
        there = world.wait_for_versions(first, 1)
        second = world.start_beside()
        code = second.end(120)
        if there and first.alive:
            if code != 2 or IN_USE not in second.said():
                raise WrongError(f"a second driver ended with code {code}: {second.said()[-1500:]}")
            world.came_to_pass(name)
        first.send(signal.SIGTERM)
        return world.finish(first)


@dataclass(frozen=True)
class BackUpWhileRunning:
    """A backup of a checkpoint whose run goes on; then the checkpoint is lost, and restored from it."""

    versions: int
    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        name = "backup while it runs, and restore"
        world.try_fault(name)
        world.settle()
        world.arrive()
        world.arrive()
        driver = world.start(endless=True)
        there = world.wait_for_versions(driver, self.versions, PATIENCE_SECONDS)
        world.command("state", "backup", world.places.checkpoint, backups_of(world))
        check_sound(world)
        under_way = there and driver.alive
        driver.send(signal.SIGTERM)
        world.finish(driver)
        restore(world)
        if under_way:
            world.came_to_pass(name)
        return "restored"


@dataclass(frozen=True)
class VerifyWhileRunning:
    """`watersmeet state verify` again and again, while a run goes on: it is sound at every moment."""

    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        world.arrive()
        driver = world.start()
        world.wait_for_versions(driver, 1)
        while driver.alive:
            check_sound(world)
            world.counts["Verify"] += 1
        return world.finish(driver)


@dataclass(frozen=True)
class KillExecutors:
    """Executors of a cluster are killed in the middle of batches, one so long after so many versions, and the next."""

    versions: int
    seconds: float
    picks: tuple[float, ...]  # which of those that there are
    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        name = "executor killed in a batch"
        for _ in range(3):
            world.arrive()
        driver = world.start()
        killed: dict[int, int] = {}  # by process: the newest version then
        for pick in self.picks:
            world.try_fault(name)
            world.wait_for_versions(driver, self.versions)
            driver.wait_until(lambda: False, self.seconds)
            found = world.executors()
            if found and driver.alive:
                pid = found[int(pick * len(found))]
                killed[pid] = world.version()
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        ended = world.finish(driver)
        left = world.executors()
        for pid, version in killed.items():
            if pid not in left and world.version() > version:  # there was work to do without it
                world.came_to_pass(name)
        return ended


@dataclass(frozen=True)
class HoldUpExecutor:
    """An executor of a cluster stands still for some seconds, with the tasks that it has, after so many versions."""

    versions: int
    pick: float  # which of those that there are
    seconds: float
    running: ClassVar[bool] = False

    def apply(self, world: SparkWorld) -> str:
        name = "executor held up in a batch"
        world.try_fault(name)
        for _ in range(3):
            world.arrive()
        driver = world.start()
        world.wait_for_versions(driver, self.versions)
        found = world.executors()
        if not found or not driver.alive:
            return world.finish(driver)
        version = world.version()
        with world.hold_up(found[int(self.pick * len(found))]):
            driver.wait_until(lambda: False, self.seconds)
        ended = world.finish(driver)
        if world.version() > version:  # there was work to do after it
            world.came_to_pass(name)
        return ended
