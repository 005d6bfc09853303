"""What a way from one plan to another is: where it starts, and what it does next.

A road is pure, as a policy is: it sees how far the new track has come and says the next step; the driver takes it, and
commits. The new track stays silent until it takes over, by whichever road: the old one answers for all rows up to then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from watersmeet.plan.query import Query
from watersmeet.state.manifest import Warming

FULL = 1 << 16  # stretches of the hash, that a cursor counts


@dataclass(frozen=True)
class Advance:
    """Take in rows up to the delivery `upto`; with `cursor`, a round of them, in groups up to that."""

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
    """What a road sees. Rows count as far as they are still needed."""

    warming: Warming
    now: int  # the delivery that the answering track has come to
    old_rows: int  # of the round under way, all groups together; for a track that does without them, from before it
    new_rows: int = 0  # since
    batch_rows: int = 0  # of these, such as came with the last batch
    batch_seconds: float = 1.0  # that a batch takes by itself, if it takes long
    silent_seconds: float | None = None  # that the sources have been silent; None: a batch is next
    usual_seconds: float = 1.0  # from result to result, before the change began
    since_seconds: float = 0.0  # since the last result
    waits_for: str = ""  # the stream that holds back the end of rows from before the start
    taken: int = 0  # rows that were taken in since the last batch
    rows_a_second: float = 0.0  # that the last step took in; 0: there was none
    at_once: bool = False  # rows from before can be taken in only all together

    @property
    def left(self) -> int:
        """Rows that are not taken in, of the round under way."""
        seen = self.warming
        return self.old_rows * (FULL - seen.cursor) // FULL if seen.in_round else 0


class Road(Protocol):
    name: ClassVar[str]

    def refuse(self, query: Query) -> str | None:
        """Why it does not lead from one plan of a query to another; None if it does."""

    def begin(self, now: int) -> Warming:
        """Where it starts, with what the answering track has come to."""

    def next(self, standing: Standing) -> Step: ...

    def price(self, rows: int, window_seconds: float | None, cpu: float) -> float:
        """Seconds that it takes by the model, for so many rows of state, and a new plan that takes `cpu` cores.

        What earlier changes really took corrects it: see `corrected`.
        """


# Rows a second of CPU that the model takes to be taken in. A chain of four streams whose
# joined states are all made anew took in 0.7 to 2.5 million (`benchmarks/migration`, the gaps on the local runtime).
FIRST_RATE = 500_000
TELLING_SECONDS = 0.1  # by the model: what is shorter tells what a change takes at least, and what is longer its rate
FURTHEST = 100.0  # that one change can put what is learned off by

Took = Mapping[str, tuple[float, float]]  # by road: seconds that a change takes at least, and times the model beside


def corrected(took: Took, name: str, model: float) -> float:
    """Seconds that a road is expected to take, by the model and by what earlier changes took.

    A road that was not taken yet goes by the others: the machine and the rows are the same.

    >>> corrected({}, "seeded", 2.0), corrected({"seeded": (0.5, 3.0)}, "seeded", 2.0)
    (2.0, 6.5)
    """
    known = [took[name]] if name in took else list(took.values()) or [(0.0, 1.0)]
    return sum(least + times * model for least, times in known) / len(known)


def learn_road(took: Took, name: str, model: float, seconds: float) -> Took:
    """With one more change by a road, that was to take `model` and took `seconds`. Earlier ones count as much again.

    >>> learn_road({}, "seeded", 2.0, 6.0), learn_road({"seeded": (0.0, 1.0)}, "seeded", 0.01, 0.5)
    ({'seeded': (0.0, 3.0)}, {'seeded': (0.25, 1.0)})
    """
    if not (seconds > 0 and math.isfinite(model)):
        return took
    least, times = took.get(name, (0.0, 0.0))
    if model < TELLING_SECONDS:
        return {**took, name: ((least + seconds) / 2 if name in took else seconds, times or 1.0)}
    found = min(max((seconds - least) / model, 1 / FURTHEST), FURTHEST)
    return {**took, name: (least, (times + found) / 2 if name in took else found)}
