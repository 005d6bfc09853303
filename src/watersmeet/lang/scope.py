"""The names that a query can use: its inputs and their columns.

Unquoted names are matched exactly first, then in any case where that leaves one candidate; names in backticks are
matched exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from watersmeet.errors import did_you_mean
from watersmeet.lang.dialect import SlideClause
from watersmeet.lang.source import Source
from watersmeet.model.expressions import Column
from watersmeet.model.streams import Stream, Window


@dataclass(frozen=True)
class ScopeInput:
    """An entry of the FROM clause before its filters are known."""

    alias: str
    stream: Stream
    window: Window
    table: exp.Table
    slide: SlideClause | None = None  # how often groups are emitted, where its window says so


@dataclass(frozen=True)
class Scope:
    """What names in a query stand for. It notes down which columns are named, in the text or by a star."""

    source: Source
    inputs: tuple[ScopeInput, ...]
    named: set[tuple[str, str]] = field(default_factory=set)  # stream and column

    def columns_read(self, stream: Stream) -> tuple[str, ...]:
        """The columns of `stream` that were named so far, and its event time, in the order of its schema."""
        read = {column for name, column in self.named if name == stream.name} | {stream.time}
        return tuple(name for name in stream.schema.names if name in read)

    def read(self, entry: ScopeInput, name: str) -> Column:
        """The column of an input, which is named from now on."""
        self.named.add((entry.stream.name, name))
        return Column(entry.alias, name, entry.stream.schema.field(name).type)

    def column(self, node: exp.Column) -> Column:
        """The column that `node` names."""
        parts = node.parts
        if len(parts) > 2 or not isinstance(node.this, exp.Identifier):
            self.source.refuse(
                f'cannot read "{self.source.slice(self.source.span(node))}" as a column',
                node,
                detail="A column is written name or alias.name; columns inside a struct are not supported.",
            )
        if len(parts) == 2:
            return self._of_input(self.input(node.args["table"]), node.this, node)
        return self._of_any(node.this, node)

    def input(self, name: exp.Identifier) -> ScopeInput:
        """The input whose alias is `name`."""
        by_alias = {entry.alias: entry for entry in self.inputs}
        found = match_name(name, by_alias)
        if len(found) != 1:
            self.source.refuse(
                f'unknown alias "{name.name}"',
                name,
                detail=f"The inputs of this query are {', '.join(by_alias)}.",
                hint=did_you_mean(name.name, by_alias),
            )
        return by_alias[found[0]]

    def _of_input(self, entry: ScopeInput, name: exp.Identifier, node: exp.Column) -> Column:
        names = entry.stream.schema.names
        found = match_name(name, names)
        if len(found) > 1:
            self._refuse_ambiguous(name, [f"{entry.alias}.{each}" for each in found], node)
        if not found:
            self.source.refuse(
                f'stream "{entry.stream.name}" has no column "{name.name}"',
                node,
                detail=f"Its columns are {', '.join(names)}.",
                hint=did_you_mean(name.name, names),
            )
        return self.read(entry, found[0])

    def _of_any(self, name: exp.Identifier, node: exp.Column) -> Column:
        known = [(entry, each) for entry in self.inputs for each in entry.stream.schema.names]
        names = set(match_name(name, {each for _, each in known}))
        found = [(entry, each) for entry, each in known if each in names]
        if len(found) > 1:
            self._refuse_ambiguous(name, [f"{entry.alias}.{each}" for entry, each in found], node)
        if not found:
            self.source.refuse(
                f'no stream of this query has a column "{name.name}"',
                node,
                detail=f"The columns are {', '.join(f'{entry.alias}.{each}' for entry, each in known)}.",
                hint=did_you_mean(name.name, [each for _, each in known]),
            )
        return self.read(*found[0])

    def _refuse_ambiguous(self, name: exp.Identifier, candidates: list[str], node: exp.Column) -> None:
        self.source.refuse(
            f'column "{name.name}" is ambiguous',
            node,
            detail=f"It may be {' or '.join(candidates)}.",
            hint=f'Write "{candidates[0]}", for example.',
        )


def match_name(name: exp.Identifier, known: Iterable[str]) -> list[str]:
    """The known names that an identifier may mean: the exact one, or else all that differ in case alone."""
    known = list(known)
    if name.name in known:
        return [name.name]
    return [] if name.quoted else [each for each in known if each.lower() == name.name.lower()]
