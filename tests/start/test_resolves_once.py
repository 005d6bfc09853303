"""A start is resolved once: what is looked at, what is checked and what runs are one value."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from changed_queries import CHANGES, start, text, with_query
from watersmeet.config import load_job
from watersmeet.lang.binder import bind
from watersmeet.optimize.choose import choose_plan
from watersmeet.plan.layout import lay_out_spec
from watersmeet.runtime.looking_ahead import look_ahead
from watersmeet.runtime.opening import open_run
from watersmeet.start.resolve import resolve
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.identity import identify

COUNTED = {f.__code__: f.__name__ for f in (resolve, choose_plan, bind, lay_out_spec, identify)}


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """How often this thread calls what a start is made of."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code in COUNTED:
            found[COUNTED[frame.f_code]] += 1

    sys.setprofile(count)
    try:
        yield found
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("plan", ["auto", "((A B) C)", "mjoin"])
def test_a_restart_with_a_changed_query(tmp_path: Path, plan: str) -> None:
    """Before there was `resolve`: 2 calls of `choose_plan`, 3 of `bind`, 9 of `lay_out_spec` and 8 of `identify`."""
    job = start(tmp_path, text(), f'plan = "{plan}"')
    job.finish()
    with_query(job, CHANGES["one more predicate"][0])
    with counting() as found:
        job.finish()
    assert (found["resolve"], found["choose_plan"], found["bind"]) == (1, 1, 2)
    assert found["lay_out_spec"] <= 7
    assert found["identify"] <= 3


@pytest.mark.parametrize("restart", [False, True])
def test_one_that_was_looked_at_is_not_resolved_again(tmp_path: Path, restart: bool) -> None:
    """As the runner of Spark jobs does, which looks before it starts a JVM."""
    job = start(tmp_path, text(), 'plan = "((A B) C)"')
    if restart:
        job.finish()
    loaded = load_job(job.home / "job.toml", ["adapt.plan=mjoin"])
    query, settings = bind(loaded.query, loaded.streams()), loaded.settings
    folders = CheckpointFolders(str(job.home / "ck"))
    with counting() as found:
        ahead = look_ahead(query, settings, folders, "local")
        opened = open_run(query, settings, folders, start=ahead)
        opened.close()
    assert found["resolve"] == 1
    assert opened.start is ahead


def test_one_that_somebody_has_overtaken_is(tmp_path: Path) -> None:
    job = start(tmp_path, text(), 'plan = "((A B) C)"')
    loaded = load_job(job.home / "job.toml", ["adapt.plan=mjoin"])
    query, settings = bind(loaded.query, loaded.streams()), loaded.settings
    folders = CheckpointFolders(str(job.home / "ck"))
    ahead = look_ahead(query, settings, folders, "local")
    assert ahead.change is None
    job.finish()
    with counting() as found:
        opened = open_run(query, settings, folders, start=ahead)
        opened.close()
    assert found["resolve"] == 1
    assert opened.start.change is not None
    assert opened.start.change.plan.tree == "(A B C)"
