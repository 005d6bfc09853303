"""A bound query: the join as one n-ary node over its inputs, with everything resolved and typed.

The binder (`lang/binder.py`) makes it from text; plans (`plan/tree.py`) are choices of how to run it. The conjuncts of
the WHERE and ON clauses have been sorted into three kinds: filters of one input, equalities between inputs (as key
classes, closed under transitivity), and the remaining predicates over two or more inputs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.model.expressions import Column, Expr, describe
from watersmeet.model.streams import Stream, Window


@dataclass(frozen=True)
class QueryInput:
    """One entry of the FROM clause. Two aliases of one stream are two inputs."""

    alias: str
    stream: Stream
    window: Window
    filters: tuple[Expr, ...] = ()


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
class Query:
    text: str
    inputs: tuple[QueryInput, ...]
    keys: tuple[KeyClass, ...]
    predicates: tuple[Expr, ...]
    select: tuple[OutputColumn, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(entry.alias for entry in self.inputs)

    def input(self, alias: str) -> QueryInput:
        return next(entry for entry in self.inputs if entry.alias == alias)

    def key_column(self, key: KeyClass, alias: str) -> Column:
        """The column that holds `alias`' term of `key`: the term itself where it is a column, else a computed one.

        A computed column is named `#k0`, with more `#` in front where the stream has a column of that name.
        """
        term = key.term(alias)
        if isinstance(term, Column):
            return term
        name = f"#{key.name}"
        while name in self.input(alias).stream.schema.names:
            name = f"#{name}"
        return Column(alias, name, key.type)

    def passed_column(self, alias: str, expr: Expr) -> Column:
        """The column that says of a row of `alias` that it has passed the filter `expr` before it was kept.

        Only rows carry it whose filter stands above a join. It is named by what the filter is, so that it means the
        same in every plan.
        """
        name = f"#f{hashlib.sha256(describe(expr).encode()).hexdigest()[:8]}"
        while name in self.input(alias).stream.schema.names:
            name = f"#{name}"
        return Column(alias, name, pa.bool_())

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.expr.type) for column in self.select])
