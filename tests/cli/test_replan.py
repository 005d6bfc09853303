"""A run that changes its own plan when the streams change, through the command line; DuckDB is the judge."""

from __future__ import annotations

import contextlib
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, Rows, difference, duckdb_answer, write_streams
from watersmeet.config import load_job
from watersmeet.runtime.clock import VirtualClock
from watersmeet.runtime.local import sources
from watersmeet.runtime.local.job import run_job

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)},
    "A.x = B.x AND B.y = C.y AND C.z = D.z",
    3 * SECOND,
)
BATCHES, ROWS, FLIP = 30, 40, 12
FEW, MANY = 8, 150  # values of a column: pairs that match are many, or few
DOMAINS = ({"x": MANY, "y": 40, "z": FEW}, {"x": FEW, "y": 40, "z": MANY})


def draw_flipping(flips: tuple[int, ...], batches: int = BATCHES, rows: int = ROWS) -> dict[str, list[Rows]]:
    """At first the first join is selective, from the batch of the first flip on the last one, and so on."""
    draw = random.Random(5)

    def row(stream: str, batch: int, i: int) -> dict[str, int]:
        domain = DOMAINS[sum(batch >= flip for flip in flips) % 2]
        values = {name: draw.randrange(domain[name]) for name in CASE.columns[stream]}
        return values | {"v": batch * rows + i, "ts": batch * SECOND + i * SECOND // rows}

    return {name: [[row(name, b, i) for i in range(rows)] for b in range(batches)] for name in CASE.streams}


STREAMS = draw_flipping((FLIP,))
EXPECTED = duckdb_answer(CASE, STREAMS)


def told(events: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] in kinds]


@pytest.mark.parametrize("by", ["auto", "moving-state", "parallel-track"])
@pytest.mark.parametrize("trigger", ["data-driven", "refined"])
def test_the_plan_follows_the_streams(tmp_path: Path, trigger: str, by: str) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in")
    settings = f'plan = "left-deep"\nreplan = "{trigger}"\nreplan_every = 3\nmigrate = "{by}"'
    job = JudgedJob.write(tmp_path, CASE, "", settings)
    events = job.finish()
    decided = [(entry, event.get("batch", BATCHES)) for event in events for entry in event.get("decisions", ())]
    changes = [(entry["plan"], batch) for entry, batch in decided if entry["decision"] == "ChangePlan"]
    assert changes, "it has noticed"
    assert changes[0][1] >= FLIP, "it had a good one"
    assert changes[-1][0] != "(((A B) C) D)"
    assert not difference(job.answer(), EXPECTED)
    _, shown, _ = job.call("state", "show", "ck")
    assert f"\nplan {job.state()['plan']}\n" in shown


def test_a_memory_driven_run_without_a_budget_keeps_its_plan(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 15)
    job = JudgedJob.write(tmp_path, CASE, "", 'plan = "left-deep"\nreplan = "memory-driven"\nreplan_every = 3')
    job.finish()
    assert job.state()["plan"] == "(((A B) C) D)"


