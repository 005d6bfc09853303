"""Result files read back in the types that were written, with Arrow, and with Spark by what the footer says."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.runtime.results import parquet_writer

KEY = b"org.apache.spark.sql.parquet.row.metadata"
TIME = datetime(2026, 1, 2, 3, 4, 5, 678901)
# Every type that a job or a query on Spark can have, a value of it, and what Spark calls it.
TYPES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.int8(), -1, "byte"),
    (pa.int16(), -1, "short"),
    (pa.int32(), -1, "integer"),
    (pa.int64(), -1, "long"),
    (pa.float32(), 0.5, "float"),
    (pa.float64(), 0.1, "double"),
    (pa.decimal128(38, 4), Decimal("0.0001"), "decimal(38,4)"),
    (pa.string(), "ä", "string"),
    (pa.binary(), b"\x00\xff", "binary"),
    (pa.bool_(), True, "boolean"),
    (pa.date32(), date(2026, 1, 2), "date"),
    (pa.timestamp("us", "UTC"), TIME.replace(tzinfo=UTC), "timestamp"),
    (pa.timestamp("us"), TIME, "timestamp_ntz"),
    (pa.duration("us"), timedelta(microseconds=-1), "interval day to second"),
    (pa.null(), None, "void"),
]
TYPES += [
    (pa.list_(kind), [value, None], {"type": "array", "elementType": name, "containsNull": True})
    for kind, value, name in TYPES
] + [(pa.list_(pa.float32(), 2), [0.5, 1.5], {"type": "array", "elementType": "float", "containsNull": True})]


def written(table: pa.Table) -> pq.ParquetFile:
    sink = io.BytesIO()
    with parquet_writer(sink, table.schema) as writer:
        writer.write_table(table)
    return pq.ParquetFile(io.BytesIO(sink.getvalue()))


@pytest.mark.parametrize(("kind", "value", "name"), TYPES, ids=[str(kind) for kind, _, _ in TYPES])
def test_a_type_reads_back_as_itself(kind: pa.DataType, value: Any, name: Any) -> None:
    table = pa.table({"v": pa.array([value, None], kind), "gap": pa.array([timedelta(1), None], pa.duration("us"))})
    file = written(table)
    assert file.schema_arrow.equals(table.schema)
    assert file.read().to_pylist() == table.to_pylist()
    row = json.loads(file.metadata.metadata[KEY])
    gap = {"name": "gap", "type": "interval day to second", "nullable": True, "metadata": {}}
    assert row == {"type": "struct", "fields": [{**gap, "name": "v", "type": name}, gap]}


def test_a_file_without_hidden_types_says_nothing_to_spark() -> None:
    file = written(pa.table({"v": [1], "s": [[{"x": "y"}]]}))
    assert KEY not in (file.metadata.metadata or {})


def test_types_in_structs_and_maps_are_told_too() -> None:
    kind = pa.struct([pa.field("gap", pa.duration("us")), pa.field("m", pa.map_(pa.string(), pa.int32()))])
    file = written(pa.table({"v": pa.array([None], kind)}))
    (field,) = json.loads(file.metadata.metadata[KEY])["fields"]
    assert [(part["name"], part["type"]) for part in field["type"]["fields"]] == [
        ("gap", "interval day to second"),
        ("m", {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}),
    ]
