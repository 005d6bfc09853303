"""On Spark too rows that are far ahead are set aside: of the clock or of the streams, with the reason, and counted."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oracle
import watersmeet as wm
from watersmeet.cli.main import main

pytestmark = pytest.mark.spark

HOUR = 3_600_000_000
TEXT = "SELECT a.v AS a, b.v AS b FROM A a [RANGE 1 HOUR], B b [RANGE 1 HOUR] WHERE a.k = b.k"
START = datetime(2020, 5, 1, tzinfo=UTC)


def stream(place: int, rows: int, wrong: dict[int, datetime | None]) -> list[list[dict[str, Any]]]:
    """Three batches of rows, some ten minutes a batch; `wrong` has other times for some of them, by their values."""
    batches: list[list[dict[str, Any]]] = []
    for batch in range(3):
        held = []
        for i in range(rows):
            v = batch * rows + i
            at = START + timedelta(minutes=10 * batch, seconds=60 * place + i)
            held.append({"k": i % 3, "v": v, "at": wrong.get(v, at), "note": f"row {v}"})
        batches.append(held)
    return batches


def write(folder: Path, streams: dict[str, list[list[dict[str, Any]]]], schema: pa.Schema) -> None:
    for name, batches in streams.items():
        (folder / name).mkdir()
        for number, rows in enumerate(batches):
            path = folder / name / f"{number:03d}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


@pytest.mark.parametrize("ahead_of", ["streams", "clock"])
def test_rows_that_are_ahead_go_to_the_late_rows(spark: Any, tmp_path: Path, ahead_of: str) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    far, old = datetime(2100, 1, 1, tzinfo=UTC), START - timedelta(hours=9)
    schema = pa.schema(
        [("k", pa.int64()), ("v", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("note", pa.string())]
    )
    streams = {"A": stream(0, 20, {3: far, 25: far, 45: old, 46: None}), "B": stream(1, 15, {31: far})}
    write(tmp_path, streams, schema)
    frames = {
        name: spark.readStream.schema(from_arrow_schema(schema))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / name))
        for name in streams
    }
    query = wm.sql(TEXT, time="at", lateness="1 minute", max_ahead="30 minutes", ahead_of=ahead_of, **frames)
    events: list[dict[str, Any]] = []
    writer = query.writeStream.report(events.append)
    writer.options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "ck"), latePath=str(tmp_path / "late"))
    writer.trigger(availableNow=True).start().awaitTermination()

    expected = oracle.answer(
        [{name: batches[i] for name, batches in streams.items()} for i in range(3)],
        [oracle.Input("a", "A", HOUR), oracle.Input("b", "B", HOUR)],
        lambda rows: rows["a"]["k"] == rows["b"]["k"],
        lambda rows: (rows["a"]["v"], rows["b"]["v"]),
        dict.fromkeys("AB", 60_000_000),
        dict.fromkeys("AB", "at"),
        # Whatever the clock says, it is years after 2020 and years before 2100.
        dict.fromkeys("AB", oracle.MaxAhead(HOUR // 2, 1_790_000_000_000_000 if ahead_of == "clock" else None)),
    )
    assert (expected.rows_ahead, expected.rows_late) == (3, 2)
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert Counter((row["a"], row["b"]) for row in rows) == expected.rows
    assert (events[-1]["rows_ahead"], events[-1]["rows_late"]) == (3, 2)
    apart = [row for file in (tmp_path / "late").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert {(row["note"], row["_reason"]) for row in apart} == {
        ("row 3", "ahead"),
        ("row 25", "ahead"),
        ("row 31", "ahead"),
        ("row 45", "late"),
        ("row 46", "no time"),
    }
    notes = [event["text"] for event in events if event["event"] == "note"]
    assert [note.split(",")[0] for note in notes] == ['1 row is ahead in stream "A"', '1 row is ahead in stream "B"']


def test_a_watermark_is_set_back_between_two_runs(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = pa.schema(
        [("k", pa.int64()), ("v", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("note", pa.string())]
    )
    streams = {"A": stream(0, 10, {15: datetime(2100, 1, 1, tzinfo=UTC)}), "B": stream(0, 10, {})}
    write(tmp_path, {name: batches[:2] for name, batches in streams.items()}, schema)

    def run() -> dict[str, Any]:
        events: list[dict[str, Any]] = []
        reader = spark.readStream.schema(from_arrow_schema(schema)).option("maxFilesPerTrigger", 1)
        query = wm.sql(TEXT, time="at", **{name: reader.parquet(str(tmp_path / name)) for name in streams})
        writer = query.writeStream.report(events.append)
        writer.options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "ck"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return events[-1]

    run()
    at = (START + timedelta(minutes=10)).isoformat()
    assert main(["state", "set-watermark", str(tmp_path / "ck"), "--stream", "A", "--to", at]) == 0
    for name, batches in streams.items():
        pq.write_table(pa.Table.from_pylist(batches[2], schema=schema), tmp_path / name / "002.parquet")
    end = run()
    assert (end["rows_in"], end["rows_late"]) == (20, 0)
    rows = pq.read_table(tmp_path / "out").to_pylist()
    # Rows of the third batch meet each other, and rows of A from before; those of B had been dropped.
    last = {(row["a"] // 10, row["b"] // 10) for row in rows if 2 in (row["a"] // 10, row["b"] // 10)}
    assert last == {(0, 2), (1, 2), (2, 2)}
