"""Feeds the demo: a thread that puts the next file of every stream in place at a steady pace.

A file is written under a hidden name and renamed, so a reader sees it whole or not at all. The feeder remembers when
each file was put in place, from which the latency of a batch is worked out: the streams say how many of their rows have
been read, and files are read whole and in order.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from watersmeet.demo.streams import SCHEMAS, TICK, make_rows, rows_of
from watersmeet.runtime.clock import Clock, WallClock


@dataclass(frozen=True)
class Arrival:
    """A file in its place: the rows of its stream up to its end, its own, and when it came."""

    rows_so_far: int
    rows: int
    at: float


class Feeder:
    def __init__(self, folder: Path, files: int, clock: Clock | None = None) -> None:
        self.folder = folder
        self.files = files
        self.clock = clock or WallClock()
        self.error: BaseException | None = None
        self._arrivals: dict[str, list[Arrival]] = {name: [] for name in SCHEMAS}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)
        for name in SCHEMAS:
            (folder / name).mkdir(parents=True)

    @property
    def planned_rows(self) -> int:
        """The rows of all files, written or not."""
        return sum(rows_of(name, number, self.files) for name in SCHEMAS for number in range(self.files))

    @property
    def written(self) -> int:
        """How many files of each stream are in place."""
        return min(len(arrivals) for arrivals in self._arrivals.values())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _feed(self) -> None:
        try:
            begin = self.clock.now()
            for number in range(self.files):
                due = begin + number * TICK.total_seconds()
                if self._stop.wait(max(0.0, due - self.clock.now())):
                    return
                for name in SCHEMAS:
                    self._write(name, number)
        except BaseException as error:  # shown by whoever waits for the rows
            self.error = error

    def _write(self, name: str, number: int) -> None:
        table = make_rows(name, number, self.files)
        hidden = self.folder / name / f".{number:05d}.tmp"
        pq.write_table(table, hidden)
        before = self._arrivals[name][-1].rows_so_far if self._arrivals[name] else 0
        # Noted before it can be read, so that no batch reports rows of an unknown file.
        self._arrivals[name].append(Arrival(before + table.num_rows, table.num_rows, self.clock.now()))
        os.rename(hidden, self.folder / name / f"{number:05d}.parquet")

    def waits(self, name: str, read_before: int, read_now: int, at: float) -> list[tuple[int, float]]:
        """Rows of `name` beyond the first `read_before`, up to `read_now`: how many waited for how long until `at`."""
        return [
            (arrival.rows, at - arrival.at)
            for arrival in self._arrivals[name]
            if read_before < arrival.rows_so_far <= read_now
        ]
