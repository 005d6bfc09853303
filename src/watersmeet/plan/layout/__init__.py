"""From a query and a plan spec to what runs: stages, ports, states and columns, worked out in one walk of the tree.

`walk.py` has what all kinds of stages share; each kind is laid out by the file of its name.
"""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.model.expressions import Column, columns_of, describe
from watersmeet.plan.layout.fragment import lay_fragment
from watersmeet.plan.layout.hop import lay_hops
from watersmeet.plan.layout.walk import Laid, Walk
from watersmeet.plan.physical import Exchange, PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import Orders, PlanSpec, spec_of
from watersmeet.plan.tree import Join, Tree, shared_keys

__all__ = ["lay_out", "lay_out_spec"]


def lay_out(
    query: Query, tree: Tree, orders: Mapping[Join, Orders] | None = None, lineage: bool = False
) -> PhysicalPlan:
    """The physical plan of `query` in the shape of `tree`; see `spec_of` for the rest."""
    return lay_out_spec(query, spec_of(query, tree, orders, lineage))


def lay_out_spec(query: Query, spec: PlanSpec) -> PhysicalPlan:
    """The physical plan that `spec` describes."""
    standing = {(entry.alias, entry.filter) for entry in spec.filters}
    written = {(entry.alias, describe(expr)) for entry in query.inputs for expr in entry.filters}
    assert standing == written, "every filter of the query stands somewhere in the plan"
    walk = Walk(query, spec, _lay_join)
    fields = {c for column in query.select for c in columns_of(column.expr)}
    if not fields:  # only constants are selected; rows need a column to be counted by
        fields = {walk.key_column(query.keys[0], spec.tree.aliases)}
    _lay_join(walk, spec.tree, frozenset(fields), ())
    leaves = tuple(sorted(walk.leaves, key=lambda leaf: walk.order[leaf.alias]))
    return PhysicalPlan(query, spec, tuple(walk.stages), leaves, tuple(walk.port_stage))


def _lay_join(walk: Walk, tree: Join, above: frozenset[Column], exchanges: tuple[Exchange, ...]) -> Laid:
    """Lay out the subtree `tree` as stages of its own, of the kind that its keys allow."""
    shared = shared_keys(walk.query, tuple(child.aliases for child in tree.children))
    return (lay_fragment if shared else lay_hops)(walk, tree, above, exchanges)
