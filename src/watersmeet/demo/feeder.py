"""Feeds the demo: a thread that puts the next file of every stream in place at a steady pace.

The first file of each stream comes alone, and the pace begins with `go`: what is started for the first batch (on Spark,
the Python workers) is not to hold up the rows of the minute that is shown.

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
from watersmeet.runtime.clock import WallClock


@dataclass(frozen=True)
class Arrival:
    """A file in its place: the rows of its stream up to its end, its own, and when it came."""

    rows_so_far: int
    rows: int
    at: float


class Feeder:
    def __init__(self, folder: Path, files: int) -> None:
        self.folder = folder
        self.files = files
        self.clock = WallClock()
        self.error: BaseException | None = None
        self._arrivals: dict[str, list[Arrival]] = {name: [] for name in SCHEMAS}
        self._go = threading.Event()
        self._stop = False
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

    def go(self) -> None:
        """The first files have been read: go on at a steady pace."""
        self._go.set()

    def stop(self) -> None:
        self._stop = True
        self._go.set()
        if self._thread.is_alive():
            self._thread.join()

    def _feed(self) -> None:
        try:
            begin = self.clock.now()
            for number in range(self.files):
                for name in SCHEMAS:
                    self._write(name, number)
                if number == 0:
                    self._go.wait()
                    begin = self.clock.now()
                self.clock.sleep(begin + (number + 1) * TICK.total_seconds() - self.clock.now())
                if self._stop:
                    return
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
