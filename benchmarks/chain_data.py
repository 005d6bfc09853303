"""The data and the query of the chain benchmark: four streams, a key of its own between each two neighbours.

    A(x) - B(x, y) - C(y, z) - D(z)        SELECT .. WHERE A.x = B.x AND B.y = C.y AND C.z = D.z

Each stream has `rows` rows in `files` files: its keys, v (the number of the row) and ts, all BIGINT. Keys are uniform,
x and y in a domain of rows / fanout values and z in one of rows / matches, so that in the end

- a row of A meets `fanout` rows of B, and a row of B `fanout` rows of C: AB has about rows * fanout rows, and ABC
  rows * fanout². With 100,000 rows and a fan-out of 10, that is 1 and 10 million;
- a row of C meets `matches` rows of D: the answer has about rows * fanout² * matches rows, 100,000 with 0.01.

Rows are spread evenly over an hour of event time. State is unbounded, so AB grows with the square of the rows that have
come and ABC with their cube: of ten batches, the last one brings 27 % of ABC.

Two answers are the same if `fingerprint` says the same of them: the number of rows, and a sum over a hash of each row.
The hash covers every column, and v names the rows that were combined, so the sum tells multisets of combinations apart
(up to chance, 1 in 2**64).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import FIRST_TS, ROOT, make_once, write_files

KEYS = {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)}
LINKS = (("A", "B", "x"), ("B", "C", "y"), ("C", "D", "z"))
STREAMS = tuple(KEYS)
SELECTED = {
    "x": ("B", "x"),
    "y": ("C", "y"),
    "z": ("D", "z"),
    "a": ("A", "v"),
    "b": ("B", "v"),
    "c": ("C", "v"),
    "d": ("D", "v"),
}
QUERY = (
    f"SELECT {', '.join(f'{stream}.{column} AS {name}' for name, (stream, column) in SELECTED.items())} "
    f"FROM {', '.join(STREAMS)} "
    f"WHERE {' AND '.join(f'{left}.{key} = {right}.{key}' for left, right, key in LINKS)}"
)
Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
HOUR = 3_600_000_000  # microseconds


@dataclass(frozen=True)
class Chain:
    """What a data set holds; two equal ones are the same files."""

    rows: int = 100_000  # of each stream
    files: int = 10  # of each stream
    fanout: float = 10  # rows of B that a row of A meets, and of C that a row of B meets
    matches: float = 0.01  # rows of D that a row of C meets
    seed: int = 1

    def __post_init__(self) -> None:
        if self.rows < self.files:
            raise ValueError(f"fewer rows than files: rows={self.rows} files={self.files}")
        if not 0 < self.fanout <= self.rows or not 0 < self.matches <= self.rows:
            raise ValueError(f"not between 0 and rows: fanout={self.fanout} matches={self.matches}")

    @property
    def name(self) -> str:
        return f"chain-rows{self.rows}-files{self.files}-fanout{self.fanout:g}-matches{self.matches:g}-seed{self.seed}"

    @property
    def total_rows(self) -> int:
        return self.rows * len(STREAMS)

    def domain(self, key: str) -> int:
        return round(self.rows / (self.matches if key == "z" else self.fanout))

    @property
    def statistics(self) -> dict[str, dict[str, float]]:
        """What Watersmeet may be told: rows a second of event time, and the share of pairs that meet."""
        return {
            "rates": dict.fromkeys(STREAMS, self.rows * 1_000_000 / HOUR),
            "selectivity": {f"{left} {right}": 1 / self.domain(key) for left, right, key in LINKS},
        }


@dataclass(frozen=True)
class Sizes:
    """Rows of the intermediate results and of the answer, at the end."""

    ab: int
    abc: int
    abcd: int


@dataclass(frozen=True)
class Fingerprint:
    rows: int
    sum: int  # modulo 2**64


def prepare(data: Chain, root: Path = ROOT) -> Path:
    """The folder of `data`, made if it is not there yet."""

    def fill(folder: Path) -> None:
        for number, stream in enumerate(STREAMS):
            write_files(folder / stream, _tables(data, number))

    return make_once(root / data.name, fill)


def _tables(data: Chain, number: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng([data.seed, number])
    cuts = np.linspace(0, data.rows, data.files + 1).astype(int)
    for start, end in pairwise(cuts):
        v = np.arange(start, end)
        keys = {key: rng.integers(0, data.domain(key), end - start) for key in KEYS[STREAMS[number]]}
        yield pa.table({**keys, "v": v, "ts": FIRST_TS + v * (HOUR // data.rows)})


def count_rows(data: Chain, root: Path = ROOT) -> Sizes:
    """How many combinations there are, counted from the keys without joining them."""
    column = {
        (stream, key): pq.read_table(prepare(data, root) / stream, columns=[key])[key].to_numpy()
        for stream, keys in KEYS.items()
        for key in keys
    }
    # For each row, the combinations that end in it.
    of_b = _meet(column["A", "x"], np.ones(data.rows, np.int64), column["B", "x"])
    of_c = _meet(column["B", "y"], of_b, column["C", "y"])
    of_d = _meet(column["C", "z"], of_c, column["D", "z"])
    return Sizes(int(of_b.sum()), int(of_c.sum()), int(of_d.sum()))


def _meet(keys: Int64Array, weights: Int64Array, probes: Int64Array) -> Int64Array:
    """For each probe, the sum of the weights of its equals among `keys`.

    >>> _meet(np.array([7, 3, 7]), np.array([1, 5, 10]), np.array([7, 4]))
    array([11,  0])
    """
    order = np.argsort(keys, kind="stable")
    sums: Int64Array = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights[order])])
    ordered = keys[order]
    return sums[np.searchsorted(ordered, probes, "right")] - sums[np.searchsorted(ordered, probes, "left")]


def answer(data: Chain, root: Path = ROOT) -> Fingerprint:
    """The fingerprint of the whole join, by DuckDB."""
    folder = prepare(data, root)
    with duckdb.connect() as connection:
        for stream in STREAMS:
            connection.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{folder / stream}/*.parquet')")
        return fingerprint(pa.RecordBatchReader.from_stream(connection.sql(QUERY)))


def fingerprint(batches: Iterable[pa.RecordBatch]) -> Fingerprint:
    """Of rows with the query's columns, in any order."""
    rows, total = 0, np.uint64(0)
    for batch in batches:
        hashes = np.zeros(batch.num_rows, np.uint64)
        for name in SELECTED:
            hashes = _mix(hashes ^ batch.column(name).to_numpy().astype(np.uint64))
        rows += batch.num_rows
        with np.errstate(over="ignore"):
            total += hashes.sum(dtype=np.uint64)
    return Fingerprint(rows, int(total))


def _mix(values: UInt64Array) -> UInt64Array:
    """Splitmix64, in which every bit depends on every other."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def read_batches(paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    """The rows of parquet files, some at a time."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches()
