"""Columns on Spark: none changes its values or its type without a word, from the source to what reads the results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.config import SourceConfig
from watersmeet.errors import InputError, JobError
from watersmeet.lang.types import parse_schema

pytestmark = pytest.mark.spark

EVERY_TYPE = """
    1L AS k, 2Y AS tiny, 3S AS small, 4 AS whole, 0.5F AS single, 0.1D AS double, 78.25BD AS exact, 'a' AS text,
    x'00ff' AS bytes, true AS yes, DATE '2026-01-02' AS day, TIMESTAMP '2026-01-02 03:04:05.678901 UTC' AS at,
    TIMESTAMP_NTZ '2026-03-08 02:30:00.123456' AS wall, INTERVAL '-1 02:03:04.5' DAY TO SECOND AS span,
    array(INTERVAL '1 00:00:00' DAY TO SECOND, NULL) AS spans, array(1, NULL) AS list, map('a', 1.5BD) AS map,
    named_struct('x', TIMESTAMP_NTZ '2026-03-08 02:30:00', 'y', array(named_struct('z', 1Y))) AS struct,
    TIMESTAMP '2026-01-02 03:04:05 UTC' AS ts
"""


@pytest.fixture
def far_zone(spark: Any) -> Iterator[None]:
    """The session shows instants in a zone with gaps, which must not matter."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def streaming(spark: Any, frame: Any, folder: Path) -> Any:
    """The rows of a frame as a stream."""
    frame.write.parquet(str(folder))
    return spark.readStream.schema(frame.schema).parquet(str(folder))


@pytest.mark.usefixtures("far_zone")
def test_every_type_reads_back_as_itself(spark: Any, tmp_path: Path) -> None:
    """Was: spans of time were BIGINT in the parquet files."""
    one = spark.sql(f"SELECT {EVERY_TYPE}")
    frame = streaming(spark, one, tmp_path / "in")
    names = [name for name in one.columns if name not in ("k", "ts")]
    read = ", ".join(f"A.{name}" for name in names)
    text = f"SELECT {read}, A.ts - B.ts AS gap, NULL AS nothing FROM A, B WHERE A.k = B.k"
    query = wm.sql(text, A=frame, B=frame)
    taken: list[Any] = []
    where = tmp_path / "ck"
    run = query.writeStream.option("checkpointLocation", str(where)).option("path", str(tmp_path / "out"))
    run.trigger(availableNow=True).start().awaitTermination()
    function = query.writeStream.foreachBatch(lambda rows, _: taken.append((rows.dtypes, rows.collect())))
    function = function.option("checkpointLocation", str(tmp_path / "ck2"))
    function.trigger(availableNow=True).start().awaitTermination()

    expected = one.selectExpr(*names, "CAST(INTERVAL '0' DAY AS INTERVAL DAY TO SECOND) AS gap", "NULL AS nothing")
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.dtypes == expected.dtypes
    assert found.collect() == expected.collect()
    assert [types for types, _ in taken] == [expected.dtypes]
    assert taken[0][1] == expected.collect()
    ours = pq.read_table(tmp_path / "out")
    assert ours.schema.equals(query.schema)
    assert ours.column("span").to_pylist() == [timedelta(days=-1, hours=-2, minutes=-3, seconds=-4.5)]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("parse_json('1')", "VARIANT"),
        ("array(parse_json('1'))", "ARRAY<VARIANT>"),
        ("INTERVAL '1' MONTH", "INTERVAL MONTH"),
    ],
)
def test_types_that_would_come_out_as_others_are_refused(spark: Any, value: str, kind: str) -> None:
    """Was: a variant came out as a struct of two binary columns."""
    frame = spark.readStream.format("rate").load().selectExpr("value AS k", "timestamp AS ts", f"{value} AS v")
    with pytest.raises(JobError) as caught:
        wm.sql("SELECT A.k FROM A, B WHERE A.k = B.k", A=frame, B=frame)
    assert caught.value.primary == f'column "v" of stream "A" is of type {kind}, which is not supported'
    assert 'A.drop("v")' in str(caught.value.hint)
    wm.sql("SELECT A.k FROM A, B WHERE A.k = B.k", A=frame.drop("v"), B=frame.drop("v"))


