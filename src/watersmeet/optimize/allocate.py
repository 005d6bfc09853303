"""Which slots a plan's operators run in when it begins, by the share of the work that each has. Pure.

After [Zhu06] 26.3.2, which has two ways and compares neither:
- `fewest`: as few slots as there need be, one after the other, the strongest first. Each takes operators up to `FULL`
  of what it can do; one that does not fit is cut between a slot and the next.
- `even`: all slots alike, by their strength. Operators are dealt out, the largest first, each to the slot that has most
  room; one that does not fit goes on in the slot that has most room then.
- `spread`, the default: every operator over all slots.

What is placed is a partitioning: operators on one key go together. Its *load factor* is the CPU that the cost model has
for its joins, in cores; a routed join's is shared out by the states that it has on each of its keys. Without statistics
there are none, and operators are spread.

Departures: the paper adds the price of sending rows between machines where two operators are put on different ones;
here rows change tasks in either case. It has operators work side by side. Here stages that feed each other run one
after the other in a batch, so that operators which are kept apart do not share the time of a batch among slots, as a
spread one does: what `fewest` and `even` save is files, of which there are as many as slots that have a part of an
operator. Memory is not looked at: each slot spills what it has too much, and then `balance` may use the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.model.ids import Partitioning
from watersmeet.model.placement import Placement
from watersmeet.optimize.choose import STANDARD_MODEL
from watersmeet.optimize.estimates import CostModel, Estimates
from watersmeet.optimize.mjoin_order import order_node
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.optimize.shape import from_tree
from watersmeet.plan.physical import PhysicalPlan, State

SPREAD, FEWEST, EVEN = "spread", "fewest", "even"
WAYS = (SPREAD, FEWEST, EVEN)
FULL = 0.7  # of a core, for a slot of weight 1: a plan that takes more than it was thought to has some room
SLACK = 0.1  # of the share of a slot, that it may have more of if an operator is whole then

Loads = Mapping[Partitioning, float]  # in cores
Part = tuple[int, float]  # a slot, and how much of a load it takes


def load_factors(
    plan: PhysicalPlan, statistics: Statistics, model: CostModel = STANDARD_MODEL
) -> dict[Partitioning, float]:
    """The cores that the joins on each partitioning are estimated to take; none where nothing is known of streams."""
    if not statistics.given and statistics.measured.seconds <= 0:
        return {}
    estimates = Estimates(graph_of(plan.query, statistics), model)
    shape = from_tree(estimates, plan.spec.tree)
    loads: dict[Partitioning, float] = {}
    for states in _joins(plan):
        aliases = {alias for state in states for alias in state.aliases}
        cpu = order_node(estimates, shape[sum(estimates.bit[alias] for alias in aliases)]).cpu
        for state in states:
            loads[state.partitioning] = loads.get(state.partitioning, 0.0) + cpu / len(states)
    return loads


def _joins(plan: PhysicalPlan) -> list[tuple[State, ...]]:
    """The states of each join."""
    joins = [tuple(entry.state for entry in node.inputs) for node in plan.operators.values()]
    return joins + [meeting for stage in plan.stages if not stage.operators for meeting in stage.meetings]


def allocate(how: str, loads: Loads, placement: Placement, weights: Sequence[float] = ()) -> Placement:
    """With the partitionings of `loads` where they are to be; those that have been placed before stay there.

    >>> before = Placement(2, 4)
    >>> allocate("even", {Partitioning("k0"): 0.2, Partitioning("k1"): 0.2}, before).owners
    {'k0': (0, 0, 0, 0), 'k1': (1, 1, 1, 1)}
    >>> allocate("fewest", {Partitioning("k0"): 0.2, Partitioning("k1"): 0.2}, before).owners
    {'k0': (0, 0, 0, 0), 'k1': (0, 0, 0, 0)}
    """
    if how == SPREAD or not loads or placement.slots < 2:
        return placement
    strengths = [*weights, *[1.0] * placement.slots][: placement.slots]
    held = [0.0] * placement.slots
    for partitioning in loads.keys() & placement.owners.keys():
        owners = placement.owners[partitioning]
        for slot in owners:
            held[slot] += loads[partitioning] / len(owners)
    new = {name: load for name, load in loads.items() if name not in placement.owners}
    limits = [FULL * strength for strength in strengths]
    if how == FEWEST and sum(loads.values()) <= sum(limits):
        parts = _pour(new, held, limits)
    else:  # `fewest` too, where all of them are not enough
        total, all_strengths = sum(loads.values()), sum(strengths)
        parts = _deal(new, held, [total * strength / all_strengths for strength in strengths])
    for name, shares in parts.items():
        owners = _owners(shares, placement.of(name).groups)
        placement = placement.move(name, dict(enumerate(owners)))
    return placement


def _pour(loads: Loads, held: list[float], limits: Sequence[float]) -> dict[Partitioning, list[Part]]:
    """One slot after the other up to its limit, the strongest first; operators in the order of the plan."""
    order = sorted(range(len(limits)), key=lambda slot: (-limits[slot], slot))
    parts: dict[Partitioning, list[Part]] = {}
    for name, load in loads.items():
        parts[name] = []
        for slot in order:
            taken = min(load, max(0.0, limits[slot] - held[slot]))
            if taken > 0:
                parts[name].append((slot, taken))
                held[slot] += taken
                load -= taken
        if not parts[name]:  # it takes nothing, or what was placed before leaves no room
            parts[name] = [(max(order, key=lambda slot: limits[slot] - held[slot]), 1.0)]
    return parts


def _deal(loads: Loads, held: list[float], targets: Sequence[float]) -> dict[Partitioning, list[Part]]:
    """The largest operator first, to the slot that has most room; what does not fit, to the next one that has."""
    parts: dict[Partitioning, list[Part]] = {}
    for name, load in sorted(loads.items(), key=lambda entry: -entry[1]):
        parts[name] = []
        tried: set[int] = set()
        while len(tried) < len(held):
            slot = max(set(range(len(held))) - tried, key=lambda slot: (targets[slot] - held[slot], -slot))
            tried.add(slot)
            room = targets[slot] - held[slot]
            whole = load <= room + SLACK * targets[slot] or len(tried) == len(held)
            taken = load if whole else max(0.0, room)
            if taken > 0 or whole:
                parts[name].append((slot, taken))
                held[slot] += taken
                load -= taken
            if whole:
                break
    return {name: parts[name] for name in loads}


def _owners(parts: Sequence[Part], groups: int) -> tuple[int, ...]:
    """Neighbouring groups for each slot, as many as it takes of the load.

    >>> _owners([(1, 0.3), (0, 0.1)], 8)
    (1, 1, 1, 1, 1, 1, 0, 0)
    """
    total = sum(load for _, load in parts) or 1.0
    owners: list[int] = []
    come = 0.0
    for slot, load in parts:
        come += load
        owners += [slot] * (round(groups * come / total) - len(owners))
    return tuple(owners + [parts[-1][0]] * (groups - len(owners)))
