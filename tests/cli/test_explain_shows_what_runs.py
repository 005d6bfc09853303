"""`watersmeet explain` shows the plan that a run then has, and is refused where the run is, in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from changed_queries import start, text, with_query
from judged_jobs import SECOND, JoinCase, JudgedJob, decisions, draw_streams, write_streams

CYCLE = JoinCase(
    {"p": ("k", "n"), "a": ("k", "m"), "b": ("m", "n")}, "p.k = a.k AND a.m = b.m AND b.n = p.n", 4 * SECOND
)
STREAMS = draw_streams(CYCLE, 4, 12, 3, seed=3)


def explained(job: JudgedJob, *overrides: str) -> dict[str, object]:
    chosen = [part for override in overrides for part in ("--set", override)]
    code, out, err = job.call("explain", "job.toml", "--json", *chosen)
    assert (code, err) == (0, "")
    found: dict[str, object] = json.loads(out)
    return found


@pytest.mark.parametrize("tree", ["((p a) b)", "((p b) a)", "(p (a b))"])
def test_a_changed_query_keeps_the_tree_of_its_checkpoint(tmp_path: Path, tree: str) -> None:
    """A predicate was added to a cycle. A new run would choose a tree of its own, which one of these is at most."""
    write_streams(CYCLE, STREAMS, tmp_path / "in", 0, 2)
    job = JudgedJob.write(tmp_path, CYCLE, adapt=f'plan = "{tree}"\nreplan = "off"')
    job.finish()
    other = f"query={CYCLE.query} AND p.v <> b.v", "adapt.plan=auto"
    shown = explained(job, *other)
    write_streams(CYCLE, STREAMS, tmp_path / "in", 2)
    (change,) = decisions(job.finish(*other), "ChangePlan")
    assert shown["plan"] == change["plan"] == job.state()["plan"] == tree


def test_a_query_that_the_run_refuses_is_refused(tmp_path: Path) -> None:
    job = start(tmp_path, text())
    job.finish()
    with_query(job, text(a=5))
    refused = job.call("run", "job.toml", "--json")
    assert refused[0] == 2
    for form in ((), ("--json",), ("--svg",)):
        assert job.call("explain", "job.toml", *form) == refused


@pytest.mark.parametrize("batches", [0, 2])
def test_a_forced_step_that_the_run_refuses_is_refused(tmp_path: Path, batches: int) -> None:
    write_streams(CYCLE, STREAMS, tmp_path / "in", 0, max(batches, 1))
    job = JudgedJob.write(tmp_path, CYCLE, adapt='plan = "((p a) b)"')
    if batches:
        job.finish()
    steps = "--set", 'adapt.force=[{at_batch = 4, move = ["J1:0->7"]}]'
    refused = job.call("run", "job.toml", "--json", *steps)
    assert (refused[0], "to slot 7, which is not there" in refused[2]) == (2, True)
    assert job.call("explain", "job.toml", *steps) == refused
