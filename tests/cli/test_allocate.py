"""Where operators run when a job begins: through the command line, on jobs that DuckDB judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, check_answer, draw_streams, duckdb_answer, write_streams

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)},
    "A.x = B.x AND B.y = C.y AND C.z = D.z",
    4 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 8
STREAMS = draw_streams(CASE, BATCHES, 10, 6, seed=5, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
GIVEN = "rates = { A = 1000, B = 1000, C = 1000, D = 1000 }"
LEFT_DEEP = "(((A B) C) D)"


def write_job(
    home: Path, allocate: str, more: str = "", stats: str = GIVEN, run: str = "", plan: str = LEFT_DEEP
) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in")
    adapt = f'plan = "{plan}"\nallocate = "{allocate}"\n{more}'
    return JudgedJob.write(home, CASE, f"groups = 8\n{run}", adapt, stats)


@pytest.mark.parametrize(
    "allocate, run, places",
    [
        ("spread", "", ["J1 by k0: all 2 slots alike", "J2 by k1: all 2 slots alike"]),
        ("fewest", "", ["J1 by k0: slot 0", "J2 by k1: slot 0"]),
        ("fewest", "slot_weights = [1, 2]", ["J1 by k0: slot 1", "J2 by k1: slot 1"]),
        (  # the last one makes the results, and has most to do
            "even",
            "slots = 3",
            ["J1 by k0: slot 1", "J2 by k1: slot 2", "J3 by k2: slot 0 (6 groups), slot 1 (2 groups)"],
        ),
    ],
)
def test_operators_are_where_they_are_to_be(tmp_path: Path, allocate: str, run: str, places: list[str]) -> None:
    job = write_job(tmp_path, allocate, run=run)
    _, before, _ = job.call("explain", "job.toml")
    for line in places:
        assert f"  {line}\n" in before
    job.finish()
    check_answer(job, CASE, STREAMS, EXPECTED)
    assert job.call("explain", "job.toml")[1].split("where")[1].split("\n\n")[0].count(" by ") == 3
    for line in places:
        assert f"  {line}\n" in job.call("explain", "job.toml")[1]


def test_without_statistics_operators_are_spread(tmp_path: Path) -> None:
    job = write_job(tmp_path, "even", stats="")
    assert [entry["groups_by_slot"] for entry in json.loads(job.call("explain", "job.toml", "--json")[1])["where"]] == [
        [4, 4]
    ] * 3


def test_a_restart_keeps_what_there_is_and_a_new_plan_places_what_is_new(tmp_path: Path) -> None:
    """The run is killed as it changes its plan, and started again."""
    change = f'[[adapt.force]]\nat_batch = 4\nplan = "{LEFT_DEEP}"\nby = "moving-state"'
    job = write_job(tmp_path, "fewest", change, plan="mjoin")
    assert job.start(fault="after-switch:1").code == -9
    owners = job.state()["placement"]["owners"]
    assert {name: set(placed) for name, placed in owners.items()} == {"k0": {0}, "k1": {0}, "k2": {0}}
    job.finish("adapt.allocate=spread")
    assert job.state()["placement"]["owners"] == owners
    check_answer(job, CASE, STREAMS, EXPECTED)


def test_a_new_plan_places_keys_that_are_new(tmp_path: Path) -> None:
    """A and B are joined on two columns once they are joined by themselves."""
    case = JoinCase(
        {"A": ("x", "y"), "B": ("x", "y"), "C": ("y",)}, "A.x = B.x AND A.y = B.y AND B.y = C.y", 4 * SECOND
    )
    streams = draw_streams(case, BATCHES, 30, 3, seed=5)
    write_streams(case, streams, tmp_path / "in")
    change = '[[adapt.force]]\nat_batch = 4\nplan = "((A B) C)"\nby = "moving-state"'
    adapt = f'plan = "(A B C)"\nallocate = "fewest"\n{change}'
    job = JudgedJob.write(tmp_path, case, "groups = 8", adapt, "rates = { A = 1000 }")
    job.finish()
    owners = job.state()["placement"]["owners"]
    assert {name: set(placed) for name, placed in owners.items()} == {"k1": {0}, "k0+k1": {0}}
    check_answer(job, case, streams, duckdb_answer(case, streams))


def test_an_unknown_way(tmp_path: Path) -> None:
    code, _, err = write_job(tmp_path, "evenly").call("run", "job.toml")
    assert code == 2
    assert 'unknown allocate "evenly" in [adapt]' in err
