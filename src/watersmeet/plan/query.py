"""A bound query: the join as one n-ary node over its inputs, with everything resolved and typed.

The binder (`lang/binder.py`) makes it from text; plans (`plan/tree.py`) are choices of how to run it. The conjuncts of
the WHERE and ON clauses have been sorted into three kinds: filters of one input, equalities between inputs (as key
classes, closed under transitivity), and the remaining predicates over two or more inputs. Those of them that are
windows for a pair of inputs are known as such too (`lang/pair_windows.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from watersmeet.errors import Span
from watersmeet.model.aggregates import GroupBy
from watersmeet.model.expressions import Column, Expr, Prepared, describe
from watersmeet.model.pair_windows import PairWindow, Reach, reach_of
from watersmeet.model.quantities import microseconds
from watersmeet.model.slices import slice_width
from watersmeet.model.streams import Range, Stream, Window


@dataclass(frozen=True)
class QueryInput:
    """One entry of the FROM clause. Two aliases of one stream are two inputs.

    The query reads `columns` of the stream, under whatever alias, and its event time is among them. Nothing depends on
    the others, so names of computed columns have to differ from these alone.
    """

    alias: str
    stream: Stream
    window: Window
    filters: tuple[Expr, ...] = ()
    columns: tuple[str, ...] = ()

    def free_name(self, name: str) -> str:
        """The name, with more `#` in front where the query reads a column of that name."""
        while name in self.columns:
            name = f"#{name}"
        return name


@dataclass(frozen=True)
class KeyClass:
    """Expressions that must all be equal, at most one for each input, all of type `type` (casts included).

    `name` is short and unique in the query ("k0", "k1", ..). NULL equals nothing.
    """

    name: str
    terms: tuple[tuple[str, Expr], ...]
    type: pa.DataType

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(alias for alias, _ in self.terms)

    def term(self, alias: str) -> Expr:
        return dict(self.terms)[alias]


@dataclass(frozen=True)
class OutputColumn:
    name: str
    expr: Expr


@dataclass(frozen=True)
class QueryWindow:
    """A condition on the event times of two inputs, a predicate or an equality, and the bounds that it amounts to."""

    bounds: tuple[PairWindow, ...]
    expr: Expr


@dataclass(frozen=True)
class Query:
    text: str
    inputs: tuple[QueryInput, ...]
    keys: tuple[KeyClass, ...]
    predicates: tuple[Expr, ...]
    select: tuple[OutputColumn, ...]  # over joined rows, or over grouped ones
    prepared: tuple[Prepared, ...] = ()  # columns that rows get when they enter, for predicates and the select list
    group_by: GroupBy | None = None
    pair_windows: tuple[QueryWindow, ...] = ()
    grouped_at: Span | None = field(default=None, compare=False)  # in the text, what says that results are grouped

    @property
    def joined(self) -> tuple[Expr, ...]:
        """What is read of joined rows, by the select list or by what groups them."""
        return tuple(column.expr for column in self.select) if self.group_by is None else self.group_by.read

    @property
    def pair_bounds(self) -> tuple[PairWindow, ...]:
        """What the windows for pairs say, each bound once."""
        return tuple(sorted({bound for window in self.pair_windows for bound in window.bounds}))

    @cached_property
    def reach(self) -> Reach:
        """How much later each input can be than each other one in a result, by all windows together."""
        return self.reach_with(self.pair_bounds)

    def reach_with(self, pairs: tuple[PairWindow, ...]) -> Reach:
        """The same with these windows for pairs in the place of its own."""
        ranges = ((e.alias, microseconds(e.window.width) if isinstance(e.window, Range) else None) for e in self.inputs)
        return reach_of(tuple(ranges), pairs)

    def heeding(self, pairs: Iterable[PairWindow]) -> Query:
        """The query with no windows for pairs but these: the answer is the same, and rows may stay for longer.

        For a state that was kept by fewer.
        """
        heeded = frozenset(pairs)
        if heeded >= set(self.pair_bounds):
            return self
        kept = (replace(w, bounds=tuple(b for b in w.bounds if b in heeded)) for w in self.pair_windows)
        return replace(self, pair_windows=tuple(window for window in kept if window.bounds))

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(entry.alias for entry in self.inputs)

    @cached_property
    def parts(self) -> tuple[frozenset[str], ...]:
        """The inputs that chains of equalities connect, together; several parts are joined by a ring."""
        parts: list[frozenset[str]] = []
        for alias in self.aliases:
            if not any(alias in part for part in parts):
                parts.append(connected_inputs(self.keys, alias))
        return tuple(parts)

    @cached_property
    def slice_us(self) -> int:
        """How wide the slices of event time are that rows of a ring lie in."""
        return slice_width(self._widths_us)

    @property
    def widest_us(self) -> int:
        """The widest window, of which there is at least one."""
        return max(self._widths_us)

    @property
    def _widths_us(self) -> list[int]:
        ranges = (entry.window for entry in self.inputs if isinstance(entry.window, Range))
        return [microseconds(window.width) for window in ranges]

    def input(self, alias: str) -> QueryInput:
        return next(entry for entry in self.inputs if entry.alias == alias)

    def key_column(self, key: KeyClass, alias: str) -> Column:
        """The column that holds `alias`' term of `key`: the term itself where it is a column, else a computed one.

        A computed column is named `#k0`, with more `#` in front where the query reads a column of that name.
        """
        term = key.term(alias)
        if isinstance(term, Column):
            return term
        return Column(alias, self.input(alias).free_name(f"#{key.name}"), key.type)

    def passed_column(self, alias: str, expr: Expr) -> Column:
        """The column that says of a row of `alias` that it has passed the filter `expr` before it was kept.

        Only rows carry it whose filter stands above a join. It is named by what the filter is, so that it means the
        same in every plan.
        """
        name = f"#f{hashlib.sha256(describe(expr).encode()).hexdigest()[:8]}"
        return Column(alias, self.input(alias).free_name(name), pa.bool_())

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.expr.type) for column in self.select])


def connected_inputs(keys: Iterable[KeyClass], start: str) -> frozenset[str]:
    """The inputs that a chain of equalities connects to `start`, itself included."""
    reached = frozenset([start])
    keys = list(keys)
    while grown := [key for key in keys if key.aliases & reached and not key.aliases <= reached]:
        reached = reached.union(*(key.aliases for key in grown))
    return reached
