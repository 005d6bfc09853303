"""CSV and JSON files as the local runtime reads them; `tests/conformance/test_text_files.py` compares with Spark."""

from __future__ import annotations

import csv
import gzip
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import InputError, JobError
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.runtime import file_formats
from watersmeet.runtime.local.sources import FileSource


def read(folder: Path, form: str, schema: str, text: str, **options: Any) -> list[dict[str, Any]]:
    (folder / f"a.{form}").write_bytes(text.encode())
    source = FileSource(Stream("A", parse_schema(f"{schema}, ts BIGINT")), str(folder), form, options)
    pulled = source.pull(())
    assert pulled is not None
    return [row for batch in pulled.rows for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-01 10:00:00", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("2024-01-01T10:00:00.000001", datetime(2024, 1, 1, 10, 0, 0, 1, tzinfo=UTC)),
        ("2024-01-01T10:00:00Z", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("2024-01-01 10:00:00.5+02:00", datetime(2024, 1, 1, 8, 0, 0, 500_000, tzinfo=UTC)),
        ("2024-01-01", datetime(2024, 1, 1, tzinfo=UTC)),
        ("", None),
    ],
    ids=["no zone", "no zone, microseconds", "UTC", "an offset", "a day", "nothing"],
)
def test_instants_in_csv(tmp_path: Path, text: str, expected: datetime | None) -> None:
    rows = read(tmp_path, "csv", "at TIMESTAMP", f"at,ts\n{text},1\n2024-05-05T00:00:00Z,2\n2024-05-05 00:00:00,3\n")
    assert [row["at"] for row in rows] == [expected, *[datetime(2024, 5, 5, tzinfo=UTC)] * 2]


def test_dates_in_json(tmp_path: Path) -> None:
    rows = read(tmp_path, "json", "day DATE", '{"day": "2024-02-29", "ts": 1}\n{"ts": 2}\n')
    assert [row["day"] for row in rows] == [date(2024, 2, 29), None]


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("text", ["", "\n", "\n\n"])
def test_an_empty_file_has_no_rows(tmp_path: Path, form: str, text: str) -> None:
    assert read(tmp_path, form, "day DATE", text) == []


@pytest.mark.parametrize(
    ("form", "text"), [("csv", "at,ts\nsoon,1\n"), ("json", '{"day": "soon", "ts": 1}\n')], ids=["csv", "json"]
)
def test_text_that_says_no_time_is_refused(tmp_path: Path, form: str, text: str) -> None:
    with pytest.raises(InputError, match=f'cannot read "a.{form}"'):
        read(tmp_path, form, "at TIMESTAMP" if form == "csv" else "day DATE", text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('"a ""b"", c",1\n', ['a "b", c']),
        ('"a\nb",1\n', ["a\nb"]),
        ('"a\r\nb",1\r\nc,2\r\n', ["a\nb", "c"]),
        ('x,0\n"a\r\nb",1\n', ["x", "a\r\nb"]),
        ('a"b,1\n a ,2\n\\,3\n', ['a"b', " a ", "\\"]),
        ('"",1\n,2\n', [None, None]),
        ("\ufeffa,1\r\rb,2", ["a", "b"]),
        ("a,1\n\n\nb,2\n", ["a", "b"]),
    ],
    ids=["quotes", "line break", "Windows", "mixed", "no quotes", "empty", "mark and old Mac", "empty lines"],
)
def test_the_frame_of_csv(tmp_path: Path, text: str, names: list[str | None]) -> None:
    assert [row["name"] for row in read(tmp_path, "csv", "name STRING", text)] == names


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('a,1\n"a"b,1\n', "line 2: a quote is not closed at the end of a value, or not at all"),
        ('a,1\nb,2\n"a,1\n', "line 3: a quote is not closed at the end of a value, or not at all"),
        ("a,1\nb,x\n", 'row 2, column "ts": "x" is not read as BIGINT'),
        ("a,1\nb,2,3\n", "Expected 2 columns, got 3"),
        ("a,1\n  \n", "Expected 2 columns, got 1"),
    ],
)
def test_csv_that_does_not_fit(tmp_path: Path, text: str, detail: str) -> None:
    with pytest.raises(InputError, match=r'cannot read "a.csv" of stream "A"') as caught:
        read(tmp_path, "csv", "name STRING", text)
    assert detail in str(caught.value.detail)


def test_a_csv_header_that_differs(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, "csv", "name STRING", "nom,ts\na,1\n", header=True)
    assert "its header is nom,ts, the columns of the stream are name,ts" in str(caught.value.detail)


