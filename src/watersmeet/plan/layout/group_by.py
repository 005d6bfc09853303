"""Lays out the group-by of a query above its joins, which send it partial aggregates, or above its one stream."""

from __future__ import annotations

import hashlib

from watersmeet.model.aggregates import OLDEST, Panes, Partials
from watersmeet.model.expressions import Column, Expr, describe
from watersmeet.model.ids import Alias, OperatorName, StateName
from watersmeet.model.keys import ByHash
from watersmeet.model.quantities import microseconds
from watersmeet.model.streams import Range
from watersmeet.plan.group_by import GROUPS, GroupByStage
from watersmeet.plan.layout.walk import Walk, state_name
from watersmeet.plan.physical import Exchange, FromInput, Source, State, time_field
from watersmeet.plan.query import Query
from watersmeet.plan.tree import Leaf, Tree

# The longest that a run of boundaries is kept as if its rows had been there for: times stay within 64 bits.
_LONGEST_US = 1 << 61


def lay_group_by(walk: Walk, tree: Tree, columns: frozenset[Column]) -> None:
    """Lay out what is below, and the group-by of the query above it; it reads `columns` of joined rows."""
    state = _state(walk.query)
    assert state.partials is not None
    ports: list[int] = []
    port = walk.new_port(ports)
    if isinstance(tree, Leaf):
        walk.add_leaf(tree.alias, port, state)
        source: Source = FromInput(Alias(tree.alias))
        wave = 0
    else:
        weighed = tuple(walk.weighings.values())
        onward = Exchange(
            port, state.key, state.fields, state.partitioning, (), partials=state.partials, weighed=weighed
        )
        below = walk.lay_below(tree, columns, (onward,))
        source, wave = below.source, below.wave + 1
    index = len(walk.stages)
    walk.assign(ports, index)
    walk.stages.append(GroupByStage(index, wave, OperatorName(state.name), source, port, state))


def _state(query: Query) -> State:
    """The partial aggregates that are kept. They are of no input: nothing that is joined is taken from them."""
    assert query.group_by is not None
    panes = _panes(query, query.group_by.slide_us)
    partials = Partials(query.group_by, panes)
    windows = () if panes is None else ((OLDEST, panes.width_us),)
    return State(
        name=_name(query, partials),
        aliases=(),
        key=ByHash(partials.group_fields),
        fields=partials.fields,
        windows=windows,
        outside=(),
        partitioning=GROUPS,
        partials=partials,
    )


def _panes(query: Query, slide_us: int | None) -> Panes | None:
    if slide_us is None:
        return None
    widths = {e.alias: microseconds(e.window.width) for e in query.inputs if isinstance(e.window, Range)}
    return Panes(
        slide_us,
        min(_LONGEST_US, *widths.values()),
        tuple(map(time_field, query.aliases)),
        tuple((time_field(alias), width) for alias, width in widths.items()),
    )


def _name(query: Query, partials: Partials) -> StateName:
    """By what is grouped, and how: all rows that the query joins, their groups, and what is kept of aggregates."""
    group_by = partials.group_by
    rows = state_name(query, query.aliases, ByHash(()), ())
    content = [
        rows,
        *map(describe, group_by.groups),
        *(f"{part.function} {_text(part.arg)} {part.type}" for part in group_by.partials),
        f"slide {group_by.slide_us}",
        *(f"{name} {kind}" for name, kind in partials.fields),
    ]
    digest = hashlib.sha256("\n".join(content).encode()).hexdigest()[:8]
    return StateName(f"{'+'.join(query.aliases)}@group#{digest}")


def _text(expr: Expr | None) -> str:
    return "*" if expr is None else describe(expr)
