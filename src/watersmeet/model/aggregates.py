"""GROUP BY as data: which groups, which aggregates over the rows of each, and what is kept of these until then.

A grouped row has columns of the alias `GROUPED`: its group columns, its aggregates, and the boundary that it is of. No
input of a query can have that alias where they are looked up, so what stands above a group-by is an expression like any
other.

What is kept of an aggregate is one or more `Partial`s, which combine: those of two sets of rows give that of both. AVG
is kept as SUM and COUNT. A sum of whole numbers or decimals is exact, whatever the order in which rows come; one of
DOUBLE is as good as floating-point addition is, and may differ in its last digits with that order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from watersmeet.model.expressions import Column, Expr, describe
from watersmeet.model.time_units import MICROSECONDS

GROUPED = "#g"
WINDOW_END = "window_end"
FIRST, OLDEST = "@first", "@oldest"

COUNT, SUM, MIN, MAX, AVG = "count", "sum", "min", "max", "avg"

_EXACT_DIGITS = 28  # of a decimal, of which 128 bits hold the sum of at least 10**10


@dataclass(frozen=True)
class Aggregate:
    """A function over the rows of a group. COUNT without an argument counts rows; all others pass over NULL."""

    function: str
    arg: Expr | None
    type: pa.DataType

    @property
    def text(self) -> str:
        return f"{self.function.upper()}({'*' if self.arg is None else describe(self.arg)})"


@dataclass(frozen=True)
class Partial:
    """What is kept of an aggregate for some rows of a group: a count, an exact sum, a smallest or a largest value."""

    function: str
    arg: Expr | None
    type: pa.DataType

    @property
    def text(self) -> str:
        return f"{self.function.upper()}({'*' if self.arg is None else describe(self.arg)})"


@dataclass(frozen=True)
class Panes:
    """Which boundaries a row counts at: the multiples t of `slide_us` with T <= t < E.

    T is the largest of `times`, and E the smallest end of a window. A run of boundaries is kept as its first one and as
    `OLDEST`: its last one as if a window of `width_us`, the narrowest, had ended just after it.
    """

    slide_us: int
    width_us: int
    times: tuple[str, ...]
    windows: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class GroupBy:
    """The group columns of a query, its aggregates, and what groups must satisfy to be emitted.

    With a slide, groups are emitted at every boundary, over the rows that count there. Without one, there are running
    totals: the groups that a batch has changed, over all rows so far.
    """

    groups: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expr | None
    slide_us: int | None
    time_type: pa.DataType  # of the boundary
    time_unit: str = MICROSECONDS  # of the boundary, if it is an integer

    @property
    def is_one_total(self) -> bool:
        """Whether there is one group, of all rows, for which SQL has a row even if there are no rows."""
        return not self.groups and self.slide_us is None

    @property
    def read(self) -> tuple[Expr, ...]:
        """What it reads of the rows that it groups."""
        return (*self.groups, *(entry.arg for entry in self.aggregates if entry.arg is not None))

    def reading(self, change: Callable[[Expr], Expr]) -> GroupBy:
        """The same, with a change to each expression over the rows that it groups."""
        args = (replace(entry, arg=None if entry.arg is None else change(entry.arg)) for entry in self.aggregates)
        return replace(self, groups=tuple(map(change, self.groups)), aggregates=tuple(args))

    @cached_property
    def partials(self) -> tuple[Partial, ...]:
        """What is kept of all aggregates, each once."""
        return tuple(dict.fromkeys(part for entry in self.aggregates for part in partials_of(entry)))


@dataclass(frozen=True)
class Partials:
    """How rows become partial aggregates of groups, and what these are laid out as."""

    group_by: GroupBy
    panes: Panes | None

    @cached_property
    def group_fields(self) -> tuple[str, ...]:
        return tuple(group_column(place, expr).field_name for place, expr in enumerate(self.group_by.groups))

    @property
    def pane_fields(self) -> tuple[str, ...]:
        return () if self.panes is None else (FIRST, OLDEST)

    @cached_property
    def part_fields(self) -> tuple[str, ...]:
        return tuple(f"#p.{place}" for place in range(len(self.group_by.partials)))

    @cached_property
    def fields(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types, without the hash."""
        kinds = [
            *(expr.type for expr in self.group_by.groups),
            *(pa.int64() for _ in self.pane_fields),
            *(part.type for part in self.group_by.partials),
        ]
        return tuple(zip((*self.group_fields, *self.pane_fields, *self.part_fields), kinds, strict=True))


def group_column(place: int, expr: Expr) -> Column:
    """A group column of a grouped row."""
    return Column(GROUPED, str(place), expr.type)


def aggregate_column(place: int, aggregate: Aggregate) -> Column:
    """An aggregate of a grouped row."""
    return Column(GROUPED, f"a{place}", aggregate.type)


def end_column(kind: pa.DataType) -> Column:
    """The boundary that a grouped row is of."""
    return Column(GROUPED, WINDOW_END, kind)


def partials_of(aggregate: Aggregate) -> tuple[Partial, ...]:
    """
    >>> v = Column("A", "v", pa.int64())
    >>> [part.function for part in partials_of(Aggregate(AVG, v, pa.float64()))]
    ['sum', 'count']
    """
    arg = aggregate.arg
    if aggregate.function == COUNT:
        return (Partial(COUNT, arg, pa.int64()),)
    assert arg is not None, "only COUNT takes no argument"
    if aggregate.function in (MIN, MAX):
        return (Partial(aggregate.function, arg, pa.float64() if pa.types.is_floating(arg.type) else arg.type),)
    total = Partial(SUM, arg, _kept_sum(arg.type))
    return (total,) if aggregate.function == SUM else (total, Partial(COUNT, arg, pa.int64()))


def _kept_sum(kind: pa.DataType) -> pa.DataType:
    """What holds any sum of values of a type."""
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_integer(kind):
        return pa.decimal128(38, 0)
    return pa.decimal128(38, kind.scale) if kind.precision <= _EXACT_DIGITS else pa.decimal256(76, kind.scale)
