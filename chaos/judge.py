"""Counts delivered rows by their identity: once is right, twice is doubled, never is lost, and nothing else may come.

A result is known by the number of its row of the first stream and by its offset, so that what was seen is one array of
counts. The judge reads files as they are delivered, in any number of looks, and remembers each by its name: that a file
lies there for long does not make its rows come twice, and that one goes away again (with the power, before it was on
disk; or because a rollback withdrew it) takes its rows back, so that they must come again. What lies in several outputs
is counted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from chaos.feed import Feed
from chaos.shelves import Shelf
from chaos.wrong import WrongError

Known = TypeVar("Known")
Place = tuple[int, str]  # a shelf, by its number, and a name on it


@dataclass
class Tally:
    """What was judged."""

    rows: int = 0  # results read
    late: int = 0  # late rows read
    exact: int = 0  # times that everything was compared
    lost: int = 0
    doubled: int = 0
    invented: int = 0  # rows that cannot be

    @property
    def wrong(self) -> int:
        return self.lost + self.doubled + self.invented


@dataclass
class Judge:
    feed: Feed
    results: Sequence[Shelf]
    late_rows: Sequence[Shelf]
    tally: Tally = field(default_factory=Tally)
    _seen: np.ndarray = field(init=False)
    _files: dict[Place, np.ndarray] = field(default_factory=dict)  # results, by their file: codes
    _late_files: dict[Place, list[tuple[str, int]]] = field(default_factory=dict)
    _late_seen: Counter[tuple[str, int]] = field(default_factory=Counter)
    _settled: int = 0  # all results of smaller numbers were complete once

    def __post_init__(self) -> None:
        self._seen = np.zeros(0, np.int16)

    def look(self) -> int:
        """Read what is new, and raise if it is wrong; how many results have come.

        First of all, what has gone counts no more: where nothing brings it again, it will be found to be lost.
        """
        before = self.tally.rows
        there, late_there = dict.fromkeys(_places(self.results)), dict.fromkeys(_places(self.late_rows))
        for place in [place for place in self._files if place not in there]:
            np.subtract.at(self._seen, self._files.pop(place), 1)
        for place in [place for place in self._late_files if place not in late_there]:
            self._late_seen.subtract(self._late_files.pop(place))
        for place in there:
            if place not in self._files:
                self._take(place, self.results[place[0]].table(place[1]))
        for place in late_there:
            if place not in self._late_files:
                self._take_late(place, self.late_rows[place[0]].table(place[1]))
        return self.tally.rows - before

    def check_all(self, whole: bool = False) -> None:
        """Raise unless everything has come that follows from what has arrived, and nothing else. After a drain."""
        self.look()
        # Results of numbers that were complete change no more, but near the end of what had arrived then; groups wait.
        first = 0 if whole or self.feed.shape.grouped else max(0, self._settled - 2 * self.feed.shape.span)
        expected = self.feed.expected(first)
        self._room((first + len(expected)) * expected.shape[1])
        seen = self._seen[first * expected.shape[1] :][: expected.size].reshape(expected.shape)
        self.tally.lost += int((expected & (seen == 0)).sum())
        self.tally.doubled += int((seen > 1).sum())
        self.tally.invented += int((~expected & (seen > 0)).sum())
        due = Counter((name, number) for name, stream in self.feed.streams.items() for number in stream.late)
        found = +self._late_seen
        self.tally.lost += (due - found).total()
        self.tally.doubled += (found - due).total()
        self.tally.exact += 1
        self._settled = first + len(expected)
        if self.tally.wrong:
            missing = [(first + int(row), int(place)) for row, place in np.argwhere(expected & (seen == 0))[:5]]
            raise WrongError(f"{self.tally}; missing (row, offset): {missing}; late: {due - found}")

    def sweep(self) -> None:
        """As a reader may: take delivered files away. They were on disk, and will not come again."""
        self._files = _after_sweep(self.results, self._files)
        self._late_files = _after_sweep(self.late_rows, self._late_files)

    def _take(self, place: Place, table: pa.Table) -> None:
        shape, name = self.feed.shape, place[1]
        numbers = [table.column(stream.lower()).to_numpy() for stream in shape.streams]
        first, *others = numbers
        distances = [other - first for other in others]
        near = np.ones(len(first), bool)
        for distance in distances:
            near &= abs(distance) < shape.span
        for stream, of_stream in zip(shape.streams, numbers, strict=True):
            near &= self.feed.is_joined(stream, of_stream)
        if not near.all():
            self.tally.invented += int((~near).sum())
            raise WrongError(f'"{name}" has rows that cannot be: {[n[~near][:5].tolist() for n in numbers]}')
        if shape.grouped and (many := table.column("n").to_numpy() != 1).any():
            self.tally.doubled += int(many.sum())
            raise WrongError(f'"{name}" has groups of more than one result: {[n[many][:5].tolist() for n in numbers]}')
        offset = shape.lookup[tuple(distance + shape.span for distance in distances)]
        if (offset < 0).any():
            self.tally.invented += int((offset < 0).sum())
            raise WrongError(f'"{name}" has rows that do not meet: {[n[offset < 0][:5].tolist() for n in numbers]}')
        codes = first * len(shape.offsets) + offset
        self._room(int(codes.max(initial=-1)) + 1)
        np.add.at(self._seen, codes, 1)
        self._files[place] = codes
        self.tally.rows += len(codes)
        if (self._seen[codes] > 1).any():
            twice = codes[self._seen[codes] > 1]
            self.tally.doubled += len(twice)
            raise WrongError(
                f'"{name}" has {len(twice)} rows that came before, as of rows {(twice // len(shape.offsets))[:5]}'
            )

    def _take_late(self, place: Place, table: pa.Table) -> None:
        name = place[1]
        rows = [(name.split("-")[1], number) for number in table.column("v").to_pylist()]
        self._late_files[place] = rows
        self._late_seen.update(rows)
        self.tally.late += len(rows)
        if twice := [row for row in rows if self._late_seen[row] > 1]:
            self.tally.doubled += len(twice)
            raise WrongError(f'"{name}" has late rows that came before: {twice[:5]}')

    def _room(self, size: int) -> None:
        if len(self._seen) < size:
            self._seen = np.concatenate([self._seen, np.zeros(2 * size - len(self._seen), np.int16)])


def _places(shelves: Sequence[Shelf]) -> Iterator[Place]:
    return ((number, name) for number, shelf in enumerate(shelves) for name in shelf.names())


def _after_sweep(shelves: Sequence[Shelf], known: dict[Place, Known]) -> dict[Place, Known]:
    """Clear the shelves of what is known; what is known of those that keep theirs."""
    kept = dict(known)
    for number, shelf in enumerate(shelves):
        mine = [place for place in known if place[0] == number]
        if mine and shelf.clear([name for _, name in mine]):
            kept = {place: held for place, held in kept.items() if place[0] != number}
    return kept
