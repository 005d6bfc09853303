"""Stretches that many visiting rows have in common, cut into tiles that meet several of these rows in one pass.

A pass over k visiting rows and a tile of L rows looks at k * L pairs. On the side of the tile its columns are the same
for the next k visiting rows, so they are laid out once: what is copied for each pair is the visiting row alone. That
halves the copying, which for vectors of 32 numbers takes as long as a third of what is done with them.

Invariant: tiles and what is left over have each pair of the stretch once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.kernel.combine import Bench, Partial
from watersmeet.kernel.orders import Stretch
from watersmeet.kernel.rows import Int64Array, take
from watersmeet.kernel.window import Lifetimes

# Visiting rows in a pass.
TOGETHER = 16
# Tiles that a stretch should have on average: its ends are left over, a tile's worth of pairs for each visiting row.
LEAST_TILES = 2


@dataclass(frozen=True)
class Tile:
    """Rows that are met, by their numbers, and the numbers of the visiting rows that meet all of them."""

    rows: Int64Array
    visitors: Int64Array
    together: int

    def passes(self, met: Bench, names: Sequence[str]) -> Iterator[tuple[Int64Array, Bench]]:
        """The visiting rows of each pass, and what they meet: the tile for each, with the named columns alone."""
        laid_out = _repeated(met, names, self.rows, min(self.together, len(self.visitors)))
        for start in range(0, len(self.visitors), self.together):
            group = self.visitors[start : start + self.together]
            if len(group) * len(self.rows) < laid_out.rows.num_rows:
                laid_out = _first_rows(laid_out, len(group) * len(self.rows))
            yield group, laid_out

    def placed(self, pairs: Partial) -> Partial:
        """Pairs of a pass, with the numbers that the rows met had before they were laid out."""
        return Partial(pairs.key, {**pairs.rows, 1: self.rows[pairs.rows[1] % len(self.rows)]}, pairs.lifetimes)


def cut_tiles(stretch: Stretch, rows: int, at_once: int) -> tuple[list[Tile], list[Stretch]]:
    """A stretch of so many rows as tiles, and as stretches of the rest; passes have `at_once` pairs or less."""
    visitors = len(stretch.begins)
    candidates = int(stretch.counts.sum())
    if not candidates:
        return [], []
    length = max(1, at_once // min(visitors, TOGETHER))
    if candidates < LEAST_TILES * length * visitors and candidates < rows * visitors:
        return [], [stretch]
    length = min(length, rows)
    bounds = np.append(np.arange(0, rows, length), rows)
    first = np.searchsorted(bounds, stretch.begins, side="left")
    last = np.searchsorted(bounds, stretch.begins + stretch.counts, side="right") - 1
    whole = last > first
    tiles = []
    for number, (low, high) in enumerate(itertools.pairwise(bounds)):
        covering = np.flatnonzero(whole & (first <= number) & (number < last))
        if len(covering):
            numbers = np.arange(low, high) if stretch.rows is None else stretch.rows[low:high]
            tiles.append(Tile(numbers, covering, max(1, at_once // length)))
    ends = stretch.begins + stretch.counts
    before = np.where(whole, bounds[np.minimum(first, len(bounds) - 1)] - stretch.begins, stretch.counts)
    after = np.where(whole, ends - bounds[np.maximum(last, 0)], 0)
    rest = [Stretch(stretch.rows, stretch.begins, before), Stretch(stretch.rows, ends - after, after)]
    return tiles, [each for each in rest if each.counts.any()]


def _repeated(met: Bench, names: Sequence[str], rows: Int64Array, times: int) -> Bench:
    """Rows of a bench, so many times one after the other."""
    numbers = np.tile(rows, times)
    life = met.lifetimes
    return Bench(
        take(met.rows.select(list(names)), numbers),
        None if life is None else Lifetimes(life.newest[numbers], life.expiry[numbers]),
        met.key_fields,
    )


def _first_rows(bench: Bench, count: int) -> Bench:
    life = bench.lifetimes
    return Bench(
        bench.rows.slice(0, count),
        None if life is None else Lifetimes(life.newest[:count], life.expiry[:count]),
        bench.key_fields,
    )
