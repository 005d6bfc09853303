"""The bytes of each row: exact for text, and for nested values no less than their text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.kernel.widths import widths

TEXT = ["ab", "", None, "äöü", "x" * 1000]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()], ids=str)
def test_text_is_as_wide_as_its_bytes(kind: pa.DataType) -> None:
    column = pa.array(TEXT, pa.string()).cast(kind)
    for start in range(6):
        found = widths(column.slice(start))
        assert found is not None and found.tolist() == [2, 0, 0, 6, 1000][start:]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.float64(), pa.bool_(), pa.timestamp("us"), pa.null(), pa.binary(3)], ids=str
)
def test_values_of_one_width_have_none(kind: pa.DataType) -> None:
    assert widths(pa.nulls(3, kind)) is None


@pytest.mark.parametrize("make", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 3)])
def test_lists_of_numbers_are_as_wide_as_these(make: Any) -> None:
    column = pa.array([[1, 2, 3], None, [4, 5, 6]], make(pa.int16()))
    for start in range(3):
        found = widths(column.slice(start))
        empty = 6 if pa.types.is_fixed_size_list(column.type) else 0
        assert found is not None and found.tolist() == [6, empty, 6][start:]


def text_in(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return sum(map(text_in, value.values()))
    return sum(map(text_in, value)) if isinstance(value, (list, tuple)) else 0


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(pa.string()), [TEXT, [], None, ["abc"], TEXT * 2]),
        (pa.large_list(pa.string()), [TEXT, [], None, ["abc"], TEXT * 2]),
        (pa.list_(pa.list_(pa.string())), [[TEXT, []], [], None, [["abc"], None], [TEXT] * 3]),
        (pa.list_(pa.string(), 2), [["a", "b"], None, ["x" * 500, None], ["", ""], ["a", "c"]]),
        (pa.struct([("a", pa.string()), ("b", pa.int64())]), [{"a": each, "b": 1} for each in TEXT]),
        (pa.map_(pa.string(), pa.string()), [[("k", each)] * 3 for each in TEXT]),
        (pa.list_(pa.struct([("a", pa.string())])), [[{"a": each}] * 2 for each in TEXT]),
    ],
    ids=str,
)
def test_nested_values_are_as_wide_as_their_text_and_little_more(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.array(values, kind)
    for start in range(6):
        piece = column.slice(start, 3)
        found = widths(piece)
        assert found is not None and len(found) == len(piece)
        text = np.array([text_in(value) for value in piece.to_pylist()], dtype=np.int64)
        assert (found >= text).all() and (found <= text + 1000).all()


def test_lists_of_numbers_have_a_width() -> None:
    found = widths(pa.array([[1] * 1000, [], None, [2]]))
    assert found is not None and found[0] >= 8000 and found[1] == found[2] == 0


def test_a_view_of_a_list_is_taken_for_the_average() -> None:
    found = widths(pa.array([[1, 2], [3]], pa.list_view(pa.int64())))
    assert found is not None and found.sum() >= 24
