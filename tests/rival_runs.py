"""Runs of one job that do not know of each other: processes without a lock, on a shared folder or an object store."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from object_server import S3Server
from small_jobs import SmallJob, rows_of, write_rows
from watersmeet.config import load_job
from watersmeet.errors import WatersmeetError
from watersmeet.runtime.events import Event
from watersmeet.runtime.local.job import run_job
from watersmeet.state.files import Folder
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.segment_files import file_name
from watersmeet.state.table import read_versions

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["watersmeet.config", "watersmeet.runtime.local.job", "watersmeet.state.stores"])
TAKEN_OVER = "another run has taken over the checkpoint"
FILES = 8


class LocklessRun:
    """A run in a process of its own, which never asks for the lock. What it says comes back line by line."""

    def __init__(self, job: Path, settings: Sequence[str] = ()) -> None:
        self._told, writing = _FORKS.Pipe(duplex=False)
        self.process = _FORKS.Process(target=_run, args=(str(job), tuple(settings), writing))
        self.process.start()
        writing.close()
        self.events: list[Event] = []

    def wait_for(self, event: str, count: int = 1, seconds: float = 60) -> None:
        """Until it has told of so many events of this kind, or has ended."""
        ends = time.monotonic() + seconds
        while sum(found["event"] == event for found in self.events) < count and self._hear(ends):
            pass

    def end(self, seconds: float = 60) -> str | None:
        """Its end: what error it ended with, None if with none."""
        ends = time.monotonic() + seconds
        while self._hear(ends):
            pass
        self.process.join(max(ends - time.monotonic(), 1))
        assert self.process.exitcode == 0, f"exit code {self.process.exitcode}"
        return next((event["text"] for event in self.events if event["event"] == "error"), None)

    def _hear(self, ends: float) -> bool:
        if not self._told.poll(max(ends - time.monotonic(), 0)):
            raise TimeoutError(f"the run says nothing any more; the last was {self.events[-1:]}")
        try:
            self.events.append(self._told.recv())
        except EOFError:
            return False
        return True

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def _run(job: str, settings: tuple[str, ...], told: Any) -> None:
    CheckpointLock.acquire = lambda self: None  # type: ignore[method-assign]
    try:
        run_job(load_job(job, settings), told.send)
    except WatersmeetError as error:
        told.send({"event": "error", "text": str(error)})


@dataclass
class RivalJob:
    """A small job whose checkpoint and output are in a shared folder, or on an S3 server."""

    job: SmallJob
    checkpoint: Folder
    out: Folder

    @classmethod
    def on(cls, place: str, home: Path, s3: S3Server, files: int = FILES) -> RivalJob:
        home.mkdir(parents=True, exist_ok=True)
        job = SmallJob(home).write()
        for number in range(4, files):
            for stream in "AB":
                write_rows(job.input(stream, number), rows_of(number))
        job.spoil("maxFilesPerTrigger = 1 }", 'maxFilesPerTrigger = 1, maxFileAge = "7d" }')
        checkpoint, out = str(job.checkpoint), str(job.out)
        if place == "store":
            bucket = s3.bucket()
            checkpoint, out = s3.address(f"{bucket}/a/ck", scheme="s3a"), s3.address(f"{bucket}/out/")
            job.spoil(f'"{job.checkpoint}"', f'"{checkpoint}"\ncache = "{home}/cache"')
            job.spoil(str(job.out), out)
        return cls(job, Folder(checkpoint), Folder(out))

    def start(self, *settings: str) -> LocklessRun:
        return LocklessRun(self.job.path, settings)

    def answer(self) -> Counter[tuple[Any, ...]]:
        """The rows that were delivered."""
        names = [name for name in self.out.names() if name.endswith(".parquet")]
        tables = [pq.read_table(io.BytesIO(self.out.read(name))) for name in names]
        return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())

    def expected(self, files: int = FILES) -> Counter[tuple[Any, ...]]:
        rows = [row for number in range(files) for row in rows_of(number)]
        near = [(a, b) for a in rows for b in rows if abs(a["ts"] - b["ts"]) < 10_000_000]  # the window of the query
        return Counter((a["k"], a["v"], b["v"]) for a, b in near if a["k"] == b["k"])

    def check_whole(self) -> None:
        """Nothing is missing of what the checkpoint points to, and no run has committed after a later one."""
        state = self.checkpoint.sub("state")
        newest = list(read_versions(state))[-1]
        there = set(state.sub("segments").names())
        assert {file_name(segment.file) for segment in newest.segments.values()} <= there
        versions = state.sub("versions")
        runs = [json.loads(versions.read(name))["run"] for name in versions.names() if name.endswith(".json")]
        in_turn = [run for run, before in zip(runs, [None, *runs], strict=False) if run != before]
        assert len(in_turn) == len(set(in_turn)), "a run has committed after another had taken over"
