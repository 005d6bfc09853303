"""The process is as it was after watersmeet has been imported, and a command collects garbage as any program does."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_an_import_leaves_the_collector_as_it_was(before: str) -> None:
    code = f"import gc; gc.{before}(); import watersmeet; watersmeet.sql; print(gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(before == "enable"), done.stderr


def test_a_command_runs_with_the_collector() -> None:
    code = """
import gc, sys
from watersmeet import __main__
from watersmeet.cli import main
main.run_parsed = lambda args: print(gc.isenabled(), gc.get_freeze_count() > 0)
sys.argv = ["watersmeet", "state", "ls", "nowhere"]
__main__.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "True"], done.stderr
