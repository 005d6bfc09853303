"""Plans that served well, each with the figures that it did so under, as the manifest keeps them. Data, pure functions.

Streams often go through the same few states again and again (query logging, DISS 26.1.4): where figures come back, the
plan that served then is found by comparing a few numbers, without a search. It is weighed up as any other is.

A plan served well if a search found none that is better, or if a change to it came to what was predicted. At most
`KEPT` entries: the one that was not met for longest goes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from watersmeet.adapt.policies.replan.looks import change

KEPT = 16


@dataclass(frozen=True)
class Served:
    """A plan, the figures that it served under, what it cost by the model then, and the last batch that it did at."""

    plan: str
    figures: Mapping[str, float]
    cpu: float
    batch: int

    def distance(self, figures: Mapping[str, float]) -> float:
        """How far other figures are from those of this entry: 0 is the same, 1 as far as can be.

        >>> Served("(A B)", {"A": 4.0}, 1.0, 0).distance({"A": 5.0}), Served("(A B)", {}, 1.0, 0).distance({"A": 5.0})
        (0.2, 1.0)
        """
        return change(self.figures, figures) if self.figures.keys() == figures.keys() else 1.0


Library = tuple[Served, ...]


def read_library(entries: Iterable[Mapping[str, Any]]) -> Library:
    return tuple(Served(**entry) for entry in entries)


def library_json(library: Library) -> tuple[dict[str, Any], ...]:
    return tuple(map(asdict, library))


def nearest(library: Library, figures: Mapping[str, float], within: float) -> list[tuple[float, Served]]:
    """The entries whose figures are within a distance of these, the nearest first."""
    found = [(entry.distance(figures), entry) for entry in library]
    return sorted((pair for pair in found if pair[0] < within), key=lambda pair: (pair[0], -pair[1].batch))


def remember(library: Library, served: Served, within: float) -> Library:
    """With one more entry, in the place of those that were like it. One situation has one plan."""
    others = [entry for entry in library if entry.distance(served.figures) >= within]
    return tuple(sorted((*others, served), key=lambda entry: entry.batch)[-KEPT:])


def forget(library: Library, plan: str, figures: Mapping[str, float], within: float) -> Library:
    """Without what it says of a plan under such figures."""
    return tuple(entry for entry in library if entry.plan != plan or entry.distance(figures) >= within)
