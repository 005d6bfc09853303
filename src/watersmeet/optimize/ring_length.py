"""How many slots the rings of a plan should lie over when a run begins, by what is known of its streams. Pure.

The joins of a plan that visit slices of time are handed to the cost model of rings (`ring_cost.py`): their inputs as
streams, each with the rate and the rows that the estimates have for it, whether it is a stream or what a join makes of
several, and the routes of the plan with the selectivities between what is joined and what is probed. A pair is compared
unless a band or a key passes it over, for what its predicates have taken where that was measured. A plan may have
several rings, all of which lie over the same slots, so that what they take is added up.

Of the lengths with which slots have room to be late, the one with the shortest batches; where none has, all slots.

Limits: a step that goes by a key, in a join that is a ring in part, is taken for a step along the ring. Without
statistics this is not to be asked: by those that are assumed any ring would need all slots there are.
"""

from __future__ import annotations

import math

from watersmeet.model.statistics import Measured
from watersmeet.optimize.allocate import FULL
from watersmeet.optimize.choose import STANDARD, STANDARD_MODEL
from watersmeet.optimize.estimates import CostModel, Estimates
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.optimize.ring_cost import Probe, Ring, RingPrices, RingStream, Route, batch_seconds, busy
from watersmeet.plan.hop import HopStage, RoutedNode
from watersmeet.plan.physical import PhysicalPlan

BATCH_SECONDS = 1.0  # of rows in a batch, where no trigger says


def ring_length(
    plan: PhysicalPlan,
    statistics: Statistics,
    most: int,
    every: float | None = None,
    model: CostModel = STANDARD_MODEL,
) -> int:
    """How many of `most` slots, where there is a batch every so many seconds."""
    compare = _measured_price(statistics.measured, model.constants.compare)
    rings = rings_of(plan, Estimates(graph_of(plan.query, statistics), model), compare)
    return shortest_batches(rings, most, every or BATCH_SECONDS)


def shortest_batches(rings: list[Ring], most: int, every: float) -> int:
    """Of the lengths that keep up, the one with the shortest batches; all slots where none does.

    >>> from watersmeet.optimize.ring_cost import alike
    >>> light, heavy = (alike(2, rate, 10, 0.01, RingPrices(27e-9, 35e-9, task=3e-3)) for rate in (100, 3000))
    >>> shortest_batches([light], 8, 1.0), shortest_batches([heavy], 8, 1.0)
    (1, 8)
    """
    numbers = range(1, most + 1)
    enough = [slots for slots in numbers if math.fsum(busy(ring, slots) for ring in rings) <= FULL]

    def seconds(slots: int) -> float:
        return math.fsum(batch_seconds(ring, slots, ring.rate * every) for ring in rings)

    return min(enough, key=lambda slots: (seconds(slots), slots)) if enough else most


def _measured_price(measured: Measured, assumed: float) -> float:
    """What predicates took for each pair that was compared."""
    pairs = math.fsum(pair.hashed for pair in measured.pairs)
    seconds = math.fsum(entry.seconds for entry in measured.predicates)
    return seconds / pairs if pairs and seconds else assumed


def rings_of(plan: PhysicalPlan, estimates: Estimates, compare: float) -> list[Ring]:
    """The joins of a plan that visit slices of time, where it takes so long to compare a pair."""
    first = [stage for stage in plan.stages if isinstance(stage, HopStage) and stage.hop == 0]
    return [_ring(stage.node, estimates, compare) for stage in first if _visits_slices(stage.node)]


def _visits_slices(node: RoutedNode) -> bool:
    return any(not keys for entry in node.inputs for _, keys in entry.route)


def _ring(node: RoutedNode, estimates: Estimates, compare: float) -> Ring:
    masks = [sum(estimates.bit[alias] for alias in entry.states[0].aliases) for entry in node.inputs]
    constants = estimates.model.constants
    task = constants.batch or STANDARD.batch  # where it was not measured it is not free either
    prices = RingPrices(compare, constants.send, insert=constants.insert, delete=constants.delete, task=task)

    def route(origin: int) -> Route:
        bound, steps = masks[origin], []
        for place, _ in node.inputs[origin].route:
            share = min(1.0, estimates.selectivity(bound, masks[place]))
            compared = compare * min(1.0, estimates.hashed(bound, masks[place]))
            steps.append(Probe(place, share, compared + share * constants.join))
            bound |= masks[place]
        return tuple(steps)

    streams = tuple(
        RingStream(estimates.rows(mask) * estimates.churn(mask), 1 / estimates.churn(mask)) for mask in masks
    )
    return Ring(streams, tuple(map(route, range(len(masks)))), prices)
