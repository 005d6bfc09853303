"""What runs: joins with their states, and stages with exchanges between them. `plan/layout/` makes it of a spec.

A *stage* runs as one task for each slot. Its kinds have a file each here and a file of the same name wherever something
is done with them: `fragment.py` (a maximal subtree whose joins share one key), `hop.py` (one hop of a join whose
inputs do not) and `group_by.py` (what groups the results of all joins). What all kinds have in common is the protocol
`Stage`. Stages that do not feed each other are in one *wave*, and run side by side.

Rows enter a stage through *ports*. Everything here is frozen data made once for a track; the step of a batch only reads
it.

Names of columns inside the engine:
- `A.x`: column x of input A; an alias holds no dot, so that all names with a dot are of this kind or the next;
- `A.#k0`: input A's term of key class k0, where that is not a plain column (`A.##k0` if A has a column `#k0`);
- `A.#f12ab34cd`: whether input A's row has passed one of A's filters before it was kept, where that filter stands above
  a join: rows that were there when the filter was pulled up have, and are not put through it again;
- `A.#n0`, `A.#e5`: how many rows of a stream there are up to input A's row, and the number at which that row leaves a
  window of 5 rows (`plan/count_windows.py`);
- `A.#p12ab34cd`: what was prepared of input A's row for a Python predicate, named by what and how;
- `@A`: event time of input A's row in microseconds; carried only by queries that have a window;
- `A.#wn1000000`, `A.#wsum12ab34cd`: how many rows of input A this one stands for, with event times that are boundaries
  of so long a slide, and what is kept of an aggregate over them (`model/weights.py`);
- `#h`: the 64-bit hash of the key; every batch and segment is sorted by it;
- `#g.0`, `#p.0`: a group column, and what is kept of an aggregate; `@first` and `@oldest`: the run of boundaries that a
  partial aggregate counts at (`model/aggregates.py`);
- `#A+B`: the upper 16 bits of the hash that the row had in the join of A and B: its lineage, where groups are watched.

A state is named by what it holds (inputs, filters and predicates applied, columns, key), and an operator by the states
that it joins, never by the plan that they serve: two plans which need the same state find it under the same name. What
rows carry for bookkeeping is no part of a name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from watersmeet.model.aggregates import Partials
from watersmeet.model.expressions import Column, Expr, columns_of
from watersmeet.model.ids import Alias, Label, OperatorName, Partitioning, StateName
from watersmeet.model.keys import BySlice, Key
from watersmeet.model.routing import Groups, has_group, union_ranges
from watersmeet.model.slices import BY_TIME, SliceReach
from watersmeet.model.weights import Likeness, Weighing
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec

HASH_FIELD = "#h"

Fields = tuple[tuple[str, pa.DataType], ...]
Widths = tuple[tuple[str, int], ...]


def time_field(alias: str) -> str:
    return f"@{alias}"


def is_time_field(name: str) -> bool:
    # A name with a dot is a user's column, whose alias may begin with @.
    return name.startswith("@") and "." not in name


def lineage_field(aliases: tuple[str, ...]) -> str:
    return "#" + "+".join(json.dumps(alias) if set(alias) & set('+"') else alias for alias in aliases)


@dataclass(frozen=True)
class State:
    """What one input of a join keeps: rows with these columns, hashed on these, until nobody needs them.

    A row is needed until E, the least of its event times with the widths of `stays`; what a stream outside of it needs
    is gone by so much earlier as its lead says (`model/pair_windows.py`).
    """

    name: StateName
    aliases: tuple[str, ...]
    key: Key
    fields: Fields
    windows: Widths  # (time field, width in microseconds) of each input with [RANGE], which combinations must satisfy
    outside: tuple[str, ...]  # names of the streams whose future rows may still join with these
    partitioning: Partitioning
    partials: Partials | None = None  # where its rows are partial aggregates: how these are put together
    copied: SliceReach | None = None  # of rows that are kept once in every segment of a master within it
    weighing: Weighing | None = None  # where its rows are those of an input that is weighed
    likeness: Likeness | None = None  # where they are those of an input that is, or could be
    # Where there are windows for pairs; else rows stay for as long as their own windows are wide.
    stays_by_pairs: Widths | None = None
    leads: tuple[int, ...] = ()  # of each of `outside`, in microseconds
    # Where there are windows of rows: the column with the end of a row, and the stream whose rows it counts.
    ranks: tuple[tuple[str, str], ...] = ()

    @property
    def expires(self) -> bool:
        """Whether there is anything after which its rows are not needed any more."""
        return bool(self.stays or self.ranks)

    @property
    def stays(self) -> Widths:
        """How long rows stay: (time field, width in microseconds) of each input that says so."""
        return self.windows if self.stays_by_pairs is None else self.stays_by_pairs

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(HASH_FIELD, pa.uint64()), *self.fields])

    @property
    def time_fields(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields if is_time_field(name))

    @property
    def copies(self) -> float:
        """How often a row is kept, on the average."""
        if self.copied is not None:
            return self.copied.segments
        return float(self.key.copies) if isinstance(self.key, BySlice) else 1.0


@dataclass(frozen=True)
class FromInput:
    """Rows of an input of the query."""

    alias: Alias

    def __str__(self) -> str:
        return self.alias


@dataclass(frozen=True)
class FromOperator:
    """Results of a join below."""

    name: OperatorName
    label: Label

    def __str__(self) -> str:
        return self.label


Source = FromInput | FromOperator  # as text: what people call it


@dataclass(frozen=True)
class NodeInput:
    """One input of a join: where its rows come from, and the state that it keeps here."""

    source: Source
    state: State
    port: int | None  # None when the rows come from a join of the same stage


@dataclass(frozen=True)
class RaisedFilter:
    """A filter of an input of the query that stands above a join.

    `input` is the place of its rows among those of a join, `passed` the column that says of a row that it has passed
    before.
    """

    input: int
    expr: Expr
    passed: Column
    above: frozenset[str]  # the inputs of that join

    @property
    def columns(self) -> tuple[Column, ...]:
        """What it takes to apply it."""
        return (*dict.fromkeys(columns_of(self.expr)), self.passed)


@dataclass(frozen=True)
class Node:
    """A multi-way join over inputs that share a key."""

    name: OperatorName
    label: Label
    tree: str
    inputs: tuple[NodeInput, ...]
    orders: tuple[tuple[int, ...], ...]  # for each input, the order in which its rows probe the others
    predicates: tuple[tuple[frozenset[int], Expr], ...]  # with the inputs that each one reads
    exact_hash: bool  # equal hashes mean equal keys, so that keys need not be compared
    out_fields: Fields
    lineage: str | None = None  # the field for the hash that a result had here, where rows carry it
    filters: tuple[RaisedFilter, ...] = ()  # that results must pass before they go on
    awaited: tuple[RaisedFilter, ...] = ()  # that rows of its inputs have not been through: these, and those further up

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(alias for entry in self.inputs for alias in entry.state.aliases)

    @cached_property
    def states(self) -> tuple[StateName, ...]:
        return tuple(entry.state.name for entry in self.inputs)

    @property
    def partitioning(self) -> Partitioning:
        return self.inputs[0].state.partitioning


@dataclass(frozen=True)
class Exchange:
    """Where the rows of a stage that is not the last one go: to a port, hashed on these columns.

    `meets` is the state that they meet there, if all they are for is to meet the rows that it had before this batch: a
    row with no match among those need not be sent. With `reach` they go to every slot that has a slice within it, and
    where they are `copied`, as the state there says, to every segment.
    """

    port: int
    key: Key
    fields: Fields
    partitioning: Partitioning
    aliases: tuple[str, ...]  # that the rows are over
    meets: State | None = None
    reach: SliceReach | None = None
    partials: Partials | None = None  # where rows are made into partial aggregates before they are sent
    copied: SliceReach | None = None
    weighed: tuple[Weighing, ...] = ()  # inputs whose rows stand for several, where rows are made into aggregates


@dataclass(frozen=True)
class Feed:
    """Where the rows of an input of a join come from, and the states that keep them.

    `reads_kept`: what the join needs of them can be read from a state, so that rows which are kept need not be sent.
    """

    source: Source
    states: tuple[State, ...]
    join: OperatorName
    reads_kept: bool


class Stage(Protocol):
    """What every kind of stage has."""

    @property
    def index(self) -> int: ...
    @property
    def wave(self) -> int: ...
    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """None for the stage that emits results."""

    @property
    def states(self) -> tuple[State, ...]:
        """What it keeps."""

    @property
    def reads(self) -> tuple[State, ...]:
        """What it meets new rows with; the states that exchanges look ahead at are among them."""

    @property
    def within(self) -> Groups | None:
        """The groups of its partitioning that it is for, where others have another shape; None: all."""

    @property
    def ports(self) -> Mapping[int, State]:
        """What arrives at each port."""

    @property
    def operators(self) -> tuple[Node, ...]:
        """The joins in it whose groups can be spilled and merged."""

    @property
    def meetings(self) -> tuple[tuple[State, ...], ...]:
        """The states whose rows meet each other, for each join that begins here."""

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The inputs of each join that begins here."""

    @property
    def title(self) -> Label:
        """The join that it is a part of."""


