"""What a look at a running plan found, as the manifest keeps it for the next one. Data and pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from watersmeet.model.statistics import Measured

FAINT = 1e-12


@dataclass(frozen=True)
class Look:
    """After which batch, the figures that plans are chosen by, what the state took, and since when they are like that.

    `since` is the batch at which figures were last found to have changed by more than the threshold; `changes` counts
    how often they did, what goes on from look to look as one. `waits`: another plan was found to be better, and not to
    be worth what it takes to change over, yet.
    """

    batch: int
    figures: Mapping[str, float]
    state_bytes: int
    owed: int  # groups that owe results
    since: int
    changes: int = 0
    waits: bool = False

    @property
    def life(self) -> float:
        """Batches that figures are expected to stay as they are: as many as they have been so, now or on average."""
        return max(self.batch - self.since, self.batch / (self.changes + 1))

    def after(self, before: Look, threshold: float) -> Look:
        """This look, with what is known of those before it."""
        if change(before.figures, self.figures) < threshold:
            return replace(self, since=before.since, changes=before.changes)
        goes_on = before.changes > 0 and before.since == before.batch
        return replace(self, since=self.batch, changes=before.changes + (not goes_on))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Look | None:
        return None if data is None else cls(**data)


def figures_of(measured: Measured) -> dict[str, float]:
    """Rates by input, and selectivities by pair of inputs, as far as they were measured.

    >>> figures_of(Measured(2.0, {"A": 10.0}))
    {'A': 5.0}
    """
    rates = {alias: measured.rate(alias) or 0.0 for alias in measured.rows}
    pairs = {f"{'+'.join(p.left)} {'+'.join(p.right)}": p.selectivity for p in measured.pairs}
    return {**rates, **{name: share for name, share in pairs.items() if share is not None}}


def change(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The largest change of a figure that both have, as a share of the larger of its values.

    >>> change({"A": 4.0, "B": 1.0}, {"A": 5.0, "C": 9.0})
    0.2
    """
    both = before.keys() & after.keys()
    return max((abs(before[n] - after[n]) / max(before[n], after[n], FAINT) for n in both), default=0.0)
