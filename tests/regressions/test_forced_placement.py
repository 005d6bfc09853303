"""Slots, moves and cuts that were checked, decided or carried out by other slots and groups than there are by then.

Was: a restart with other `slots` had its moves checked by the slots of before, so that a right one was refused, and one
to a slot that is not there was told as made; a move in another entry than the slots of its batch was left out where it
held before these; slots and moves after a plan of the optimiser's were not checked at all; a cut of a group that had
become too narrow was an internal error; a cut by `balance = "time"` was the end of a change of the plan. Steps of one
batch that undo each other were taken in turn without end, and so were more cuts than decisions are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from watersmeet.adapt.policies.migrate import seeded
from watersmeet.model.slot_figures import SlotFigures
from watersmeet.runtime import stages
from watersmeet.state.applying import DECISIONS_KEPT

CASE = JoinCase({"A": ("k",), "B": ("k",), "C": ("k",)}, "A.k = B.k AND B.k = C.k", 3 * SECOND, SECOND)
BATCHES = 18
STREAMS = draw_streams(CASE, BATCHES, 8, 7, seed=3, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
PLAN = 'plan = "((A B) C)"\n'
BALANCED = PLAN + 'balance = "time"\nbalance_every = 1\n'


def step(batch: int, **forced: object) -> str:
    return f"[[adapt.force]]\nat_batch = {batch}\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in forced.items())


def write_job(home: Path, *steps: str, adapt: str = PLAN, batches: int = BATCHES) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in", 0, batches)
    return JudgedJob.write(home, CASE, "slots = 2\ngroups = 6", adapt + "".join(steps))


def decisions(events: list[dict[str, Any]], *kinds: str) -> Iterator[dict[str, Any]]:
    return (entry for event in events for entry in event.get("decisions", ()) if entry["decision"] in kinds)


def owners(job: JudgedJob) -> list[int]:
    (found,) = job.state()["placement"]["owners"].values()
    return list(found)


def test_a_restart_with_other_slots_moves_groups_among_these(tmp_path: Path) -> None:
    job = write_job(tmp_path, batches=6)
    job.finish()
    write_streams(CASE, STREAMS, tmp_path / "in", 6)
    move = 'adapt.force=[{at_batch = 8, move = ["J1:0->3"]}]'
    job.finish("run.slots=4", move)
    assert owners(job)[0] == 3
    done = job.run_here("run.slots=2", move.replace("8", "30"))
    assert (done.code, done.stderr.splitlines()[0]) == (
        2,
        'error: [[adapt.force]] moves "J1:0" to slot 3, which is not there',
    )
    assert difference(job.answer(), EXPECTED) == ""


def test_a_move_beside_other_slots_in_another_entry(tmp_path: Path) -> None:
    """Group 2 is with slot 0 of two, and would be with slot 1 of three."""
    job = write_job(tmp_path, step(3, slots=3), step(3, move=["J1:2->0"]))
    job.finish()
    assert owners(job) == [0, 0, 0, 1, 2, 2]
    assert difference(job.answer(), EXPECTED) == ""


@pytest.mark.parametrize(
    ("forced", "message"),
    [
        ({"slots": 50}, "error: 50 slots cannot share 6 groups"),
        ({"move": ["J1:0->7"]}, 'error: [[adapt.force]] moves "J1:0" to slot 7, which is not there'),
    ],
)
def test_what_cannot_be_whatever_plan_an_optimiser_finds(forced: dict[str, Any], message: str, tmp_path: Path) -> None:
    done = write_job(tmp_path, step(1, plan="auto"), step(3, **forced)).run_here()
    assert (done.code, done.stderr.splitlines()[0]) == (2, message)


def test_a_cut_of_a_group_that_has_become_too_narrow_is_passed_over(tmp_path: Path) -> None:
    job = write_job(tmp_path, step(1, plan="auto"), *(step(batch, cut=["J1:0"]) for batch in range(2, BATCHES)))
    told = [entry["decision"] for entry in decisions(job.finish(), "CutGroup", "CannotForce")]
    assert told == ["CutGroup"] * 13 + ["CannotForce"] * 3
    assert difference(job.answer(), EXPECTED) == ""


def took(seconds: float, cpu_seconds: float, rows_in: float, rows_out: float) -> SlotFigures:
    """A second a row, on any machine."""
    return SlotFigures(rows_in + rows_out, rows_in + rows_out, rows_in, rows_out)


def test_slots_that_no_batch_was_measured_with_are_left_alone(tmp_path: Path) -> None:
    """Was: one that a restart brings takes no time by what is known, and got most groups before it had worked."""
    job = write_job(tmp_path, adapt=BALANCED, batches=6)
    with mock.patch.object(stages, "SlotFigures", took):
        job.finish()
        write_streams(CASE, STREAMS, tmp_path / "in", 6)
        events = job.finish("run.slots=3")
    assert [entry for entry in decisions(events, "MoveGroups") if entry["before_batch"] == 6] == []
    assert difference(job.answer(), EXPECTED) == ""


def test_a_policy_of_balance_waits_for_a_change_of_the_plan(tmp_path: Path) -> None:
    job = write_job(tmp_path, step(2, plan="(A (B C))", by="seeded"), adapt=BALANCED)
    with mock.patch.object(stages, "SlotFigures", took), mock.patch.object(seeded, "_rows_allowed", lambda _: 12):
        events = job.finish("run.groups=2")
    told = [entry["decision"] for entry in decisions(events, "ChangePlan", "MigrationAbandoned", "CutGroup")]
    assert "MigrationAbandoned" not in told
    assert "ChangePlan" in told
    assert "CutGroup" in told
    assert difference(job.answer(), EXPECTED) == ""


@pytest.mark.parametrize("plan", ["((A B) C)", "auto"])
def test_a_group_that_is_moved_and_spread_over_other_slots(plan: str, tmp_path: Path) -> None:
    """It is one of these that owns it then."""
    steps = step(3, slots=4), step(3, move=["J1:0->3"]), step(3, spread=["J1:0->2,1 dealing A"])
    job = write_job(tmp_path, *steps, adapt=f'plan = "{plan}"\n')
    events = job.finish()
    assert owners(job)[0] == 2
    assert len(list(decisions(events, "MoveGroups", "SpreadGroup"))) == 2
    assert difference(job.answer(), EXPECTED) == ""


def test_a_spread_that_is_not_known_to_contradict_another(tmp_path: Path) -> None:
    """The plan is not known when the run begins; the last one holds."""
    spreads = step(3, spread=["J1:0->1,0 dealing A"]), step(3, spread=["J1:0->0,1 dealing B"], draw_together=["J1:1"])
    job = write_job(tmp_path, step(1, plan="auto"), *spreads)
    (told,) = decisions(job.finish(), "SpreadGroup")
    assert told["alias"] == "B"
    assert difference(job.answer(), EXPECTED) == ""


def test_more_cuts_before_a_batch_than_decisions_are_kept(tmp_path: Path) -> None:
    job = write_job(tmp_path, step(3, cut=[f"J1:{group}" for group in range(DECISIONS_KEPT + 20)]))
    events = job.finish("run.groups=300")
    assert len(list(decisions(events, "CutGroup"))) == DECISIONS_KEPT + 20
    assert len(job.state()["decisions"]) <= DECISIONS_KEPT
    assert difference(job.answer(), EXPECTED) == ""


def test_moves_that_are_not_known_to_contradict_each_other(tmp_path: Path) -> None:
    """The last one holds."""
    job = write_job(tmp_path, step(1, plan="auto"), step(3, move=["J1:0->0", "J1:0->1"]), step(3, move=["J1:0->0"]))
    job.finish()
    assert owners(job)[0] == 0
    assert difference(job.answer(), EXPECTED) == ""