@pytest.mark.parametrize("separator", ["||", "", '"', "é"])
def test_a_separator_that_cannot_be(tmp_path: Path, separator: str) -> None:
    with pytest.raises(JobError, match="the separator of a CSV stream"):
        read(tmp_path, "csv", "name STRING", "", sep=separator)


def test_a_csv_row_larger_than_a_block(tmp_path: Path) -> None:
    long = "x" * 3_000_000
    assert [row["name"] for row in read(tmp_path, "csv", "name STRING", f"{long},1\na,2\n")] == [long, "a"]


def test_packed_files(tmp_path: Path) -> None:
    for form, text in (("csv", "ts,name\n1,a\n"), ("json", '{"name": "a", "ts": 1}\n')):
        (tmp_path / f"x.{form}.gz").write_bytes(gzip.compress(text.encode()))
        source = FileSource(
            Stream("A", parse_schema("name STRING, ts BIGINT")), str(tmp_path / f"x.{form}.gz"), form, {}
        )
        batch = source.pull(())
        assert batch is not None
        assert [part.to_pylist() for part in batch.rows] == [[{"name": "a", "ts": 1}]]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"name": "x", "name": "y", "ts": 1}\n', ["y"]),
        ('[{"name": "x", "ts": 1}, {"ts": 2}]\n[]\n', ["x", None]),
        ('{"name": 1.50, "ts": 1}\n{"name": true, "ts": 2}\n', ["1.50", "true"]),
        ('\ufeff{"name": "x", "more": {"a": [null]}, "ts": 1}\r\n\r\n{"name": null, "ts": 2}', ["x", None]),
        ('{"name": "} null", "ts": 1}\n', ["} null"]),
    ],
    ids=["twice", "lists", "not text", "frame", "looks odd"],
)
def test_the_frame_of_json(tmp_path: Path, text: str, names: list[str | None]) -> None:
    assert [row["name"] for row in read(tmp_path, "json", "name STRING", text)] == names


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('{"ts": 1}\nnull\n', "line 2: neither an object nor a list of objects"),
        ('{"ts": 1} null\n', "line 1, column 11: Extra data"),
        ('{"ts": 1}\n{"ts": 2} {"ts": 3}\n', "line 2, column 11: Extra data"),
        ('{"ts": 1,\n"name": "x"}\n', "line 1, column 10: Expecting property name"),
        ('\n{"ts": 1.5}\n', 'line 2, column "ts": "1.5" is not read as BIGINT'),
        ('{"ts": "1"}\n', 'line 1, column "ts": "1" is not read as BIGINT'),
        ('{"ts": 1, "name": {"x": 1}}\n', 'line 1, column "name": {"x": "1"} is not read as STRING'),
        ('{"ts": 9223372036854775808}\n', 'line 1, column "ts": "9223372036854775808" is not read as BIGINT'),
    ],
)
def test_json_that_does_not_fit(tmp_path: Path, text: str, detail: str) -> None:
    with pytest.raises(InputError, match=r'cannot read "a.json" of stream "A"') as caught:
        read(tmp_path, "json", "name STRING", text)
    assert detail in str(caught.value.detail)


def test_decimals_and_instants_in_json(tmp_path: Path) -> None:
    """In the usual way, and object by object, which a text that is no text forces."""
    usual = '{"d": 1.005, "at": "2024-01-01 10:00:00", "b": "YWJj", "s": "x", "ts": 1}\n'
    rows = read(tmp_path, "json", "d DECIMAL(10, 2), at TIMESTAMP, b BINARY, s STRING", usual)
    assert rows == [{"d": Decimal("1.01"), "at": datetime(2024, 1, 1, 10, tzinfo=UTC), "b": b"abc", "s": "x", "ts": 1}]
    other = usual + '{"d": "1,000.5", "at": 1704103200, "b": null, "s": 5, "ts": 2}\n'
    assert read(tmp_path, "json", "d DECIMAL(10, 2), at TIMESTAMP, b BINARY, s STRING", other) == [
        *rows,
        {"d": Decimal("1000.50"), "at": datetime(2024, 1, 1, 10, tzinfo=UTC), "b": None, "s": "5", "ts": 2},
    ]


@given(st.text('",\n\rab', max_size=14))
def test_quotes_that_come_in_pairs_are_not_astray(text: str) -> None:
    """The quick look at quotes is never kinder than the careful one, which the csv module of Python checks."""
    data = text.encode()
    if file_formats._quotes_in_pairs(data, ",", 0):
        try:
            list(csv.reader(io.StringIO(text, newline=""), strict=True))
        except csv.Error as error:
            pytest.fail(f"{text!r}: {error}")
