"""Ways to go from one plan to another while a query runs, in one visible place."""

from __future__ import annotations

from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.parallel_track import ParallelTrack
from watersmeet.adapt.policies.migrate.road import Road
from watersmeet.adapt.policies.migrate.seeded import Seeded
from watersmeet.errors import JobError
from watersmeet.plan.query import Query
from watersmeet.settings.replan import check_by
from watersmeet.settings.words import AUTO

ROADS: tuple[Road, ...] = (Seeded(), MovingState(), ParallelTrack())  # the first is what `auto` takes


def find_road(by: str) -> Road:
    """The way that a setting names."""
    check_by(by)
    return ROADS[0] if by == AUTO else next(road for road in ROADS if road.name == by)


def check_road(by: str, query: Query) -> Road:
    """The same, refused where it does not lead from one plan of the query to another."""
    road = find_road(by)
    if (why := road.refuse(query)) is not None:
        raise JobError(
            f"the plan of this query cannot be changed by {road.name}",
            detail=f"{why[0].upper()}{why[1:]}.",
            hint="Use seeded, or moving-state.",
        )
    return road