COLLATED = [
    "SELECT A.n FROM A, B WHERE A.k = B.k",
    "SELECT A.n FROM A, B WHERE A.n = B.n AND A.k = 'x'",
    "SELECT A.n FROM A, B WHERE A.n = B.n AND A.k < B.k",
    "SELECT A.n, upper(A.k) AS k FROM A, B WHERE A.n = B.n",
    "SELECT A.n, A.k LIKE 'a%' AS a FROM A, B WHERE A.n = B.n",
    "SELECT A.k, COUNT(*) AS n FROM A [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY A.k",
    "SELECT A.n, MIN(A.k) AS k FROM A [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY A.n",
]


@pytest.mark.parametrize("text", COLLATED)
def test_collations_are_refused_where_they_matter(spark: Any, text: str) -> None:
    """Was: keys that are equal in their collation, as 'a' and 'A' are, gave no rows."""
    rate = spark.readStream.format("rate").load()
    frame = rate.selectExpr("value AS n", "timestamp AS ts", "collate('a', 'UTF8_LCASE') AS k")
    streams = {name: frame for name in "AB" if f"{name} " in text or f"{name}," in text}
    with pytest.raises(JobError) as caught:
        wm.sql(text, streams=streams)
    assert caught.value.primary.endswith("has the collation UTF8_LCASE")
    assert 'F.collate("k", "UTF8_BINARY")' in str(caught.value.hint)
    plain = frame.selectExpr("n", "ts", "collate(k, 'UTF8_BINARY') AS k")
    wm.sql(text, streams=dict.fromkeys(streams, plain))


def test_columns_with_a_collation_may_be_selected(spark: Any) -> None:
    rate = spark.readStream.format("rate").load()
    frame = rate.selectExpr("value AS n", "timestamp AS ts", "collate('a', 'UTF8_LCASE') AS k")
    wm.sql("SELECT A.k, B.k AS other FROM A, B WHERE A.n = B.n", A=frame, B=frame)


def declared(spark: Any, value: str, kind: str) -> Any:
    """A column of a source with types of its own, declared as `kind`."""
    from watersmeet.runtime.spark.declared_columns import as_declared

    source = SourceConfig("A", "rate", parse_schema(f"v {kind}"))
    frame = spark.sql(f"SELECT {value} AS v")
    return frame.select(as_declared(frame, source.schema[0], source))


LOST = [
    ("78.25BD", "BIGINT", "DECIMAL(4, 2)"),
    ("5L", "INT", "BIGINT"),
    ("0.1D", "FLOAT", "DOUBLE"),
    ("5L", "DOUBLE", "BIGINT"),
    ("'5'", "BIGINT", "STRING"),
    ("5", "STRING", "INT"),
    ("5L", "TIMESTAMP", "BIGINT"),
    ("TIMESTAMP '2026-01-02 00:00:00'", "DATE", "TIMESTAMP"),
    ("array(1L)", "ARRAY<INT>", "ARRAY<BIGINT>"),
    ("array(TIMESTAMP_NTZ '2026-01-02 00:00:00')", "ARRAY<TIMESTAMP>", "ARRAY<TIMESTAMP_NTZ>"),
    ("INTERVAL '1' DAY", "BIGINT", "INTERVAL"),
    ("INTERVAL '1' MONTH", "BIGINT", "INTERVAL MONTH"),
]


@pytest.mark.parametrize(("value", "kind", "found"), LOST, ids=[f"{found} as {kind}" for _, kind, found in LOST])
def test_sources_whose_values_would_change_are_refused(spark: Any, value: str, kind: str, found: str) -> None:
    """Was: cast, so that 78.25 became 78."""
    with pytest.raises(InputError) as caught:
        declared(spark, value, kind)
    assert caught.value.primary == 'column "v" of stream "A" does not fit its schema in the rate source'
    assert str(caught.value.detail).startswith(f"The schema says {kind} and the data is {found}")


