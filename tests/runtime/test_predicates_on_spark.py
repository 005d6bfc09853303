"""Python predicates on Spark: they travel as Spark's own functions do, and a mistake in one loses nothing."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.errors import CheckpointError, UserFunctionError

pytestmark = pytest.mark.spark

SCHEMA = "k BIGINT, frame ARRAY<FLOAT>, photo BINARY, ts BIGINT"
ARROW = pa.schema([("k", pa.int64()), ("frame", pa.list_(pa.float32())), ("photo", pa.binary()), ("ts", pa.int64())])
TEXT = """SELECT A.ts AS a, B.ts AS b, A.photo FROM A, B
WHERE A.k = B.k AND near(A.frame, B.frame) AND alike(A.photo, B.photo)"""
LIMIT = 3.0  # a function finds what it refers to where it runs
Rows = list[dict[str, Any]]


def draw(folder: Path) -> dict[str, Rows]:
    """Three files for each stream."""
    random = np.random.default_rng(3)
    found: dict[str, Rows] = {}
    for name in "AB":
        (folder / name).mkdir()
        found[name] = []
        for number in range(3):
            rows = [
                {
                    "k": int(random.integers(0, 3)),
                    "frame": None if i == 4 else [float(x) for x in random.integers(0, 4, 3)],
                    "photo": bytes(random.integers(0, 2, 2, dtype=np.uint8)),
                    "ts": number * 1000 + i,
                }
                for i in range(12)
            ]
            found[name] += rows
            path = folder / name / f"{number}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=ARROW), path)
            os.utime(path, (1_700_000_000 + number,) * 2)
    return found


def plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def run(spark: Any, folder: Path, total: Any, seen: dict[int, Counter[tuple[Any, ...]]]) -> None:
    """Run to the end of the files, or to an error; `seen` gets what came out."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)

    def near(a: pa.Array, b: pa.Array) -> Any:
        left, right = (np.asarray(each.flatten()).reshape(len(each), 2) for each in (a, b))
        return np.abs(left - right).sum(axis=1) <= LIMIT

    functions = {
        "near": wm.predicate(near, symmetric=True, prepare=total, prepared_type=pa.list_(pa.float32(), 2)),
        "alike": lambda a, b: pc.equal(a, b),
    }
    query = wm.sql(TEXT, functions=functions, **{name: reader.parquet(str(folder / name)) for name in "AB"})

    def take(frame: Any, batch_id: int) -> None:
        seen[batch_id] = Counter(tuple(map(plain, row)) for row in frame.collect())  # the same if it comes again
        (folder / "delivered").touch()

    writer = query.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "ck"))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_a_predicate_with_what_it_prepares_and_a_mistake_in_it(spark: Any, tmp_path: Path) -> None:
    rows, seen = draw(tmp_path), dict[int, Counter[tuple[Any, ...]]]()

    def sizes(frames: pa.Array) -> Any:
        values = np.asarray(frames.flatten()).reshape(len(frames), 3)
        return np.stack([values.sum(axis=1), values.max(axis=1)], axis=1)

    def fails_in_the_second_batch(frames: pa.Array) -> Any:
        if delivered.exists():
            raise ValueError("no such frame")
        return sizes(frames)

    delivered = tmp_path / "delivered"
    fails_in_the_second_batch.__name__ = "sizes"  # as it is called when it is corrected
    with pytest.raises(UserFunctionError) as caught:
        run(spark, tmp_path, fails_in_the_second_batch, seen)
    assert caught.value.primary == (
        'prepare function "sizes" of registered function "near" raised ValueError: no such frame'
    )
    assert "line 2: WHERE A.k = B.k AND near(A.frame, B.frame) AND" in str(caught.value)
    assert seen
    with pytest.raises(CheckpointError, match="belongs to another query"):
        run(spark, tmp_path, lambda frames: sizes(frames), seen)
    run(spark, tmp_path, sizes, seen)

    def near(a: Any, b: Any) -> bool:
        return None not in (a, b) and abs(sum(a) - sum(b)) + abs(max(a) - max(b)) <= LIMIT

    expected = Counter(
        (a["ts"], b["ts"], a["photo"])
        for a in rows["A"]
        for b in rows["B"]
        if a["k"] == b["k"] and near(a["frame"], b["frame"]) and a["photo"] == b["photo"]
    )
    assert expected.total() > 20
    assert sum(seen.values(), Counter[tuple[Any, ...]]()) == expected
