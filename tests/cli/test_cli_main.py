"""The command line: verbs, exit codes, and messages without tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from watersmeet.cli import main as command
from watersmeet.cli import run, state
from watersmeet.errors import InputError, ResourceError

JOB = """\
query = "SELECT A.v FROM A, B WHERE A.k = B.k"
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
"""
BATCH = {"event": "batch", "batch": 0, "rows_in": 3000, "rows_out": 7, "rows_late": 1, "seconds": 1.5}
BATCH |= {"state_rows": 2999, "active_bytes": 1536, "cold_bytes": 0, "streams": {}, "states": {}, "decisions": []}
END = {"event": "end", "rows_in": 3000, "rows_out": 7, "rows_late": 1, "batches": 1, "seconds": 2.0}
EVENTS = [{"event": "start", "plan": "(A B)"}, BATCH, END]


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return str(path)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """`runs(f)`: jobs are run by `f(job, report)`."""
    return lambda f: monkeypatch.setattr(run, "runner", lambda job: f)


def tell_all(job: object, report: Callable[[dict[str, Any]], None], *args: object, **options: object) -> None:
    for event in EVENTS:
        report(event)


def raiser(error: BaseException) -> Callable[..., None]:
    def fail(*args: object, **options: object) -> None:
        raise error

    return fail


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("watersmeet ")


@pytest.mark.parametrize(
    "argv", [[], ["fly"], ["run"], ["run", "x", "--what"], ["state", "show", "ck", "--version", "x"]]
)
def test_arguments_that_argparse_refuses(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(argv)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        *([name] for name in command.COMMANDS if name not in ("generate", "state")),
        *(["state", verb] for verb in state.VERBS),
    ],
    ids=" ".join,
)
def test_every_command_has_its_module(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([*words, "--help"])
    assert caught.value.code == 0
    assert f"usage: watersmeet {' '.join(words)}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error, code, message",
    [
        (
            InputError("bad rows", detail="Row 3.", hint="Mend it."),
            2,
            "error: bad rows\ndetail: Row 3.\nhint: Mend it.\n",
        ),
        (ResourceError("disk is full"), 1, "error: disk is full\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_errors_become_messages_and_codes(
    error: BaseException,
    code: int,
    message: str,
    job: str,
    runs: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "_discard_output", lambda: None)  # it would close pytest's own stdout
    runs(raiser(error))
    assert command.main(["run", job]) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", message)


@pytest.mark.parametrize("trace", ["", "1"])
def test_a_bug_shows_its_trace_only_when_asked(
    trace: str,
    job: str,
    runs: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WATERSMEET_TRACE", trace)
    runs(raiser(ZeroDivisionError("by zero")))
    assert command.main(["run", job]) == 1
    err = capsys.readouterr().err
    assert "error: internal error: ZeroDivisionError: by zero\nhint: Run it again with WATERSMEET_TRACE=1" in err
    assert ("Traceback" in err) == (trace == "1")


def test_json_is_events_and_nothing_else(
    job: str, runs: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    runs(tell_all)
    assert command.main(["run", job, "--json", "--set", "run.memory=1GB"]) == 0
    captured = capsys.readouterr()
    assert [json.loads(line) for line in captured.out.splitlines()] == EVENTS
    assert captured.err == ""


def test_plain_lines_where_stdout_is_no_terminal(
    job: str, runs: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    runs(tell_all)
    assert command.main(["run", job]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "plan (A B)",
        "batch 0, rows in 3,000, rows out 7, rows/s 2,000, seconds 1.50, state rows 2,999, active 1.5 KB, cold 0 B",
        "done: 1 batch, 3,000 rows in, 7 rows out, 1 late, 2.00 seconds, 1,500 rows/s",
    ]


def test_live_table_ends_with_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    with run.live_report() as report:
        tell_all(None, report)
    out = capsys.readouterr().out
    assert "state rows" in out
    assert "done: 1 batch" in out


@pytest.mark.parametrize(
    "argv, message",
    [
        (["run", "JOB", "--set", "run.slots=0"], 'error: "slots" in [run] is 0'),
        (["explain", "JOB", "--set", "adapt.plan=mjion"], 'error: unknown plan "mjion"'),
        (["explain", "JOB", "--set", "query=SELECT A.w FROM A, B WHERE A.k = B.k"], "error: "),
        (["explain", "missing.toml"], 'error: job file "missing.toml" does not exist'),
    ],
)
def test_mistakes_exit_2(argv: list[str], message: str, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([job if arg == "JOB" else arg for arg in argv]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_explain_reads_no_source(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["explain", job]) == 0
    assert "J1 join on A.k = B.k (stage 0)" in capsys.readouterr().out
    assert command.main(["explain", job, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"] == "(A B)"


def test_a_reader_who_goes_away_is_no_error(job: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run(
        [sys.executable, "-m", "watersmeet", "explain", job], stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(write_end)
    assert (result.returncode, result.stderr) == (141, "")
