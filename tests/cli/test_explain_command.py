"""`watersmeet explain --svg`, and the same picture from Python."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.cli.main import main

JOB = """\
query = "SELECT A.v FROM A [RANGE 5 SECONDS], B [RANGE 2 SECONDS] WHERE A.k = B.k"
[streams.A]
format = "parquet"
path = "nowhere/A"
schema = "k BIGINT, v BIGINT, ts BIGINT"
[streams.B]
format = "parquet"
path = "nowhere/B"
schema = "k BIGINT, v BIGINT, ts BIGINT"
[sink]
format = "noop"
[run]
runtime = "local"
[stats]
rates = { A = 300, B = 20 }
selectivity = { "A B" = 0.01 }
"""


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return str(path)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_a_picture_on_the_standard_output(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job, "--svg"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    # 300 rows of A a second meet 20 * 2 * 0.01 of B, 20 of B meet 300 * 5 * 0.01 of A. Rows have 32 and 24 bytes.
    figures = {"300 rows/s", "1.5K rows", "47 KB", "20 rows/s", "40 rows", "960 B", "420 rows/s"}
    assert figures <= set(texts(captured.out))


def test_a_picture_in_a_file(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.svg"
    assert main(["explain", job, "--svg", str(file)]) == 0
    assert capsys.readouterr().out == f"plan (A B) is drawn in {file}\n"
    assert "J1 join" in texts(file.read_text())


def test_settings_reach_the_picture(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job, "--svg", "--set", "adapt.plan=(B A)", "--set", "stats.rates.B=70000"]) == 0
    shown = texts(capsys.readouterr().out)
    assert {"plan (B A)", "70K rows/s"} <= set(shown)


def test_a_file_that_cannot_be_written(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file, reason in ((tmp_path / "no" / "plan.svg", "No such file or directory"), (tmp_path, "Is a directory")):
        assert main(["explain", job, "--svg", str(file)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        first, detail, hint = captured.err.splitlines()
        assert first == f'error: cannot write the picture to "{file}"'
        assert detail == f"detail: {reason}."
        assert hint.startswith("hint: Name a file in a folder that exists")


def test_the_job_file_is_not_replaced(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job, "--svg", job]) == 2
    assert capsys.readouterr().err.startswith("error: the picture would replace the job file")
    assert Path(job).read_text() == JOB


def test_not_json_and_a_picture_at_once(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["explain", job, "--json", "--svg"])
    assert caught.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_the_same_picture_from_python(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", job, "--svg"]) == 0
    table = pa.table({name: pa.array([], pa.int64()) for name in ("k", "v", "ts")})
    query = wm.sql(
        "SELECT A.v FROM A [RANGE 5 SECONDS], B [RANGE 2 SECONDS] WHERE A.k = B.k",
        A=table,
        B=table,
        rates={"A": 300, "B": 20},
        selectivity={"A B": 0.01},
    )
    assert query.picture() == capsys.readouterr().out
    assert "plan (B A)" in texts(query.picture(plan="(B A)"))
