"""What goes wrong on Spark once a JVM runs: bad rows, damaged state, a full disk, a checkpoint in use.

One process serves all jobs of this file, so that the JVM starts once; it runs what the command line runs, but for the
session, which stays.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from small_disk import small_disk
from small_jobs import FILES, SmallJob, check_message, rows_of, set_time, write_rows

pytestmark = pytest.mark.spark

SERVER = """
import io, json, sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pyspark.sql import SparkSession
import watersmeet.runtime.spark.job as spark_job
from watersmeet.cli.main import main
from watersmeet.config import SparkConfig

keep = spark_job._session(spark_job._quick(SparkConfig("local[2]", {}), {"parquet"}))
spark = keep.__enter__()
spark_job._session = lambda config: nullcontext(spark)
for line in sys.stdin:
    err = io.StringIO()
    with redirect_stderr(err), redirect_stdout(io.StringIO()):
        code = main(json.loads(line))
    print(json.dumps([code, err.getvalue()]), flush=True)
keep.__exit__(None, None, None)
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """`run(job, *settings)`: the exit code and stderr of the job."""
    log = tmp_path_factory.mktemp("server") / "stderr"
    with log.open("w") as stderr:
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    assert server.stdin is not None
    assert server.stdout is not None

    def ask(job: SmallJob, *settings: str) -> tuple[int, str]:
        print(json.dumps(job.arguments(*settings)), file=server.stdin, flush=True)
        code, err = json.loads(server.stdout.readline())
        return code, err

    yield ask
    server.stdin.close()
    server.wait(timeout=60)
    assert "\tat " not in log.read_text(), "a Java trace on stderr"
    assert "Traceback" not in log.read_text()


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return SmallJob(tmp_path, "spark").write()


def check(outcome: tuple[int, str], code: int, primary: str) -> str:
    check_message(*outcome, code, primary)
    return outcome[1]


def finish(run: Run, job: SmallJob) -> None:
    code, err = run(job)
    assert code == 0, err
    assert job.answer() == job.expected()


TEXT_V = pa.schema([("k", pa.int64()), ("v", pa.string()), ("ts", pa.int64())])


@pytest.mark.parametrize("format", [pytest.param("csv", marks=pytest.mark.campaign), "json"])
def test_a_later_file_with_a_wrong_type(format: str, run: Run, tmp_path: Path) -> None:
    job = SmallJob(tmp_path, "spark", format).write()
    write_rows(job.input("A", 2), [{**row, "v": "word"} for row in rows_of(2)], TEXT_V)
    err = check(run(job), 2, "a source cannot be read")
    assert f"2.{format}" in err
    assert "hint: Check the path, format and schema." in err
    assert job.answer() <= job.expected()
    write_rows(job.input("A", 2), rows_of(2))
    finish(run, job)


BACKWARDS = pa.schema([("ts", pa.int64()), ("v", pa.int64()), ("k", pa.int64())])


def test_csv_columns_go_by_their_names(run: Run, tmp_path: Path) -> None:
    """As in the local runtime. Spark's own habit is to go by position."""
    job = SmallJob(tmp_path, "spark", "csv").write()
    for number in range(FILES):
        write_rows(job.input("A", number), rows_of(number), BACKWARDS)
    finish(run, job)


def test_csv_columns_that_change_their_order_are_refused(run: Run, tmp_path: Path) -> None:
    job = SmallJob(tmp_path, "spark", "csv").write()
    write_rows(job.input("A", 2), rows_of(2), BACKWARDS)
    err = check(run(job), 2, "a source cannot be read")
    assert "CSV header does not conform to the schema" in err
    assert job.answer() <= job.expected()


def test_csv_with_a_column_too_few(run: Run, tmp_path: Path) -> None:
    job = SmallJob(tmp_path, "spark", "csv").write()
    job.input("B", 1).write_text("k,v,ts\n1,2\n")
    set_time(job.input("B", 1))
    check(run(job), 2, "a source cannot be read")
    assert job.answer() <= job.expected()


