"""Moving state (DISS 1527-1673): between two batches, all at once.

States that both plans have are shared, all others are made from them, then the new plan answers. The output is silent
meanwhile. A departure: the paper drains the queues inside the plan first; here a batch is over before anything begins,
and what takes the place of the queues is what groups owe, which is emitted first.
"""

from __future__ import annotations

from typing import ClassVar

from watersmeet.adapt.policies.migrate.road import FIRST_RATE, Standing, Step, TakeOver
from watersmeet.plan.query import Query
from watersmeet.state.manifest import Warming


class MovingState:
    name: ClassVar[str] = "moving-state"

    def refuse(self, query: Query) -> str | None:
        return None

    def begin(self, now: int) -> Warming:
        return Warming(self.name, start=now)

    def next(self, standing: Standing) -> Step:
        return TakeOver()

    def price(self, rows: int, window_seconds: float | None, cpu: float) -> float:
        return rows / FIRST_RATE
