"""The data of the benchmark of groups: three streams of events with a key that repeats, and the query over them.

Columns are k (the key), g (its group), v and ts, all BIGINT, ts in microseconds. Rows come evenly, `per_second` of each
stream. A window has `panes` slides of a second. With r rows of a key in a window of each stream, a row of the join's
input has r * r results: `results` says how many, and the number of keys follows.

A last file has one row of each stream that comes much later, and joins with nothing: it closes all windows before, also
for engines that close none at the end of their input.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import FIRST_TS, ROOT, STREAMS, make_once, write_files

SCHEMA_DDL = "k BIGINT, g BIGINT, v BIGINT, ts BIGINT"
SECOND = 1_000_000
SUMS = ("a", "b", "c")


@dataclass(frozen=True)
class GroupedData:
    seconds: int = 60
    per_second: int = 10_000
    results: float = 20.0  # of a row
    panes: int = 1
    files: int = 20
    groups: int = 500

    @property
    def keys(self) -> int:
        return max(1, round(self.per_second * self.panes / math.sqrt(self.results)))

    @property
    def name(self) -> str:
        shape = f"results{self.results:g}-panes{self.panes}-files{self.files}-groups{self.groups}"
        return f"grouped-seconds{self.seconds}-rate{self.per_second}-{shape}"

    @property
    def rows(self) -> int:
        return self.seconds * self.per_second * len(STREAMS)

    @property
    def query(self) -> str:
        window = f"[RANGE {self.panes} SECONDS SLIDE 1 SECOND]"
        sums = ", ".join(f"SUM({stream}.v) AS {name}" for stream, name in zip(STREAMS, SUMS, strict=True))
        streams = ", ".join(f"{stream} {window}" for stream in STREAMS)
        return f"SELECT A.g AS g, COUNT(*) AS n, {sums} FROM {streams} WHERE A.k = B.k AND B.k = C.k GROUP BY A.g"


def prepare(data: GroupedData, root: Path = ROOT) -> Path:
    """The folder of `data`, made if it is not there yet."""

    def fill(folder: Path) -> None:
        for number, stream in enumerate(STREAMS):
            write_files(folder / stream, _tables(data, number))

    return make_once(root / data.name, fill)


def _tables(data: GroupedData, number: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(number)
    total = data.seconds * data.per_second
    begin = FIRST_TS - FIRST_TS % SECOND
    for places in np.array_split(np.arange(total), data.files):
        keys = rng.integers(0, data.keys, len(places))
        # Never at a boundary, where one engine has a row in the window that ends there, and another in the next one.
        second, within = np.divmod(places, data.per_second)
        times = begin + second * SECOND + 1 + within * (SECOND - 2) // data.per_second
        yield _table(keys, keys % data.groups, rng.integers(0, 10_000, len(places)), times)
    last = np.array([begin + (data.seconds + 3600) * SECOND + 1])
    yield _table(np.array([-1 - number]), np.array([0]), np.array([0]), last)


def _table(keys: np.ndarray, groups: np.ndarray, values: np.ndarray, times: np.ndarray) -> pa.Table:
    return pa.table({"k": keys, "g": groups, "v": values, "ts": times})


def totals(results: pa.Table) -> list[int]:
    """Of all results: rows, combinations counted, and what they add up to; the same for all who are right."""
    return [results.num_rows, *(int(sum(results[name].to_pylist())) for name in ("n", *SUMS))]
