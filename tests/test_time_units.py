"""Event times that are integers: seconds, milliseconds, microseconds and nanoseconds mean the same instants."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.cli.main import main
from watersmeet.errors import InputError, JobError, QueryError
from watersmeet.model.time_units import TIME_UNITS

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
START = 1_700_000_000  # seconds since 1970
JOIN = "SELECT A.n, A.ts, B.n AS m FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k"
PAIRS = "SELECT A.n, B.n AS m FROM A, B WHERE A.k = B.k AND A.ts BETWEEN B.ts - {c} AND B.ts"
GROUPS = "SELECT A.k, COUNT(*) AS c FROM A [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY A.k"


def stream(unit: str, seconds: list[int], start: int = START) -> pa.Table:
    times = [(start + at) * PER_SECOND[unit] for at in seconds]
    return pa.table({"k": [1] * len(times), "n": list(range(len(times))), "ts": pa.array(times, pa.int64())})


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("start", [START, -START])
@pytest.mark.parametrize("unit", TIME_UNITS)
def test_windows_mean_the_same_in_every_unit(unit: str, start: int) -> None:
    a, b = stream(unit, [0, 5, 30], start), stream(unit, [9, 15, 40], start)
    answer = wm.sql(JOIN, A=a, B=b, time_unit=unit).run(batch_rows=1)
    times = [(start + at) * PER_SECOND[unit] for at in (0, 5)]
    assert rows(answer) == [(0, times[0], 0), (1, times[1], 0)], "and the column keeps its values"


@pytest.mark.parametrize("unit", TIME_UNITS)
def test_lateness_means_the_same_in_every_unit(unit: str) -> None:
    events: list[Any] = []
    a, b = stream(unit, [20, 5, 12]), stream(unit, [20, 20, 20])
    query = wm.sql(JOIN, A=a, B=b, time_unit={"A": unit, "B": unit}, lateness="10 seconds")
    query.run(batch_rows=1, report=events.append)
    assert sum(event["rows_late"] for event in events if event["event"] == "batch") == 1


@pytest.mark.parametrize("unit", TIME_UNITS)
def test_windows_for_pairs_are_in_the_unit_of_the_columns(unit: str) -> None:
    a, b = stream(unit, [0, 5, 30]), stream(unit, [9, 15, 40])
    query = wm.sql(PAIRS.format(c=10 * PER_SECOND[unit]), A=a, B=b, time_unit=unit)
    assert rows(query.run(batch_rows=1)) == [(0, 0), (1, 0), (1, 1), (2, 2)]
    assert "rows of A are kept for 10 seconds" in query.explain()


def test_windows_for_pairs_of_nanoseconds_are_exact() -> None:
    base = START * PER_SECOND["ns"]
    a = pa.table({"k": [1, 1], "n": [0, 1], "ts": [base + 999, base + 1000]})
    b = pa.table({"k": [1], "n": [0], "ts": [base + 2000]})
    assert rows(wm.sql(PAIRS.format(c=1000), A=a, B=b, time_unit="ns").run()) == [(1, 0)]


@pytest.mark.parametrize("unit", TIME_UNITS)
def test_boundaries_are_in_the_unit_of_the_column(unit: str) -> None:
    answer = wm.sql(GROUPS, A=stream(unit, [0, 1, 4]), time_unit=unit).run()
    ends = [((START + at) * PER_SECOND[unit], count) for at, count in ((0, 1), (2, 2), (4, 2), (6, 1))]
    assert sorted((row["window_end"], row["c"]) for row in answer.to_pylist()) == ends


def test_a_slide_is_a_whole_number_of_units() -> None:
    text = GROUPS.replace("SLIDE 2 SECONDS", "SLIDE 500 MILLISECONDS")
    with pytest.raises(QueryError, match="the slide is no whole number of seconds"):
        wm.sql(text, A=stream("s", [0]), time_unit="s")
    wm.sql(text, A=stream("ms", [0]), time_unit="ms")


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63), 9_223_372_036_854_776])
def test_times_that_microseconds_cannot_hold_end_the_run(time: int) -> None:
    table = pa.table({"k": [1], "n": [0], "ts": pa.array([time], pa.int64())})
    with pytest.raises(InputError, match=f"the event time {time} in column "):
        wm.sql(JOIN, A=table, B=table, time_unit="ms").run()


def test_units_that_do_not_apply_are_refused() -> None:
    times = pa.table({"k": [1], "n": [0], "ts": pa.array([0], pa.timestamp("us"))})
    counts = stream("ms", [0])
    with pytest.raises(JobError, match='time_unit of stream "A" does not apply'):
        wm.sql(JOIN, A=times, B=counts, time_unit={"A": "ms"})
    query = wm.sql(JOIN, A=times, B=counts, time_unit="ms").query
    assert [entry.stream.time_unit for entry in query.inputs] == [None, "ms"]
    with pytest.raises(JobError, match='unknown time_unit "msec" of stream "A"') as caught:
        wm.sql(JOIN, A=counts, B=counts, time_unit={"A": "msec"})
    assert caught.value.hint is not None


JOB = """
query = "SELECT A.n, B.n AS m FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k"
[streams.A]
format = "parquet"
path = "A"
schema = "k BIGINT, n BIGINT, ts BIGINT"
[streams.B]
format = "parquet"
path = "B"
schema = "k BIGINT, n BIGINT, ts BIGINT"
[sink]
path = "out"
[run]
runtime = "local"
checkpoint = "ck"
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(JOB)
    for name in "AB":
        Path(name).mkdir()
        for number in range(2):
            pq.write_table(stream("ms", [20 * number]), f"{name}/{number}.parquet")


