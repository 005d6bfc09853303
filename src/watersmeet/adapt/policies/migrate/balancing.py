"""How groups come to have another shape than others: by moving-state or by parallel-track balancing (DISS 21, 22).

Both are roads that a change of the whole plan takes, for some groups alone. By moving state, what the new shape is
missing is made at once of what the groups keep. By a parallel track, the new shape takes in what comes for one window.
So moving state costs what the groups hold, and a parallel track what a window brings them (DISS 23.3): where rates have
fallen, so that windows hold more than will come, it is the second that is cheaper.

A departure: the paper's parallel track takes two windows; see `parallel_track.py`.
"""

from __future__ import annotations

from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.parallel_track import ParallelTrack
from watersmeet.adapt.policies.migrate.road import Road
from watersmeet.plan.query import Query


def choose_balance(query: Query, held_bytes: float, window_bytes: float) -> Road:
    """The way for groups that hold so much of what the new shape is made from, and get so much in a window."""
    waits = ParallelTrack()
    return waits if window_bytes < held_bytes and waits.refuse(query) is None else MovingState()
