"""Runs of job files, and commands, in processes that may die, forked from a server that has imported everything.

To import it is most of the time that a small local run takes.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from watersmeet.cli.main import main
from watersmeet.config import load_job
from watersmeet.faults import VARIABLE
from watersmeet.runtime.events import silent
from watersmeet.runtime.local.job import run_job

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["watersmeet.cli.main", "watersmeet.config", "watersmeet.runtime.local.job"])


def begin_run(job: Path, settings: Sequence[str] = (), fault: str = "") -> multiprocessing.process.BaseProcess:
    """Start the job in a process of its own."""
    process = _FORKS.Process(target=_run, args=(str(job), tuple(settings), fault))
    process.start()
    return process


def run_apart(job: Path, settings: Sequence[str] = (), fault: str = "") -> int | None:
    """Run the job in a process of its own, to its end or its death; the exit code."""
    process = begin_run(job, settings, fault)
    process.join(120)
    return process.exitcode


def _run(job: str, settings: tuple[str, ...], fault: str) -> None:
    if fault:
        os.environ[VARIABLE] = fault
    run_job(load_job(job, settings), silent)


def run_forked(arguments: list[str], home: Path, fault: str | None, out: Path, err: Path, timeout: float) -> int:
    """A command in a folder, with its output in files, to its end or its death: the exit code.

    `fault` is what the variable of that name says.
    """
    process = _FORKS.Process(target=_run_command, args=(arguments, str(home), fault, str(out), str(err)))
    process.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{arguments} took more than {timeout} seconds")
    return process.exitcode


def _run_command(arguments: list[str], home: str, fault: str | None, out: str, err: str) -> None:
    for path, number in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.chdir(home)
    os.environ.pop(VARIABLE, None)
    if fault is not None:
        os.environ[VARIABLE] = fault
    sys.exit(main(arguments))
