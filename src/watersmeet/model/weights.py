"""Weighed rows as data: rows of an input that each stand for one or more rows of it.

Where results are grouped, rows of an input that agree in all that anything above reads of them need not be told apart.
A *weighed row* has what they agree in, how many they are (its *weight*), and what is kept of each aggregate over this
input alone. A join takes it as any other row. What groups the results multiplies: of rows with weights n_i, a
combination stands for n_1 * .. * n_m combinations, the sum of a column of input i over these is its partial sum times
the weights of the others, and the smallest and the largest value are what they are.

Where groups have windows the event time of a weighed row is the first boundary at or after that of its rows: that is
all of a time that matters (`kernel/weigh.py` says why).

Rows that agree may be *combined* into one, wherever they lie together, or each stay with a weight of its own. Both are
the same rows to everybody above, so that a state holds the same whichever of the two is done, and goes by one name.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.model.aggregates import Partial
from watersmeet.model.expressions import Column


@dataclass(frozen=True)
class Weighing:
    """How the rows of an input are weighed.

    `parts` are the columns for what is kept of aggregates. With a slide, event times are boundaries.
    """

    alias: str
    weight: Column
    parts: tuple[tuple[Column, Partial], ...]
    slide_us: int | None
    combined: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        """What weighed rows have beside columns of their stream."""
        return (self.weight, *(column for column, _ in self.parts))

    def column_of(self, part: Partial) -> Column | None:
        """The column for what is kept of an aggregate; None where that is not over this input alone."""
        return next((column for column, kept in self.parts if kept == part), None)


@dataclass(frozen=True)
class Likeness:
    """What rows of an input have to agree in to be combined: these columns, event times as boundaries of a slide."""

    fields: tuple[str, ...]
    slide_us: int | None


def is_weighed_name(field_name: str) -> bool:
    """Whether a column "alias.name" is one of `Weighing.columns`, or named as they are.

    >>> is_weighed_name("A.#wn"), is_weighed_name("A.##wsum1f"), is_weighed_name("A.w")
    (True, True, False)
    """
    _, _, name = field_name.partition(".")
    return name.startswith("#") and name.lstrip("#").startswith("w")
