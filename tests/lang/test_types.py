"""SQL type names to Arrow and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.errors import JobError
from watersmeet.lang.types import parse_schema
from watersmeet.model.sql_names import sql_type


@pytest.mark.parametrize(
    ("written", "arrow"),
    [
        ("TINYINT", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("INT", pa.int32()),
        ("integer", pa.int32()),
        ("BIGINT", pa.int64()),
        ("LONG", pa.int64()),
        ("FLOAT", pa.float32()),
        ("double", pa.float64()),
        ("STRING", pa.string()),
        ("VARCHAR(10)", pa.string()),
        ("TEXT", pa.string()),
        ("BOOLEAN", pa.bool_()),
        ("DATE", pa.date32()),
        ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP_NTZ", pa.timestamp("us")),
        ("TIMESTAMP(6)", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP_NTZ(6)", pa.timestamp("us")),
        ("TIMESTAMP_LTZ", pa.timestamp("us", tz="UTC")),
        ("CHAR(3)", pa.string()),
        ("DECIMAL(10,2)", pa.decimal128(10, 2)),
        ("DECIMAL(7)", pa.decimal128(7, 0)),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("BINARY", pa.binary()),
        ("ARRAY<FLOAT>", pa.list_(pa.float32())),
        ("array<decimal(10, 2)>", pa.list_(pa.decimal128(10, 2))),
        ("STRING[]", pa.list_(pa.string())),
        ("FLOAT[64]", pa.list_(pa.float32(), 64)),
        ("tinyint[3]", pa.list_(pa.int8(), 3)),
    ],
)
def test_every_type_name_has_its_arrow_type(written: str, arrow: pa.DataType) -> None:
    assert parse_schema(f"a {written}, b INT").field("a").type == arrow


@pytest.mark.parametrize(
    "written",
    [
        *("TIMESTAMP_NTZ(9)", "TIMESTAMP(9)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(0)", "timestamp_ntz ( 9 )"),
        *("FLOAT(53)", "DOUBLE(10, 2)", "INT(5)", "BIGINT(20)", "DATE(3)", "BOOLEAN(1)"),
        *("ARRAY<TIMESTAMP_NTZ(9)>", "TIMESTAMP_NTZ(9)[3]", "DECIMAL(39, 2)", "DECIMAL(5, 6)"),
    ],
)
def test_a_precision_that_would_be_lost_is_refused(written: str) -> None:
    with pytest.raises(JobError, match="unknown type") as caught:
        parse_schema(f"a {written}, b INT")
    assert "(6) is the only precision" in str(caught.value)


def test_names_order_constraints_and_colons_are_read() -> None:
    schema = parse_schema("k BIGINT NOT NULL, v: DECIMAL(10, 2) COMMENT 'x', `odd one` STRING,\n ts TIMESTAMP")
    assert schema.names == ["k", "v", "odd one", "ts"]
    assert schema.field("v").type == pa.decimal128(10, 2)


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.bool_()),
        *(pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.decimal128(12, 3), pa.binary()),
        *(pa.list_(pa.float32()), pa.list_(pa.float64(), 8), pa.list_(pa.timestamp("us", tz="UTC"))),
    ],
)
def test_the_name_of_a_type_reads_back_as_that_type(kind: pa.DataType) -> None:
    assert parse_schema(f"a {sql_type(kind)}").field("a").type == kind


def test_layouts_do_not_show_in_names() -> None:
    assert sql_type(pa.large_string()) == sql_type(pa.dictionary(pa.int8(), pa.string())) == "STRING"
    assert sql_type(pa.duration("us")) == "INTERVAL"


def test_an_unknown_type_names_column_stream_and_neighbour() -> None:
    with pytest.raises(JobError) as caught:
        parse_schema("k BIGNT", 'schema of stream "A"')
    assert caught.value.primary == 'column "k" of schema of stream "A" has unknown type "BIGNT"'
    assert caught.value.detail is not None and "BIGINT" in caught.value.detail
    assert caught.value.hint == 'Did you mean "BIGINT"?'


@pytest.mark.parametrize(
    "written",
    ["ARRAY<ARRAY<INT>>", "FLOAT[0]", "ARRAY<INT>(3)", "STRUCT<a: INT, b: INT>", "DECIMAL(50, 2)", "DECIMAL(3, 5)"],
)
def test_a_type_out_of_reach_is_refused_as_written(written: str) -> None:
    with pytest.raises(JobError, match="unknown type") as caught:
        parse_schema(f"k INT, x {written}")
    assert f'"{written}"' in caught.value.primary


@pytest.mark.parametrize("text", ["", "k", "k BIGINT,", "k BIGINT,, v INT", "k INT v INT", "'k INT", "k NOT NULL"])
def test_malformed_text_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(JobError, match="cannot be read") as caught:
        parse_schema(text, 'schema of stream "A"')
    assert caught.value.primary.startswith('schema of stream "A"')
    assert caught.value.hint is not None


def test_a_column_twice_is_refused() -> None:
    with pytest.raises(JobError, match='has column "k" twice'):
        parse_schema("k INT, v INT, k BIGINT")
