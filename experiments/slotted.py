"""Runs of several slots at the pace of their input, as if each slot were a machine, on a machine with fewer cores.

A `SlotsClock` is a `CpuClock` on which slots work side by side. A batch, and a step to another plan, takes

- the CPU seconds of the tasks of its slowest slot, as tasks measure them themselves; a slot has one core;
- and all CPU seconds of this process that are spent outside of tasks: rows are filtered, hashed and cut by slot, and
  what was done is committed. They count whole, as if one machine did that for all, so that what slots gain by sharing
  work is not made larger than it is. [Zhu06] has splits and the distribution manager on machines of their own.

Slots really work one after the other, on one thread: two that share a core, or what a core shares with its neighbour,
take more CPU seconds each, and balanced slots would look worse than they are. So the figures do not depend on how many
cores there are, nor on how busy they are but for what that does to caches.

Known limits: nothing is sent over a network, and a state that is made for another slot is read from memory. The stages
of a plan are taken to be in one wave, as those of plans whose inputs share a key are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from experiments.paced import CpuClock, Keep, Pace, PacedRun, drop
from watersmeet.adapt.controller import Controller
from watersmeet.model.placement import Placement
from watersmeet.model.slot_figures import add_up
from watersmeet.model.stretches import Stretch
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.runtime.ahead import TimesToFind
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.local.executor import SourceBatches
from watersmeet.runtime.reports import StreamReport, TaskReport
from watersmeet.runtime.seeding import Seeding


class SlotsClock(CpuClock):
    """Counts as `CpuClock` does, but of what slots do side by side only what the slowest of them does."""

    def side_by_side(self, seconds: Iterable[float]) -> None:
        """Slots have just worked for so many seconds of CPU each, one after the other as far as this process goes.

        >>> clock = SlotsClock()
        >>> before = clock.now()
        >>> clock.side_by_side((3.0, 5.0, 1.0))
        >>> round(clock.now() - before)
        -4
        """
        each = list(seconds)
        self._slept -= sum(each) - max(each, default=0.0)


class _SideBySide:
    """An executor that tells a clock what its slots did."""

    def __init__(self, executor: Any, clock: SlotsClock) -> None:
        self._executor, self._clock = executor, clock

    def run(self, context: BatchContext, source: SourceBatches | None) -> tuple[list[StreamReport], list[TaskReport]]:
        streams, tasks = self._executor.run(context, source)
        self._tell(tasks, context.placement.slots)
        return streams, tasks

    def make_states(self, seeding: Seeding) -> list[TaskReport]:
        tasks: list[TaskReport] = self._executor.make_states(seeding)
        self._tell(tasks, seeding.placement.slots)
        return tasks

    def find_stretches(self, look: TimesToFind, source: SourceBatches) -> list[Stretch]:
        found: list[Stretch] = self._executor.find_stretches(look, source)
        return found

    def _tell(self, tasks: Iterable[TaskReport], slots: int) -> None:
        figures = add_up(((task.slot, task.figures) for task in tasks), slots)
        self._clock.side_by_side(slot.cpu_seconds for slot in figures)


class SlottedRun(PacedRun):
    """A `PacedRun` of several slots, each with a core of its own."""

    def __init__(
        self,
        plan: PhysicalPlan,
        rows: Mapping[str, pa.RecordBatch],
        pace: Pace,
        placement: Placement,
        controller: Controller | None = None,
        keep: Keep = drop,
    ) -> None:
        clock = SlotsClock()
        super().__init__(plan, rows, pace, clock, keep, controller, placement, threads=1)
        driver = self._run.driver
        driver.session.executor = _SideBySide(driver.session.executor, clock)
