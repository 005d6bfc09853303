"""Types as the engine uses them: Arrow's other layouts of the same values are made plain, in nested types, too."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.model.conform import conform
from watersmeet.model.schema import normal_schema, normal_type

TEXT, BYTES = ["a", "", None, "longer than the twelve bytes inside a view"], [b"a", b"", None, b"\x00" * 40]
CASES: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array(TEXT, pa.string_view()), pa.string()),
    (pa.array(BYTES, pa.binary_view()), pa.binary()),
    (pa.array(TEXT, pa.string()).dictionary_encode(), pa.string()),
    (pa.array([TEXT, [], None, TEXT], pa.list_(pa.string_view())), pa.list_(pa.string())),
    (pa.array([BYTES, [], None, BYTES], pa.large_list(pa.binary_view())), pa.large_list(pa.binary())),
    (pa.array([TEXT[:2]] * 4, pa.list_(pa.string_view(), 2)), pa.list_(pa.string(), 2)),
    (
        pa.array([{"x": [t]} for t in TEXT], pa.struct([("x", pa.list_(pa.string_view()))])),
        pa.struct([("x", pa.list_(pa.string()))]),
    ),
    (
        pa.array([[("k", b)] for b in BYTES], pa.map_(pa.string_view(), pa.binary_view())),
        pa.map_(pa.string(), pa.binary()),
    ),
    (pa.RunEndEncodedArray.from_arrays([1, 4], ["a", None]), pa.string()),
    (pa.array([Decimal("1.50"), None, Decimal("-2"), Decimal(0)], pa.decimal32(5, 2)), pa.decimal128(5, 2)),
    (pa.array([Decimal("1.50"), None, Decimal("-2"), Decimal(0)], pa.decimal64(10, 2)), pa.decimal128(10, 2)),
    (pa.array([Decimal("1.50"), None, Decimal("-2"), Decimal(0)], pa.decimal256(38, 2)), pa.decimal128(38, 2)),
    (pa.array([Decimal(100), None, Decimal(-1200), Decimal(0)], pa.decimal128(5, -2)), pa.decimal128(7, 0)),
]
IDS = [str(array.type) for array, _ in CASES]


@pytest.mark.parametrize(("array", "plain"), CASES, ids=IDS)
def test_every_layout_becomes_the_plain_one(array: pa.Array, plain: pa.DataType) -> None:
    assert normal_type(array.type) == plain
    batch = pa.record_batch({"v": array})
    for piece in (batch, batch.slice(1, 2), batch.slice(4)):
        made = conform(piece, normal_schema(batch.schema), "A")
        assert made.column("v").type == plain
        assert made.column("v").to_pylist() == piece.column("v").to_pylist()


@pytest.mark.parametrize("kind", [pa.decimal256(40, 2), pa.binary(4), pa.list_view(pa.int64()), pa.uuid(), pa.bool_()])
def test_what_the_engine_can_handle_stays(kind: pa.DataType) -> None:
    assert normal_type(kind) == kind


@pytest.mark.parametrize(("array", "plain"), CASES, ids=IDS)
def test_such_columns_are_joined(array: pa.Array, plain: pa.DataType) -> None:
    table = pa.table({"k": [1, 2, 3, 4], "v": array, "ts": [0, 1, 2, 3]})
    query = wm.sql("SELECT A.k, A.v, B.v AS b FROM A, B WHERE A.k = B.k", A=table, B=table)
    for memory in (None, "1KB"):
        answer = query.run(batch_rows=2, memory=memory)
        assert answer.schema.types == [pa.int64(), plain, plain]
        rows = sorted(answer.to_pylist(), key=lambda row: row["k"])
        assert [row["v"] for row in rows] == [row["b"] for row in rows] == array.to_pylist()


@pytest.mark.parametrize("kind", [pa.binary_view(), pa.string_view(), pa.binary(1), pa.decimal64(4, 1)])
def test_such_columns_are_keys(kind: pa.DataType) -> None:
    values: list[Any] = [Decimal(n) if pa.types.is_decimal(kind) else str(n) for n in (1, 2, 2, 3)]
    if not pa.types.is_decimal(kind) and kind != pa.string_view():
        values = [value.encode() for value in values]
    table = pa.table({"v": pa.array(values, kind), "ts": [0, 1, 2, 3]})
    assert wm.sql("SELECT A.ts FROM A, B WHERE A.v = B.v", A=table, B=table).run(batch_rows=3).num_rows == 6
