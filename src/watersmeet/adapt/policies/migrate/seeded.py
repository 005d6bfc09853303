"""Seeded: the new plan's states are computed from the segments of the version that it starts from, while the old plan
answers; then it catches up on the batches since, and takes over.

No pause, and no wait for a window: it serves unbounded streams too. Not from the papers; segments that never change
make it possible. Work is done in steps between batches, none of which should take longer than a share of a batch: so
many rows as were taken in so far in that time. Rows that were there at the start come first, group by group along the
hash; then those of the batches since, some batches at a time, until so few are left that the last of them and the
switch fit into one step. Of these at least as many as came with two batches are taken in at a time, whatever that
takes: the track gets nearer with every batch.
"""

from __future__ import annotations

from typing import ClassVar

from watersmeet.adapt.policies.migrate.road import (
    FIRST_RATE,
    FULL,
    Advance,
    Standing,
    Step,
    TakeOver,
    Wait,
)
from watersmeet.plan.query import Query
from watersmeet.state.manifest import Warming

SHARE = 0.4  # of the time of a batch, that a step may take
IDLE_SECONDS = 1.0  # that it may take while sources are silent
LEAST_SECONDS = 0.05
AT_LEAST = 2  # times the rows that come with a batch, which are taken in after it


class Seeded:
    name: ClassVar[str] = "seeded"

    def refuse(self, query: Query) -> str | None:
        return None

    def begin(self, now: int) -> Warming:
        return Warming(self.name, start=now)

    def next(self, standing: Standing) -> Step:
        seen = standing.warming
        allowed = _rows_allowed(standing) - standing.taken
        if seen.done < seen.start:
            if standing.old_rows <= allowed and not seen.cursor:
                return TakeOver()  # all of it is one step
            if allowed <= 0:
                return Wait("its share of the time")
            width = max(1, FULL * allowed // max(1, standing.old_rows))
            return Advance(seen.start, min(FULL, seen.cursor + width))
        left = [(delivery, rows) for delivery, rows in standing.came if delivery > seen.done]
        allowed = max(allowed, AT_LEAST * left[-1][1] - standing.taken if left else 0)
        if sum(rows for _, rows in left) <= allowed:
            return TakeOver()
        if allowed <= 0:
            return Wait("its share of the time")
        upto = left[0][0]
        for delivery, rows in left:
            allowed -= rows
            if allowed < 0:
                break
            upto = delivery
        return Advance(upto)

    def price(self, rows: int, window_seconds: float | None, cpu: float) -> float:
        return rows / FIRST_RATE


def _rows_allowed(standing: Standing) -> int:
    """How many rows a step may take in."""
    seen = standing.warming
    rate = seen.rows / seen.seconds if seen.rows and seen.seconds > 0 else FIRST_RATE
    seconds = IDLE_SECONDS if standing.idle else max(LEAST_SECONDS, SHARE * standing.batch_seconds)
    return max(1, int(rate * seconds))
