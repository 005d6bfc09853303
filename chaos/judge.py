"""Counts delivered rows by their identity: once is right, twice is doubled, never is lost, and nothing else may come.

A result is known by the number of its row of the first stream and by its offset, so that what was seen is one array of
counts. The judge reads files as they are delivered, in any number of looks, and remembers each by its name: that a file
lies there for long does not make its rows come twice, and that one goes away again (with the power, before it was on
disk) takes its rows back.
"""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaos.feed import Feed
from watersmeet.state.files import Folder


class WrongError(Exception):
    """The product did what it must not do."""


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
    out: Folder
    late: Folder
    tally: Tally = field(default_factory=Tally)
    _seen: np.ndarray = field(init=False)
    _files: dict[str, np.ndarray] = field(default_factory=dict)  # results, by name of their file: codes
    _late_files: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    _late_seen: Counter[tuple[str, int]] = field(default_factory=Counter)
    _settled: int = 0  # all results of smaller numbers were complete once

    def __post_init__(self) -> None:
        self._seen = np.zeros(0, np.int16)

    def look(self) -> int:
        """Read what is new, and raise if it is wrong; how many results have come."""
        before = self.tally.rows
        for name in _delivered(self.out):
            if name not in self._files:
                self._take(name, _read(self.out, name))
        for name in _delivered(self.late):
            if name not in self._late_files:
                self._take_late(name, _read(self.late, name))
        return self.tally.rows - before

    def look_again(self) -> None:
        """After a loss of power: files that have gone count no more, and must come again."""
        there = set(_delivered(self.out))
        for name in [name for name in self._files if name not in there]:
            np.subtract.at(self._seen, self._files.pop(name), 1)
        there = set(_delivered(self.late))
        for name in [name for name in self._late_files if name not in there]:
            self._late_seen.subtract(self._late_files.pop(name))
        self.look()

    def check_all(self, whole: bool = False) -> None:
        """Raise unless everything has come that follows from what has arrived, and nothing else. After a drain."""
        self.look()
        # Results of numbers that were complete change no more, but near the end of what had arrived then.
        first = 0 if whole else max(0, self._settled - 2 * self.feed.shape.span)
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
        for folder, known in ((self.out, self._files), (self.late, self._late_files)):
            folder.delete_all([name for name in _delivered(folder) if name in known])
        self._files.clear()
        self._late_files.clear()

    def _take(self, name: str, table: pa.Table) -> None:
        shape = self.feed.shape
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
        offset = shape.lookup[tuple(distance + shape.span for distance in distances)]
        if (offset < 0).any():
            self.tally.invented += int((offset < 0).sum())
            raise WrongError(f'"{name}" has rows that do not meet: {[n[offset < 0][:5].tolist() for n in numbers]}')
        codes = first * len(shape.offsets) + offset
        self._room(int(codes.max(initial=-1)) + 1)
        np.add.at(self._seen, codes, 1)
        self._files[name] = codes
        self.tally.rows += len(codes)
        if (self._seen[codes] > 1).any():
            twice = codes[self._seen[codes] > 1]
            self.tally.doubled += len(twice)
            raise WrongError(
                f'"{name}" has {len(twice)} rows that came before, as of rows {(twice // len(shape.offsets))[:5]}'
            )

    def _take_late(self, name: str, table: pa.Table) -> None:
        rows = [(name.split("-")[1], number) for number in table.column("v").to_pylist()]
        self._late_files[name] = rows
        self._late_seen.update(rows)
        self.tally.late += len(rows)
        if twice := [row for row in rows if self._late_seen[row] > 1]:
            self.tally.doubled += len(twice)
            raise WrongError(f'"{name}" has late rows that came before: {twice[:5]}')

    def _room(self, size: int) -> None:
        if len(self._seen) < size:
            self._seen = np.concatenate([self._seen, np.zeros(2 * size - len(self._seen), np.int16)])


def _delivered(folder: Folder) -> list[str]:
    return [name for name in folder.names() if name.endswith(".parquet") and not name.startswith((".", "_"))]


def _read(folder: Folder, name: str) -> pa.Table:
    try:
        return pq.read_table(io.BytesIO(folder.read(name)), use_threads=False)
    except pa.ArrowInvalid as error:
        raise WrongError(f'the delivered file "{name}" cannot be read: {error}') from None
