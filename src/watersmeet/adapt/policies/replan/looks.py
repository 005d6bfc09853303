"""What a look at a running plan found, as the manifest keeps it for the next one. Data and pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

FAINT = 1e-12


@dataclass(frozen=True)
class Look:
    """After which batch, the figures that plans are chosen by, and since when they are like that.

    `since` is the batch at which figures were last found to have changed by more than the threshold; `changes` counts
    how often they did. What goes on from look to look, away from the figures that it began with (`origin`), is one
    change; what turns back is another. `asked` are the figures that somebody was last asked for a better plan with.
    `waits`: another plan was found to be better, and not to be worth what it takes to change over, yet.
    """

    batch: int
    figures: Mapping[str, float]
    since: int
    changes: int = 0
    waits: bool = False
    asked: Mapping[str, float] = field(default_factory=dict)
    origin: Mapping[str, float] = field(default_factory=dict)

    @property
    def life(self) -> float:
        """Batches that figures are expected to stay as they are: as many as they have been so, now or on average."""
        return max(self.batch - self.since, self.batch / (self.changes + 1))

    def after(self, before: Look, threshold: float) -> Look:
        """This look, with what is known of those before it."""
        if change(before.figures, self.figures) < threshold:
            return replace(self, since=before.since, changes=before.changes, asked=before.asked)
        away = change(before.origin, self.figures) >= change(before.origin, before.figures)
        goes_on = before.changes > 0 and before.since == before.batch and away
        origin = before.origin if goes_on else before.figures
        changes = before.changes + (not goes_on)
        return replace(self, since=self.batch, changes=changes, asked=before.asked, origin=origin)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Look | None:
        if data is None:
            return None
        known = {entry.name for entry in fields(cls)}
        found = {name: value for name, value in data.items() if name in known}
        return cls(**{"asked": data["figures"], **found})  # earlier looks did not tell the two apart


def change(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The largest change of a figure that both have, as a share of the larger of its values.

    >>> change({"A": 4.0, "B": 1.0}, {"A": 5.0, "C": 9.0})
    0.2
    """
    both = before.keys() & after.keys()
    return max((abs(before[n] - after[n]) / max(before[n], after[n], FAINT) for n in both), default=0.0)
