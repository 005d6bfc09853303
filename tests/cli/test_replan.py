"""A run that changes its own plan when the streams change, through the command line; DuckDB is the judge."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, Rows, difference, duckdb_answer, write_streams

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)},
    "A.x = B.x AND B.y = C.y AND C.z = D.z",
    3 * SECOND,
)
BATCHES, ROWS, FLIP = 30, 40, 12
FEW, MANY = 8, 150  # values of a column: pairs that match are many, or few
DOMAINS = ({"x": MANY, "y": 40, "z": FEW}, {"x": FEW, "y": 40, "z": MANY})


def draw_flipping() -> dict[str, list[Rows]]:
    """The first join is selective until batch `FLIP`, and the last one from then on."""
    draw = random.Random(5)

    def row(stream: str, batch: int, i: int) -> dict[str, int]:
        domain = DOMAINS[batch >= FLIP]
        values = {name: draw.randrange(domain[name]) for name in CASE.columns[stream]}
        return values | {"v": batch * ROWS + i, "ts": batch * SECOND + i * SECOND // ROWS}

    return {name: [[row(name, b, i) for i in range(ROWS)] for b in range(BATCHES)] for name in CASE.streams}


STREAMS = draw_flipping()
EXPECTED = duckdb_answer(CASE, STREAMS)


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


@pytest.mark.parametrize(
    "setting, message",
    [
        ('replan = "refine"', "refined"),
        ('migrate = "seed"', "seeded"),
        ("replan_every = 0", '"replan_every" is 0'),
        ("replan_threshold = 7", '"replan_threshold" is 7'),
    ],
)
def test_mistakes(tmp_path: Path, setting: str, message: str) -> None:
    job = JudgedJob.write(tmp_path, CASE, "", setting)
    code, _, err = job.call("run", "job.toml")
    assert (code, message in err) == (2, True), err
