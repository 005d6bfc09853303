"""What was measured while a query ran: rows by input, how often rows of two inputs match, what filters and predicates
take.

Frozen data, plain JSON.

Every figure is a pair of sums, what was seen and out of how much, and both fade by `FADE` with each batch. So a rate or
a selectivity is a ratio of faded sums: an exponentially weighted mean in which a batch weighs by its size, and which
one empty batch does not upset.

Time is event time: windows are, and so a rate here is what fills them, however fast a backlog is worked off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeVar

# What is left of a sum after one more batch: the last five batches or so count.
FADE = 0.8


@dataclass(frozen=True)
class Counts:
    """Sums that are added up and fade: the numbers of a subclass. Its other fields say what they were counted of."""

    @property
    def of(self) -> tuple[Any, ...]:
        """What the numbers were counted of."""
        return tuple(getattr(self, entry.name) for entry in fields(self) if entry.type != "float")

    def plus(self, other: Self) -> Self:
        return replace(self, **{name: count + getattr(other, name) for name, count in self._numbers().items()})

    def times(self, weight: float) -> Self:
        return replace(self, **{name: count * weight for name, count in self._numbers().items()})

    def _numbers(self) -> dict[str, float]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.type == "float"}


C = TypeVar("C", bound=Counts)


@dataclass(frozen=True)
class PairCounts(Counts):
    """What probes between two inputs of a join saw, each a set of query inputs.

    `possible` pairs of rows could have met, of which `hashed` had the same key. Further predicates over the two looked
    at `checked` pairs, of which `passed` satisfied them.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    possible: float = 0.0
    hashed: float = 0.0
    checked: float = 0.0
    passed: float = 0.0
    batches: float = 0.0  # that it was seen in, the earlier ones faded: of two that say the same, the fresher one

    @property
    def key_share(self) -> float | None:
        """The share of all pairs that have the same key; None before anything could meet."""
        return self.hashed / self.possible if self.possible else None

    @property
    def pass_share(self) -> float | None:
        """The share of the pairs with the same key that satisfies the further predicates; None without any."""
        return self.passed / self.checked if self.checked else None

    @property
    def selectivity(self) -> float | None:
        """Outputs over possible outputs."""
        if self.key_share is None:
            return None
        return self.key_share * (1.0 if self.pass_share is None else self.pass_share)


@dataclass(frozen=True)
class FilterCounts(Counts):
    """What a filter of an input saw: rows looked at, those that passed, and the seconds that it took, of real time."""

    alias: str
    filter: str
    rows: float = 0.0
    passed: float = 0.0
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """Of rows that pass. Half a row more than were seen on either side: what was never seen is rare."""
        return (self.passed + 0.5) / (self.rows + 1.0)


@dataclass(frozen=True)
class PredicateCounts(Counts):
    """What a predicate over several inputs saw: combinations looked at, those that passed, and the seconds it took.

    The columns that it reads were gathered in that time. Which combinations it sees depends on what was asked before
    it, so the share is that of the combinations that are left when its turn comes.
    """

    predicate: str
    rows: float = 0.0
    passed: float = 0.0
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """Of combinations that pass; half a one more than were seen on either side, as for filters."""
        return (self.passed + 0.5) / (self.rows + 1.0)


@dataclass(frozen=True)
class AlikeCounts(Counts):
    """Of rows of an input that came together, how many are left if those that agree are combined."""

    rows: float = 0.0
    left: float = 0.0

    @property
    def share(self) -> float:
        return min(1.0, self.left / self.rows) if self.rows else 1.0


@dataclass(frozen=True)
class Measured:
    """Sums over batches: seconds of event time, rows by query input, what probes, filters and predicates saw.

    `rows` are those that pass all filters of their input, wherever these stand. `alike`: of some of them, by input,
    how many agree.
    """

    seconds: float = 0.0
    rows: Mapping[str, float] = field(default_factory=dict)
    pairs: tuple[PairCounts, ...] = ()
    filters: tuple[FilterCounts, ...] = ()
    predicates: tuple[PredicateCounts, ...] = ()
    alike: Mapping[str, AlikeCounts] = field(default_factory=dict)

    def filter(self, alias: str, text: str) -> FilterCounts | None:
        """What was seen of a filter, if it was asked at all."""
        return next((f for f in self.filters if (f.alias, f.filter) == (alias, text) and f.rows > 0), None)

    def rate(self, alias: str) -> float | None:
        """Rows a second that enter the query by this input; None before time has passed."""
        return self.rows.get(alias, 0.0) / self.seconds if self.seconds > 0 else None

    def then(self, batch: Measured) -> Measured:
        """What is known after one more batch."""
        rows = {name: count * FADE for name, count in self.rows.items()}
        for name, count in batch.rows.items():
            rows[name] = rows.get(name, 0.0) + count
        faded = [pair.times(FADE) for pair in self.pairs]
        seen = [replace(pair, batches=1.0) for pair in batch.pairs]
        filters = add_counts([*(entry.times(FADE) for entry in self.filters), *batch.filters])
        predicates = add_counts([*(entry.times(FADE) for entry in self.predicates), *batch.predicates])
        alike = add_alike([{name: counts.times(FADE) for name, counts in self.alike.items()}, batch.alike])
        seconds = self.seconds * FADE + batch.seconds
        return Measured(seconds, rows, add_counts([*faded, *seen]), filters, predicates, alike)


def add_counts(counts: Iterable[C]) -> tuple[C, ...]:
    """One entry for each thing that was counted."""
    total: dict[tuple[Any, ...], C] = {}
    for entry in counts:
        total[entry.of] = total[entry.of].plus(entry) if entry.of in total else entry
    return tuple(total.values())


def add_alike(counts: Iterable[Mapping[str, AlikeCounts]]) -> dict[str, AlikeCounts]:
    """One entry for each input."""
    total: dict[str, AlikeCounts] = {}
    for each in counts:
        for alias, seen in each.items():
            total[alias] = total.get(alias, AlikeCounts()).plus(seen)
    return total
