"""What it costs that rows change slots: the part of a plan's price that depends on the keys, not on the join graph.

A join whose inputs share a key runs where its rows are hashed. Rows move (`CostConstants.send`, each)
- from a stream to the slot of its key: once, or once for each key that a routed join probes it on;
- from one join to the next, unless both are hashed on the same key;
- in a routed join, from hop to hop, whatever partial results there are, to several slots where they visit by time.

A stream that a routed join keeps under several keys is also stored, inserted and expired once for each.

Optimisers search by the graph alone, where a node's price depends on its inputs and nothing else; `choose.py` adds this
to the plans that they leave.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from watersmeet.optimize.cost import Cost
from watersmeet.optimize.estimates import Estimates, Orders
from watersmeet.optimize.mjoin_order import order_node
from watersmeet.plan.query import Query
from watersmeet.plan.routes import choose_routes
from watersmeet.plan.tree import Join, Leaf, Tree, bare, shared_keys

VISITED = 2  # slots that rows go to which visit slices of time; how many there are nobody says here


def price_moves(
    query: Query, tree: Tree, orders: Mapping[Join, Orders], estimates_of: Callable[[Join], Estimates]
) -> Cost:
    """What the moves of a plan add to its cost. A join without given orders has those of `mjoin_order`.

    `estimates_of` says for each join by which figures: they may differ where filters stand above joins.
    """
    if isinstance(tree, Leaf):
        return Cost(0.0, 0.0)
    estimates = estimates_of(tree)
    send = estimates.model.constants.send
    parts = tuple(child.aliases for child in tree.children)
    masks = tuple(sum(estimates.bit[alias] for alias in part) for part in parts)
    rates = [estimates.rows(mask) * estimates.churn(mask) for mask in masks]
    keys = shared_keys(query, parts)
    cpu = memory = 0.0
    if keys:
        for child, rate in zip(tree.children, rates, strict=True):
            stays = isinstance(child, Join) and shared_keys(query, tuple(c.aliases for c in child.children)) == keys
            cpu += 0.0 if stays else send * rate
    else:
        wanted = orders.get(bare(tree)) or order_node(estimates, masks).orders
        routes = choose_routes(query, parts, wanted)
        for place, mask in enumerate(masks):
            probed = {visit.keys for route in routes for visit in route if visit.input == place}
            first = routes[place][0].keys
            entered = len(probed | {first}) if first else len(probed) + VISITED
            copies = len(probed) - 1
            cpu += rates[place] * (send * entered + estimates.upkeep(mask) * copies)
            memory += estimates.memory(mask) * copies
            joined = mask
            for visit, following in itertools.pairwise(routes[place]):
                joined |= masks[visit.input]
                slots = 1 if following.keys else VISITED
                cpu += send * slots * estimates.rows(joined) * estimates.churn(mask)
    for child in tree.children:
        below = price_moves(query, child, orders, estimates_of)
        cpu, memory = cpu + below.cpu, memory + below.memory
    return Cost(cpu, memory)
