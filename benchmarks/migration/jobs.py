"""Runs jobs over the data one after the other, in this process, and notes when each event came and what CPU it took.

The time of an event is when the run told it: a batch is told once its results are delivered. The CPU is that of this
process and its descendants, Spark's JVM and Python workers among them. One JVM serves all runs on Spark, so that a
first one, which nobody looks at, warms it up for the others.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.chain_data import STREAMS
from benchmarks.contenders.progress import cpu_seconds
from benchmarks.durability import run_job
from benchmarks.migration.data import Windowed, link, schema_of
from watersmeet.config import Job, parse_job


@dataclass(frozen=True)
class Timed:
    """An event, when it came, and the CPU that all had taken by then."""

    event: dict[str, Any]
    at: float
    cpu: float

    @property
    def kind(self) -> str:
        return str(self.event["event"])

    @property
    def decided(self) -> list[str]:
        return [entry["decision"] for entry in self.event.get("decisions", ())]


@dataclass(frozen=True)
class Ran:
    events: Sequence[Timed]

    @property
    def batches(self) -> list[Timed]:
        """The batches, without rounds of merges."""
        return [entry for entry in self.events if entry.kind == "batch"]

    @property
    def end(self) -> dict[str, Any]:
        return self.events[-1].event

    def decisions(self, kind: str) -> list[dict[str, Any]]:
        return [d for entry in self.events for d in entry.event.get("decisions", ()) if d["decision"] == kind]


@dataclass(frozen=True)
class Setting:
    """Where a job finds its things, and what it is told."""

    data: Windowed
    home: Path  # input, checkpoint and output lie in it
    runtime: str
    adapt: str  # further lines of the section
    out: str = "out"  # "": results are counted and let go
    files: int = 1  # of each stream in a batch
    pace: float | None = None  # seconds from batch to batch; None: as fast as it goes

    @property
    def job(self) -> Job:
        lines = [f'query = "{self.data.query}"']
        for stream in STREAMS:
            lines += [f"[streams.{stream}]", 'format = "parquet"', f'path = "{self.home}/in/{stream}"']
            lines += [f'schema = "{schema_of(stream)}"', f"options = {{ maxFilesPerTrigger = {self.files} }}"]
        lines += ["[sink]", f'path = "{self.home}/{self.out}"' if self.out else 'format = "noop"']
        lines += ["[run]", f'runtime = "{self.runtime}"', f'checkpoint = "{self.home}/ck"', "slots = 2"]
        if self.pace is not None:
            lines += [f'trigger = "{round(self.pace * 1000)} milliseconds"']
        lines += ["[spark]", 'master = "local[2]"', '"spark.driver.memory" = "2g"']
        lines += ["[adapt]", self.adapt]
        return parse_job("\n".join(lines), "benchmark")


WARM_UP_BATCHES = 8


def warm_up(data: Windowed, runtime: str, home: Path) -> None:
    """A run over the first batches, so that the first one that counts is not the only one in a cold JVM."""
    link(data, home / "warm-up" / "in", 0, WARM_UP_BATCHES)
    run(Setting(data, home / "warm-up", runtime, "", ""))


def run(setting: Setting, batches: int | None = None, notice: Callable[[Timed], None] = lambda entry: None) -> Ran:
    """To the end of the input; with a pace, until so many batches were told."""
    events: list[Timed] = []

    def report(event: dict[str, Any]) -> None:
        entry = Timed(event, time.perf_counter(), cpu_seconds())
        events.append(entry)
        notice(entry)

    def stopped() -> bool:
        return batches is not None and sum(entry.kind == "batch" for entry in events) >= batches

    run_job(setting.job, report, stopped)
    return Ran(events)
