"""From a query and a tree to what runs: walks the tree once and works out stages, ports, states and columns.

A subtree whose joins share one key becomes one stage. A join whose inputs do not share a key becomes a routed join, a
stage for each hop. Between stages stand exchanges. Only columns that something above still needs are carried.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping

import pyarrow as pa

from watersmeet.model.expressions import Call, Column, Expr, aliases_of, columns_of, describe
from watersmeet.model.quantities import microseconds
from watersmeet.model.streams import Range
from watersmeet.plan.physical import (
    AnyStage,
    Exchange,
    Insert,
    LeafPort,
    Node,
    NodeInput,
    PhysicalPlan,
    Probe,
    RoutedInput,
    RoutedNode,
    RoutedStage,
    Stage,
    State,
    time_field,
    trace_field,
)
from watersmeet.plan.query import KeyClass, Query
from watersmeet.plan.routes import Hop, Keys, choose_routes
from watersmeet.plan.tree import Join, Leaf, Tree, shared_keys

Fields = tuple[tuple[str, pa.DataType], ...]
Orders = tuple[tuple[int, ...], ...]  # for each input of a join, the order in which its rows probe the others

_EXACT_TYPES = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_date, pa.types.is_timestamp)


def has_exact_hash(types: tuple[pa.DataType, ...]) -> bool:
    """Whether the hash of a key of these types tells all keys apart (a single value of at most 64 bits)."""
    return len(types) == 1 and any(check(types[0]) for check in _EXACT_TYPES)


def lay_out(
    query: Query, tree: Tree, orders: Mapping[Join, Orders] | None = None, traced: bool = False
) -> PhysicalPlan:
    """The physical plan of `query` in the shape of `tree`.

    `orders` may say, for each join of the tree and each of its inputs, in which order that input's rows probe the
    others; the order of the text where it does not. With `traced`, rows carry the key hash of every join that they came
    through, cut to 16 bits, so that results can be traced to the groups that made them.
    """
    assert isinstance(tree, Join)
    return _Layout(query, orders or {}, tuple(_joins_below(query, tree)) if traced else ()).plan(tree)


def _joins_below(query: Query, tree: Join) -> Iterator[frozenset[str]]:
    """The streams of each join below the root whose inputs share a key."""
    for child in tree.children:
        if isinstance(child, Join):
            if shared_keys(query, tuple(part.aliases for part in child.children)):
                yield child.aliases
            yield from _joins_below(query, child)


class _Layout:
    """Walks a tree once and collects stages and ports."""

    def __init__(self, query: Query, orders: Mapping[Join, Orders], traced: tuple[frozenset[str], ...]) -> None:
        self.query = query
        self.traced = traced
        self.probe_orders = orders
        self.timed = any(isinstance(entry.window, Range) for entry in query.inputs)
        self.stages: list[AnyStage] = []
        self.leaves: list[LeafPort] = []
        self.port_stage: list[int] = []
        self.node_count = 0
        self.order = {alias: i for i, alias in enumerate(query.aliases)}

    def plan(self, tree: Join) -> PhysicalPlan:
        fields = {c for column in self.query.select for c in columns_of(column.expr)}
        if not fields:  # only constants are selected; rows need a column to be counted by
            fields = {self._key_column(self.query.keys[0], tree.aliases)}
        self._stage(tree, frozenset(fields), exchanges=())
        leaves = tuple(sorted(self.leaves, key=lambda leaf: self.order[leaf.alias]))
        return PhysicalPlan(self.query, str(tree), tuple(self.stages), leaves, tuple(self.port_stage))

    # Stages below come first, so that they run first; a port belongs to a stage whose index is only known once the
    # stages below it are laid out, and is filled in then.
    def _stage(self, tree: Join, above: frozenset[Column], exchanges: tuple[Exchange, ...]) -> str:
        """Lay out the subtree `tree` as stages of its own; the id of its root."""
        keys = self._keys(tree)
        if not keys:
            return self._routed(tree, above, exchanges)
        nodes: list[Node] = []
        ports: list[int] = []
        self._node(tree, keys, above, is_root=not exchanges, nodes=nodes, ports=ports)
        self._assign(ports, len(self.stages))
        self.stages.append(Stage(len(self.stages), tuple(key.name for key in keys), tuple(nodes), exchanges))
        return nodes[-1].id

    def _assign(self, ports: list[int], stage: int) -> None:
        for port in ports:
            self.port_stage[port] = stage

    def _keys(self, tree: Join) -> tuple[KeyClass, ...]:
        return shared_keys(self.query, tuple(child.aliases for child in tree.children))

    def _key_column(self, key: KeyClass, aliases: frozenset[str]) -> Column:
        """The column that stands for `key` in rows over `aliases`: that of the first of them in the text."""
        return self.query.key_column(key, min(key.aliases & aliases, key=self.order.__getitem__))

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
        node = Node(
            id=self._new_id(),
            tree=str(tree),
            inputs=tuple(inputs),
            orders=self._orders(tree),
            predicates=predicates,
            exact_hash=has_exact_hash(tuple(key.type for key in keys)),
            out_fields=self._fields(tree.aliases, above, timed=self.timed and not is_root),
            trace=trace_field(self._in_order(tree.aliases)) if tree.aliases in self.traced else None,
        )
        nodes.append(node)
        return node.id

    def _orders(self, tree: Join) -> Orders:
        everyone = range(len(tree.children))
        return self.probe_orders.get(tree, tuple(tuple(j for j in everyone if j != i) for i in everyone))

    def _input(
        self, child: Tree, keys: tuple[KeyClass, ...], keep: frozenset[Column], nodes: list[Node], ports: list[int]
    ) -> NodeInput:
        fields = self._fields(child.aliases, keep, self.timed)
        key_fields = tuple(self._key_column(key, child.aliases).field_name for key in keys)
        state = self._state(child.aliases, key_fields, fields)
        if isinstance(child, Leaf):
            port = self._new_port(ports)
            self._leaf(child.alias, port, state)
            return NodeInput(child.alias, state, port)
        if self._keys(child) == keys:
            node_id = self._node(child, keys, keep, is_root=False, nodes=nodes, ports=ports)
            return NodeInput(node_id, state, None)
        port = self._new_port(ports)
        node_id = self._stage(child, keep, (Exchange(port, key_fields, fields),))
        return NodeInput(node_id, state, port)

    def _new_id(self) -> str:
        self.node_count += 1
        return f"J{self.node_count}"

    def _new_port(self, ports: list[int]) -> int:
        self.port_stage.append(-1)
        ports.append(len(self.port_stage) - 1)
        return ports[-1]

    def _leaf(self, alias: str, port: int, state: State) -> None:
        computed = tuple(
            (self.query.key_column(key, alias).field_name, key.term(alias))
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

    # --- joins whose inputs do not share a key -----------------------------------------------------------------------

    def _routed(self, tree: Join, above: frozenset[Column], exchanges: tuple[Exchange, ...]) -> str:
        """Lay out `tree` as a routed join: a stage for each hop; the id of the join."""
        parts = tuple(child.aliases for child in tree.children)
        routes = choose_routes(self.query, parts, self._orders(tree))
        predicates = self._whole(tree.aliases, parts)
        wanted = above | {column for expr in predicates for column in columns_of(expr)}
        fields = [self._fields(part, frozenset(c for c in wanted if c.alias in part), self.timed) for part in parts]
        # Every key that an input is probed on has a state; the key of an input's own first hop may need a port only.
        probed: list[dict[Keys, State]] = [{} for _ in parts]
        for route in routes:
            for hop in route:
                probed[hop.input].setdefault(hop.keys, self._keyed_state(parts[hop.input], hop.keys, fields[hop.input]))
        ports: list[int] = []
        entries: list[dict[Keys, int]] = []
        sources: list[str] = []
        for i, child in enumerate(tree.children):
            first = routes[i][0].keys
            wanted_keys = {**probed[i], first: self._keyed_state(parts[i], first, fields[i])}
            entries.append({keys: self._new_port(ports) for keys in wanted_keys})
            if isinstance(child, Leaf):
                for keys, state in wanted_keys.items():
                    self._leaf(child.alias, entries[i][keys], state)
                sources.append(child.alias)
            else:
                onward = tuple(Exchange(entries[i][keys], s.key_fields, fields[i]) for keys, s in wanted_keys.items())
                keep = frozenset(c for c in wanted if c.alias in parts[i])
                sources.append(self._stage(child, keep, onward))
        base = len(self.stages)
        self._assign(ports, base)
        node = RoutedNode(
            id=self._new_id(),
            tree=str(tree),
            inputs=tuple(
                RoutedInput(
                    source=sources[i],
                    states=tuple(probed[i].values()),
                    route=tuple((hop.input, tuple(key.name for key in hop.keys)) for hop in routes[i]),
                )
                for i in range(len(parts))
            ),
            predicates=tuple(predicates),
        )
        bound = list(parts)
        arriving = list(fields)
        standing = [entries[i][routes[i][0].keys] for i in range(len(parts))]
        for number in range(len(parts) - 1):
            last = number == len(parts) - 2
            following: list[int] = []
            probes: list[Probe] = []
            for i, route in enumerate(routes):
                hop = route[number]
                both = bound[i] | parts[hop.input]
                out = self._hop_fields(both, above, predicates, last, is_root=not exchanges)
                if last:
                    onward = exchanges
                else:
                    port = self._new_port(following)
                    following_hop = route[number + 1]
                    hashed_on = tuple(self._key_column(key, both).field_name for key in following_hop.keys)
                    sees_new = following_hop.input < i
                    meets = None if sees_new else probed[following_hop.input][following_hop.keys]
                    onward = (Exchange(port, hashed_on, out, meets),)
                probes.append(
                    Probe(
                        origin=i,
                        port=standing[i],
                        node=self._hop_node(node.id, bound[i], arriving[i], hop, probed, parts, out),
                        sees_new=hop.input < i,
                        exchanges=onward,
                    )
                )
                bound[i], arriving[i] = both, out
                if not last:
                    standing[i] = onward[0].port
            inserts = self._inserts(entries, probed, routes, base) if number == 0 else ()
            self._assign(following, base + number + 1)
            self.stages.append(RoutedStage(base + number, node, number, inserts, tuple(probes)))
        return node.id

    def _keyed_state(self, part: frozenset[str], keys: Keys, fields: Fields) -> State:
        return self._state(part, tuple(self._key_column(key, part).field_name for key in keys), fields)

    def _hop_fields(
        self, bound: frozenset[str], above: frozenset[Column], predicates: list[Expr], last: bool, is_root: bool
    ) -> Fields:
        """What a partial result over `bound` carries on: columns for above, and for predicates still to come."""
        pending = {c for expr in predicates if not aliases_of(expr) <= bound for c in columns_of(expr)}
        columns = frozenset(c for c in above | pending if c.alias in bound)
        return self._fields(bound, columns, timed=self.timed and not (last and is_root))

    def _hop_node(
        self,
        node_id: str,
        bound: frozenset[str],
        arriving: Fields,
        hop: Hop,
        probed: list[dict[Keys, State]],
        parts: tuple[frozenset[str], ...],
        out: Fields,
    ) -> Node:
        """A hop as a join of two inputs: what has been put together so far, and the state that it meets."""
        part = parts[hop.input]
        checks = self._whole(bound | part, (bound, part))
        checks += [
            Call("equal", (self._key_column(key, bound), self._key_column(key, part)), pa.bool_()) for key in hop.rest
        ]
        partial = self._keyed_state(bound, hop.keys, arriving)
        state = probed[hop.input][hop.keys]
        return Node(
            id=node_id,
            tree="",
            inputs=(NodeInput("partial results", partial, None), NodeInput(state.name, state, None)),
            orders=((1,), (0,)),
            predicates=tuple((frozenset({0, 1}), expr) for expr in checks),
            exact_hash=has_exact_hash(tuple(key.type for key in hop.keys)),
            out_fields=out,
        )

    def _inserts(
        self,
        entries: list[dict[Keys, int]],
        probed: list[dict[Keys, State]],
        routes: tuple[tuple[Hop, ...], ...],
        base: int,
    ) -> tuple[Insert, ...]:
        result: list[Insert] = []
        for j, states in enumerate(probed):
            for keys, state in states.items():
                again = sorted(
                    {
                        base + number
                        for i, route in enumerate(routes)
                        for number, hop in enumerate(route)
                        if number and hop.input == j < i and hop.keys == keys
                    }
                )
                result.append(Insert(entries[j][keys], state, tuple(again)))
        return tuple(result)

    def _fields(self, aliases: frozenset[str], columns: frozenset[Column], timed: bool) -> Fields:
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
            *((trace_field(self._in_order(below)), pa.uint16()) for below in self.traced if below <= aliases),
        )

    def _in_order(self, aliases: frozenset[str]) -> tuple[str, ...]:
        return tuple(sorted(aliases, key=self.order.__getitem__))

    def _predicates(
        self, everyone: frozenset[str], parts: tuple[frozenset[str], ...], keys: tuple[KeyClass, ...]
    ) -> tuple[tuple[frozenset[int], Expr], ...]:
        """What the node checks beside its key: predicates that become whole here, and equalities that are not keys."""

        def reads(expr: Expr) -> frozenset[int]:
            return frozenset(i for i, part in enumerate(parts) if aliases_of(expr) & part)

        whole = self._whole(everyone, parts)
        for key in self.query.keys:
            if key in keys:
                continue
            columns = [self._key_column(key, part) for part in parts if key.aliases & part]
            whole += [Call("equal", pair, pa.bool_()) for pair in itertools.pairwise(columns)]
        return tuple((reads(expr), expr) for expr in whole)

    def _whole(self, everyone: frozenset[str], parts: tuple[frozenset[str], ...]) -> list[Expr]:
        """The predicates that can be checked once the `parts` of `everyone` are together, and not before."""
        return [
            expr
            for expr in self.query.predicates
            if aliases_of(expr) <= everyone and not any(aliases_of(expr) <= part for part in parts)
        ]

    def _state(self, inside: frozenset[str], key_fields: tuple[str, ...], fields: Fields) -> State:
        aliases = self._in_order(inside)
        windows = tuple(
            (time_field(alias), microseconds(entry.window.width))
            for alias in aliases
            if isinstance((entry := self.query.input(alias)).window, Range)
        )
        outside = tuple(dict.fromkeys(entry.stream.name for entry in self.query.inputs if entry.alias not in inside))
        return State(self._state_name(aliases, key_fields, fields), aliases, key_fields, fields, windows, outside)

    def _state_name(self, aliases: tuple[str, ...], key_fields: tuple[str, ...], fields: Fields) -> str:
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
