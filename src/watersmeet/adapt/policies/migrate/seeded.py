"""Seeded: the new plan's states are computed from the segments of the version that it starts from, while the old plan
answers; then it catches up on the batches since, and takes over.

No pause, and no wait for a window: it serves unbounded streams too. Not from the papers; segments that never change
make it possible. Work is done in rounds. The first is over the rows that were there at the start, the next over those
that came during the first, and so on, until so few are left that they and the switch fit into one step. A round goes
group by group along the hash, by steps while the sources are silent, and one before each batch. A step takes in as many
rows as the last one did in the time that is left: results are to come after `STRETCH` times what is usual between two
batches, and the next batch needs its time of that, whenever its rows come. Between two batches at least `AT_LEAST`
times as many rows as come with one are taken in, whatever that takes: so rounds get shorter. It is `BEHIND` times as
many where a run has fallen behind, so that results are late without any step: the sooner the better plan answers, the
better. One step before a batch, because on Spark each is a job, which takes its time however few rows it has.

Limits: where batches follow each other without a pause, and taking in `AT_LEAST` times their rows takes longer than
what is left, results come later than that. Where a join without a shared key has to run again whose inputs both plans
keep, on several keys, all is one step, and the output is silent meanwhile as with moving state.
"""

from __future__ import annotations

import math
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

# Times what is usual from result to result. The aim is 1.5, and batches and steps differ by themselves: with 10 million
# rows kept, the largest gap of ordinary batches was 1.1 to 1.56 times the median, and that of seeding 1.56 with 1.3
# here, 1.63 with 1.25 and 1.41 with 1.15 (`benchmarks/migration`, gaps).
STRETCH = 1.15
IDLE_SECONDS = 1.0  # that a step may take where rows have not come when they usually do
LEAST_SECONDS = 0.04  # that it may take there, and right before a batch: nobody notices
SHARE = 0.4  # of the time of a batch that a step right before one may take, where batches leave no time between them
AT_LEAST = 2.0  # times the rows that come with a batch, which are taken in after it
BEHIND = 4.0  # the same where batches take longer than the time from one to the next
WORTH = 0.5  # of what a step may take at most, below which it is not worth its while
LAST = 0.75  # of what a step may take in, that is left for the switch: it has more to do, and caches are cold after it
FRESH = 0.4  # of the rate of a round, that the first step of the next goes by: new rows meet all that there are
FINEST = FULL // 512  # stretches of the hash that a step goes on by, at least: groups are hardly smaller


class Seeded:
    name: ClassVar[str] = "seeded"

    def refuse(self, query: Query) -> str | None:
        return None

    def begin(self, now: int) -> Warming:
        return Warming(self.name, start=now)

    def next(self, standing: Standing) -> Step:
        seen = standing.warming
        if standing.at_once:
            return TakeOver()
        allowed = _rows_allowed(standing)
        if standing.silent_seconds is None:
            behind = standing.batch_seconds > STRETCH * standing.usual_seconds
            due = max(allowed, int((BEHIND if behind else AT_LEAST) * standing.batch_rows))
            allowed = due - standing.taken if standing.taken < WORTH * due else 0
        if not allowed:
            return Wait("its share of the time")
        if standing.left + standing.new_rows <= max(LAST * allowed, standing.batch_rows):
            return TakeOver()  # no less than what a batch brings can be left before the next one
        if seen.in_round:
            return Advance(seen.start, _on_by(seen.cursor, allowed, standing.old_rows))
        return Advance(standing.now, _on_by(0, allowed, standing.new_rows))

    def price(self, rows: int, window_seconds: float | None, cpu: float) -> float:
        return rows / FIRST_RATE


def _on_by(cursor: int, rows: int, of_rows: int) -> int:
    """Where the cursor is after so many more rows of a round; what would be left for a small step goes along.

    >>> _on_by(0, 1, 4) == FULL // 4, _on_by(0, 10, 14) == FULL
    (True, True)
    """
    width = max(FINEST, FULL * rows // max(1, of_rows))
    return cursor + width if cursor + (1 + WORTH) * width < FULL else FULL


def _rows_allowed(standing: Standing) -> int:
    """How many rows a step may take in."""
    seen = standing.warming
    before = seen.rows / seen.seconds if seen.rows and seen.seconds > 0 else FIRST_RATE
    rate = (standing.rows_a_second or before) * (FRESH if seen.rows and not seen.in_round else 1.0)
    return math.ceil(rate * _seconds(standing))


def _seconds(standing: Standing) -> float:
    """How long a step may take, so that results of the next batch are in time; 0: too short to be worth its while."""
    usual, since = standing.usual_seconds, standing.since_seconds
    whole = STRETCH * usual - standing.batch_seconds
    if standing.silent_seconds is None:
        return max(LEAST_SECONDS, SHARE * standing.batch_seconds, whole - since)
    if since > STRETCH * usual:
        return max(LEAST_SECONDS, min(IDLE_SECONDS, standing.silent_seconds))
    return whole - since if since <= (1 - WORTH) * whole else 0.0
