"""A process that may die, in this process: runs of the product whose every step is repeatable and can be the last.

`Mortal` puts in force, for the time of one run, all that makes it a function of the seed: one thread, a clock that is
moved by hand, names drawn from the seed, a recorder of the disk. A death is an exception that no code of the product
catches, after which nothing on the disk changes any more; what a real process would lose, this one loses too, for
nothing of a run outlives it here but its files. It can come at a named point of `watersmeet.faults` or at any operation
on the disk; the power can go there as well.

What needs a real process is in `processes.py`: threads, locks that the system releases, and moments inside a system
call.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from power_loss import Killed, Recorder
from watersmeet import faults
from watersmeet.adapt.policies.balance import relocation
from watersmeet.adapt.policies.migrate import seeded
from watersmeet.model.slot_figures import SlotFigures
from watersmeet.runtime import checkpoint, compacting, opening, rollback, stages, upgrading
from watersmeet.runtime.clock import Ended, never
from watersmeet.runtime.local import executor
from watersmeet.state import file_lists, syncing, table
from watersmeet.state.epochs import Holder


def _by_rows(seconds: float, cpu_seconds: float, rows_in: float, rows_out: float) -> SlotFigures:
    """What a task takes, as a function of the seed: a millisecond a row."""
    took = (rows_in + rows_out) / 1000
    return SlotFigures(took, took, rows_in, rows_out)


# Snapshots, lists of files and looks through all files come often, so that histories have many of each.
SOON: tuple[tuple[Any, str, Any], ...] = (
    (table, "SNAPSHOT_EVERY", 4),
    (file_lists, "LISTED", 3),
    (checkpoint, "LOOK_THROUGH_EVERY", 25),
    (seeded, "_rows_allowed", lambda standing: 40),  # so that a change of the plan takes several steps
    (relocation, "LEAST_BYTES", 200),
    (stages, "SlotFigures", _by_rows),
)


class JumpingClock:
    """Stands still but for `sleep`, and jumps when it is told to, in both directions."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        return self.time

    def utc_us(self) -> int:
        return round(self.time * 1e6)

    def sleep(self, seconds: float, ended: Ended = never) -> None:
        self.time += max(0.0, seconds)

    def jump(self, seconds: float) -> None:
        self.time += seconds


@dataclass(frozen=True)
class Blow:
    """What is to happen at the `count`th reach of a named point, or operation on the disk."""

    count: int
    point: str = ""  # empty: any operation on the disk
    error: OSError | None = None  # that the operation ends with; None: the process dies
    power: bool = False  # the power goes too
    name: str = ""  # of the kind of fault, for the counts


class InlineThreads:
    """A pool of threads that has none: runs what it is handed at once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def map(self, work: Callable[..., Any], *items: Iterable[Any]) -> list[Any]:
        return list(map(work, *items))

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


class Mortal:
    """The circumstances of runs in `home`, from one seed."""

    def __init__(self, home: Path, seed: object) -> None:
        self.home = home
        self.clock = JumpingClock()
        self.blow: Blow | None = None
        self.fired = False
        self._left = 0
        self.points: Counter[str] = Counter()  # reached, by name
        self.operations: Counter[str] = Counter()
        self.recorder: Recorder | None = None
        self._draw = random.Random(f"names {seed}")

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Runs may run, until one dies."""
        recorder = self.recorder if self.recorder is not None else Recorder(self.home)
        recorder.strike = self._operate
        recorder.dead = False
        self.recorder = recorder
        this_run: Callable[..., Holder] = vars(opening)["this_run"]

        def known(*arguments: Any) -> Holder:
            return replace(this_run(*arguments), host="here", pid=1, since="2026-11-17 00:00:00 UTC")

        with ExitStack() as stack:
            for target, name, value in SOON:
                stack.enter_context(mock.patch.object(target, name, value))
            stack.enter_context(mock.patch.object(faults, "reach", self._reach))
            stack.enter_context(mock.patch.object(uuid, "uuid4", self._uuid))
            stack.enter_context(mock.patch.object(executor, "ThreadPoolExecutor", InlineThreads))
            stack.enter_context(mock.patch.object(pq, "read_table", partial(pq.read_table, use_threads=False)))
            stack.enter_context(mock.patch.object(syncing, "_threads", InlineThreads))
            stack.enter_context(mock.patch.object(checkpoint, "time", SimpleNamespace(monotonic=self.clock.now)))
            for module in (opening, rollback, compacting):
                stack.enter_context(mock.patch.object(module, "this_run", known))
            for module in (opening, rollback, compacting, upgrading):
                stack.enter_context(mock.patch.object(module, "utc_us", self.clock.utc_us))
            stack.enter_context(recorder.recording())
            yield

    def forget_log(self) -> None:
        """All that is in the folder counts as on disk from here on."""
        self.recorder = None

    def deal(self, blow: Blow) -> None:
        self.blow, self.fired, self._left = blow, False, blow.count

    def take_blow(self) -> Blow | None:
        """The blow that has fallen, if there was one; it falls no more."""
        blow, self.blow = self.blow, None
        return blow if self.fired else None

    def _reach(self, point: str) -> None:
        if point:
            self.points[point] += 1
        if self.blow is not None and self.blow.point == point and point:
            self._meet(self.blow)

    def _operate(self, kind: str, path: str) -> None:
        self.operations[kind] += 1
        if self.blow is not None and not self.blow.point:
            self._meet(self.blow)

    def _meet(self, blow: Blow) -> None:
        """Count one more; if that is the one, strike."""
        self._left -= 1
        if not self.fired and self._left <= 0:
            self.fired = True
            self._strike(blow)

    def _strike(self, blow: Blow) -> None:
        if blow.error is not None:
            raise blow.error
        assert self.recorder is not None
        self.recorder.dead = True
        raise Killed

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._draw.getrandbits(128), version=4)
