"""How a campaign is told to end before its time: by SIGTERM or SIGINT, after which it clears away all that it started.

A signal becomes an exception in whatever is being played, which no run takes for an error. So everything that was
entered is left: the small disk is unmounted, servers, clusters, drivers and forked runs are ended. Signals that come
while this is done are passed over; it takes seconds, or as long as a JVM does to go.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT)


class ToldToEnd(BaseException):
    """The campaign has got a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # as shells report it


@contextmanager
def told_to_end() -> Iterator[None]:
    """Raise `ToldToEnd` at the first signal. One that whoever started the process has it ignore stays ignored."""
    before = {number: signal.getsignal(number) for number in ENDING}
    heard = [number for number in ENDING if before[number] != signal.SIG_IGN]

    def end(number: int, frame: FrameType | None) -> None:
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        raise ToldToEnd(number)

    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
