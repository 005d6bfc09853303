"""Parallel track (DISS 1674-1726): the new plan starts with none of the rows from before, and waits until they expire.

It takes in each batch after the answering plan has, from the segments that this has written, so that nothing is stored
twice but what only the new plan keeps. It takes over when no row from before its start is needed any more: one window
after the start by event time, plus the lag of the watermarks, at any height of the tree (trap 2: the paper's 2W comes
of keeping only the largest timestamp of a joined row; we keep all of them).

Departures: the paper has both plans emit, and cuts combinations of all new rows from the old plan's answer. Here the
old plan answers alone until the end. That is exact without any cut, and costs less: the last join of the new plan does
not run. Old and new are told apart by batch, not by timestamp (traps 1 and 4).
"""

from __future__ import annotations

import math
from typing import ClassVar

from watersmeet.adapt.policies.migrate.road import Advance, Standing, Step, TakeOver, Wait
from watersmeet.plan.query import Query
from watersmeet.state.manifest import Warming


class ParallelTrack:
    name: ClassVar[str] = "parallel-track"

    def refuse(self, query: Query) -> str | None:
        unbounded = [alias for alias in query.aliases if query.reach.kept_for_us(alias) is None]
        if unbounded:
            return f"rows of {', '.join(unbounded)} never expire, so that it would wait for ever"
        return None

    def begin(self, now: int) -> Warming:
        return Warming(self.name, start=now, done=now, skips=True)

    def next(self, standing: Standing) -> Step:
        if standing.now > standing.warming.done:
            return Advance(standing.now)
        if not standing.old_rows:
            return TakeOver()
        silent = f", which stream {standing.waits_for} holds back" if standing.waits_for else ""
        return Wait(f"{standing.old_rows:,} rows from before it began have not expired{silent}")

    def price(self, rows: int, window_seconds: float | None, cpu: float) -> float:
        return math.inf if window_seconds is None else window_seconds * cpu
