"""What runs: nodes with their states, and stages with exchanges between them. `plan/layout.py` makes it of a tree.

A *stage* runs as one task for each slot. There are two kinds:
- a `Stage` (the design's fragment) is a maximal subtree whose joins share one key;
- a `RoutedStage` is one hop of a multi-way join whose inputs do not share a key: the partial results of all origins
  meet the states that they probe next, and hop on to the following stage.

Rows enter a stage through *ports*. Everything here is frozen data made once for a run; the step of a batch only reads
it.

Names of columns inside the engine:
- `A.x`: column x of input A; an alias holds no dot, so that all names with a dot are of this kind or the next;
- `A.#k0`: input A's term of key class k0, where that is not a plain column (`A.##k0` if A has a column `#k0`);
- `@A`: event time of input A's row in microseconds; carried only by queries that have a window;
- `#h`: the 64-bit hash of the key; every batch and segment is sorted by it;
- `#A+B`: the upper 16 bits of the hash that the row had in the join of A and B; where results are traced.

A state is named by what it holds (inputs, filters and predicates applied, columns, key), never by the plan that it
serves, so that two plans which need the same state find it under the same name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from watersmeet.model.expressions import Column, Expr, columns_of
from watersmeet.plan.query import Query

HASH_FIELD = "#h"


def time_field(alias: str) -> str:
    return f"@{alias}"


def trace_field(aliases: tuple[str, ...]) -> str:
    return "#" + "+".join(json.dumps(alias) if set(alias) & set('+"') else alias for alias in aliases)


@dataclass(frozen=True)
class State:
    """What one input of a node keeps: rows with these columns, hashed on these, until their windows close."""

    name: str
    aliases: tuple[str, ...]
    key_fields: tuple[str, ...]
    fields: tuple[tuple[str, pa.DataType], ...]
    windows: tuple[tuple[str, int], ...]  # (time field, width in microseconds) of each windowed input in it
    outside: tuple[str, ...]  # names of the streams whose future rows may still join with these

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(HASH_FIELD, pa.uint64()), *self.fields])

    @property
    def time_fields(self) -> tuple[str, ...]:
        # A name with a dot is a user's column, whose alias may begin with @.
        return tuple(name for name, _ in self.fields if name.startswith("@") and "." not in name)


@dataclass(frozen=True)
class NodeInput:
    """One input of a node: a query input or the node below, and the state that it keeps here."""

    source: str  # an alias, or the id of a node
    state: State
    port: int | None  # None when the rows come from a node of the same stage


@dataclass(frozen=True)
class Node:
    """A multi-way join over inputs that share a key."""

    id: str
    tree: str
    inputs: tuple[NodeInput, ...]
    orders: tuple[tuple[int, ...], ...]  # for each input, the order in which its rows probe the others
    predicates: tuple[tuple[frozenset[int], Expr], ...]  # with the inputs that each one reads
    exact_hash: bool  # equal hashes mean equal keys, so that keys need not be compared
    out_fields: tuple[tuple[str, pa.DataType], ...]
    trace: str | None = None  # the field for the hash that a result had here, if results are traced

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(alias for entry in self.inputs for alias in entry.state.aliases)

    @cached_property
    def states(self) -> tuple[str, ...]:
        return tuple(entry.state.name for entry in self.inputs)


@dataclass(frozen=True)
class Exchange:
    """Where the rows of a stage that is not the last one go: to a port, hashed on these columns.

    `meets` is the state that they meet there, if all they are for is to meet the rows that it had before this batch: a
    row with no match among those need not be sent.
    """

    port: int
    key_fields: tuple[str, ...]
    fields: tuple[tuple[str, pa.DataType], ...]
    meets: State | None = None


@dataclass(frozen=True)
class Stage:
    index: int
    keys: tuple[str, ...]
    nodes: tuple[Node, ...]  # children before parents; the last one is the root of the stage
    exchanges: tuple[Exchange, ...]  # none for the stage that emits results

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(entry.state for node in self.nodes for entry in node.inputs)

    @property
    def ports(self) -> dict[int, State]:
        """What arrives at each port of the stage."""
        return {entry.port: entry.state for node in self.nodes for entry in node.inputs if entry.port is not None}


@dataclass(frozen=True)
class Insert:
    """New rows that become part of a routed join's state. `read_again_in`: the later stages that need them too."""

    port: int
    state: State
    read_again_in: tuple[int, ...]