WALL = datetime(2026, 3, 8, 2, 30, 0, 123456)  # an hour that New York does not have
KEPT = [
    ("5", "BIGINT", 5),
    ("-9223372036854775808L", "DECIMAL(20, 1)", Decimal(-(2**63))),
    ("78.25BD", "DECIMAL(10, 4)", Decimal("78.2500")),
    ("5", "DOUBLE", 5.0),
    ("0.5F", "DOUBLE", 0.5),
    ("DATE '2026-03-08'", "TIMESTAMP_NTZ", datetime(2026, 3, 8)),
    ("DATE '2026-03-08'", "TIMESTAMP", datetime(2026, 3, 8, tzinfo=UTC)),
    (f"TIMESTAMP_NTZ '{WALL}'", "TIMESTAMP", WALL.replace(tzinfo=UTC)),
    (f"TIMESTAMP '{WALL} UTC'", "TIMESTAMP_NTZ", WALL),
    ("array(1Y)", "ARRAY<BIGINT>", [1]),
    ("x'c3a4'", "STRING", "ä"),
    ("collate('A', 'UTF8_LCASE')", "STRING", "A"),
]


@pytest.mark.usefixtures("far_zone")
@pytest.mark.parametrize(("value", "kind", "expected"), KEPT, ids=[f"{value} as {kind}" for value, kind, _ in KEPT])
def test_sources_whose_values_stay_are_read(spark: Any, value: str, kind: str, expected: Any) -> None:
    made = declared(spark, value, kind).toArrow()
    column = made.column("v")
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp("us", "UTC"))
    assert column.to_pylist() == [expected]


def test_bytes_that_are_no_text_end_the_run(spark: Any) -> None:
    from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate

    with pytest.raises(SPARK_ERRORS, match="INVALID_UTF8_STRING") as caught:
        declared(spark, "x'ff61'", "STRING").collect()
    assert isinstance(translate(caught.value), InputError)


@pytest.mark.parametrize(("kind", "last"), [("SMALLINT", 32_767), ("TINYINT", 127)])
def test_integers_of_files_that_come_later_are_not_cut(spark: Any, tmp_path: Path, kind: str, last: int) -> None:
    """Was: Spark's reader took the last bits of a wider integer, so that 70,000 became 4,464."""
    from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate
    from watersmeet.runtime.spark.read_streams import read_stream

    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"v": pa.array([-last - 1, None, last], pa.int32())}), folder / "0.parquet")
    frame = read_stream(spark, SourceConfig("A", "parquet", parse_schema(f"v {kind}"), str(folder)))
    assert frame.dtypes == [("v", kind.lower())]
    taken: list[Any] = []
    query = frame.writeStream.foreachBatch(lambda rows, _: taken.extend(row.v for row in rows.collect()))
    query = query.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
    query.start().awaitTermination()
    assert taken == [-last - 1, None, last]
    pq.write_table(pa.table({"v": pa.array([last + 1], pa.int32())}), folder / "1.parquet")
    with pytest.raises(SPARK_ERRORS) as caught:
        query.start().awaitTermination()
    error = translate(caught.value)
    assert isinstance(error, InputError)
    assert f'column "v" of stream "A" has a value that does not fit its type, {kind}: {last + 1}' in str(error.detail)


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)])
def test_integer_event_times_mean_the_same_in_every_unit(
    spark: Any, tmp_path: Path, unit: str, per_second: int
) -> None:
    """A row that is ahead of the other stream is found by the same times, too."""
    start, streams = 1_700_000_000, {}
    for name, seconds in {"A": (0, 5, 30), "B": (9, 15, 40, 4_000)}.items():
        values = ", ".join(f"(1, {(start + at) * per_second}L)" for at in seconds)
        streams[name] = streaming(spark, spark.sql(f"SELECT * FROM VALUES {values} AS v(k, ts)"), tmp_path / name)
    text = "SELECT A.ts FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k"
    events: list[Any] = []
    query = wm.sql(text, **streams, time_unit=unit, max_ahead="10 minutes")
    run = query.writeStream.option("checkpointLocation", str(tmp_path / "ck")).option("path", str(tmp_path / "out"))
    run.report(events.append).trigger(availableNow=True).start().awaitTermination()
    found = pq.read_table(tmp_path / "out").column("ts").to_pylist()
    assert sorted(found) == [(start + at) * per_second for at in (0, 5)]
    assert events[-1]["rows_ahead"] == 1
    assert not [event for event in events if event["event"] == "note" and "time_unit" in event["text"]]
