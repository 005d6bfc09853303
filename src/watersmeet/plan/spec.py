"""The plan spec: everything that decides which states exist and what tasks do. Data with a JSON form.

A spec goes with a query and leaves nothing open: the tree, in which order the rows of each input of a join probe the
others, the routes of joins whose inputs share no key, how rings are spread, where filters stand, which inputs are
weighed, which windows for pairs say how long rows are kept, and what rows carry for bookkeeping. It is kept in the
manifest, and a run that goes on takes it from there and nowhere else: whatever statistics, settings or optimisers say
by then, the states are those that the spec names.

`spec_of` makes one of a tree; `plan/layout/` turns a spec into what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from watersmeet.errors import InternalError
from watersmeet.model.expressions import describe
from watersmeet.model.pair_windows import PairWindow
from watersmeet.plan.query import KeyClass, Query
from watersmeet.plan.ring_ways import (
    ATR,
    AUTO,
    CTR,
    PSP,
    UNSAID,
    Aligned,
    Coordinated,
    RingWay,
    Way,
    way_from_json,
    way_to_json,
)
from watersmeet.plan.routes import Visit, choose_routes, text_orders
from watersmeet.plan.tree import (
    Filter,
    Join,
    Leaf,
    Tree,
    bare,
    filter_counts,
    joins_of,
    marks_of,
    shared_keys,
    standing_filters,
    with_filters,
    with_marks,
)

Orders = tuple[tuple[int, ...], ...]  # for each input of a join, the order in which its rows probe the others
AT_INPUT: tuple[str, ...] = ()  # where a filter stands that is applied to the rows of its stream, before any join


@dataclass(frozen=True)
class VisitSpec:
    """One visit of a route: which input, on which key classes, and which equalities are checked afterwards."""

    input: int
    on: tuple[str, ...]
    check: tuple[str, ...] = ()


@dataclass(frozen=True)
class JoinSpec:
    """How a join works: by probing `orders`, or, where its inputs share no key, by a route for each input.

    `ring` is how a ring is spread, if not by slices alone; by segments of a master it has no routes.
    """

    orders: Orders
    routes: tuple[tuple[VisitSpec, ...], ...] = ()
    ring: Way | None = None

    @property
    def is_ring(self) -> bool:
        return self.ring is not None or any(not visit.on for route in self.routes for visit in route)


@dataclass(frozen=True)
class FilterSpec:
    """Where a filter of an input stands: before any join, or above the join over the inputs `at`."""

    alias: str
    filter: str
    at: tuple[str, ...] = AT_INPUT


@dataclass(frozen=True)
class PlanSpec:
    """`joins` are those of the tree, each after those that feed it. `lineage`: the joins whose key hash rows carry on
    from there, cut to 16 bits, so that results can be traced to the groups that made them. `pairs`: the windows for
    pairs that rows are let go by."""

    tree: Tree  # a leaf where the query groups the rows of one stream, and joins nothing
    joins: tuple[JoinSpec, ...]
    filters: tuple[FilterSpec, ...] = ()
    lineage: tuple[tuple[str, ...], ...] = ()
    pairs: tuple[PairWindow, ...] = ()

    def __post_init__(self) -> None:
        if len(self.joins) != len(list(joins_of(self.tree))):
            raise InternalError(f"the plan spec of {self.tree} does not describe all its joins")

    def join(self, tree: Join) -> JoinSpec:
        return dict(zip(joins_of(self.tree), self.joins, strict=True))[tree]

    def routes(self, query: Query, tree: Join) -> tuple[tuple[Visit, ...], ...]:
        """The routes of the routed join `tree`."""
        keys = {key.name: key for key in query.keys}

        def found(names: tuple[str, ...]) -> tuple[KeyClass, ...]:
            return tuple(keys[name] for name in names)

        return tuple(
            tuple(Visit(visit.input, found(visit.on), found(visit.check)) for visit in route)
            for route in self.join(tree).routes
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "tree": _tree_to_json(self.tree),
            "joins": [
                {
                    "join": str(tree),
                    "orders": [list(order) for order in join.orders],
                    "routes": [
                        [{"input": v.input, "on": list(v.on), "check": list(v.check)} for v in route]
                        for route in join.routes
                    ],
                    **({} if join.ring is None else {"ring": way_to_json(join.ring)}),
                }
                for tree, join in zip(joins_of(self.tree), self.joins, strict=True)
            ],
            "filters": [
                {"alias": f.alias, "filter": f.filter, "at": list(f.at) if f.at else "input"} for f in self.filters
            ],
            "lineage": [list(aliases) for aliases in self.lineage],
            **({"weighed": marks_of(self.tree)} if marks_of(self.tree) else {}),
            **({"pairs": [[each.first, each.second, each.most_us] for each in self.pairs]} if self.pairs else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlanSpec:
        filters = tuple(
            FilterSpec(f["alias"], f["filter"], AT_INPUT if f["at"] == "input" else tuple(f["at"]))
            for f in data["filters"]
        )
        return cls(
            with_marks(_with_filters(_tree_from_json(data["tree"]), filters), data.get("weighed", {})),
            tuple(
                JoinSpec(
                    tuple(map(tuple, entry["orders"])),
                    tuple(
                        tuple(VisitSpec(v["input"], tuple(v["on"]), tuple(v["check"])) for v in route)
                        for route in entry["routes"]
                    ),
                    way_from_json(entry["ring"]) if "ring" in entry else None,
                )
                for entry in data["joins"]
            ),
            filters,
            tuple(map(tuple, data["lineage"])),
            tuple(PairWindow(*each) for each in data.get("pairs", ())),
        )


def spec_of(
    query: Query,
    tree: Tree,
    orders: Mapping[Join, Orders] | None = None,
    lineage: bool = False,
    ring: RingWay = UNSAID,
    rates: Mapping[str, float] | None = None,
) -> PlanSpec:
    """The whole spec of a plan in the shape of `tree`.

    `orders` may say, for each join of the tree and each of its inputs, in which order that input's rows probe the
    others; that of `text_orders` where it does not. With `lineage`, rows carry the key hashes of the joins that they
    came through. `ring` is how rings are spread; `rates`, the rows a second that are known of inputs, may matter to it.
    """
    joins: list[JoinSpec] = []
    given = {bare(join): order for join, order in (orders or {}).items()}
    for join in joins_of(tree):
        parts = tuple(child.aliases for child in join.children)
        wanted = given.get(bare(join)) or text_orders(query, parts)
        if shared_keys(query, parts):
            joins.append(JoinSpec(wanted))
            continue
        routes = choose_routes(query, parts, wanted)
        routed = JoinSpec(
            tuple(tuple(visit.input for visit in route) for route in routes),
            tuple(tuple(VisitSpec(v.input, _names(v.keys), _names(v.rest)) for v in route) for route in routes),
        )
        way = ring.of_join(query, parts, rates or {}) if routed.is_ring else None
        joins.append(JoinSpec(wanted, ring=way) if isinstance(way, Aligned) else replace(routed, ring=way))
    order = {alias: place for place, alias in enumerate(query.aliases)}
    standing = standing_filters(tree, filter_counts(query))
    filters = tuple(
        FilterSpec(
            entry.alias,
            describe(expr),
            tuple(sorted(standing.get((entry.alias, place), ()), key=order.__getitem__)),
        )
        for entry in query.inputs
        for place, expr in enumerate(entry.filters)
    )
    traced = tuple(
        tuple(sorted(join.aliases, key=order.__getitem__))
        for join, described in zip(joins_of(tree), joins, strict=True)
        if join is not tree and not described.routes
    )
    return PlanSpec(tree, tuple(joins), filters, traced if lineage else (), query.pair_bounds)


def way_of(spec: PlanSpec) -> RingWay:
    """The way in which the rings of a plan are spread, as a user would say it; that of none where it has no ring."""
    rings = [join for join in spec.joins if join.is_ring]
    way = rings[0].ring if rings else None
    if isinstance(way, Aligned):
        return RingWay(ATR, segment=timedelta(microseconds=way.segment_us))
    if isinstance(way, Coordinated):
        return RingWay(CTR, copies=way.copies)
    return RingWay(PSP) if rings else RingWay()


def going_on(ring: RingWay, spec: PlanSpec) -> RingWay:
    """What a setting means to a run that has a plan: what it does not name stays as it is."""
    found = way_of(spec)
    if ring.name == AUTO or found.name == AUTO:
        return found if ring.name == AUTO else ring
    if ring.name != found.name:
        return ring
    return RingWay(ring.name, ring.segment or found.segment, ring.copies or found.copies)


def tree_for(query: Query, spec: PlanSpec) -> Tree:
    """The tree of `spec` for a query that has more filters: the new ones stand at their inputs."""
    above = {(entry.alias, entry.filter): frozenset(entry.at) for entry in spec.filters if entry.at != AT_INPUT}
    standing = {
        (entry.alias, place): above[entry.alias, describe(expr)]
        for entry in query.inputs
        for place, expr in enumerate(entry.filters)
        if (entry.alias, describe(expr)) in above
    }
    return with_filters(spec.tree, standing, filter_counts(query))


def _with_filters(tree: Tree, filters: tuple[FilterSpec, ...]) -> Tree:
    """The tree with the filters above its joins that stand there."""
    counts: dict[str, int] = {}
    standing: dict[Filter, frozenset[str]] = {}
    for entry in filters:
        place = counts.get(entry.alias, 0)
        counts[entry.alias] = place + 1
        if entry.at != AT_INPUT:
            standing[entry.alias, place] = frozenset(entry.at)
    return with_filters(tree, standing, counts)


def _names(keys: tuple[KeyClass, ...]) -> tuple[str, ...]:
    return tuple(key.name for key in keys)


def _tree_to_json(tree: Tree) -> Any:
    """
    >>> _tree_to_json(Join((Join((Leaf("A"), Leaf("B"))), Leaf("C"))))
    [['A', 'B'], 'C']
    """
    return tree.alias if isinstance(tree, Leaf) else [_tree_to_json(child) for child in tree.children]


def _tree_from_json(data: Any) -> Tree:
    return Leaf(data) if isinstance(data, str) else Join(tuple(map(_tree_from_json, data)))
