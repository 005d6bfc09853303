"""Was: Ctrl-C in the second or two in which modules are imported showed a traceback, and the exit code was not 130."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import watersmeet

# Stands before a module that the command imports, and interrupts the process at that moment.
INTERRUPT = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


@pytest.mark.parametrize("module", ["argparse", "pyarrow", "sqlglot"])
def test_an_interrupt_while_modules_are_imported(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text(INTERRUPT)
    path = os.pathsep.join([str(tmp_path), str(Path(watersmeet.__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-m", "watersmeet", "explain", "--help"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_what_is_imported_late_is_there() -> None:
    assert {"LocalQuery", "SparkQuery", "sql"} <= set(dir(watersmeet))
    assert watersmeet.sql.__module__ == "watersmeet.api"
    with pytest.raises(AttributeError, match="no attribute 'squl'"):
        watersmeet.squl  # noqa: B018
