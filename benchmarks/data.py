"""The data of the main benchmark: three streams of parquet files with one uniform join key.

Every stream is a folder of `files` parquet files with columns k, v, ts (all BIGINT). k is uniform in
0..keys-1, v is uniform in 0..9999, ts is in microseconds and ascends through the files. One file is one
micro-batch of one stream (`maxFilesPerTrigger = 1`): modification times ascend, because Spark's file source takes the
oldest file first. Row groups hold 50,000 rows, so that Spark can split a file over cores; one big row group would
make one task read the whole file.

A data set is made once and found again by its parameters in the name of its folder. It appears whole or not at all
(written beside, then renamed). Nothing here depends on Spark.

    python -m benchmarks.data --rows 3000000 --files 10      # prints the folder
"""

import argparse
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent / "bench-data"
STREAMS = ("A", "B", "C")
SCHEMA_DDL = "k BIGINT, v BIGINT, ts BIGINT"
ROW_GROUP_ROWS = 50_000
FIRST_TS = 1_700_000_000_000_000  # microseconds: an ordinary date, in case a reader casts ts to a timestamp
TS_STEP = 100  # microseconds between two rows of a stream


@dataclass(frozen=True)
class DataSet:
    """What a data set holds; two equal ones are the same files."""

    rows: int = 3_000_000  # of each stream
    files: int = 10  # of each stream
    keys: int = 3_000_000
    seed: int = 1

    def __post_init__(self) -> None:
        if self.rows < self.files:
            raise ValueError(f"fewer rows than files: rows={self.rows} files={self.files}")

    @property
    def name(self) -> str:
        return f"rows{self.rows}-files{self.files}-keys{self.keys}-seed{self.seed}"

    @property
    def total_rows(self) -> int:
        return self.rows * len(STREAMS)


def prepare(data: DataSet, root: Path = ROOT) -> Path:
    """The folder of `data`, made if it is not there yet."""

    def fill(folder: Path) -> None:
        for number, stream in enumerate(STREAMS):
            write_files(folder / stream, _tables(data, number))

    return make_once(root / data.name, fill)


def make_once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """`folder`, filled by `fill` if it is not there yet; it appears whole or not at all."""
    if not folder.exists():
        beside = folder.parent / f".{folder.name}.{os.getpid()}"
        fill(beside)
        try:
            beside.rename(folder)
        except OSError:  # somebody else made the same data meanwhile
            shutil.rmtree(beside)
    return folder


def expected_rows(data: DataSet, root: Path = ROOT) -> int:
    """How many combinations agree on k, counted from the keys without joining them."""
    counts = np.ones(data.keys, np.int64)
    for stream in STREAMS:
        keys = pq.read_table(prepare(data, root) / stream, columns=["k"])["k"].to_numpy()
        counts *= np.bincount(keys, minlength=data.keys)
    return int(counts.sum())


def first_files(folder: Path, files: int, to: Path) -> Path:
    """A folder like `folder` with the first `files` files of every stream, linked: the input of a warm-up run."""
    for stream in folder.iterdir():
        (to / stream.name).mkdir(parents=True)
        for path in sorted(stream.iterdir())[:files]:
            os.link(path, to / stream.name / path.name)
    return to


def write_files(folder: Path, tables: Iterable[pa.Table]) -> None:
    """A stream as a folder of files, one for each table, which Spark's file source takes in this order."""
    folder.mkdir(parents=True)
    for file, table in enumerate(tables):
        path = folder / f"{file:05d}.parquet"
        pq.write_table(table, path, row_group_size=ROW_GROUP_ROWS)
        os.utime(path, (FIRST_TS // 1_000_000 + file,) * 2)


def _tables(data: DataSet, number: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng([data.seed, number])
    cuts = np.linspace(0, data.rows, data.files + 1).astype(int)
    for start, end in pairwise(cuts):
        rows = end - start
        yield pa.table(
            {
                "k": rng.integers(0, data.keys, rows),
                "v": rng.integers(0, 10_000, rows),
                "ts": FIRST_TS + np.arange(start, end) * TS_STEP,
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="make the data of the main benchmark")
    parser.add_argument("--rows", type=int, default=DataSet.rows, help="of each stream")
    parser.add_argument("--files", type=int, default=DataSet.files, help="of each stream")
    parser.add_argument("--keys", type=int, default=DataSet.keys)
    args = parser.parse_args()
    print(prepare(DataSet(rows=args.rows, files=args.files, keys=args.keys)))


if __name__ == "__main__":
    main()
