"""`watersmeet demo`: it runs, its answer is checked, and a wrong answer is noticed."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.cli import demo
from watersmeet.cli.main import main
from watersmeet.demo.check import check_answer
from watersmeet.demo.streams import SCHEMAS, make_rows, rows_of


def test_ends_with_the_exact_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--runtime", "local", "--seconds", "3", "--keep", str(tmp_path / "kept")]) == 0
    lines = capsys.readouterr().out.splitlines()
    results = list((tmp_path / "kept" / "out").glob("*.parquet"))
    rows = sum(pq.read_metadata(file).num_rows for file in results)
    assert rows > 100
    assert f"the answer is exact: {rows:,} rows, the same as DuckDB's" in lines
    assert any(line.startswith("batch 0, rows in ") for line in lines)
    assert any(line.startswith("news breaks: ") for line in lines)
    assert any(", 0 of them late, " in line for line in lines)


def test_notices_a_missing_result_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost: list[int] = []

    def lose_a_file_first(folder: Path) -> int:
        largest = max((folder / "out").glob("*.parquet"), key=lambda file: pq.read_metadata(file).num_rows)
        lost.append(pq.read_metadata(largest).num_rows)
        largest.unlink()
        return check_answer(folder)

    monkeypatch.setattr(demo, "check_answer", lose_a_file_first)
    assert main(["demo", "--runtime", "local", "--seconds", "1", "--keep", str(tmp_path / "kept")]) == 1
    captured = capsys.readouterr()
    assert "the answer is exact" not in captured.out
    assert captured.err.startswith("error: the answer is wrong\n")
    assert f"{lost[0]:,} rows that DuckDB finds are missing, and 0 rows are too many" in captured.err


def test_a_repeated_row_is_not_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    assert main(["demo", "--runtime", "local", "--seconds", "1", "--keep", str(kept)]) == 0
    file = max((kept / "out").glob("*.parquet"), key=lambda file: pq.read_metadata(file).num_rows)
    table = pq.read_table(file)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), file)
    with pytest.raises(Exception, match="0 rows that DuckDB finds are missing, and 1 rows are too many"):
        check_answer(kept)


def test_refuses_a_folder_with_something_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("precious")
    assert main(["demo", "--keep", str(tmp_path)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err


def test_says_how_to_get_duckdb(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    real = builtins.__import__

    def without_duckdb(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_duckdb)
    assert main(["demo", "--runtime", "local", "--seconds", "1"]) == 2
    assert "watersmeet[demo]" in capsys.readouterr().err


@pytest.mark.parametrize("stream", SCHEMAS)
def test_event_times_never_fall(stream: str) -> None:
    tables = [make_rows(stream, number, 6) for number in range(6)]
    times = [time for table in tables for time in table["ts"].to_pylist()]
    assert times == sorted(times)
    assert [table.num_rows for table in tables] == [rows_of(stream, number, 6) for number in range(6)]
    assert make_rows(stream, 4, 6).equals(tables[4])
