"""Ways to go from one plan to another while a query runs."""

from __future__ import annotations

from watersmeet.errors import JobError, did_you_mean

AUTO = "auto"
MOVING_STATE = "moving-state"
ROADS = (MOVING_STATE,)
BY = (AUTO, *ROADS)


def find_road(by: str) -> str:
    """The way that a setting names."""
    if by not in BY:
        raise JobError(
            f'unknown way to change the plan "{by}"',
            detail=f"There are {', '.join(BY)}.",
            hint=did_you_mean(by, BY),
        )
    return MOVING_STATE if by == AUTO else by
