"""The files that were handed to the job so far, and what must come of them.

A stream is cut into files of `FILE_ROWS` rows in order of time. They arrive in that order, or change places with the
next one (which the allowed lateness covers however files fall into batches), or are held back for so long that every
row in them is late, however files fall into batches. A file may also bring a few rows of its own that are late, with
numbers that nothing else has.

So which rows are joined and which are late follows from the order of arrival alone, and the answer over everything that
has arrived is counted with one sum for each offset of the shape.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from chaos.shapes import FILE_ROWS, LATENESS_FILES, Shape

MAX_FILES = 3  # of a stream in one batch, at most
# Arrivals after which a file that was held back is late, in whichever batch it falls: the batch before has read all but
# the last MAX_FILES - 1 of the files before it, and of these the newest is beyond the lateness.
HELD = LATENESS_FILES + MAX_FILES + 2
EXTRA = 1 << 40  # numbers of rows that are late by themselves begin here
FIRST_TIME, APART = 1_700_000_000, 3_600  # modification times, in seconds: 7 days of them are 168 files


@dataclass
class _Stream:
    punctual: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))  # by number of the row
    late: list[int] = field(default_factory=list)
    next: int = 0  # the next file in order of time
    arrived: int = 0  # files
    swapped: int | None = None  # a file that lets the next one go first
    held: list[tuple[int, int]] = field(default_factory=list)  # files held back, with arrivals at that time
    extras: int = 0

    def mark(self, file: int) -> None:
        end = (file + 1) * FILE_ROWS
        if len(self.punctual) < end:
            self.punctual = np.concatenate([self.punctual, np.zeros(max(end, 1000) * 2 - len(self.punctual), bool)])
        self.punctual[end - FILE_ROWS : end] = True


class Feed:
    """Writes files of the streams of a shape to a folder for each. Arrivals are numbered, in names and times."""

    def __init__(self, shape: Shape, folder: Path) -> None:
        self.shape = shape
        self.folder = folder
        self.streams = {name: _Stream() for name in shape.streams}
        self.rows = 0
        for name in shape.streams:
            (folder / name).mkdir(parents=True, exist_ok=True)

    def arrive(self, name: str, how: str = "", extra_late: int = 0) -> None:
        """One more file of a stream arrives. `how`: "swap" with the one after it, or "hold" it back for long."""
        stream = self.streams[name]
        if stream.swapped is not None and stream.next > stream.swapped + 1:
            file, stream.swapped = stream.swapped, None
            self._write(name, file, extra_late)
            return
        due = [entry for entry in stream.held if stream.arrived - entry[1] >= HELD]
        if due and stream.swapped is None:
            stream.held.remove(due[0])
            self._write_late(name, due[0][0])
            return
        file = stream.next
        stream.next += 1
        if how == "swap" and stream.swapped is None:
            stream.swapped = file
            self.arrive(name)
        elif how == "hold" and stream.swapped is None and len(stream.held) < 2:
            stream.held.append((file, stream.arrived))
            self.arrive(name)
        else:
            self._write(name, file, extra_late)

    def ahead(self, name: str) -> int:
        """Files by which a stream has gone further than the one that is furthest behind."""
        return self.streams[name].next - min(stream.next for stream in self.streams.values())

    def forget_read(self) -> None:
        """Remove files that have all been read; the newest of each stream stays."""
        for name in self.streams:
            for path in sorted((self.folder / name).iterdir())[:-1]:
                path.unlink()

    def _write(self, name: str, file: int, extra_late: int) -> None:
        stream = self.streams[name]
        stream.mark(file)
        numbers = np.arange(file * FILE_ROWS, (file + 1) * FILE_ROWS)
        times = numbers
        old = file - HELD - 2
        if extra_late and old >= 0 and stream.arrived > HELD + 2:
            extras = EXTRA + stream.extras + np.arange(extra_late)
            stream.extras += extra_late
            stream.late += extras.tolist()
            numbers = np.concatenate([extras, numbers])
            times = np.concatenate([np.full(extra_late, old * FILE_ROWS), times])
        self._put(name, numbers, times)

    def _write_late(self, name: str, file: int) -> None:
        numbers = np.arange(file * FILE_ROWS, (file + 1) * FILE_ROWS)
        self.streams[name].late += numbers.tolist()
        self._put(name, numbers, numbers)

    def _put(self, name: str, numbers: np.ndarray, times: np.ndarray) -> None:
        stream = self.streams[name]
        path = self.folder / name / f"{stream.arrived:08d}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(self.shape.rows(name, numbers, times), hidden, compression="none")
        moment = FIRST_TIME + stream.arrived * APART
        os.utime(hidden, (moment, moment))
        hidden.rename(path)
        stream.arrived += 1
        self.rows += len(numbers)

    # --- what must come of it ----------------------------------------------------------------------------------------

    def is_joined(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """For each row of these numbers: whether it has arrived, and was not late."""
        punctual = self.streams[name].punctual
        inside = (numbers >= 0) & (numbers < len(punctual))
        found = np.zeros(len(numbers), bool)
        found[inside] = punctual[numbers[inside]]
        return found

    def expected(self, first: int = 0) -> np.ndarray:
        """By number of the row of the first stream, from `first` on, and by offset: whether there is that result."""
        start, *others = self.shape.streams
        numbers = np.arange(first, self.streams[start].next * FILE_ROWS)
        found = np.zeros((len(numbers), len(self.shape.offsets)), bool)
        own = self.is_joined(start, numbers)
        for place, offset in enumerate(self.shape.offsets):
            met = own.copy()
            for name, distance in zip(others, offset, strict=True):
                met &= self.is_joined(name, numbers + distance)
                if not self.shape.windowed:
                    met &= (numbers + distance) // self.shape.span == numbers // self.shape.span
            found[:, place] = met & self._is_emitted(numbers, offset) if self.shape.grouped else met
        return found

    def _is_emitted(self, numbers: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """Of grouped results: whether they count at a boundary that all watermarks are past."""
        apart = np.array([0, *offset])
        newest, oldest = numbers + int(apart.max()), numbers + int(apart.min())
        boundary = -(-newest // self.shape.span) * self.shape.span
        counts: np.ndarray = (boundary < oldest + self.shape.span) & (boundary < self._watermark)
        return counts

    @property
    def _watermark(self) -> int:
        """The smallest of the streams', in steps."""
        newest = [np.flatnonzero(stream.punctual) for stream in self.streams.values()]
        return min(int(found[-1]) if len(found) else 0 for found in newest) - LATENESS_FILES * FILE_ROWS
