"""The join graph with its statistics: streams with rates and windows, predicates with selectivities.

This is all that the optimiser (`optimize/`) knows of a query. Units are the caller's: rates in rows per unit of time,
windows in the same unit of time. A selectivity is outputs over possible outputs, in [0, 1], and predicates are taken
to be independent. Two streams with no predicate between them join with selectivity 1, so a disconnected graph is
allowed: its plans hold cartesian products.

A window of None is unbounded: the state of such a stream grows for ever and has no size until somebody says when to
look at it. That is `horizon`: the age of the query at which costs are estimated. A graph with an unbounded window and
no horizon is refused.

A graph checks itself when it is built and is not changed afterwards. Knows nothing of columns or keys: two predicates
that share a key count as two, so a query whose equalities are closed under transitivity should be given with a
selectivity for a spanning tree of each key, and 1 for the edges that follow from those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import JobError, did_you_mean

Pair = tuple[str, str]
PairKey = Pair | frozenset[str] | str


@dataclass(frozen=True, init=False)
class JoinGraph:
    """Streams with their rates and windows, and the selectivity of the predicates between them.

    - `rates`: rows per unit of time of each stream, above zero; its order is the order of the streams.
    - `selectivities`: a number for each joined pair, or several that are multiplied; the pair as ("A", "B"),
      frozenset({"A", "B"}) or "A B", in either order.
    - `windows`: the width of each stream's window, or one width for all; None is unbounded and needs a `horizon`.
    - `hashed`: for a joined pair, the part of its selectivity that a hash of the join key serves (all of it unless
      given); the rest is left to predicates that are checked on every pair of rows with the same hash.
    - `alike`: the share of a stream's rows that is left where those that agree are combined before they are joined,
      which is known of streams of which rows may be.
    - `row_bytes`: the size of a stream's rows, where memory is to be counted in bytes; without it memory is counted
      in rows, and a combined row counts as one.

    >>> graph = JoinGraph({"A": 10, "B": 20, "C": 5}, {"A B": 0.1, ("C", "B"): 0.5}, windows=2)
    >>> graph.selectivities
    {('A', 'B'): 0.1, ('B', 'C'): 0.5}
    >>> graph.selectivity("A", "C")
    1.0
    """

    rates: Mapping[str, float]
    selectivities: Mapping[Pair, float]
    windows: Mapping[str, float | None]
    horizon: float | None
    row_bytes: Mapping[str, float] | None
    hashed: Mapping[Pair, float]
    alike: Mapping[str, float]
    streams: tuple[str, ...] = field(compare=False, repr=False)

    def __init__(
        self,
        rates: Mapping[str, float],
        selectivities: Mapping[PairKey, float | Sequence[float]] | Mapping[Pair, float] | Mapping[str, float],
        windows: Mapping[str, float | None] | float | None,
        *,
        horizon: float | None = None,
        row_bytes: Mapping[str, float] | None = None,
        hashed: Mapping[PairKey, float] | Mapping[Pair, float] | Mapping[str, float] | None = None,
        alike: Mapping[str, float] | None = None,
    ) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        if not rates:
            raise JobError("a join graph needs a stream")
        put("streams", tuple(rates))
        put("rates", {name: _positive(rate, f'rate of stream "{name}"') for name, rate in rates.items()})
        put("horizon", None if horizon is None else _positive(horizon, "horizon"))
        put("windows", self._check_windows(windows))
        put("selectivities", self._check_selectivities(selectivities))
        put("hashed", self._check_hashed(hashed or {}))
        put("row_bytes", None if row_bytes is None else self._check_sizes(row_bytes))
        put("alike", dict(alike or {}))
        self._check_product()

    def width(self, stream: str) -> float:
        """The width of the stream's window, or the horizon where it has none."""
        width = self.windows[stream]
        if width is None:
            assert self.horizon is not None, "checked when built"
            return self.horizon
        return width

    def selectivity(self, first: str, second: str) -> float:
        """Of all predicates between the two streams together; 1 where there are none."""
        return self.selectivities.get((first, second), self.selectivities.get((second, first), 1.0))

    def hash_share(self, first: str, second: str) -> float:
        """The share of the pairs of rows of two streams that have the same hash; 1 where no key joins them."""
        return self.hashed.get((first, second), self.hashed.get((second, first), 1.0))

    def _check_windows(self, windows: Mapping[str, float | None] | float | None) -> dict[str, float | None]:
        if not isinstance(windows, Mapping):
            windows = dict.fromkeys(self.streams, windows)
        for name in windows:
            self._check_known(name, "windows")
        for name in self.streams:
            if name not in windows:
                raise JobError(
                    f'stream "{name}" has no window',
                    detail=f"Windows are given for {', '.join(windows) or 'no stream'}.",
                    hint="Give its width, or None for an unbounded window.",
                )
            if windows[name] is None and self.horizon is None:
                raise JobError(
                    f'stream "{name}" is unbounded, so its state has no size to plan for',
                    detail="The state of an unbounded window grows for as long as the query runs.",
                    hint="Pass horizon: how long the query will have run when costs should hold.",
                )
        return {
            name: None if (width := windows[name]) is None else _positive(width, f'window of stream "{name}"')
            for name in self.streams
        }

    def _check_selectivities(self, given: Mapping[Any, Any]) -> dict[Pair, float]:
        checked: dict[Pair, float] = {}
        place = {name: index for index, name in enumerate(self.streams)}
        for key, value in given.items():
            first, second = self._check_pair(key)
            pair = (first, second) if place[first] < place[second] else (second, first)
            selectivity = _share(value, f'selectivity of "{first}" and "{second}"')
            if checked.setdefault(pair, selectivity) != selectivity:
                raise JobError(
                    f'two selectivities for "{pair[0]}" and "{pair[1]}"',
                    detail=f"They are {checked[pair]:g} and {selectivity:g}.",
                    hint="Give each pair once; several predicates of a pair go in one entry, as a list.",
                )
        return {pair: checked[pair] for pair in sorted(checked, key=lambda pair: (place[pair[0]], place[pair[1]]))}

    def _check_hashed(self, given: Mapping[Any, Any]) -> dict[Pair, float]:
        checked = self._check_selectivities(given)
        for pair, share in checked.items():
            if share < (whole := self.selectivity(*pair)):
                raise JobError(
                    f'the hash part of the selectivity of "{pair[0]}" and "{pair[1]}" is below the whole',
                    detail=f"The hash passes {share:g} of all pairs of rows, all predicates together pass {whole:g}.",
                    hint="Further predicates can only take rows away.",
                )
        return {**self.selectivities, **checked}

    def _check_pair(self, key: PairKey) -> Pair:
        if isinstance(key, str):
            names = key.split()
        elif isinstance(key, tuple | frozenset):
            names = sorted(key) if isinstance(key, frozenset) else list(key)
        else:
            names = []
        if len(names) != 2:
            raise JobError(
                f'selectivity "{_key_text(key)}" does not name two streams',
                hint='Write the pair as ("A", "B") or "A B".',
            )
        for name in names:
            self._check_known(name, "selectivities")
        if names[0] == names[1]:
            raise JobError(
                f'selectivity "{_key_text(key)}" joins stream "{names[0]}" with itself',
                hint="A self join reads the stream twice: give each reading a name of its own.",
            )
        return names[0], names[1]

    def _check_sizes(self, row_bytes: Mapping[str, float]) -> dict[str, float]:
        for name in row_bytes:
            self._check_known(name, "row_bytes")
        missing = [name for name in self.streams if name not in row_bytes]
        if missing:
            raise JobError(
                f'stream "{missing[0]}" has no row size', hint="Give row_bytes for every stream or for none."
            )
        return {name: _positive(row_bytes[name], f'row size of stream "{name}"') for name in self.streams}

    def _check_known(self, name: str, where: str) -> None:
        if name not in self.rates:
            raise JobError(
                f'unknown stream "{name}" in {where}',
                detail=f"The streams are {', '.join(self.streams)}.",
                hint=did_you_mean(name, self.streams) if isinstance(name, str) else None,
            )

    def _check_product(self) -> None:
        # Every size that the optimiser meets is at most this product, so no estimate overflows to infinity or NaN.
        # 1e200 leaves room for the constants and for the sums.
        exponent = sum(math.log10(max(1.0, self.rates[name] * self.width(name))) for name in self.streams)
        exponent += sum(math.log10(max(1.0, 1 / self.width(name))) for name in self.streams)
        if exponent > 200:
            raise JobError(
                "rates and windows are too large to estimate costs",
                detail=f"The product of all windows' rows is about 1e{exponent:.0f}; the limit is 1e200.",
            )


def _positive(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise JobError(f"{what} must be a number above zero", detail=f"It is {value!r}.")
    return float(value)


def _share(value: object, what: str) -> float:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return math.prod(_share(part, what) for part in value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise JobError(
            f"{what} must lie between 0 and 1",
            detail=f"It is {value!r}.",
            hint="A selectivity is the number of outputs over the number of possible outputs.",
        )
    return float(value)


def _key_text(key: object) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple | frozenset) else str(key)