@pytest.mark.parametrize(
    "format, hint",
    [
        pytest.param("parkett", "hint: Check its name, or add its package: ", marks=pytest.mark.campaign),
        ("kafka", "It is org.apache.spark:spark-sql-kafka-0-10_2.13:4."),
    ],
)
def test_an_unknown_format(format: str, hint: str, job: SmallJob) -> None:
    """In a process of its own, whose session is made for the format."""
    done = subprocess.run(job.command(f"streams.A.format={format}"), capture_output=True, text=True, timeout=120)
    outcome = (done.returncode, done.stderr)
    assert hint in check(outcome, 2, f'Spark does not know the source format "{format}"')


def test_missing_segments_and_a_repair(run: Run, job: SmallJob) -> None:
    for stream in "AB":
        job.input(stream, FILES - 1).unlink()
    assert run(job) == (0, "")
    for stream in "AB":
        write_rows(job.input(stream, FILES - 1), rows_of(FILES - 1))
    segments = job.checkpoint / "state" / "segments"
    sound = {path: path.read_bytes() for path in segments.iterdir()}
    for path in sound:
        path.unlink()
    err = check(run(job), 1, 'segment "')
    assert '" is missing\n' in err
    for path, data in sound.items():
        path.write_bytes(data)
    finish(run, job)


def test_a_checkpoint_of_another_query_and_of_the_local_runtime(run: Run, job: SmallJob, tmp_path: Path) -> None:
    finish(run, job)
    wider = "query=SELECT A.k, A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k"
    check(run(job, wider), 2, "the checkpoint belongs to another query")
    check(run(job, "run.runtime=local"), 2, "the checkpoint was made by the spark runtime")
    other = SmallJob(tmp_path / "other")
    other.home.mkdir()
    other.write().finish()
    check(run(other, "run.runtime=spark"), 2, "the checkpoint was made by the local runtime")
    assert other.answer() == other.expected()


def test_spark_and_our_state_that_do_not_belong_together(run: Run, job: SmallJob) -> None:
    finish(run, job)
    (job.checkpoint / "state").rename(job.home / "away")
    job.out.rename(job.home / "results")  # which a new state would be refused for
    for stream in "AB":
        write_rows(job.input(stream, FILES), rows_of(FILES))
    check(run(job), 2, f"Spark is at batch {FILES}, but the state is at batch -1")


@pytest.mark.parametrize("folder, size", [("out", "12k"), ("ck/state", "24k")])
def test_a_full_disk(folder: str, size: str, run: Run, job: SmallJob) -> None:
    with small_disk(job.home / folder, size) as resize:
        err = check(run(job), 1, "cannot write ")
        assert "No space left on device" in err
        assert "hint: Free some space" in err
        assert job.answer() <= job.expected()
        resize("50m")
        finish(run, job)


def test_a_second_run_on_a_live_checkpoint(run: Run, job: SmallJob) -> None:
    """And, through a real process, what a user sees of a run that ends well."""
    first = subprocess.Popen(
        job.command("run.trigger=1 second"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert first.stdout is not None
    try:
        assert [json.loads(first.stdout.readline())["event"] for _ in range(2)] == ["start", "batch"]
        err = check(run(job), 2, "another run is using the checkpoint")
        assert f'"pid": {first.pid}' in err
        assert first.poll() is None
    finally:
        os.kill(first.pid, 9)
        first.stdout.read()  # until its JVM, which writes to Spark's part of the checkpoint, has gone too
        first.wait()
    finish(run, job)


def test_an_interrupt_is_told_in_a_line(job: SmallJob) -> None:
    """In a real process, whose handler of interrupts Spark replaces."""
    command = job.command("run.trigger=1 second")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stdout is not None
        for kind in ("start", *["batch"] * FILES):
            assert json.loads(run.stdout.readline())["event"] == kind
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert json.loads(out)["event"] == "end"
    assert [line for line in err.splitlines() if not line.startswith("WARNING: ")] == ["interrupted"]
