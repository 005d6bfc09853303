"""Two streams whose rows have keys in all kinds of proportions, with as many results whatever these are.

- `uniform`: every key has as many rows as every other;
- `uneven`: one key in five has 80 % of the rows;
- `zipf`: keys by a Zipf distribution with exponent 1.2;
- `wandering`: as `uneven`, and the keys that are hot change every ten batches;
- `hot-key`: one key has half of the rows of both streams;
- `hot-in-one`: one key has half of the rows of the first stream, and no more than others of the second.

The more uneven the keys, the more pairs of rows have the same one. Windows are shorter in proportion, so that a row
has as many partners in each, and a row is as much work. Windows stay longer than a batch or about as long where keys
are few and partners many: in a batch that is much longer than the windows, most pairs of the same key are too far
apart, and looking at them is what takes the time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SECOND = 1_000_000
SHAPES = ("uniform", "uneven", "zipf", "wandering", "hot-key", "hot-in-one")
WANDERS = 10  # batches


@dataclass(frozen=True)
class Data:
    """How much there is: rows of a stream in a batch, of how many batches, with how many keys.

    `partners` are those that a row has in the other stream, before and after it, on average.
    """

    shape: str
    rows: int
    batches: int
    keys: int
    partners: int

    @property
    def window_us(self) -> int:
        """
        >>> Data("uniform", 2000, 1, 20, 400).window_us, Data("uneven", 2000, 1, 20, 400).window_us
        (1999999, 615384)
        """
        meet = float(self.weights("A", 0) @ self.weights("B", 0))
        return max(1, int(self.partners * SECOND / (2 * self.rows * meet)))

    @property
    def query(self) -> str:
        window = f"[RANGE {self.window_us} MICROSECONDS]"
        return f"SELECT A.v AS a, B.v AS b FROM A {window}, B {window} WHERE A.k = B.k"

    def weights(self, stream: str, batch: int) -> np.ndarray[Any, Any]:
        """The share of the rows of a stream that each key has."""
        numbers = np.arange(self.keys)
        match self.shape:
            case "hot-in-one" if stream == "B":
                weights = np.ones(self.keys)
            case "hot-key" | "hot-in-one":
                weights = np.where(numbers == 0, self.keys - 1.0, 1.0)
            case "zipf":
                weights = 1.0 / (numbers + 1) ** 1.2
            case "uneven" | "wandering":
                first = batch // WANDERS if self.shape == "wandering" else 0
                hot = len(numbers[::5])
                weights = np.where((numbers + first) % 5 == 0, 0.8 / hot, 0.2 / (self.keys - hot))
            case _:
                weights = np.ones(self.keys)
        return weights / weights.sum()


def write(folder: Path, data: Data) -> None:
    """Files of a second each, of both streams."""
    rows = data.rows
    for place, name in enumerate("AB"):
        (folder / name).mkdir(parents=True)
        random = np.random.default_rng(place)
        for batch in range(data.batches):
            times = np.sort(random.integers(batch * SECOND, (batch + 1) * SECOND, rows))
            keys = random.choice(np.arange(data.keys), rows, p=data.weights(name, batch))
            columns = {
                "k": pa.array(keys * 7919),
                "v": pa.array(np.arange(rows) + batch * rows),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
            path = folder / name / f"{batch:05}.parquet"
            pq.write_table(pa.table(columns), path)
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))


def count(folder: Path, data: Data) -> int:
    """How many results there are: for each row of A, those of B with its key, less than a window away."""
    keys, times = ([_column(folder / stream, name) for stream in "AB"] for name in ("k", "ts"))
    found = 0
    for key in np.unique(keys[0]):
        a, b = (np.sort(times[place][keys[place] == key]) for place in (0, 1))
        ends = np.searchsorted(b, a + data.window_us, "left"), np.searchsorted(b, a - data.window_us, "right")
        found += int((ends[0] - ends[1]).sum())
    return found


def _column(folder: Path, name: str) -> np.ndarray[Any, Any]:
    column = pq.read_table(folder, columns=[name])[name]
    return column.cast(pa.int64()).to_numpy()


def expected(folder: Path, data: Data) -> tuple[int, int]:
    """By DuckDB: how many results there are, and the sum of a fingerprint over them."""
    files = {name: f"read_parquet('{folder / name}/*.parquet')" for name in "AB"}
    found = duckdb.sql(
        f"SELECT count(*), sum(a.v * 31 + b.v * 17) FROM {files['A']} a JOIN {files['B']} b ON a.k = b.k "
        f"AND abs(epoch_us(a.ts) - epoch_us(b.ts)) < {data.window_us}"
    ).fetchall()
    return int(found[0][0]), int(found[0][1])
