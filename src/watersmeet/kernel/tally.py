"""What a step saw on its way: which pairs of rows could meet and did, what filters and predicates said and took."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from watersmeet.model.expressions import Expr, describe
from watersmeet.model.statistics import FilterCounts, PredicateCounts, add_counts

BoolArray = npt.NDArray[np.bool_]


def no_clock() -> float:
    """For who does not care how long things take."""
    return 0.0


@dataclass
class FilterTally:
    """What filters of inputs were asked and said, and how long that took by `clock`."""

    clock: Callable[[], float] = no_clock
    seen: list[FilterCounts] = field(default_factory=list)

    def ask(self, alias: str, expr: Expr, answer: Callable[[], BoolArray]) -> BoolArray:
        """What `answer` says of some rows: whether each passes a filter."""
        started = self.clock()
        mask = answer()
        seconds = self.clock() - started
        self.seen.append(FilterCounts(alias, describe(expr), len(mask), int(np.count_nonzero(mask)), seconds))
        return mask

    @property
    def counts(self) -> tuple[FilterCounts, ...]:
        return add_counts(self.seen)


@dataclass
class PredicateTally:
    """What predicates over several inputs said and took, here and, as far as is `known`, in earlier batches."""

    clock: Callable[[], float] = no_clock
    known: Mapping[str, PredicateCounts] = field(default_factory=dict)
    seen: dict[str, PredicateCounts] = field(default_factory=dict)
    _names: dict[int, tuple[Expr, str]] = field(default_factory=dict)  # with who it is, whose place nobody else gets

    def note(self, expr: Expr, looked_at: int, passed: int, seconds: float) -> None:
        """A predicate has looked at so many combinations."""
        entry = PredicateCounts(self._name(expr), looked_at, passed, seconds)
        before = self.seen.get(entry.predicate)
        self.seen[entry.predicate] = entry if before is None else before.plus(entry)

    def of(self, expr: Expr) -> PredicateCounts:
        """All that is known of a predicate by now."""
        name = self._name(expr)
        nothing = PredicateCounts(name)
        return self.known.get(name, nothing).plus(self.seen.get(name, nothing))

    def _name(self, expr: Expr) -> str:
        """Its text, worked out once: every pass asks for it."""
        found = self._names.get(id(expr))
        if found is None:
            found = self._names[id(expr)] = expr, describe(expr)
        return found[1]

    @property
    def counts(self) -> tuple[PredicateCounts, ...]:
        return tuple(self.seen.values())


@dataclass
class Tally:
    """Counts by pair of inputs, which are places in a node: first that of the new rows, then that of the rows met."""

    met: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # [could meet, have the same hash]
    checked: dict[frozenset[int], list[float]] = field(default_factory=dict)  # [looked at, satisfy the predicates]
    filters: FilterTally = field(default_factory=FilterTally)
    predicates: PredicateTally = field(default_factory=PredicateTally)
    spend: Callable[[int], None] = lambda pairs: None  # told of pairs with the same hash before they meet; may raise

    def meet(self, first: int, second: int, possible: int, same: int) -> None:
        """`possible` pairs of a new row of the first and a row of the second could meet, `same` have the same hash."""
        self.spend(same)
        entry = self.met.setdefault((first, second), [0, 0])
        entry[0] += possible
        entry[1] += same

    def check(self, inputs: frozenset[int], looked_at: int, satisfy: float) -> None:
        """Predicates that read these inputs looked at so many combinations, of which so many satisfy them."""
        entry = self.checked.setdefault(inputs, [0, 0])
        entry[0] += looked_at
        entry[1] += satisfy
