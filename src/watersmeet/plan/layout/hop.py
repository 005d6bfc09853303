"""Lays out a routed join, whose inputs share no key, as a stage for each hop."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.model.expressions import Call, Column, Expr, aliases_of, columns_of
from watersmeet.model.ids import Alias, Label
from watersmeet.model.slices import SliceReach
from watersmeet.plan.hop import HopStage, Insert, Probe, RoutedInput, RoutedNode
from watersmeet.plan.layout.walk import Keys, Laid, Walk, has_exact_hash, operator_name, partitioning_of
from watersmeet.plan.physical import (
    Exchange,
    Fields,
    FromInput,
    FromOperator,
    Node,
    NodeInput,
    Source,
    State,
)
from watersmeet.plan.ring_ways import Coordinated
from watersmeet.plan.routes import Visit
from watersmeet.plan.tree import Join, Leaf


def lay_hops(walk: Walk, tree: Join, above: frozenset[Column], exchanges: tuple[Exchange, ...]) -> Laid:
    """Lay out `tree` as a routed join: a stage for each hop, after the stages of what hangs below it."""
    return _RoutedJoin(walk, tree, above, exchanges).lay()


class _RoutedJoin:
    """Works out the hops of one routed join."""

    def __init__(self, walk: Walk, tree: Join, above: frozenset[Column], exchanges: tuple[Exchange, ...]) -> None:
        self.walk = walk
        self.tree = tree
        self.above = above
        self.exchanges = exchanges
        self.parts = tuple(child.aliases for child in tree.children)
        self.routes = walk.spec.routes(walk.query, tree)
        way = walk.spec.join(tree).ring
        self.copies = way.copies if isinstance(way, Coordinated) else 1  # of rows in slices
        self.predicates = walk.whole(tree.aliases, self.parts)
        self.filters = tuple(entry for entry in walk.raised(self.parts) if entry.above == tree.aliases)
        self.filter_columns = {column for entry in self.filters for column in entry.columns}
        self.wanted = above | {column for expr in self.predicates for column in columns_of(expr)} | self.filter_columns
        self.fields = [
            walk.fields(part, frozenset(c for c in self.wanted if c.alias in part), walk.timed) for part in self.parts
        ]
        # Every key that an input is probed on has a state; the key of an input's own first hop may need a port only.
        # Rows that visit slices first have a port of their own for that: they go to many slots, and are kept in one.
        self.probed: list[dict[Keys, State]] = [{} for _ in self.parts]
        for route in self.routes:
            for visit in route:
                i = visit.input
                kept = walk.state(self.parts[i], visit.keys, self.fields[i], self.copies)
                self.probed[i].setdefault(visit.keys, kept)
        self.ports: list[int] = []
        self.entries: list[dict[Keys, int]] = []
        self.starts: list[int] = []
        self.wave = 0

    def lay(self) -> Laid:
        sources = [self._enter(i) for i in range(len(self.parts))]
        base = len(self.walk.stages)
        self.walk.assign(self.ports, base)
        node = self._node(sources)
        bound = list(self.parts)
        arriving = list(self.fields)
        standing = list(self.starts)
        hops = len(self.parts) - 1
        for number in range(hops):
            following: list[int] = []
            probes: list[Probe] = []
            for i, route in enumerate(self.routes):
                visit = route[number]
                both = bound[i] | self.parts[visit.input]
                out = self._carried(both, last=number == hops - 1)
                onward = self._onward(i, number, both, out, following)
                probes.append(
                    Probe(
                        port=standing[i],
                        node=self._probe_node(node.label, bound[i], arriving[i], visit, out),
                        sees_new=visit.input < i,
                        exchanges=onward,
                        scans=not visit.keys,
                    )
                )
                bound[i], arriving[i] = both, out
                if number < hops - 1:
                    standing[i] = onward[0].port
            inserts = self._inserts(base) if number == 0 else ()
            self.walk.assign(following, base + number + 1)
            self.walk.stages.append(HopStage(base + number, self.wave + number, node, number, inserts, tuple(probes)))
        return Laid(FromOperator(node.name, node.label), self.wave + hops - 1)

    def _enter(self, i: int) -> Source:
        """Ports for input i, one for each key that its rows are kept or sent on; where its rows come from."""
        walk, child, first = self.walk, self.tree.children[i], self.routes[i][0]
        start = walk.state(self.parts[i], first.keys, self.fields[i])
        wanted = {**self.probed[i], **({first.keys: start} if first.keys else {})}
        self.entries.append({keys: walk.new_port(self.ports) for keys in wanted})
        ways: list[tuple[int, State, SliceReach | None]] = [
            (self.entries[i][keys], state, None) for keys, state in wanted.items()
        ]
        if first.keys:
            self.starts.append(self.entries[i][first.keys])
        else:
            self.starts.append(walk.new_port(self.ports))
            ways.append((self.starts[i], start, self._reach(start, first)))
        if isinstance(child, Leaf):
            for port, state, reach in ways:
                walk.add_leaf(child.alias, port, state, reach)
            return FromInput(Alias(child.alias))
        onward = tuple(
            Exchange(port, state.key, self.fields[i], state.partitioning, state.aliases, reach=reach)
            for port, state, reach in ways
        )
        below = walk.lay_below(child, frozenset(c for c in self.wanted if c.alias in self.parts[i]), onward)
        self.wave = max(self.wave, below.wave + 1)
        return below.source

    def _reach(self, rows: State, visit: Visit) -> SliceReach:
        """Over which slices of the input that they visit rows reach."""
        widths = [width for _, width in self.probed[visit.input][visit.keys].windows]
        back_us = min(widths, default=None)
        return SliceReach(self.walk.query.slice_us, back_us, rows.windows, rows.time_fields, self.copies)

    def _node(self, sources: list[Source]) -> RoutedNode:
        return RoutedNode(
            name=operator_name([tuple(states.values()) for states in self.probed]),
            label=self.walk.new_label(),
            tree=str(self.tree),
            inputs=tuple(
                RoutedInput(
                    source=sources[i],
                    states=tuple(self.probed[i].values()),
                    route=tuple((visit.input, tuple(key.name for key in visit.keys)) for visit in route),
                )
                for i, route in enumerate(self.routes)
            ),
            predicates=tuple(self.predicates),
            filters=tuple(entry.expr for entry in self.filters),
        )

    def _onward(
        self, i: int, number: int, both: frozenset[str], out: Fields, following: list[int]
    ) -> tuple[Exchange, ...]:
        """Where the partial results of origin i go after hop `number`."""
        if number == len(self.parts) - 2:
            return self.exchanges
        port = self.walk.new_port(following)
        visit = self.routes[i][number + 1]
        hashed_on, placed = self.walk.key(visit.keys, both), partitioning_of(visit.keys)
        aliases = self.walk.in_order(both)
        if not visit.keys:
            reach = self._reach(self.walk.state(both, visit.keys, out), visit)
            return (Exchange(port, hashed_on, out, placed, aliases, reach=reach),)
        sees_new = visit.input < i
        meets = None if sees_new else self.probed[visit.input][visit.keys]
        return (Exchange(port, hashed_on, out, placed, aliases, meets),)

    def _carried(self, bound: frozenset[str], last: bool) -> Fields:
        """What a partial result over `bound` carries on: columns for above, for predicates and filters to come."""
        pending = {c for expr in self.predicates if not aliases_of(expr) <= bound for c in columns_of(expr)}
        if not last:
            pending |= self.filter_columns
        columns = frozenset(c for c in self.above | pending if c.alias in bound)
        is_root = last and not self.exchanges
        return self.walk.fields(bound, columns, timed=self.walk.timed and not is_root)

    def _probe_node(self, label: Label, bound: frozenset[str], arriving: Fields, visit: Visit, out: Fields) -> Node:
        """A hop as a join of two inputs: what has been put together so far, and the state that it meets."""
        part = self.parts[visit.input]
        checks: list[Expr] = self.walk.whole(bound | part, (bound, part))
        checks += [
            Call("equal", (self.walk.key_column(key, bound), self.walk.key_column(key, part)), pa.bool_())
            for key in visit.rest
        ]
        awaited = self.walk.raised((bound, part))
        is_last = bound | part == self.tree.aliases
        partial = self.walk.state(bound, visit.keys, arriving)
        state = self.probed[visit.input][visit.keys]
        name = operator_name([(partial,), (state,)])
        return Node(
            name=name,
            label=label,
            tree="",
            inputs=(NodeInput(FromOperator(name, label), partial, None), self._kept(visit.input, state)),
            orders=((1,), (0,)),
            predicates=tuple((frozenset({0, 1}), expr) for expr in checks),
            exact_hash=not visit.keys or has_exact_hash(visit.keys),
            out_fields=out,
            filters=tuple(entry for entry in awaited if is_last and entry.above == self.tree.aliases),
            awaited=awaited,
        )

    def _kept(self, i: int, state: State) -> NodeInput:
        return NodeInput(FromInput(Alias("+".join(self.walk.in_order(self.parts[i])))), state, None)

    def _inserts(self, base: int) -> tuple[Insert, ...]:
        result: list[Insert] = []
        for j, states in enumerate(self.probed):
            for keys, state in states.items():
                again = sorted(
                    {
                        base + number
                        for i, route in enumerate(self.routes)
                        for number, visit in enumerate(route)
                        if number and visit.input == j < i and visit.keys == keys
                    }
                )
                result.append(Insert(self.entries[j][keys], state, tuple(again)))
        return tuple(result)
