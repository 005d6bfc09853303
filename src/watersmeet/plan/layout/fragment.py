"""Lays out a fragment: a subtree whose joins share one key, as one stage.

A ring that is aligned with a master is one too: its key are segments of the master's time, and no other join has it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.model.expressions import Call, Column, Expr, aliases_of, columns_of
from watersmeet.model.ids import Alias
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.layout.walk import Keys, Laid, Walk, has_exact_hash, operator_name
from watersmeet.plan.physical import (
    Exchange,
    Fields,
    FromInput,
    FromOperator,
    Node,
    NodeInput,
    State,
    lineage_field,
)
from watersmeet.plan.ring_ways import Aligned
from watersmeet.plan.tree import Join, Leaf, Tree, shared_keys


def lay_fragment(walk: Walk, tree: Join, above: frozenset[Column], exchanges: tuple[Exchange, ...]) -> Laid:
    """Lay out `tree`, whose root's inputs share a key, and what hangs below it on other keys as stages before it."""
    fragment = _Fragment(walk, _keys(walk, tree), _segments(walk, tree))
    source = fragment.node(tree, above, is_root=not exchanges)
    index = len(walk.stages)
    walk.assign(fragment.ports, index)
    names = tuple(key.name for key in fragment.keys)
    walk.stages.append(FragmentStage(index, fragment.wave, names, tuple(fragment.nodes), exchanges))
    return Laid(source, fragment.wave)


@dataclass(frozen=True)
class _Segments:
    """Of the time of rows over the inputs `master`."""

    master: frozenset[str]
    segment_us: int


def _segments(walk: Walk, tree: Join) -> _Segments | None:
    way = walk.spec.join(tree).ring
    return _Segments(tree.children[way.master].aliases, way.segment_us) if isinstance(way, Aligned) else None


def _keys(walk: Walk, tree: Join) -> Keys:
    return shared_keys(walk.query, tuple(child.aliases for child in tree.children))


class _Fragment:
    """Collects the nodes and ports of one fragment."""

    def __init__(self, walk: Walk, keys: Keys, segments: _Segments | None) -> None:
        self.walk = walk
        self.keys = keys  # none where it has segments
        self.segments = segments
        self.nodes: list[Node] = []
        self.ports: list[int] = []
        self.wave = 0

    def node(self, tree: Join, above: frozenset[Column], is_root: bool) -> FromOperator:
        walk = self.walk
        parts = tuple(child.aliases for child in tree.children)
        predicates = self._predicates(tree.aliases, parts)
        awaited = walk.raised(parts)
        filters = tuple(entry for entry in awaited if entry.above == tree.aliases)
        wanted = above | {column for _, expr in predicates for column in columns_of(expr)}
        wanted |= {column for entry in filters for column in entry.columns}
        inputs: list[NodeInput] = []
        for child in tree.children:
            keep = {column for column in wanted if column.alias in child.aliases}
            keep |= {walk.key_column(key, child.aliases) for key in self.keys}
            inputs.append(self._input(child, frozenset(keep)))
        source = FromOperator(operator_name([(entry.state,) for entry in inputs]), walk.new_label())
        node = Node(
            name=source.name,
            label=source.label,
            tree=str(tree),
            inputs=tuple(inputs),
            orders=walk.spec.join(tree).orders,
            predicates=predicates,
            exact_hash=self.segments is not None or has_exact_hash(self.keys),
            out_fields=walk.fields(tree.aliases, above, timed=walk.timed and not is_root),
            lineage=lineage_field(walk.in_order(tree.aliases)) if tree.aliases in walk.lineage else None,
            filters=filters,
            awaited=awaited,
        )
        self.nodes.append(node)
        return source

    def _input(self, child: Tree, keep: frozenset[Column]) -> NodeInput:
        walk = self.walk
        fields = walk.fields(child.aliases, keep, walk.timed)
        state = self._state(child.aliases, fields)
        if isinstance(child, Leaf):
            port = walk.new_port(self.ports)
            walk.add_leaf(child.alias, port, state)
            return NodeInput(FromInput(Alias(child.alias)), state, port)
        if self.segments is None and _keys(walk, child) == self.keys:
            return NodeInput(self.node(child, keep, is_root=False), state, None)
        port = walk.new_port(self.ports)
        onward = Exchange(port, state.key, fields, state.partitioning, state.aliases, copied=state.copied)
        below = walk.lay_below(child, keep, (onward,))
        self.wave = max(self.wave, below.wave + 1)
        return NodeInput(below.source, state, port)

    def _state(self, inside: frozenset[str], fields: Fields) -> State:
        if self.segments is None:
            return self.walk.state(inside, self.keys, fields)
        return self.walk.aligned_state(inside, fields, self.segments.segment_us, self.segments.master)

    def _predicates(
        self, everyone: frozenset[str], parts: tuple[frozenset[str], ...]
    ) -> tuple[tuple[frozenset[int], Expr], ...]:
        """What a node checks beside its key: predicates that become whole here, and equalities that are not keys."""

        def reads(expr: Expr) -> frozenset[int]:
            return frozenset(i for i, part in enumerate(parts) if aliases_of(expr) & part)

        whole = self.walk.whole(everyone, parts)
        for key in self.walk.query.keys:
            if key in self.keys:
                continue
            columns = [self.walk.key_column(key, part) for part in parts if key.aliases & part]
            whole += [Call("equal", pair, pa.bool_()) for pair in itertools.pairwise(columns)]
        return tuple((reads(expr), expr) for expr in whole)
