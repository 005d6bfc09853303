"""Named points at which a process can be made to die, so that tests can show that nothing is lost there.

A point does nothing unless the environment variable `WATERSMEET_FAULT` names it, as `point@marker`: the first process
to reach the point creates the file `marker` and kills itself with SIGKILL; while the marker exists nobody else does.
`point:3@marker` counts reaches in a process and dies at the third. Unset, a point costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "before-prepare",
    "in-task",
    "in-merge",
    "before-spill",
    "after-spill",
    "before-segment",
    "in-segment",
    "after-segment",
    "before-result",
    "in-result",
    "after-result",
    "before-late",
    "after-late",
    "before-commit",
    "in-commit",
    "after-commit",
    "before-snapshot",
    "after-snapshot",
    "before-delivery",
    "in-delivery",
    "after-delivery",
    "before-collect-garbage",
    "after-collect-garbage",
)
# Passed where results are gathered alone (`deliver_every`).
OF_GATHERING = ("before-gather", "after-gather")

# Passed where the plan is changed alone; the two in the middle, where that takes several steps.
OF_MIGRATION = ("before-migration", "before-advance", "after-advance", "before-switch", "after-switch")

# Passed where the number of groups is changed alone.
OF_REGROUPING = ("before-regroup", "after-regroup")

# Of a rollback, beside those of its commit; see `runtime/rollback.py`.
ROLLBACK_POINTS = (
    "before-withdrawal",
    "in-withdrawal",
    "after-withdrawal",
    "before-spark-goes-back",
    "in-spark-goes-back",
    "after-spark-goes-back",
)

VARIABLE = "WATERSMEET_FAULT"
_reached: dict[str, int] = {}


def reach(point: str) -> None:
    """Die here if the environment asks for it."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    name, _, marker = wanted.partition("@")
    name, _, nth = name.partition(":")
    if name != point:
        return
    _reached[point] = _reached.get(point, 0) + 1
    if _reached[point] < int(nth or 1):
        return
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