@dataclass(frozen=True)
class LeafPort:
    """How rows of a query input become rows of its port."""

    alias: str
    stream: str
    port: int
    filters: tuple[Expr, ...]
    computed: tuple[tuple[str, Expr], ...]  # key terms that are no columns, what is prepared, marks
    state: State
    raised: tuple[RaisedFilter, ...] = ()  # filters that stand above a join
    within: Groups | None = None  # those of its stage
    reach: SliceReach | None = None  # of rows that go to every slot which has a slice within it


@dataclass(frozen=True)
class PhysicalPlan:
    """Of one spec; or of several, each for some groups, where all inputs share a key (`layout/shapes.py`)."""

    query: Query
    spec: PlanSpec  # the first, where there are several
    stages: tuple[Stage, ...]
    leaves: tuple[LeafPort, ...]
    port_stage: tuple[int, ...]  # the stage that each port belongs to

    @property
    def tree(self) -> str:
        return str(self.spec.tree)

    @cached_property
    def shapes(self) -> tuple[tuple[str, Groups | None], ...]:
        """The trees that groups run, and which; one tree for all of them, unless shapes differ."""
        if all(stage.within is None for stage in self.stages):
            return ((self.tree, None),)
        return tuple((stage.operators[-1].tree, stage.within) for stage in self.stages)

    @cached_property
    def waves(self) -> tuple[tuple[Stage, ...], ...]:
        """The stages that run side by side, one wave after the other."""
        last = max(stage.wave for stage in self.stages)
        return tuple(tuple(stage for stage in self.stages if stage.wave == wave) for wave in range(last + 1))

    @cached_property
    def states(self) -> dict[StateName, State]:
        return {state.name: state for stage in self.stages for state in stage.states}

    @cached_property
    def operators(self) -> dict[OperatorName, Node]:
        """The joins whose groups can be spilled, each after those that feed it. Routed joins are not among them."""
        found: dict[OperatorName, Node] = {}
        for stage in self.stages:
            for node in stage.operators:
                found.setdefault(node.name, node)  # several shapes may have it
        return found

    @cached_property
    def operators_of(self) -> dict[StateName, tuple[OperatorName, ...]]:
        """For each state of such a join, the join; several where shapes differ, each with groups of its own."""
        found: dict[StateName, tuple[OperatorName, ...]] = {}
        for node in self.operators.values():
            for state in node.states:
                found[state] = (*found.get(state, ()), node.name)
        return found

    @cached_property
    def within(self) -> dict[OperatorName, Groups | None]:
        """The groups that each of these joins has: those of the shapes that it is in. None: all."""
        found: dict[OperatorName, Groups | None] = {}
        for stage in self.stages:
            for node in stage.operators:
                held = found.get(node.name, ())
                every = held is None or stage.within is None
                found[node.name] = None if every else union_ranges((*(held or ()), *(stage.within or ())))
        return found

    def has_group(self, operator: OperatorName, group: int) -> bool:
        """Whether a group, which its partitioning has, is one of a join."""
        within = self.within[operator]
        return within is None or has_group(within, group)

    @cached_property
    def labels(self) -> dict[Label, OperatorName]:
        """What people call these joins."""
        return {node.label: node.name for node in self.operators.values()}

    def label(self, operator: OperatorName) -> str:
        """What people call a join; its name where this plan does not have it."""
        return self.operators[operator].label if operator in self.operators else operator

    @cached_property
    def partitionings(self) -> dict[str, tuple[Partitioning, ...]]:
        """What is placed, by what people call it: a partitioning itself, or a join; a routed one has several."""
        named: dict[str, tuple[Partitioning, ...]] = {s.partitioning: (s.partitioning,) for s in self.states.values()}
        routed = {s.title: s.states for s in self.stages if s.states and not s.operators}
        return {
            **named,
            **{label: tuple(dict.fromkeys(state.partitioning for state in states)) for label, states in routed.items()},
            **{node.label: (node.partitioning,) for node in self.operators.values()},
        }

    def placed_on(self, name: OperatorName | Partitioning) -> Partitioning | None:
        """The partitioning of an operator, or the one of this name; None where the plan has neither."""
        if name in self.operators:
            return self.operators[OperatorName(name)].partitioning
        return Partitioning(name) if name in self.partitionings.get(name, ()) else None

    @cached_property
    def feeders(self) -> dict[StateName, tuple[OperatorName, ...]]:
        """For each state, the operators whose results come to meet it, by way of another input of the same join."""
        result: dict[StateName, tuple[OperatorName, ...]] = dict.fromkeys(self.states, ())
        for states in (meeting for stage in self.stages for meeting in stage.meetings):
            everything = {alias for state in states for alias in state.aliases}
            for state in states:
                others = everything - set(state.aliases)
                feeding = (name for name, node in self.operators.items() if node.aliases <= others)
                # Of several shapes that have the state, all: to keep rows for longer than one of them needs is exact.
                result[state.name] = tuple(dict.fromkeys((*result.get(state.name, ()), *feeding)))
        return result

    @cached_property
    def grouped(self) -> State | None:
        """What is kept of the groups of a query that has them."""
        return next((state for state in self.states.values() if state.partials is not None), None)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams that are read, each once, in the order of the text."""
        return tuple(dict.fromkeys(entry.stream.name for entry in self.query.inputs))

    @cached_property
    def reaches(self) -> dict[int, SliceReach]:
        """What rows reach over that arrive at ports by way of slices."""
        ways: list[LeafPort | Exchange] = [*self.leaves]
        ways += (exchange for stage in self.stages for exchange in stage.exchanges)
        return {way.port: way.reach for way in ways if way.reach is not None}

    @cached_property
    def has_ring(self) -> bool:
        """Whether rows of any state lie in slices of time."""
        return any(state.partitioning == BY_TIME for state in self.states.values())

    @cached_property
    def ring_labels(self) -> frozenset[str]:
        """What people call the joins that visit slices of time."""
        return frozenset(
            stage.title for stage in self.stages if any(state.partitioning == BY_TIME for state in stage.states)
        )

    def filters_at(self, alias: str) -> tuple[Expr, ...]:
        """The filters of an input that are applied before any join."""
        return next(leaf.filters for leaf in self.leaves if leaf.alias == alias)

    def stream_columns(self, stream: str) -> tuple[str, ...]:
        """The columns of `stream` that the query reads, its time column among them, in schema order."""
        return next(entry.columns for entry in self.query.inputs if entry.stream.name == stream)
