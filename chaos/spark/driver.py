"""One driver of a job, a process of its own with a JVM; ended, with all that it has started, by whoever started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from watersmeet.runtime.events import Event

LOOK_SECONDS = 0.02
JVM_SECONDS = 20  # that a JVM has to find out that its driver has gone


class Driver:
    """`out` and `err` are files for what it says."""

    def __init__(self, command: Sequence[str], home: Path, environment: dict[str, str], out: Path, err: Path) -> None:
        self._out, self._err = out, err
        with out.open("wb") as stdout, err.open("wb") as stderr:
            # A group of processes of its own, so that the JVM can be ended too if it outlives its driver.
            self.process = subprocess.Popen(
                command, cwd=home, env=environment, stdout=stdout, stderr=stderr, start_new_session=True
            )
        self.asked: signal.Signals | None = None  # the signal that it was sent
        self.ended = False  # and its JVM with it

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_until(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Until it is so, or the driver has ended; whether it is so and the driver is alive."""
        ends = time.monotonic() + seconds
        while self.alive and time.monotonic() < ends:
            if reached():
                return self.alive
            time.sleep(LOOK_SECONDS)
        return False

    def send(self, number: signal.Signals) -> None:
        self.asked = number
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def end(self, seconds: float) -> int:
        """Its exit code, once it has ended, and its JVM with it. Raises `TimeoutError` if it does not."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"a driver is at work after {seconds} seconds: {self.said()[-500:]}") from None
        finally:
            self._end_group()
            self.ended = True

    def kill(self) -> None:
        """End it, and its JVM, at once, unless it has ended."""
        if not self.ended:
            self._kill_group()
            self.process.wait()
            self.ended = True

    def events(self) -> list[Event]:
        """What it has told; a line that a death has cut short is left out."""
        found = []
        for line in self._out.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                entry = json.loads(line)
                found += [entry] if isinstance(entry, dict) and "event" in entry else []
        return found

    def said(self) -> str:
        return self._err.read_text(errors="replace")

    def _end_group(self) -> None:
        """The JVM ends when it finds its driver gone; if it does not, it is killed."""
        ends = time.monotonic() + JVM_SECONDS
        if self.alive:
            self._kill_group()
            self.process.wait()
        while self._group_is_there() and time.monotonic() < ends:
            time.sleep(LOOK_SECONDS)
        self._kill_group()

    def _group_is_there(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
