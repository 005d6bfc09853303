"""Which of the modules that take long to import each command loads, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Those that take 10 ms of CPU or more, with what they import.
HEAVY = {
    "duckdb",
    "matplotlib",
    "numpy",
    "obstore",
    "pandas",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.flight",
    "pyarrow.json",
    "pyarrow.parquet",
    "pyspark",
    "rich",
    "sqlglot",
    "watersmeet.runtime.stages",  # stands for all that runs a job
}
QUERY = {"numpy", "pyarrow", "pyarrow.compute", "sqlglot"}  # what it takes to read and plan one
NO_SOURCE = {"duckdb", "matplotlib", "obstore", "pyarrow.dataset", "pyarrow.flight", "pyspark"}
JOB = """
query = '''
SELECT a.k, b.v, 1.5 AS c FROM a, b WHERE a.k = b.k AND a.v > 3 AND a.ts BETWEEN b.ts - INTERVAL 10 SECONDS AND b.ts
'''
[streams.a]
format = "parquet"
path = "a"
schema = "k BIGINT, v BIGINT, ts TIMESTAMP"
[streams.b]
format = "parquet"
path = "b"
schema = "k BIGINT, v BIGINT, ts TIMESTAMP"
[sink]
path = "out"
[run]
runtime = "local"
"""
COMMAND = """
import sys
from watersmeet.__main__ import main
sys.argv[0] = "watersmeet"
main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "bad.toml").write_text(JOB.replace("BIGINT", "BIGNIT"))
    return tmp_path


def loaded(folder: Path, code: str, *arguments: str) -> set[str]:
    """The heavy modules that a process has loaded when it ends."""
    report = "import atexit, sys; atexit.register(lambda: print('\\n', *sorted(sys.modules)))\n"
    done = subprocess.run(
        [sys.executable, "-c", report + code, *arguments], cwd=folder, capture_output=True, text=True, timeout=60
    )
    return HEAVY & set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("words", ["--help", "--version", "state --help", "fly", ""])
def test_what_needs_no_command_loads_nothing_heavy(words: str, folder: Path) -> None:
    assert loaded(folder, COMMAND, *words.split()) == set()


@pytest.mark.parametrize("words", ["explain job.toml", "explain job.toml --json", "explain bad.toml", "explain --help"])
def test_explain_loads_what_a_plan_takes(words: str, folder: Path) -> None:
    assert loaded(folder, COMMAND, *words.split()) <= QUERY


def test_import_of_sql_loads_what_a_plan_takes(folder: Path) -> None:
    assert loaded(folder, "import watersmeet; watersmeet.sql") <= QUERY


@pytest.mark.parametrize("words", ["run --help", "demo --help", "state ls nowhere", "run job.toml"])
def test_commands_on_local_data_load_no_engine_beside_ours(words: str, folder: Path) -> None:
    assert not loaded(folder, COMMAND, *words.split()) & NO_SOURCE
