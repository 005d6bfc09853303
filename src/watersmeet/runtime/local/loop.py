"""The loop of the local runtime: pulls batches from its sources and hands them to the driver until it is to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from watersmeet.run.ending import Ending
from watersmeet.run.loop import Driver
from watersmeet.runtime.clock import Clock, WallClock
from watersmeet.runtime.local.executor import SourceBatches
from watersmeet.runtime.local.sources import LocalSource
from watersmeet.state.manifest import Manifest

# A trigger may be of no time at all; where there was nothing to read, the sources are not listed more often than this.
IDLE_SECONDS = 0.05


def run_batches(
    driver: Driver[SourceBatches],
    sources: Mapping[str, LocalSource],
    trigger: timedelta | None = None,
    clock: Clock | None = None,
    stopped: Callable[[], bool] = lambda: False,
    drain: bool = False,
) -> Iterator[Manifest]:
    """Run batches until the sources are empty (or for ever, with a `trigger`); a manifest after each batch and round.

    What an earlier run committed and perhaps did not deliver is delivered first. At the end of the sources everything
    that is owed is emitted; with `drain` also if the run is stopped before.
    """
    clock = clock or WallClock()
    driver.begin()
    ending = Ending.OPEN if drain else None
    while not stopped():
        started = clock.now()
        pulled = _pull(driver, sources)
        if pulled:
            yield driver.run_batch(pulled)
        elif trigger is None:
            ending = driver.at_end
            break
        elif driver.run_idle():
            yield driver.manifest
        if trigger is not None:
            pause = trigger.total_seconds() if pulled else max(trigger.total_seconds(), IDLE_SECONDS)
            while driver.migrating and clock.now() - started < pause and not stopped() and driver.run_idle():
                yield driver.manifest
            clock.sleep(pause - (clock.now() - started), stopped)
    while ending is not None and driver.drain_step(ending):
        yield driver.manifest
    driver.end()


def _pull(driver: Driver[SourceBatches], sources: Mapping[str, LocalSource]) -> SourceBatches:
    """What the sources have for the next batch."""
    streams, files = driver.manifest.streams, driver.checkpoint.files
    pulled = {}
    for name, source in sources.items():
        intake = streams[name].intake if name in streams else None
        if (batch := source.pull(files.of(name), intake)) is not None:
            pulled[name] = batch
    return pulled
