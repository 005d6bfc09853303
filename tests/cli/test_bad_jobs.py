"""Mistakes in the query, the job file and the sources: exit code 2, a message that helps, and nothing half written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from small_jobs import SmallJob, check_message, checked_main, rows_of, set_time, write_rows
from watersmeet.cli.main import main


@pytest.fixture(params=["local", "spark"])
def early_job(request: pytest.FixtureRequest, tmp_path: Path) -> SmallJob:
    """For mistakes that are told before a JVM would start."""
    return SmallJob(tmp_path, request.param).write()


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return SmallJob(tmp_path).write()


def leaves_no_trace(job: SmallJob) -> None:
    assert not job.out.exists()
    assert not job.checkpoint.exists()


@pytest.mark.parametrize(
    "old, new, primary, helps",
    [
        ("A.k = B.k", "A.k = Bb.k", 'unknown alias "Bb"', 'Did you mean "B"?'),
        ("FROM A [RANGE", "FROM Aa [RANGE", 'unknown stream "Aa"', "A, B"),
        ("A.v AS a", "A.w AS a", 'stream "A" has no column "w"', "k, v, ts"),
        ("A.k = B.k", "A.k = B.k AND abz(A.v) > 1", 'unknown function "abz"', 'Did you mean "ABS"?'),
        ("A.k = B.k", "A.k = B.k AND A.v > 'x'", "", "^"),
        ("A.k = B.k", "A.k = B.k AND A.v", "", "^"),
        ("A.k = B.k", "A.k = B.k AND", "", ""),
        ("[RANGE 10 SECONDS], B", "[RANGE 10 PARSECS], B", "", "^"),
    ],
    ids=["alias", "stream", "column", "function", "types", "not boolean", "syntax", "unit"],
)
def test_mistakes_in_the_query(
    old: str, new: str, primary: str, helps: str, early_job: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    early_job.spoil(old, new)
    err = checked_main(early_job, capsys, 2, primary)
    assert helps in err
    assert "  line 1: SELECT" in err
    leaves_no_trace(early_job)


@pytest.mark.parametrize(
    "old, new, primary, helps",
    [
        ("[run]", "[run", 'job file "', "line "),
        ("[run]", "[run]\nslotz = 3", 'unknown key "slotz" in [run]', 'Did you mean "slots"?'),
        ("[run]", "[runn]", 'unknown key "runn" in the job file', 'Did you mean "run"?'),
        ("options =", "option =", 'unknown key "option" in [streams.A]', 'Did you mean "options"?'),
        ("[sink]", "[sink]\npaht = 'x'", 'unknown key "paht" in [sink]', 'Did you mean "path"?'),
        ("[run]", "[run]\nmemory = '12 parsecs'", 'memory "12 parsecs" is not a size', '"512MB"'),
        ("[run]", "[run]\nmemory = '-1MB'", 'memory "-1MB" is not a size', "positive"),
        ("[run]", "[run]\nmemory = true", '"memory" in [run] is true or false', ""),
        ("[run]", "[run]\ntrigger = '5 secs'", 'trigger "5 secs"', 'Did you mean "seconds"?'),
        ("[run]", "[run]\ntrigger = 'availablenow'", 'trigger "availablenow"', '"available-now"'),
        ("options =", "lateness = 'soon'\noptions =", 'lateness of stream "A" "soon" is not a duration', "10 seconds"),
        ("k BIGINT", "k BIGNIT", "", "BIGINT"),
        ("[run]", "[run]\nslots = 400", "400 slots cannot share 300 groups", "groups = 300"),
    ],
)
def test_mistakes_in_the_job_file(
    old: str, new: str, primary: str, helps: str, early_job: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    early_job.spoil(old, new)
    assert helps in checked_main(early_job, capsys, 2, primary)
    leaves_no_trace(early_job)


def test_a_job_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    check_message(main(["run", "nowhere/job.toml"]), capsys.readouterr().err, 2, 'job file "nowhere/job.toml" does not')


def test_a_path_that_is_not_there(early_job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    early_job.spoil("/in/A", "/in/Z")
    err = checked_main(early_job, capsys, 2, 'the path of stream "A" does not exist')
    assert f"{early_job.home}/in/Z" in err
    assert "hint: " in err
    leaves_no_trace(early_job)


@pytest.mark.parametrize("content", [b"this is not parquet at all", b"", b"PAR1 and no footer PAR1"])
def test_a_first_file_that_is_not_parquet(
    content: bytes, early_job: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    early_job.input("A", 0).write_bytes(content)
    set_time(early_job.input("A", 0))
    err = checked_main(early_job, capsys, 2, 'cannot read "0.parquet" of stream "A"')
    assert str(early_job.input("A", 0)) in err
    assert early_job.answer() == {}


NO_V = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
TEXT_V = pa.schema([("k", pa.int64()), ("v", pa.string()), ("ts", pa.int64())])


def without_v(number: int) -> list[dict[str, Any]]:
    return [{"k": row["k"], "ts": row["ts"]} for row in rows_of(number)]


def text_v(number: int) -> list[dict[str, Any]]:
    return [{**row, "v": f"word {row['v']}"} for row in rows_of(number)]


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize(
    "rows, schema, primary",
    [
        (without_v, NO_V, 'stream "A" has no column "v" in "{}.parquet"'),
        (text_v, TEXT_V, 'column "v" of stream "A" does not fit its schema in "{}.parquet"'),
    ],
    ids=["missing column", "wrong type"],
)
def test_parquet_that_does_not_fit_the_schema(
    rows: Callable[[int], list[dict[str, Any]]],
    schema: pa.Schema,
    primary: str,
    number: int,
    early_job: SmallJob,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_rows(early_job.input("A", number), rows(number), schema)
    err = checked_main(early_job, capsys, 2, primary.format(number))
    assert "hint: " in err
    assert early_job.answer() <= early_job.expected()


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize(
    "format, rows, schema, primary",
    [
        ("csv", without_v, NO_V, ""),
        ("csv", text_v, TEXT_V, 'cannot read "{}.csv" of stream "A"'),
        ("json", text_v, TEXT_V, 'cannot read "{}.json" of stream "A"'),
    ],
)
def test_text_that_does_not_fit_the_schema(
    format: str,
    rows: Callable[[int], list[dict[str, Any]]],
    schema: pa.Schema,
    primary: str,
    number: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = SmallJob(tmp_path, format=format).write()
    write_rows(job.input("A", number), rows(number), schema)
    err = checked_main(job, capsys, 2, primary.format(number))
    assert f'"{number}.{format}"' in err
    assert job.answer() <= job.expected()


@pytest.mark.parametrize(
    "format, broken", [("csv", "1,2\n3,4,5,6\n"), ("json", '{"k": 1, "v": 2, "ts": 3\n{'), ("json", "[")]
)
def test_text_that_cannot_be_read(format: str, broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = SmallJob(tmp_path, format=format).write()
    job.input("B", 1).write_text(broken)
    set_time(job.input("B", 1))
    checked_main(job, capsys, 2, f'cannot read "1.{format}" of stream "B"')
    assert job.answer() <= job.expected()


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_mended_file_lets_the_job_go_on(format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is lost by a bad file: the batches before it stay, and the run goes on where it stopped."""
    job = SmallJob(tmp_path, format=format).write()
    write_rows(job.input("A", 2), text_v(2), TEXT_V)
    checked_main(job, capsys, 2, "")
    delivered = job.answer()
    assert delivered
    assert delivered <= job.expected()
    assert main(["state", "ls", str(job.checkpoint)]) == 0
    write_rows(job.input("A", 2), rows_of(2))
    job.finish()
    assert job.answer() == job.expected()


def test_an_empty_folder_is_no_mistake(job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (job.home / "in" / "A").iterdir():
        path.unlink()
    job.finish()
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rows_out"] == 0


def test_an_option_that_no_reader_has(job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    job.spoil("maxFilesPerTrigger", "maxFilePerTrigger")
    err = checked_main(job, capsys, 2, 'unknown option "maxFilePerTrigger" of stream "A"')
    assert 'Did you mean "maxFilesPerTrigger"?' in err
    leaves_no_trace(job)


def test_through_a_real_process(job: SmallJob) -> None:
    job.spoil("A.v AS a", "A.w AS a")
    finished = job.start()
    check_message(finished.returncode, finished.stderr, 2, 'stream "A" has no column "w"')
    assert finished.stdout == ""


def test_the_answer_of_a_sound_job(job: SmallJob) -> None:
    job.finish()
    assert job.answer() == job.expected()
    assert pq.read_table(job.out).num_rows == sum(job.expected().values())
