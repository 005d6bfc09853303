"""Which plan a run begins with, and what the choice goes by."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.optimize.cost import NO_LIMITS, Limits
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.ring_ways import RingWay


@dataclass(frozen=True)
class PlanSettings:
    """What a user says about the plan: which one (see `optimize/choose.py`), what is known of the streams, limits, and
    how rings are spread (`plan/ring_ways.py`)."""

    plan: str = "auto"
    statistics: Statistics | None = None
    limits: Limits = NO_LIMITS
    ring: RingWay = RingWay()  # noqa: RUF009 - frozen
