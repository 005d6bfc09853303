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


def test_the_first_event_of_a_run_says_what_explain_shows(tmp_path: Path) -> None:
    write_streams(CYCLE, STREAMS, tmp_path / "in", 0, 2)
    job = JudgedJob.write(tmp_path, CYCLE, "slots = 3", 'plan = "((p a) b)"')
    shown = explained(job)
    began = job.run_here().start
    assert began is not None
    assert (began["event"], began["plan"], began["change"]) == ("start", "((p a) b)", None)
    assert began["placement"] == shown["placement"] == {"slots": 3, "groups": 6, "owners": {}}
    replayable = {name: {"replayable": True} for name in "pab"}
    assert began["promises"] == {"sources": replayable, "sink": {"idempotent": True}}
    other = "adapt.plan=(p (a b))", "run.groups=4", "run.slots=2"
    shown = explained(job, *other)
    began = job.run_here(*other).start
    assert began is not None
    assert began["change"] == shown["change"]
    assert began["change"] == {
        "from": "((p a) b)",
        "to": "(p (a b))",
        "reason": "the settings say so",
        "query_changes": [],
        "slots": [3, 2],
        "groups": [6, 4],
    }
    assert (began["plan"], began["placement"]) == (shown["plan"], shown["placement"])
    state = job.state()
    assert (state["plan"], state["placement"]) == (began["plan"], began["placement"])


def test_explain_tells_what_changes_before_the_first_batch(tmp_path: Path) -> None:
    write_streams(CYCLE, STREAMS, tmp_path / "in", 0, 2)
    job = JudgedJob.write(tmp_path, CYCLE, adapt='plan = "((p a) b)"')
    job.finish()
    other = ("--set", "adapt.plan=(p (a b))", "--set", "run.groups=4", "--set", f"query={CYCLE.query} AND p.v <> b.v")
    code, out, _ = job.call("explain", "job.toml", *other)
    assert code == 0
    assert out.endswith(
        "before the first batch:\n"
        "  the query was changed: Results must satisfy p.v <> b.v too.\n"
        "  the plan is changed from ((p a) b) to (p (a b)): the query was changed\n"
        "  groups: 6 become 4\n"
    )


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
