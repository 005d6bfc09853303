"""What a way from one plan to another is: where it starts, and what it does next.

A road is pure, as a policy is: it sees how far the new track has come and says the next step; the driver takes it, and
commits. The new track stays silent until it takes over, by whichever road: the old one answers for all rows up to then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from watersmeet.plan.query import Query
from watersmeet.state.manifest import Warming

FULL = 1 << 16  # stretches of the hash, that a cursor counts


@dataclass(frozen=True)
class Advance:
    """Take in rows up to the delivery `upto`; with `cursor`, such as were there at the start, in groups up to it."""

    upto: int
    cursor: int | None = None


@dataclass(frozen=True)
class TakeOver:
    """Emit what is owed, take in the rest, and switch, all before the next batch."""


@dataclass(frozen=True)
class Wait:
    """Nothing is to be done now; for what it waits, as people are told."""

    what: str


Step = Advance | TakeOver | Wait


@dataclass(frozen=True)
class Standing:
    """What a road sees. `came` has how many rows came with each delivery since the start, as far as these are kept."""

    warming: Warming
    now: int  # the delivery that the answering track has come to
    old_rows: int  # that were there when it began, and are still needed
    came: Sequence[tuple[int, int]] = ()
    batch_seconds: float = 1.0  # that the last batch took
    idle: bool = False  # the sources are silent
    waits_for: str = ""  # the stream that holds back the end of rows from before the start
    taken: int = 0  # rows that were taken in since the last batch
    at_once: bool = False  # rows from before can be taken in only all together


class Road(Protocol):
    name: ClassVar[str]

    def refuse(self, query: Query) -> str | None:
        """Why it does not lead from one plan of a query to another; None if it does."""

    def begin(self, now: int) -> Warming:
        """Where it starts, with what the answering track has come to."""

    def next(self, standing: Standing) -> Step: ...

    def price(self, rows: int, rows_a_second: float, window_seconds: float | None, cpu: float) -> float:
        """Seconds of CPU that it is expected to take, for so many rows of state, and a new plan that takes `cpu`.

        `rows_a_second` is what earlier changes have come to; 0 before there was one.
        """


FIRST_RATE = 200_000  # rows a second that are expected to be taken in before anything is measured


def seconds_for(rows: int, rows_a_second: float) -> float:
    """To take in so many rows."""
    return rows / (rows_a_second or FIRST_RATE)
