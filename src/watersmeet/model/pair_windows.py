"""Windows for pairs of inputs: how much later one row of a result can be than another, closed over all pairs.

A `PairWindow` says ts(second) - ts(first) <= most_us, in whole microseconds; it may be negative. `[RANGE w]` of an
input says it of that input and every other one: T - ts < w is ts(other) - ts < w for all others. A result has a row of
each input, so that bounds add up along any path over the inputs: the closest bound of a pair is the shortest path
between the two (DISS 704-706, which knows distances; these have a direction, so that a path from first to second says
nothing of the way back). Where a path back to its own beginning is shorter than nothing, no result exists.

`Reach` is the closed form. From it follows how long rows are needed (`Stay`). A row over the inputs I, in a state that
the inputs K come to meet, is needed by a future row of k while ts(k) <= ts(i) + most(i, k) can hold for every i. With
widths D(i, k) = most(i, k) + 1, no future row needs it once, for every k, the watermark of k has come to ts(i) +
D(i, k) for some i. To keep one number for a row and one for a state, that is put as

    E = min over i of (ts(i) + u(i))   <=   H = min over k of (watermark(k) + lead(k))

with u(i) = max over k of D(i, k), and lead(k) = min over i of u(i) - D(i, k), which is 0 or more. Then E <= H means
ts(i) + D(i, k) <= watermark(k) for some i and every k: nothing goes too early. For a row of one input it is exact: it
goes as soon as it can. So it is where all k have the same D, as with `[RANGE]` alone (u is the window, and lead 0), and
where one input is outside. Elsewhere a joined row may stay a little longer than it must.

Two more things follow from lead >= 0 and are relied on by `state/expiry.py`: a row does not join with one over inputs
of K, be it kept elsewhere or still owed, whose newest time is E or later.

Limits: an input for which some D(i, k) has no bound says nothing of when its rows go; neither does it in joined rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache


@dataclass(frozen=True, order=True)
class PairWindow:
    """The row of `second` is at most `most_us` later than that of `first`; with less than 0, so much earlier."""

    first: str
    second: str
    most_us: int


@dataclass(frozen=True)
class Stay:
    """How long rows over some inputs stay: `widths` by input, for those that have one, and `leads` by outside input."""

    widths: tuple[tuple[str, int], ...]
    leads: tuple[tuple[str, int], ...]

    def lead(self, outside: Collection[str]) -> int:
        """Of several inputs outside, that one stream feeds."""
        return min((lead for alias, lead in self.leads if alias in outside), default=0)


@dataclass(frozen=True)
class Reach:
    """Bounds on the event times of a result, by ordered pair of inputs, closed by shortest paths."""

    aliases: tuple[str, ...]
    given: tuple[PairWindow, ...]

    @cached_property
    def _paths(self) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], PairWindow]]:
        """The length of the shortest path between each pair, and its first step."""
        length: dict[tuple[str, str], int] = {}
        step: dict[tuple[str, str], PairWindow] = {}
        for bound in self.given:
            pair = bound.first, bound.second
            if pair not in length or bound.most_us < length[pair]:
                length[pair], step[pair] = bound.most_us, bound
        for via in self.aliases:
            into = [first for first in self.aliases if (first, via) in length]
            onward = [second for second in self.aliases if (via, second) in length]
            for first in into:
                for second in onward:
                    long = length[first, via] + length[via, second]
                    if (first, second) not in length or long < length[first, second]:
                        length[first, second], step[first, second] = long, step[first, via]
                        if first == second and long < 0:
                            return length, step  # beyond a contradiction lengths mean nothing
        return length, step

    def most_us(self, first: str, second: str) -> int | None:
        """How much later `second` can be than `first`; None: there is no bound."""
        return self._paths[0].get((first, second))

    @property
    def is_bounded(self) -> bool:
        """Whether any pair has a bound, so that event times are needed."""
        return bool(self.given)

    @cached_property
    def contradiction(self) -> tuple[PairWindow, ...]:
        """Bounds that no result can keep at once, in a circle; none where there is no such circle."""
        for alias in self.aliases:
            if (self.most_us(alias, alias) or 0) < 0:
                return self._circle(alias)
        return ()

    def _circle(self, alias: str) -> tuple[PairWindow, ...]:
        steps, seen = self._paths[1], list[PairWindow]()
        step = steps[alias, alias]
        while step not in seen:
            seen.append(step)
            if step.second == alias:
                break
            step = steps[step.second, alias]
        return tuple(seen)

    def path(self, first: str, second: str) -> tuple[PairWindow, ...]:
        """The bounds that add up to `most_us`."""
        found: list[PairWindow] = []
        while first != second and len(found) < len(self.aliases):
            found.append(self._paths[1][first, second])
            first = found[-1].second
        return tuple(found)

    def stay(self, inside: Sequence[str]) -> Stay:
        """How long rows over `inside` are needed, by the inputs that are not."""
        outside = [alias for alias in self.aliases if alias not in inside]
        reached = {i: [self.most_us(i, k) for k in outside] for i in inside}
        widths = {i: 1 + max(most) for i in inside if outside and (most := _known(reached[i])) is not None}
        leads = (
            (k, min((width - 1 - (self.most_us(i, k) or 0) for i, width in widths.items()), default=0)) for k in outside
        )
        return Stay(tuple(widths.items()), tuple(leads))

    def kept_for_us(self, alias: str) -> int | None:
        """How long after its event time a row of an input is needed; None: for ever."""
        return dict(self.stay((alias,)).widths).get(alias)

    def last_to_need(self, alias: str) -> str:
        """The input that rows of `alias` wait for longest; of those without a bound, the first."""
        others = [other for other in self.aliases if other != alias]
        unbounded = [other for other in others if self.most_us(alias, other) is None]
        return unbounded[0] if unbounded else max(others, key=lambda other: self.most_us(alias, other) or 0)


def _known(bounds: Iterable[int | None]) -> list[int] | None:
    """All of them; None where one is not known."""
    found = list(bounds)
    known = [bound for bound in found if bound is not None]
    return known if len(known) == len(found) else None


@lru_cache(maxsize=256)
def reach_of(ranges: tuple[tuple[str, int | None], ...], pairs: tuple[PairWindow, ...]) -> Reach:
    """The closed form of the windows of inputs, in microseconds or None, and of windows for pairs of them.

    >>> reach = reach_of((("A", None), ("B", None), ("C", 5)), (PairWindow("A", "B", 10), PairWindow("B", "A", 0)))
    >>> reach.most_us("A", "B"), reach.most_us("B", "A"), reach.most_us("C", "A"), reach.most_us("A", "C")
    (10, 0, 4, None)
    >>> reach.stay(("C",))
    Stay(widths=(('C', 5),), leads=(('A', 0), ('B', 0)))
    >>> closer = reach_of((("A", None), ("B", None)), reach.given[:2])
    >>> closer.stay(("A",)), closer.kept_for_us("B")
    (Stay(widths=(('A', 11),), leads=(('B', 0),)), 1)
    """
    aliases = tuple(alias for alias, _ in ranges)
    of_ranges = (
        PairWindow(alias, other, width - 1)
        for alias, width in ranges
        if width is not None
        for other in aliases
        if other != alias
    )
    return Reach(aliases, (*pairs, *of_ranges))
