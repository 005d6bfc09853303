"""Runs of a small query on a checkpoint, one after the other, for tests that look at single steps of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from small_plans import CHAIN, GROUPS, SECOND, STREAMS
from watersmeet.lang.binder import bind
from watersmeet.runtime.clock import Clock
from watersmeet.runtime.events import Event
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import SourceBatch
from watersmeet.runtime.opening import OpenRun, open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.run import RunSettings
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Delivery

QUERY = bind(CHAIN, STREAMS)
TREE = "((A B) C)"


class Undelivered(Exception):
    """A delivery failed."""


@dataclass
class Sink:
    """Takes deliveries, but for those that `refuses` says."""

    took: list[Delivery] = field(default_factory=list)
    refuses: Callable[[Delivery], bool] = lambda delivery: False

    def __call__(self, delivery: Delivery) -> None:
        if self.refuses(delivery):
            raise Undelivered(delivery.id)
        self.took.append(delivery)

    @property
    def ids(self) -> list[int]:
        return [delivery.id for delivery in self.took]


def rows(second: float, keys: int = 12, streams: str = "ABC") -> dict[str, SourceBatch]:
    """A row of each key for each stream."""
    entries = [{"k": key, "v": key, "ts": int(second * SECOND) + key} for key in range(keys)]
    return {name: SourceBatch([pa.RecordBatch.from_pylist(entries, schema=STREAMS[name].schema)]) for name in streams}


@dataclass
class Session:
    """One run on the checkpoint: what it is made of, what it told, and where its results went."""

    opened: OpenRun
    run: LocalRun
    sink: Sink
    events: list[Event]

    @property
    def manifest(self) -> Any:
        return self.run.manifest


@contextmanager
def session(
    home: Path,
    sink: Sink | None = None,
    memory: AdaptSettings | None = None,
    slots: int = 2,
    clock: Clock | None = None,
    plan: PlanSettings | None = None,
) -> Iterator[Session]:
    """Open the run, to be used step by step; `run.driver.begin()` is the caller's."""
    settings = RunSettings(plan or PlanSettings(TREE), memory or AdaptSettings(), slots, GROUPS)
    opened = open_run(
        QUERY, settings, CheckpointFolders(str(home / "ck")), Outputs.of("parquet", str(home / "out"), None)
    )
    events: list[Event] = []
    taker = sink or Sink()
    run = LocalRun(
        opened.plan,
        opened.checkpoint,
        opened.outputs.writer,
        controller=opened.controller,
        deliver=taker,
        report=events.append,
        clock=clock,
    )
    try:
        yield Session(opened, run, taker, events)
    finally:
        run.close()
        opened.close()
