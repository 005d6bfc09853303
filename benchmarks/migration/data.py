"""The data and the query of the benchmark of changes of the plan: the chain of four streams, with windows.

    A(x) - B(x, y) - C(y, z) - D(z)        SELECT .. WHERE A.x = B.x AND B.y = C.y AND C.z = D.z

As in `chain_data.py`, but rows expire, and keys may change their domains on the way: a data set has *stages*, each of
so many batches, and in each its own fan-outs. A fan-out is how many rows of its neighbour within the window a row
meets. A batch is one file of each stream and one second of event time; rows of a batch are spread over it evenly.

Answers are compared by their fingerprint (`chain_data.py`) with DuckDB's over the same files.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.chain_data import KEYS, LINKS, SELECTED, STREAMS, Fingerprint, fingerprint, read_batches
from benchmarks.chain_data import QUERY as UNBOUNDED
from benchmarks.data import FIRST_TS, ROOT, make_once, write_files

SECOND = 1_000_000  # microseconds
JOIN = UNBOUNDED.partition(" FROM ")[0], UNBOUNDED.partition(" WHERE ")[2]
FanOuts = tuple[float, float, float]  # of x, y and z


@dataclass(frozen=True)
class Stage:
    batches: int
    fanouts: FanOuts

    @property
    def name(self) -> str:
        return f"{self.batches}x{'-'.join(f'{fanout:g}' for fanout in self.fanouts)}"


@dataclass(frozen=True)
class Windowed:
    """What a data set holds; two equal ones are the same files."""

    rows: int  # of each stream in each batch
    window: int  # batches
    stages: tuple[Stage, ...]
    seed: int = 1

    @property
    def name(self) -> str:
        stages = "-".join(stage.name for stage in self.stages)
        return f"windowed-rows{self.rows}-window{self.window}-{stages}-seed{self.seed}"

    @property
    def batches(self) -> int:
        return sum(stage.batches for stage in self.stages)

    @property
    def rows_a_batch(self) -> int:
        """Of all streams together."""
        return self.rows * len(STREAMS)

    @property
    def query(self) -> str:
        streams = ", ".join(f"{name} [RANGE {self.window} SECONDS]" for name in STREAMS)
        return f"{JOIN[0]} FROM {streams} WHERE {JOIN[1]}"

    @property
    def sql(self) -> str:
        """The same for DuckDB. What follows for neighbours from the windows is said as well: it keeps joins small."""
        width = self.window * SECOND
        newest = f"greatest({', '.join(f'{name}.ts' for name in STREAMS)})"
        near = [f"abs({left}.ts - {right}.ts) < {width}" for left, right, _ in LINKS]
        inside = [f"{newest} - {name}.ts < {width}" for name in STREAMS]
        return f"{JOIN[0]} FROM {', '.join(STREAMS)} WHERE {' AND '.join([JOIN[1], *near, *inside])}"


def schema_of(stream: str) -> str:
    return ", ".join(f"{name} BIGINT" for name in (*KEYS[stream], "v", "ts"))


def prepare(data: Windowed, root: Path = ROOT) -> Path:
    """The folder of `data`, made if it is not there yet."""

    def fill(folder: Path) -> None:
        for number, stream in enumerate(STREAMS):
            write_files(folder / stream, _tables(data, number))

    return make_once(root / data.name, fill)


def _tables(data: Windowed, number: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng([data.seed, number])
    fanouts = [stage.fanouts for stage in data.stages for _ in range(stage.batches)]
    within = data.rows * data.window
    for batch, each in enumerate(fanouts):
        domains = {key: round(within / fanout) for key, fanout in zip("xyz", each, strict=True)}
        keys = {key: rng.integers(0, domains[key], data.rows) for key in KEYS[STREAMS[number]]}
        place = np.arange(data.rows)
        times = FIRST_TS + batch * SECOND + place * SECOND // data.rows
        yield pa.table({**keys, "v": batch * data.rows + place, "ts": times})


def files(data: Windowed, stream: str, first: int = 0, end: int | None = None) -> list[Path]:
    """Of the batches from `first` to before `end`."""
    return sorted((prepare(data) / stream).glob("*.parquet"))[first:end]


def link(data: Windowed, to: Path, first: int = 0, end: int | None = None) -> None:
    """Let the files of some batches come to the folders of a run's input."""
    for stream in STREAMS:
        (to / stream).mkdir(parents=True, exist_ok=True)
        for path in files(data, stream, first, end):
            os.link(path, to / stream / path.name)


def unlink(data: Windowed, to: Path, first: int) -> None:
    """Take the files of the batches from `first` on back."""
    for stream in STREAMS:
        for path in files(data, stream, first):
            (to / stream / path.name).unlink(missing_ok=True)


def answer(data: Windowed, first: int = 0, end: int | None = None) -> Fingerprint:
    """Of the join of the rows of some batches, by DuckDB."""
    with duckdb.connect() as connection:
        for stream in STREAMS:
            paths = [str(path) for path in files(data, stream, first, end)]
            connection.execute(f"CREATE VIEW {stream} AS FROM read_parquet({paths})")
        return fingerprint(pa.RecordBatchReader.from_stream(connection.sql(data.sql)))


def delivered(folders: Sequence[Path]) -> Fingerprint:
    """Of what runs have delivered, all together."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.parquet"))]
    return fingerprint(read_batches(paths))


assert tuple(SELECTED) == ("x", "y", "z", "a", "b", "c", "d"), "which the fingerprint covers"
