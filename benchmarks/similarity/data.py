"""Three streams of feature vectors, and the question which of them are alike.

Each row has 32 numbers: the place of one of many objects, and some noise. Two rows are alike if the cosine of the angle
between them is above `ALIKE`, which rows of one object are and others are not, with nothing near the threshold: so
that all who compute it, in whatever order they add, give the same answer. One file is one micro-batch of one
stream, and a second of event time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import FIRST_TS, ROOT, make_once, write_files

STREAMS = ("A", "B", "C")
DIMENSIONS = 32
ALIKE = 0.9
SECOND = 1_000_000
SCHEMA_DDL = "id BIGINT, v ARRAY<DOUBLE>, ts BIGINT"
VECTORS = pa.list_(pa.float64(), DIMENSIONS)

Vectors = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DataSet:
    rows: int = 2_000  # of a stream, in a second
    files: int = 8  # of each stream
    window: int = 4  # seconds
    objects: int = 4_000
    seed: int = 1

    @property
    def name(self) -> str:
        return f"similarity-rows{self.rows}-files{self.files}-objects{self.objects}-seed{self.seed}"

    @property
    def total_rows(self) -> int:
        return self.rows * self.files * len(STREAMS)


def prepare(data: DataSet, root: Path = ROOT) -> Path:
    def fill(folder: Path) -> None:
        for number, stream in enumerate(STREAMS):
            write_files(folder / stream, _tables(data, number))

    return make_once(root / data.name, fill)


def _tables(data: DataSet, number: int) -> Iterator[pa.Table]:
    objects = np.random.default_rng(data.seed).standard_normal((data.objects, DIMENSIONS))
    rng = np.random.default_rng([data.seed, number])
    for file in range(data.files):
        found = objects[rng.integers(0, data.objects, data.rows)] + 0.02 * rng.standard_normal((data.rows, DIMENSIONS))
        times = FIRST_TS + file * SECOND + np.sort(rng.integers(0, SECOND, data.rows))
        numbers = np.arange(file * data.rows, (file + 1) * data.rows)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(found.ravel()), DIMENSIONS).cast(pa.list_(pa.float64()))
        yield pa.table({"id": numbers, "v": lists, "ts": times})


def alike(left: Vectors, right: Vectors) -> Mask:
    """The predicate, of rows of two arrays."""
    products = np.einsum("ij,ij->i", left, right)
    lengths = np.einsum("ij,ij->i", left, left) * np.einsum("ij,ij->i", right, right)
    return np.asarray(products > ALIKE * np.sqrt(lengths))


def rows_of(vectors: pa.Array) -> Vectors:
    """A column of lists as rows of an array, which shares its memory."""
    found: Vectors = vectors.flatten().to_numpy(zero_copy_only=True).reshape(-1, DIMENSIONS)
    return found


def alike_arrow(left: pa.Array, right: pa.Array) -> Mask:
    """The predicate as a user registers it."""
    return alike(rows_of(left), rows_of(right))


def read_answer(paths: list[Path]) -> npt.NDArray[np.int64]:
    """The rows (a, b, c) of result files, in order."""
    tables = [pq.read_table(path, columns=["a", "b", "c"]) for path in paths]
    found = np.concatenate([np.empty((0, 3), np.int64), *(np.column_stack(list(table.columns)) for table in tables)])
    return found[np.lexsort(found.T[::-1])]
