"""What Arrow's readers of text files refuse and Spark's do not: instants without a zone, dates in JSON, empty files."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from watersmeet.errors import InputError
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.runtime.local_sources import FileSource


def read(folder: Path, form: str, schema: str, text: str) -> list[dict[str, Any]]:
    (folder / f"a.{form}").write_text(text, encoding="utf-8")
    source = FileSource(Stream("A", parse_schema(f"{schema}, ts BIGINT")), str(folder), form, {})
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
