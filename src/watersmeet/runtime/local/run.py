"""A run in this process, put together from its parts: a plan, a checkpoint, policies, threads and a driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from watersmeet.adapt.controller import Controller
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.run.deliver import DeliverFiles
from watersmeet.run.ending import Ending
from watersmeet.run.loop import Driver
from watersmeet.runtime.checkpoint import Checkpoint
from watersmeet.runtime.clock import Clock, WallClock
from watersmeet.runtime.events import Report, silent
from watersmeet.runtime.gathering import Gatherer
from watersmeet.runtime.local.executor import LocalExecutor, SourceBatches
from watersmeet.runtime.local.loop import run_batches
from watersmeet.runtime.local.sources import LocalSource
from watersmeet.runtime.make_spec import MakeSpec
from watersmeet.runtime.stages import ResultWriter
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Delivery, Manifest


def leave_undelivered(delivery: Delivery) -> None:
    """Deliver nothing: the writer of the results hands them over itself."""


class LocalRun:
    def __init__(
        self,
        plan: PhysicalPlan,
        checkpoint: Checkpoint,
        results: ResultWriter,
        memory: AdaptSettings | None = None,
        controller: Controller | None = None,
        late: Folder | None = None,
        deliver: DeliverFiles = leave_undelivered,
        report: Report = silent,
        clock: Clock | None = None,
        gatherer: Gatherer | None = None,
        make_spec: MakeSpec | None = None,
        start: StartPlan | None = None,
        threads: int | None = None,
        at_end: Ending = Ending.CLOSED,
    ) -> None:
        self.checkpoint = checkpoint
        controller = controller or Controller(plan, memory)
        self._clock = clock or WallClock()
        self._executor = LocalExecutor(checkpoint.segments, results, late, checkpoint.sync_first, threads)
        self.driver: Driver[SourceBatches] = Driver(
            plan,
            checkpoint,
            controller,
            self._executor,
            deliver,
            report,
            self._clock,
            gatherer,
            make_spec,
            start,
            at_end=at_end,
        )

    @property
    def plan(self) -> PhysicalPlan:
        return self.driver.plan

    @property
    def controller(self) -> Controller:
        return self.driver.controller

    @property
    def manifest(self) -> Manifest:
        return self.checkpoint.manifest

    def batches(
        self,
        sources: Mapping[str, LocalSource],
        trigger: timedelta | None = None,
        stopped: Callable[[], bool] = lambda: False,
        drain: bool = False,
    ) -> Iterator[Manifest]:
        """Run batches from `sources`: see `runtime/local/loop.py`."""
        return run_batches(self.driver, sources, trigger, self._clock, stopped, drain)

    def close(self) -> None:
        self._executor.close()
        self.checkpoint.close()
