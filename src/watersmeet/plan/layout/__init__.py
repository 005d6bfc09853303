"""From a query and a plan spec to what runs: stages, ports, states and columns, worked out in one walk of the tree.

`walk.py` has what all kinds of stages share; each kind is laid out by the file of its name.
"""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.model.expressions import Column, columns_of, describe
from watersmeet.plan.layout.fragment import lay_fragment
from watersmeet.plan.layout.group_by import lay_group_by
from watersmeet.plan.layout.hop import lay_hops
from watersmeet.plan.layout.walk import Laid, Walk
from watersmeet.plan.physical import Exchange, PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.ring_ways import UNSAID, Aligned, RingWay
from watersmeet.plan.spec import Orders, PlanSpec, spec_of
from watersmeet.plan.tree import Join, Tree, shared_keys
from watersmeet.plan.weighing import carried_up

__all__ = ["lay_out", "lay_out_spec"]


def lay_out(
    query: Query,
    tree: Tree,
    orders: Mapping[Join, Orders] | None = None,
    lineage: bool = False,
    ring: RingWay = UNSAID,
) -> PhysicalPlan:
    """The physical plan of `query` in the shape of `tree`; see `spec_of` for the rest."""
    return lay_out_spec(query, spec_of(query, tree, orders, lineage, ring))


def lay_out_spec(query: Query, spec: PlanSpec) -> PhysicalPlan:
    """The physical plan that `spec` describes."""
    standing = {(entry.alias, entry.filter) for entry in spec.filters}
    written = {(entry.alias, describe(expr)) for entry in query.inputs for expr in entry.filters}
    assert standing == written, "every filter of the query stands somewhere in the plan"
    walk = Walk(query, spec, _lay_join)
    fields = {column for expr in query.joined for column in columns_of(expr)}
    if walk.weighings:
        fields = set(carried_up(query, walk.weighings.values()))
    if not fields and isinstance(spec.tree, Join):  # only constants are selected; rows need a column to be counted by
        fields = {_any_column(walk)}
    if query.group_by is not None:
        lay_group_by(walk, spec.tree, frozenset(fields))
    else:
        assert isinstance(spec.tree, Join), "a single stream is grouped"
        _lay_join(walk, spec.tree, frozenset(fields), ())
    leaves = tuple(sorted(walk.leaves, key=lambda leaf: walk.order[leaf.alias]))
    return PhysicalPlan(query, spec, tuple(walk.stages), leaves, tuple(walk.port_stage))


def _any_column(walk: Walk) -> Column:
    query = walk.query
    if query.keys:
        return walk.key_column(query.keys[0], walk.spec.tree.aliases)
    first = query.inputs[0]
    return Column(first.alias, first.stream.time, first.stream.schema.field(first.stream.time).type)


def _lay_join(walk: Walk, tree: Join, above: frozenset[Column], exchanges: tuple[Exchange, ...]) -> Laid:
    """Lay out the subtree `tree` as stages of its own, of the kind that its keys allow, or segments of a master."""
    shared = shared_keys(walk.query, tuple(child.aliases for child in tree.children))
    is_fragment = bool(shared) or isinstance(walk.spec.join(tree).ring, Aligned)
    return (lay_fragment if is_fragment else lay_hops)(walk, tree, above, exchanges)
