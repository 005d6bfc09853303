"""Time for a run: the wall clock, or a virtual one that moves only when told to.

Batches are paced and timed by `now`. `utc_us` is what event times are compared with, where they are at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

LOOK_SECONDS = 0.5  # while a run waits it looks that often whether it is to end

Ended = Callable[[], bool]


def never() -> bool:
    return False


def utc_text() -> str:
    """The time of day, for people.

    >>> utc_text().endswith(" UTC")
    True
    """
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since some fixed moment."""

    def utc_us(self) -> int:
        """Microseconds since 1970, in UTC."""

    def sleep(self, seconds: float, ended: Ended = never) -> None:
        """Let `seconds` pass, or fewer if `ended()` meanwhile."""


def utc_us() -> int:
    """Microseconds since 1970, for what people read and what is kept for a time."""
    return time.time_ns() // 1000


class WallClock:
    def now(self) -> float:
        return time.perf_counter()

    def utc_us(self) -> int:
        return utc_us()

    def sleep(self, seconds: float, ended: Ended = never) -> None:
        until = self.now() + seconds
        while (left := until - self.now()) > 0 and not ended():
            time.sleep(min(left, LOOK_SECONDS))


class VirtualClock:
    """Stands still except for `sleep`, which takes no time: runs repeat exactly, and hours pass in a moment.

    It begins at `start_us`, in microseconds since 1970.

    >>> clock = VirtualClock(); clock.sleep(3600); clock.now()
    3600.0
    """

    def __init__(self, start_us: int = 0) -> None:
        self._now = 0.0
        self._start_us = start_us

    def now(self) -> float:
        return self._now

    def utc_us(self) -> int:
        return self._start_us + round(self.now() * 1e6)

    def sleep(self, seconds: float, ended: Ended = never) -> None:
        self._now += max(0.0, seconds)
