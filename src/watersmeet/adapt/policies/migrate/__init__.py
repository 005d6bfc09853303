"""Ways to go from one plan to another while a query runs, in one visible place."""

from __future__ import annotations

from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.parallel_track import ParallelTrack
from watersmeet.adapt.policies.migrate.road import Road
from watersmeet.adapt.policies.migrate.seeded import Seeded
from watersmeet.errors import JobError, did_you_mean
from watersmeet.plan.query import Query

AUTO = "auto"
ROADS: tuple[Road, ...] = (Seeded(), MovingState(), ParallelTrack())  # the first is what `auto` takes
BY = (AUTO, *(road.name for road in ROADS))


def find_road(by: str) -> Road:
    """The way that a setting names."""
    if by not in BY:
        raise JobError(
            f'unknown way to change the plan "{by}"',
            detail=f"There are {', '.join(BY)}.",
            hint=did_you_mean(by, BY),
        )
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
