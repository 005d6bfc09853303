"""What a look at a running plan makes of the one before. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from watersmeet.state.learned import Look

FAINT = 1e-12


def after(before: Look, now: Look, threshold: float) -> Look:
    """A look, with what is known of those before it."""
    if change(before.figures, now.figures) < threshold:
        return replace(now, since=before.since, changes=before.changes, asked=before.asked)
    away = change(before.origin, now.figures) >= change(before.origin, before.figures)
    goes_on = before.changes > 0 and before.since == before.batch and away
    origin = before.origin if goes_on else before.figures
    changes = before.changes + (not goes_on)
    return replace(now, since=now.batch, changes=changes, asked=before.asked, origin=origin)


def change(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The largest change of a figure that both have, as a share of the larger of its values.

    >>> change({"A": 4.0, "B": 1.0}, {"A": 5.0, "C": 9.0})
    0.2
    """
    both = before.keys() & after.keys()
    return max((abs(before[n] - after[n]) / max(before[n], after[n], FAINT) for n in both), default=0.0)
