"""Runs a contender of a benchmark in a process of its own: events read, memory watched, time bounded.

A contender says on its standard output what it has done, one JSON object per line (contenders/progress.py); what it
says on standard error goes to bench-data/logs. It has said everything with the event "end". One that does not end by
itself then, or that has used up its time, is ended by process id, with its descendants; nothing else ever is.

Memory is that of the whole process tree (driver, JVM, Python workers), from the start of the process, warm-up included.
PSS shares a page between the processes that map it, so forked workers and memory-mapped files count once; RSS counts
them in every process. Both are sampled, so a peak shorter than a second may be missed.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.data import ROOT

HOME = Path(__file__).resolve().parent.parent
GRACE_SECONDS = 20
DAY = 86_400.0

Event = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """What is known of a contender's process when it is over."""

    events: list[Event]
    complete: bool  # it said its last line and did not fail
    stopped: bool  # its time was up
    peak_rss_bytes: int
    peak_pss_bytes: int
    largest_pss_bytes: int  # of one process
    load_before: float  # the machine's load average when it began: above 0.5, others were using it
    log: str  # the end of what it said on standard error, if it failed

    @property
    def batches(self) -> list[Event]:
        return [event for event in self.events if event["event"] == "batch"]

    @property
    def end(self) -> Event:
        return self.events[-1]


class MemoryWatch(threading.Thread):
    """Peak memory of a process and its descendants, until it ends."""

    RSS_PERIOD = 0.2
    PSS_EVERY = 5  # samples: the kernel walks all pages for PSS, some ms per GB, so not at every one

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root = psutil.Process(pid)
        self.ended = threading.Event()
        self.peak_rss = 0
        self.peak_pss = 0
        self.largest_pss = 0

    def run(self) -> None:
        samples = 0
        while not self.ended.wait(self.RSS_PERIOD):
            rss = pss = 0
            for process in self._tree():
                try:
                    rss += process.memory_info().rss
                    if samples % self.PSS_EVERY == 0:
                        own = _pss(process.pid)
                        pss += own
                        self.largest_pss = max(self.largest_pss, own)
                except (psutil.Error, OSError):
                    continue  # ended while we looked
            self.peak_rss, self.peak_pss = max(self.peak_rss, rss), max(self.peak_pss, pss)
            samples += 1

    def _tree(self) -> list[psutil.Process]:
        try:
            return [self.root, *self.root.children(recursive=True)]
        except psutil.Error:
            return []


def _pss(pid: int) -> int:
    """Proportional set size in bytes; 0 where the kernel does not tell."""
    rollup = Path(f"/proc/{pid}/smaps_rollup")
    if not rollup.exists():
        return 0
    return next(int(line.split()[1]) * 1024 for line in rollup.read_text().splitlines() if line.startswith("Pss:"))


def is_present(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def run_contender(
    name: str,
    module: str,
    data: Path,
    arguments: Sequence[str] = (),
    seconds: float = DAY,
    notice: Callable[[Event], None] = lambda event: None,
    source: Path | None = None,
    look: Callable[[Path], None] = lambda out: None,
) -> Ran:
    """Runs `module` on the streams in `data`, for at most `seconds`; `notice` is called with each event as it comes.

    `source` is a folder to import watersmeet from, if not the installed one; `look` is called with the folder of the
    run's output before that is removed.
    """
    out = ROOT / "runs" / f"{name}-{os.getpid()}-{time.time_ns()}"
    out.mkdir(parents=True)
    log = ROOT / "logs" / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", module, "--data", str(data), "--out", str(out), *arguments]
    events: list[Event] = []
    stopped = threading.Event()
    try:
        with log.open("w") as errors:
            environment = os.environ if source is None else {**os.environ, "PYTHONPATH": str(source)}
            process = subprocess.Popen(
                command, cwd=HOME, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            watch = MemoryWatch(process.pid)
            watch.start()

            def stop() -> None:
                stopped.set()
                _kill(process)

            timer = threading.Timer(seconds, stop)
            timer.daemon = True
            timer.start()
            try:
                assert process.stdout is not None
                for event in _events(process.stdout):
                    events.append(event)
                    notice(event)
                said_all = bool(events) and events[-1]["event"] == "end"
                if said_all:
                    timer.cancel()
                code = _end(process)
            finally:
                timer.cancel()
                if process.poll() is None:
                    _kill(process)
                watch.ended.set()
                watch.join()
        look(out)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    complete = said_all and code == 0
    return Ran(
        events,
        complete,
        stopped.is_set() and not complete,
        watch.peak_rss,
        watch.peak_pss,
        watch.largest_pss,
        load,
        "" if complete or stopped.is_set() else _tail(log),
    )


def _end(process: subprocess.Popen[str]) -> int:
    """The exit code of a contender that has said its last line; it is made to end if it does not end by itself.

    A JVM with RocksDB was seen to hang for minutes in its shutdown after a run that was complete.
    """
    try:
        return process.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)
        return 0


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends the process and its descendants."""
    try:
        tree = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.Error:
        return
    for each in tree:
        try:
            each.kill()
        except psutil.Error:
            continue  # ended meanwhile
    process.wait()


def _events(lines: Iterable[str]) -> Iterator[Event]:
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # something a library printed
        if isinstance(event, dict) and "event" in event:
            yield event
            if event["event"] == "end":
                return


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-8:])


# ---------------------------------------------------------------- tables


def align(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as a table: the first column to the left, the others to the right."""
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def gigabytes(size: int) -> str:
    return f"{size / 2**30:.2f} GB" if size else "-"


def choose(names: Sequence[str], only: str) -> list[str]:
    """The names in a comma-separated list, in the order of `names`; all of them if it is empty."""
    wanted = [name for name in only.split(",") if name]
    unknown = set(wanted) - set(names)
    if unknown:
        raise ValueError(f"no contender {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return [name for name in names if not wanted or name in wanted]
