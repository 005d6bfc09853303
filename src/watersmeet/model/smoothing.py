"""One figure of many observations: the methods recent, average and EWMA of [Levandoski11, section IV-B].

What is observed batch by batch becomes the figure that policies see. A method turns what was kept and a new observation
into what is kept then (`then`), and that into the figure (`value`, after one observation at least). What is kept is a
tuple, so that all methods look alike; its entries are numbers, or arrays of one shape with a figure for each group.

Beyond the paper: before there are N observations, the average is of those there are; EWMA starts at the first one.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from watersmeet.errors import JobError, did_you_mean

Figure = TypeVar("Figure", float, NDArray[np.float64])


class Smoothing(Protocol):
    name: ClassVar[str]

    def then(self, kept: tuple[Figure, ...], observed: Figure) -> tuple[Figure, ...]: ...

    def value(self, kept: tuple[Figure, ...]) -> Figure: ...


@dataclass(frozen=True)
class Recent:
    """The last observation."""

    name: ClassVar[str] = "recent"

    def then(self, kept: tuple[Figure, ...], observed: Figure) -> tuple[Figure, ...]:
        return (observed,)

    def value(self, kept: tuple[Figure, ...]) -> Figure:
        return kept[-1]


@dataclass(frozen=True)
class Average:
    """The mean of the last N observations."""

    name: ClassVar[str] = "average"
    of_last: int = 5  # the paper's choice in its experiments

    def then(self, kept: tuple[Figure, ...], observed: Figure) -> tuple[Figure, ...]:
        return tuple(chain(kept, (observed,)))[-self.of_last :]

    def value(self, kept: tuple[Figure, ...]) -> Figure:
        return reduce(operator.add, kept) / len(kept)


@dataclass(frozen=True)
class Ewma:
    """The exponentially weighted mean. As in the paper, `alpha` is the weight of the past, not of the new.

    >>> Ewma(alpha=0.2).then((100.0,), 50.0)
    (60.0,)
    """

    name: ClassVar[str] = "ewma"
    alpha: float = 0.5  # best and steadiest of those that the paper tried

    def then(self, kept: tuple[Figure, ...], observed: Figure) -> tuple[Figure, ...]:
        return (self.alpha * kept[-1] + (1 - self.alpha) * observed,) if kept else (observed,)

    def value(self, kept: tuple[Figure, ...]) -> Figure:
        return kept[-1]


SMOOTHINGS: tuple[Smoothing, ...] = (Ewma(), Average(), Recent())


def find_smoothing(name: str) -> Smoothing:
    """The method of this name."""
    known = {method.name: method for method in SMOOTHINGS}
    if name not in known:
        raise JobError(
            f'unknown smoothing "{name}"', detail=f"There are {', '.join(known)}.", hint=did_you_mean(name, known)
        )
    return known[name]
