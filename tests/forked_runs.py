"""Runs of job files in processes that may die, forked from a server that has imported everything beforehand."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path

from watersmeet.config import load_job
from watersmeet.faults import VARIABLE
from watersmeet.runtime.events import silent
from watersmeet.runtime.local.job import run_job

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["watersmeet.config", "watersmeet.runtime.local.job"])


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
