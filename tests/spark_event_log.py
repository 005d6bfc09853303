"""What Spark itself says of the tasks of an application, read from its event log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TaskRun:
    """One attempt at a task."""

    stage: int
    index: int
    executor: str
    speculative: bool
    reason: str  # why it ended, such as "Success", "TaskKilled" or "ExecutorLostFailure"
    locality: str
    seconds: float
    attempt: int = 0

    @property
    def task(self) -> tuple[int, int]:
        return self.stage, self.index


def log_settings(folder: Path) -> dict[str, str]:
    """Settings of Spark that have it write a log for `read_tasks`."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def read_tasks(folder: Path) -> list[TaskRun]:
    """The attempts of all applications that have their log there, in the order in which they ended."""
    found = []
    for log in sorted(folder.iterdir()):
        for line in log.read_text().splitlines():
            entry = json.loads(line)
            if entry["Event"] == "SparkListenerTaskEnd":
                found.append(_task(entry))
    return found


def _task(entry: Mapping[str, Any]) -> TaskRun:
    info = entry["Task Info"]
    return TaskRun(
        entry["Stage ID"],
        info["Index"],
        info["Executor ID"],
        info["Speculative"],
        entry["Task End Reason"]["Reason"],
        info["Locality"],
        (info["Finish Time"] - info["Launch Time"]) / 1000,
        info["Attempt"],
    )


def read_last_stages(folder: Path) -> list[int]:
    """The last stage of each job, in the order in which jobs began."""
    found = []
    for log in sorted(folder.iterdir()):
        entries = map(json.loads, log.read_text().splitlines())
        found += [max(entry["Stage IDs"]) for entry in entries if entry["Event"] == "SparkListenerJobStart"]
    return found