def test_steady_streams_keep_their_plan(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in", 0, FLIP)
    job = JudgedJob.write(tmp_path, CASE, "", 'plan = "left-deep"\nreplan = "refined"\nreplan_every = 2')
    events = job.finish()
    assert not [e for event in events for e in event.get("decisions", ()) if e["decision"] == "ChangePlan"]


# --- the library and the quota ---------------------------------------------------------------------------------------


def test_a_plan_that_served_before_is_taken_from_the_library(tmp_path: Path) -> None:
    """The streams go to and fro between two states, with a restart in between."""
    streams = draw_flipping((15, 30, 45), 60)
    settings = 'plan = "left-deep"\nreplan = "data-driven"\nreplan_every = 3\nreplan_threshold = 0.4'
    job = JudgedJob.write(tmp_path, CASE, "", settings)
    events: list[dict[str, Any]] = []
    for first, end in ((0, 35), (35, 60)):
        write_streams(CASE, streams, tmp_path / "in", first, end)
        with contextlib.chdir(tmp_path):
            # By a clock that stands still a change takes no time: at this size it would not pay a second time.
            run_job(load_job("job.toml"), events.append, clock=VirtualClock())
    found = [(entry["plan"], entry["found_by"], entry["before_batch"]) for entry in told(events, "ChangePlan")]
    assert "library" in {by for _, by, _ in found}, found
    assert not difference(job.answer(), duckdb_answer(CASE, streams))
    assert 2 <= len(job.state()["library"]) <= 16
    shown = job.call("state", "show", "ck")[1]
    assert "\nplans that served well\n  (" in shown
    assert "\nwhat changes came to (the last of each kind)\n" in shown, "from before the restart, or after it"


def test_without_a_quota_only_the_library_is_asked(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in")
    settings = 'plan = "left-deep"\nreplan = "data-driven"\nreplan_every = 3\nreplan_quota = 0'
    job = JudgedJob.write(tmp_path, CASE, "", settings)
    assert not told(job.finish(), "ChangePlan"), "it is empty"
    assert not difference(job.answer(), EXPECTED)


def test_a_search_that_takes_too_long_gives_way_to_a_quick_one(tmp_path: Path) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in")
    settings = 'plan = "left-deep"\nreplan = "data-driven"\nreplan_every = 3\nreplan_quota = 0.001'
    job = JudgedJob.write(tmp_path, CASE, "", settings)
    with mock.patch("watersmeet.adapt.policies.replan_worthwhile.ALWAYS_SECONDS", 0.003):  # as if batches were shorter
        events = job.finish()
    found = told(events, "ChangePlan")
    assert {entry["found_by"] for entry in found} == {"quick search"}
    assert "by a quick search, as a full one takes 0.00" in found[0]["reason"]
    assert not difference(job.answer(), EXPECTED)


# --- each trigger decides --------------------------------------------------------------------------------------------

BLIND = "replan_threshold = 1\nreplan_every = 3"  # figures alone are never reason enough


def test_figures_alone_are_not_reason_enough_here(tmp_path: Path) -> None:
    """Or the next tests would show nothing."""
    write_streams(CASE, STREAMS, tmp_path / "in")
    job = JudgedJob.write(tmp_path, CASE, "", f'plan = "left-deep"\nreplan = "refined"\n{BLIND}')
    assert not told(job.finish(), "ChangePlan")


def test_a_state_that_grows_near_its_budget_decides(tmp_path: Path) -> None:
    """The window is long, so that what joins since the flip goes on growing for as long."""
    case = replace(CASE, window_us=14 * SECOND)
    streams = draw_flipping((16,), 30, 18)
    write_streams(case, streams, tmp_path / "in")
    settings = f'plan = "((A B) C D)"\nreplan = "memory-driven"\n{BLIND}'
    job = JudgedJob.write(tmp_path, case, "memory = 200000", settings)
    changes = told(job.finish(), "ChangePlan")
    grows = r"the state has come to \d+% of the budget, and grows steadily: it "
    assert [entry["before_batch"] > 16 for entry in changes if re.match(grows, entry["reason"])], changes
    assert not difference(job.answer(), duckdb_answer(case, streams))


def test_groups_that_owe_more_and_more_decide(tmp_path: Path) -> None:
    """A group of the first join is spilled before each batch, and nobody merges."""
    write_streams(CASE, STREAMS, tmp_path / "in")
    spills = "".join(f'[[adapt.force]]\nat_batch = {10 + n}\nspill = ["J1:{n}"]\n' for n in range(14))
    settings = f'plan = "left-deep"\nmerge = "off"\nreplan = "refined"\n{BLIND}\n{spills}'
    job = JudgedJob.write(tmp_path, CASE, "groups = 20", settings)
    events = job.finish()
    (first, *_) = told(events, "ChangePlan")
    assert re.match(r"\d+ groups owe results, and \d+ did before: it costs ", first["reason"])
    assert not difference(job.answer(), EXPECTED)


@pytest.mark.parametrize("each, decides", [(2, True), (1, False)], ids=["gets ahead", "keeps up"])
def test_a_source_that_gets_ahead_decides(tmp_path: Path, each: int, decides: bool) -> None:
    """With every batch that is done so many files come: two are more than a batch reads."""
    write_streams(CASE, STREAMS, tmp_path / "in", 0, FLIP)
    job = JudgedJob.write(tmp_path, CASE, "", f'plan = "left-deep"\nreplan = "memory-driven"\n{BLIND}')
    written = FLIP
    changed: list[str] = []

    def feed(event: dict[str, Any]) -> None:
        nonlocal written
        changed.extend(entry["reason"] for entry in told([event], "ChangePlan"))
        if event["event"] == "batch" and event["batch"] >= FLIP - 1:
            write_streams(CASE, STREAMS, tmp_path / "in", written, written + each)
            written += each

    at_once = mock.patch.multiple(sources, LIST_EVERY_SECONDS=0.0, LIST_AT_MOST=0)
    with contextlib.chdir(tmp_path), at_once:
        run_job(load_job("job.toml"), feed)
    assert not difference(job.answer(), EXPECTED)
    assert bool(changed) == decides
    assert all(
        re.match(r'stream "[ABCD]" gets ahead: [\d,]+ bytes wait, and [\d,]+ did before: ', why) for why in changed
    )


# --- it does not flap ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger, length", [("data-driven", 2), ("refined", 4)])
def test_streams_that_alternate_do_not_make_the_plan_flap(tmp_path: Path, trigger: str, length: int) -> None:
    """They are others every few batches, before a change has paid."""
    streams = draw_flipping(tuple(range(length, 60, length)), 60, 25)
    write_streams(CASE, streams, tmp_path / "in")
    settings = f'plan = "left-deep"\nreplan = "{trigger}"\nreplan_every = 2'
    job = JudgedJob.write(tmp_path, CASE, "", settings)
    changes = told(job.finish(), "ChangePlan", "BeginMigration")
    assert len({entry["before_batch"] for entry in changes}) <= 60 // length // 4, changes
    assert not difference(job.answer(), duckdb_answer(CASE, streams))


@pytest.mark.parametrize(
    "setting, message",
    [
        ('replan = "refine"', "refined"),
        ('migrate = "seed"', "seeded"),
        ("replan_every = 0", '"replan_every" is 0'),
        ("replan_threshold = 7", '"replan_threshold" is 7'),
        ("replan_quota = -1", '"replan_quota" is -1'),
        ('replan_quota = "1s"', '"replan_quota" in [adapt] is a string'),
    ],
)
def test_mistakes(tmp_path: Path, setting: str, message: str) -> None:
    job = JudgedJob.write(tmp_path, CASE, "", setting)
    code, _, err = job.call("run", "job.toml")
    assert (code, message in err) == (2, True), err
