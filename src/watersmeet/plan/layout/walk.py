"""What laying out a plan collects as it walks the tree, and what all kinds of stages need on the way.

Stages below come first, so that they run first. A port belongs to a stage whose index is only known once the stages
below it are laid out, and is filled in then. Only columns that something above still needs are carried.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet.model.aligned import BY_SEGMENT
from watersmeet.model.expressions import Column, Expr, Literal, aliases_of, describe
from watersmeet.model.ids import Label, OperatorName, Partitioning, StateName
from watersmeet.model.keys import ByHash, BySlice, ByTimeSlot, Key
from watersmeet.model.pair_windows import Reach
from watersmeet.model.quantities import microseconds
from watersmeet.model.slices import BY_TIME, SliceReach
from watersmeet.model.streams import Range
from watersmeet.plan.count_windows import counted_streams, end_column
from watersmeet.plan.physical import (
    Exchange,
    Fields,
    FromOperator,
    LeafPort,
    RaisedFilter,
    Stage,
    State,
    lineage_field,
    time_field,
)
from watersmeet.plan.query import KeyClass, Query
from watersmeet.plan.spec import PlanSpec
from watersmeet.plan.tree import Join, marks_of
from watersmeet.plan.weighing import likeness_of, weighings_of

Keys = tuple[KeyClass, ...]

_EXACT_TYPES = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp)


def has_exact_hash(keys: Keys) -> bool:
    """Whether the hash of a key of these classes tells all keys apart (a single value of at most 64 bits)."""
    return len(keys) == 1 and any(check(keys[0].type) for check in _EXACT_TYPES)


def partitioning_of(keys: Keys) -> Partitioning:
    return Partitioning("+".join(key.name for key in keys)) if keys else BY_TIME


def operator_name(parts: list[tuple[State, ...]]) -> OperatorName:
    """A join by what it joins: the states of each of its inputs, in any order."""
    named = sorted(("|".join(sorted(state.name for state in states)), states[0].aliases) for states in parts)
    digest = hashlib.sha256("\n".join(names for names, _ in named).encode()).hexdigest()[:8]
    return OperatorName(f"{'*'.join('+'.join(aliases) for _, aliases in named)}#{digest}")


@dataclass(frozen=True)
class Laid:
    """A subtree that has been laid out: its join, and the wave in which its results come."""

    source: FromOperator
    wave: int


LayJoin = Callable[["Walk", Join, frozenset[Column], tuple[Exchange, ...]], Laid]


class Walk:
    """Collects stages and ports."""

    def __init__(self, query: Query, spec: PlanSpec, lay_join: LayJoin) -> None:
        self.query = query
        self.spec = spec
        self.lineage = tuple(map(frozenset, spec.lineage))
        self.reach = query.reach_with(spec.pairs)
        self.timed = len(query.parts) > 1 or self.reach.is_bounded or bool(counted_streams(query))
        self.weighings = weighings_of(query, marks_of(spec.tree))
        self.stages: list[Stage] = []
        self.leaves: list[LeafPort] = []
        self.port_stage: list[int] = []
        self.order = {alias: i for i, alias in enumerate(query.aliases)}
        self._above = {(entry.alias, entry.filter): frozenset(entry.at) for entry in spec.filters}
        self._lay_join = lay_join
        self._labels = 0

    def lay_below(self, tree: Join, above: frozenset[Column], exchanges: tuple[Exchange, ...]) -> Laid:
        """Lay out a subtree as stages of its own, whose results go through `exchanges`."""
        return self._lay_join(self, tree, above, exchanges)

    def new_label(self) -> Label:
        self._labels += 1
        return Label(f"J{self._labels}")

    def new_port(self, ports: list[int]) -> int:
        self.port_stage.append(-1)
        ports.append(len(self.port_stage) - 1)
        return ports[-1]

    def assign(self, ports: list[int], stage: int) -> None:
        for port in ports:
            self.port_stage[port] = stage

    def add_leaf(self, alias: str, port: int, state: State, reach: SliceReach | None = None) -> None:
        computed = tuple(
            (self.query.key_column(key, alias).field_name, key.term(alias))
            for key in self.query.keys
            if alias in key.aliases and not isinstance(key.term(alias), Column)
        )
        prepared = ((each.column.field_name, each.call) for each in self.query.prepared if each.column.alias == alias)
        wanted = {name for name, _ in state.fields}
        entry = self.query.input(alias)
        raised = self.raised((frozenset({alias}),))
        later = tuple(each.expr for each in raised)
        passed = ((each.passed.field_name, Literal(False, pa.bool_())) for each in raised)
        self.leaves.append(
            LeafPort(
                alias=alias,
                stream=entry.stream.name,
                port=port,
                filters=tuple(expr for expr in entry.filters if expr not in later),
                computed=tuple((name, expr) for name, expr in (*computed, *prepared, *passed) if name in wanted),
                state=state,
                raised=raised,
                reach=reach,
            )
        )

    def raised(self, parts: tuple[frozenset[str], ...]) -> tuple[RaisedFilter, ...]:
        """The filters that rows over these have not been through, each with the place of the part that it is of.

        One that the query has twice is one here, and stands where the last of the two does.
        """
        return tuple(
            RaisedFilter(place, expr, self.query.passed_column(entry.alias, expr), above)
            for entry in self.query.inputs
            for text, expr in {describe(expr): expr for expr in entry.filters}.items()
            for place, part in enumerate(parts)
            if entry.alias in part and (above := self._above[entry.alias, text]) and not above <= part
        )

    def key_column(self, key: KeyClass, aliases: frozenset[str]) -> Column:
        """The column that stands for `key` in rows over `aliases`: that of the first of them in the text."""
        return self.query.key_column(key, min(key.aliases & aliases, key=self.order.__getitem__))

    def key(self, keys: Keys, aliases: frozenset[str], copies: int = 1) -> Key:
        """Return how rows over `aliases` are placed: by the hash of `keys`, or without any in slices of time."""
        if not keys:
            return BySlice(self.query.slice_us, copies)
        return ByHash(tuple(self.key_column(key, aliases).field_name for key in keys))

    def fields(self, aliases: frozenset[str], columns: frozenset[Column], timed: bool) -> Fields:
        """Names and types of rows over `aliases`: event times, `columns`, keys that joins above will need, lineage."""
        keep = set(columns)
        keep |= {
            self.key_column(key, aliases) for key in self.query.keys if key.aliases & aliases and key.aliases - aliases
        }
        in_order = sorted(keep, key=lambda c: (self.order[c.alias], c.name))
        return (
            *((time_field(alias), pa.int64()) for alias in self.in_order(aliases) if timed),
            *((column.field_name, column.type) for column in in_order),
            *((lineage_field(self.in_order(below)), pa.uint16()) for below in self.lineage if below <= aliases),
        )

    def in_order(self, aliases: frozenset[str]) -> tuple[str, ...]:
        return tuple(sorted(aliases, key=self.order.__getitem__))

    def whole(self, everyone: frozenset[str], parts: tuple[frozenset[str], ...]) -> list[Expr]:
        """The predicates that can be checked once the `parts` of `everyone` are together, and not before."""
        return [
            expr
            for expr in self.query.predicates
            if aliases_of(expr) <= everyone and not any(aliases_of(expr) <= part for part in parts)
        ]

    def state(self, inside: frozenset[str], keys: Keys, fields: Fields, copies: int = 1) -> State:
        """What is kept of rows over `inside`, hashed on `keys`, or in slices of time, so many copies of each then."""
        return self._state(inside, self.key(keys, inside, copies), fields, partitioning_of(keys))

    def aligned_state(self, inside: frozenset[str], fields: Fields, segment_us: int, master: frozenset[str]) -> State:
        """What is kept of rows over `inside` in segments of the time of rows over `master`."""
        if inside == master:
            return self._state(inside, ByTimeSlot(segment_us), fields, BY_SEGMENT)
        back_us = min(width for _, width in self._windows(master))
        state = self._state(inside, ByTimeSlot(segment_us, back_us), fields, BY_SEGMENT)
        return replace(state, copied=SliceReach(segment_us, back_us, state.windows, state.time_fields))

    def _state(self, inside: frozenset[str], key: Key, fields: Fields, partitioning: Partitioning) -> State:
        aliases = self.in_order(inside)
        outside = tuple(dict.fromkeys(entry.stream.name for entry in self.query.inputs if entry.alias not in inside))
        name = self._state_name(aliases, key, fields)
        weighing = likeness = None
        if len(aliases) == 1:
            weighing = self.weighings.get(aliases[0])
            likeness = likeness_of(self.query, aliases[0], (name for name, _ in fields))
        state = State(name, aliases, key, fields, self._windows(inside), outside, partitioning)
        state = replace(state, weighing=weighing, likeness=likeness, ranks=self._ranks(inside))
        return kept_by_pairs(state, self.query, self.reach) if self.spec.pairs else state

    def _windows(self, inside: frozenset[str]) -> tuple[tuple[str, int], ...]:
        return tuple(
            (time_field(alias), microseconds(entry.window.width))
            for alias in self.in_order(inside)
            if isinstance((entry := self.query.input(alias)).window, Range)
        )

    def _ranks(self, inside: frozenset[str]) -> tuple[tuple[str, str], ...]:
        ends = ((end_column(self.query, alias), self.query.input(alias).stream.name) for alias in self.in_order(inside))
        return tuple((end.field_name, stream) for end, stream in ends if end is not None)

    def _state_name(self, aliases: tuple[str, ...], key: Key, fields: Fields) -> StateName:
        carried = {lineage_field(self.in_order(below)) for below in self.lineage}
        named = tuple(field for field in fields if field[0] not in carried)
        later = tuple(entry.expr for entry in self.raised((frozenset(aliases),)))
        return state_name(self.query, aliases, key, named, later)


def kept_by_pairs(state: State, query: Query, reach: Reach) -> State:
    """The state with what windows for pairs say of how long its rows stay."""
    stay = reach.stay(state.aliases)
    leads = (stay.lead({e.alias for e in query.inputs if e.stream.name == name}) for name in state.outside)
    widths = tuple((time_field(alias), width) for alias, width in stay.widths)
    return replace(state, stays_by_pairs=widths, leads=tuple(leads))


def state_name(
    query: Query,
    aliases: tuple[str, ...],
    key: Key,
    fields: Fields,
    later: Collection[Expr] = (),
) -> StateName:
    """A state by what it holds: rows that have been through all filters of their inputs but those of `later`.

    That they have not is said though some may have: those that were there when a filter was pulled up.
    """
    inside = frozenset(aliases)
    entries = [query.input(alias) for alias in aliases]
    applied = {entry.alias: sorted(describe(expr) for expr in entry.filters if expr not in later) for entry in entries}
    content = [
        *(f"{e.alias}={e.stream.name} {e.window} {applied[e.alias]}" for e in entries),
        *sorted(describe(p) for p in query.predicates if aliases_of(p) <= inside),
        *sorted(str(sorted(describe(t) for a, t in k.terms if a in inside)) for k in query.keys),
        *key.names,
        *(f"{name} {kind}" for name, kind in fields),
    ]
    digest = hashlib.sha256("\n".join(content).encode()).hexdigest()[:8]
    return StateName(f"{'+'.join(aliases)}@{','.join(key.names)}#{digest}")
