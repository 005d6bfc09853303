"""Batches made to fit the schema of their stream: no value is changed, and types decide, not values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from watersmeet.errors import InputError
from watersmeet.model.conform import conform
from watersmeet.model.keeps_values import keeps_values

DAY, TIME = date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 678901)
UTC_US, PLAIN_US = pa.timestamp("us", "UTC"), pa.timestamp("us")
KEPT: list[tuple[pa.Array, pa.DataType, Any]] = [
    (pa.array([100], pa.int8()), pa.int64(), 100),
    (pa.array([255], pa.uint8()), pa.int16(), 255),
    (pa.array([2**32 - 1], pa.uint32()), pa.int64(), 2**32 - 1),
    (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), Decimal(2**64 - 1)),
    (pa.array([-(2**63)], pa.int64()), pa.decimal128(21, 2), Decimal(-(2**63))),
    (pa.array([-128], pa.int8()), pa.decimal128(3, 0), Decimal(-128)),
    (pa.array([-(2**31)], pa.int32()), pa.float64(), -(2.0**31)),
    (pa.array([-(2**15)], pa.int16()), pa.float32(), -(2.0**15)),
    (pa.array([0.1], pa.float32()), pa.float64(), pa.scalar(0.1, pa.float32()).as_py()),
    (pa.array([Decimal("99.99")]), pa.decimal128(6, 3), Decimal("99.990")),
    (pa.array([Decimal(99)], pa.decimal128(2, 0)), pa.int8(), 99),
    (pa.array([Decimal(-(10**18) + 1)], pa.decimal128(18, 0)), pa.int64(), -(10**18) + 1),
    (pa.array([DAY]), UTC_US, datetime(2026, 1, 2, tzinfo=UTC)),
    (pa.array([DAY]), PLAIN_US, datetime(2026, 1, 2)),
    (pa.array([TIME], PLAIN_US), UTC_US, TIME.replace(tzinfo=UTC)),
    (pa.array([TIME], pa.timestamp("ns", "Europe/Paris")), UTC_US, TIME.replace(tzinfo=UTC)),
    (pa.array([[1]], pa.list_(pa.int8())), pa.list_(pa.int64()), [1]),
    (pa.array([b"ab"], pa.binary(2)), pa.binary(), b"ab"),
    (pa.nulls(1), pa.int64(), None),
]
LOST: list[tuple[pa.DataType, pa.DataType]] = [
    (pa.decimal128(10, 2), pa.int64()),
    (pa.decimal128(19, 0), pa.int64()),
    (pa.decimal128(10, 2), pa.float64()),
    (pa.decimal128(10, 2), pa.decimal128(10, 1)),
    (pa.decimal128(10, 2), pa.decimal128(10, 3)),
    (pa.int64(), pa.int32()),
    (pa.int64(), pa.float64()),
    (pa.int32(), pa.float32()),
    (pa.uint32(), pa.float64()),
    (pa.uint8(), pa.int8()),
    (pa.int64(), pa.decimal128(18, 0)),
    (pa.int64(), pa.bool_()),
    (pa.bool_(), pa.int64()),
    (pa.int64(), UTC_US),
    (UTC_US, pa.int64()),
    (UTC_US, pa.date32()),
    (pa.duration("us"), pa.int64()),
    (pa.float64(), pa.float32()),
    (pa.float32(), pa.decimal128(38, 10)),
    (pa.binary(), pa.string()),
    (pa.binary(), pa.int64()),
    (pa.string(), pa.int64()),
    (pa.int64(), pa.string()),
    (pa.list_(pa.float64()), pa.list_(pa.float32())),
    (pa.list_(pa.int64()), pa.int64()),
]


@pytest.mark.parametrize(("array", "kind", "value"), KEPT, ids=[f"{array.type} to {kind}" for array, kind, _ in KEPT])
def test_types_that_have_every_value_take_it(array: pa.Array, kind: pa.DataType, value: Any) -> None:
    made = conform(pa.record_batch({"v": array}), pa.schema([("v", kind)]), "A")
    assert made.column("v").type == kind
    assert made.column("v").to_pylist() == [value]


@pytest.mark.parametrize(("found", "kind"), LOST, ids=[f"{found} to {kind}" for found, kind in LOST])
def test_types_that_have_not_every_value_are_refused_before_there_is_one(found: pa.DataType, kind: pa.DataType) -> None:
    """Was: DOUBLE and DECIMAL were rounded to fewer digits, and others went by what the values happened to be."""
    assert not keeps_values(found, kind)
    with pytest.raises(InputError, match='column "v" of stream "A" does not fit its schema in its data'):
        conform(pa.RecordBatch.from_pylist([], schema=pa.schema([("v", found)])), pa.schema([("v", kind)]), "A")


def test_the_error_names_both_types_and_what_to_do() -> None:
    empty = pa.RecordBatch.from_pylist([], schema=pa.schema([("v", pa.decimal128(10, 2))]))
    with pytest.raises(InputError) as caught:
        conform(empty, pa.schema([("v", pa.int64())]), "A", '"1.parquet"')
    assert caught.value.render().splitlines() == [
        'error: column "v" of stream "A" does not fit its schema in "1.parquet"',
        "detail: The schema says BIGINT and the data is DECIMAL(10, 2), whose values would be changed or lost.",
        "hint: Declare the column as DECIMAL(10, 2), and convert it in the query: CAST(v AS BIGINT).",
    ]


def test_nanoseconds_are_checked_value_by_value() -> None:
    batch = pa.record_batch({"v": pa.array([1001], pa.timestamp("ns"))})
    with pytest.raises(InputError, match="does not fit its schema"):
        conform(batch, pa.schema([("v", PLAIN_US)]), "A")