@dataclass(frozen=True)
class Probe:
    """One hop of one origin: the partial results at `port` meet a state.

    `node` is a join of two inputs, the partial result and the state; only the first one ever has new rows. The rows
    that the state gets in this batch are seen if `sees_new`.
    """

    origin: int
    port: int
    node: Node
    sees_new: bool
    exchanges: tuple[Exchange, ...]  # none where results are emitted

    @property
    def state(self) -> State:
        return self.node.inputs[1].state


@dataclass(frozen=True)
class RoutedInput:
    """An input of a routed join: the states that keep it, one for each key that it is probed on, and its route."""

    source: str
    states: tuple[State, ...]
    route: tuple[tuple[int, tuple[str, ...]], ...]  # inputs in the order they are probed, with the key classes


@dataclass(frozen=True)
class RoutedNode:
    """A multi-way join whose inputs do not share a key. Keeps no intermediate results."""

    id: str
    tree: str
    inputs: tuple[RoutedInput, ...]
    predicates: tuple[Expr, ...]


@dataclass(frozen=True)
class RoutedStage:
    """Hop number `hop` of a routed join, for all origins together."""

    index: int
    node: RoutedNode
    hop: int
    inserts: tuple[Insert, ...]  # in the first hop only
    probes: tuple[Probe, ...]

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        return tuple(exchange for probe in self.probes for exchange in probe.exchanges)

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(insert.state for insert in self.inserts)

    @property
    def ports(self) -> dict[int, State]:
        """What arrives at each port of the stage."""
        return {
            **{probe.port: probe.node.inputs[0].state for probe in self.probes},
            **{insert.port: insert.state for insert in self.inserts},
        }


AnyStage = Stage | RoutedStage


@dataclass(frozen=True)
class LeafPort:
    """How rows of a query input become rows of its port."""

    alias: str
    stream: str
    port: int
    filters: tuple[Expr, ...]
    computed: tuple[tuple[str, Expr], ...]  # key terms that are not plain columns
    state: State


@dataclass(frozen=True)
class PhysicalPlan:
    query: Query
    tree: str
    stages: tuple[AnyStage, ...]
    leaves: tuple[LeafPort, ...]
    port_stage: tuple[int, ...]  # the stage that each port belongs to

    @cached_property
    def states(self) -> dict[str, State]:
        return {state.name: state for stage in self.stages for state in stage.states}

    @property
    def traced(self) -> bool:
        """Whether rows carry the hashes that results are traced by."""
        return any(node.trace is not None for node in self.operators.values())

    @cached_property
    def operators(self) -> dict[str, Node]:
        """The joins whose inputs share a key, by id, each after those that feed it. Routed joins are not among them."""
        return {node.id: node for stage in self.stages if isinstance(stage, Stage) for node in stage.nodes}

    @cached_property
    def operator_of(self) -> dict[str, str]:
        """For each state of such a join, the id of the join."""
        return {entry.state.name: node.id for node in self.operators.values() for entry in node.inputs}

    @cached_property
    def feeders(self) -> dict[str, tuple[str, ...]]:
        """For each state, the operators whose results come to meet it, by way of another input of the same join."""
        nodes: list[list[State]] = [[entry.state for entry in node.inputs] for node in self.operators.values()]
        routed = {stage.node.id: stage.node for stage in self.stages if isinstance(stage, RoutedStage)}
        nodes += [[state for entry in node.inputs for state in entry.states] for node in routed.values()]
        result: dict[str, tuple[str, ...]] = {}
        for states in nodes:
            everything = {alias for state in states for alias in state.aliases}
            for state in states:
                others = everything - set(state.aliases)
                result[state.name] = tuple(name for name, node in self.operators.items() if node.aliases <= others)
        return result

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams that are read, each once, in the order of the text."""
        return tuple(dict.fromkeys(entry.stream.name for entry in self.query.inputs))

    def stream_columns(self, stream: str) -> tuple[str, ...]:
        """The columns of `stream` that the plan reads, its time column among them, in schema order."""
        wanted: set[str] = set()
        for entry in self.query.inputs:
            if entry.stream.name != stream:
                continue
            wanted.add(entry.stream.time)
            wanted.update(c.name for c in _all_columns(self.query) if c.alias == entry.alias)
        schema = next(e.stream.schema for e in self.query.inputs if e.stream.name == stream)
        return tuple(name for name in schema.names if name in wanted)


def _all_columns(query: Query) -> list[Column]:
    exprs: list[Expr] = [column.expr for column in query.select]
    exprs += query.predicates
    exprs += [term for key in query.keys for _, term in key.terms]
    exprs += [expr for entry in query.inputs for expr in entry.filters]
    return [column for expr in exprs for column in columns_of(expr)]
