"""From a query and a tree to what runs: nodes with their states, and stages with exchanges between them.

A *stage* (the design's fragment) is a maximal subtree whose joins share one key; it runs as one task for each slot.
Rows enter a stage through *ports*: one for each query input, and one for each stage below. Everything here is frozen
data made once for a run; the step of a batch only reads it.

Names of columns inside the engine:
- `A.x`: column x of input A;
- `A.#k0`: input A's term of key class k0, where that is not a plain column;
- `@A`: event time of input A's row in microseconds; carried only by queries that have a window;
- `#h`: the 64-bit hash of the key; every batch and segment is sorted by it.

A state is named by what it holds (inputs, filters and predicates applied, columns, key), never by the plan that it
serves, so that two plans which need the same state find it under the same name.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from watersmeet.model.expressions import Call, Column, Expr, aliases_of, columns_of, describe
from watersmeet.model.quantities import microseconds
from watersmeet.model.streams import Range
from watersmeet.plan.query import KeyClass, Query
from watersmeet.plan.tree import Join, Leaf, Tree, shared_keys

HASH_FIELD = "#h"


def time_field(alias: str) -> str:
    return f"@{alias}"


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
        return tuple(name for name, _ in self.fields if name.startswith("@"))


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


@dataclass(frozen=True)
class Exchange:
    """Where the rows of a stage that is not the last one go: to a port, hashed on these columns."""

    port: int
    key_fields: tuple[str, ...]
    fields: tuple[tuple[str, pa.DataType], ...]


@dataclass(frozen=True)
class Stage:
    index: int
    keys: tuple[str, ...]
    nodes: tuple[Node, ...]  # children before parents; the last one is the root of the stage
    exchange: Exchange | None  # None for the stage that emits results


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
    stages: tuple[Stage, ...]
    leaves: tuple[LeafPort, ...]
    port_stage: tuple[int, ...]  # the stage that each port belongs to

    @cached_property
    def states(self) -> dict[str, State]:
        return {i.state.name: i.state for stage in self.stages for node in stage.nodes for i in node.inputs}

    def stage_states(self, stage: int) -> tuple[str, ...]:
        return tuple(i.state.name for node in self.stages[stage].nodes for i in node.inputs)

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


_EXACT_TYPES = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp)


def has_exact_hash(types: tuple[pa.DataType, ...]) -> bool:
    """Whether the hash of a key of these types tells all keys apart (a single value of at most 64 bits)."""
    return len(types) == 1 and any(check(types[0]) for check in _EXACT_TYPES)


def lay_out(query: Query, tree: Tree) -> PhysicalPlan:
    """The physical plan of `query` in the shape of `tree`."""
    assert isinstance(tree, Join)
    return _Layout(query).plan(tree)


class _Layout:
    """Walks a tree once and collects stages and ports."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.timed = any(isinstance(entry.window, Range) for entry in query.inputs)
        self.stages: list[Stage] = []
        self.leaves: list[LeafPort] = []
        self.port_stage: list[int] = []
        self.node_count = 0
        self.order = {alias: i for i, alias in enumerate(query.aliases)}

    def plan(self, tree: Join) -> PhysicalPlan:
        fields = {c for column in self.query.select for c in columns_of(column.expr)}
        if not fields:  # only constants are selected; rows need a column to be counted by
            fields = {self._key_column(self._keys(tree)[0], tree.aliases)}
        self._stage(tree, frozenset(fields), exchange=None)
        leaves = tuple(sorted(self.leaves, key=lambda leaf: self.order[leaf.alias]))
        return PhysicalPlan(self.query, str(tree), tuple(self.stages), leaves, tuple(self.port_stage))

    # Stages below come first, so that they run first; a port belongs to a stage whose index is only known once the
    # stages below it are laid out, and is filled in then.
    def _stage(self, tree: Join, above: frozenset[Column], exchange: Exchange | None) -> None:
        keys = self._keys(tree)
        nodes: list[Node] = []
        ports: list[int] = []
        self._node(tree, keys, above, is_root=exchange is None, nodes=nodes, ports=ports)
        index = len(self.stages)
        for port in ports:
            self.port_stage[port] = index
        self.stages.append(Stage(index, tuple(key.name for key in keys), tuple(nodes), exchange))

    def _keys(self, tree: Join) -> tuple[KeyClass, ...]:
        return shared_keys(self.query, tuple(child.aliases for child in tree.children))

    def _key_column(self, key: KeyClass, aliases: frozenset[str]) -> Column:
        """The column that stands for `key` in rows over `aliases`: that of the first of them in the text."""
        alias = min(key.aliases & aliases, key=self.order.__getitem__)
        term = key.term(alias)
        return term if isinstance(term, Column) else Column(alias, f"#{key.name}", key.type)

    def _node(
        self,
        tree: Join,
        keys: tuple[KeyClass, ...],
        above: frozenset[Column],
        is_root: bool,
        nodes: list[Node],
        ports: list[int],
    ) -> str:
        parts = tuple(child.aliases for child in tree.children)
        predicates = self._predicates(tree.aliases, parts, keys)
        wanted = above | {column for _, expr in predicates for column in columns_of(expr)}
        inputs: list[NodeInput] = []
        for child in tree.children:
            keep = {column for column in wanted if column.alias in child.aliases}
            keep |= {self._key_column(key, child.aliases) for key in keys}
            inputs.append(self._input(child, keys, frozenset(keep), nodes, ports))
        self.node_count += 1
        everyone = range(len(inputs))
        node = Node(
            id=f"J{self.node_count}",
            tree=str(tree),
            inputs=tuple(inputs),
            orders=tuple(tuple(j for j in everyone if j != i) for i in everyone),
            predicates=predicates,
            exact_hash=has_exact_hash(tuple(key.type for key in keys)),
            out_fields=self._fields(tree.aliases, above, timed=self.timed and not is_root),
        )
        nodes.append(node)
        return node.id

    def _input(
        self, child: Tree, keys: tuple[KeyClass, ...], keep: frozenset[Column], nodes: list[Node], ports: list[int]
    ) -> NodeInput:
        fields = self._fields(child.aliases, keep, self.timed)
        key_fields = tuple(self._key_column(key, child.aliases).field_name for key in keys)
        state = self._state(child, key_fields, fields)
        if isinstance(child, Leaf):
            port = self._new_port(ports)
            self._leaf(child.alias, port, state)
            return NodeInput(child.alias, state, port)
        if self._keys(child) == keys:
            node_id = self._node(child, keys, keep, is_root=False, nodes=nodes, ports=ports)
            return NodeInput(node_id, state, None)
        port = self._new_port(ports)
        self._stage(child, keep, Exchange(port, key_fields, fields))
        return NodeInput(self.stages[-1].nodes[-1].id, state, port)

    def _new_port(self, ports: list[int]) -> int:
        self.port_stage.append(-1)
        ports.append(len(self.port_stage) - 1)
        return ports[-1]

    def _leaf(self, alias: str, port: int, state: State) -> None:
        computed = tuple(
            (f"{alias}.#{key.name}", key.term(alias))
            for key in self.query.keys
            if alias in key.aliases and not isinstance(key.term(alias), Column)
        )
        wanted = {name for name, _ in state.fields}
        entry = self.query.input(alias)
        self.leaves.append(
            LeafPort(
                alias=alias,
                stream=entry.stream.name,
                port=port,
                filters=entry.filters,
                computed=tuple((name, expr) for name, expr in computed if name in wanted),
                state=state,
            )
        )

    def _fields(
        self, aliases: frozenset[str], columns: frozenset[Column], timed: bool
    ) -> tuple[tuple[str, pa.DataType], ...]:
        """Names and types of rows over `aliases`: event times, `columns`, and the keys that joins above will need."""
        keep = set(columns)
        keep |= {
            self._key_column(key, aliases) for key in self.query.keys if key.aliases & aliases and key.aliases - aliases
        }
        in_order = sorted(keep, key=lambda c: (self.order[c.alias], c.name))
        times = [a for a in sorted(aliases, key=self.order.__getitem__) if timed]
        return (
            *((time_field(alias), pa.int64()) for alias in times),
            *((column.field_name, column.type) for column in in_order),
        )

    def _predicates(
        self, everyone: frozenset[str], parts: tuple[frozenset[str], ...], keys: tuple[KeyClass, ...]
    ) -> tuple[tuple[frozenset[int], Expr], ...]:
        """What the node checks beside its key: predicates that become whole here, and equalities that are not keys."""

        def reads(expr: Expr) -> frozenset[int]:
            return frozenset(i for i, part in enumerate(parts) if aliases_of(expr) & part)

        whole = [
            expr
            for expr in self.query.predicates
            if aliases_of(expr) <= everyone and not any(aliases_of(expr) <= part for part in parts)
        ]
        for key in self.query.keys:
            if key in keys:
                continue
            columns = [self._key_column(key, part) for part in parts if key.aliases & part]
            whole += [Call("equal", pair, pa.bool_()) for pair in itertools.pairwise(columns)]
        return tuple((reads(expr), expr) for expr in whole)

    def _state(self, child: Tree, key_fields: tuple[str, ...], fields: tuple[tuple[str, pa.DataType], ...]) -> State:
        aliases = tuple(sorted(child.aliases, key=self.order.__getitem__))
        windows = tuple(
            (time_field(alias), microseconds(entry.window.width))
            for alias in aliases
            if isinstance((entry := self.query.input(alias)).window, Range)
        )
        outside = tuple(
            dict.fromkeys(entry.stream.name for entry in self.query.inputs if entry.alias not in child.aliases)
        )
        return State(self._state_name(aliases, key_fields, fields), aliases, key_fields, fields, windows, outside)

    def _state_name(
        self, aliases: tuple[str, ...], key_fields: tuple[str, ...], fields: tuple[tuple[str, pa.DataType], ...]
    ) -> str:
        inside = frozenset(aliases)
        entries = [self.query.input(alias) for alias in aliases]
        content = [
            *(f"{e.alias}={e.stream.name} {e.window} {sorted(map(describe, e.filters))}" for e in entries),
            *sorted(describe(p) for p in self.query.predicates if aliases_of(p) <= inside),
            *sorted(str(sorted(describe(t) for a, t in k.terms if a in inside)) for k in self.query.keys),
            *key_fields,
            *(f"{name} {kind}" for name, kind in fields),
        ]
        digest = hashlib.sha256("\n".join(content).encode()).hexdigest()[:8]
        return f"{'+'.join(aliases)}@{','.join(key_fields)}#{digest}"