BOTH = ["--set", "streams.A.time_unit=ms", "--set", "streams.B.time_unit=ms"]
EACH_FILE = [word for name in "AB" for word in ("--set", f"streams.{name}.options.maxFilesPerTrigger=1")]


@pytest.mark.usefixtures("job")
def test_a_job_with_other_times_than_usual_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Was: milliseconds were taken for microseconds without a word."""
    assert main(["run", "job.toml", *EACH_FILE]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "event times" in line]
    assert notes == [
        f'note: event times of stream "{name}" are about 1970-01-20 16:13:20: "ts" is an integer, which is read as '
        'microseconds since 1970; if they are milliseconds, say time_unit = "ms", and "us" if they are not (told once)'
        for name in "AB"
    ]


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("unit", TIME_UNITS)
def test_nothing_is_said_of_a_unit_that_was_named(unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    named = [word for name in "AB" for word in ("--set", f"streams.{name}.time_unit={unit}")]
    assert main(["run", "job.toml", *named]) == 0
    assert "event times of" not in capsys.readouterr().err


@pytest.mark.usefixtures("job")
def test_a_checkpoint_of_another_unit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "job.toml", *BOTH]) == 0
    assert pq.read_table("out").num_rows == 2
    assert main(["run", "job.toml", *BOTH]) == 0
    capsys.readouterr()
    assert main(["run", "job.toml"]) == 2
    said = capsys.readouterr().err
    assert "the checkpoint belongs to another query" in said
    assert 'Event times of stream "A" were in milliseconds, and this run has microseconds.' in said
    assert main(["explain", "job.toml", *BOTH, "--against", "ck"]) == 0
    assert main(["run", "job.toml", *BOTH, "--set", f"query={JOIN.replace('A.ts', 'A.k')}"]) == 0


@pytest.mark.usefixtures("job")
def test_an_unknown_unit_in_a_job_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "job.toml", "--set", "streams.A.time_unit=m"]) == 2
    assert "It is one of s, ms, us, ns." in capsys.readouterr().err


def test_without_a_report_the_log_has_the_note(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        wm.sql(JOIN, A=stream("ms", [0]), B=stream("ms", [0])).run()
    assert sum("is read as microseconds since 1970" in message for message in caplog.messages) == 2
