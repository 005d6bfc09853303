"""Changes of the plan through the command line: what is refused, and what a user is told of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from watersmeet.cli.decisions import decision_text
from watersmeet.cli.run import live_report

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)},
    "A.x = B.x AND B.y = C.y AND C.z = D.z",
    3 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 6
STREAMS = draw_streams(CASE, BATCHES, 8, 5, seed=2, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)


def forced(batch: int, plan: str, more: str = "", by: str = "moving-state") -> str:
    return f'[[adapt.force]]\nat_batch = {batch}\nplan = "{plan}"\nby = "{by}"\n{more}\n'


def job_with(home: Path, adapt: str = "", run: str = "", end: int | None = None) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in", 0, end)
    return JudgedJob.write(home, CASE, run, adapt)


def check_answer(job: JudgedJob) -> None:
    assert EXPECTED.total() > 100
    assert not difference(job.answer(), EXPECTED)


def decisions(events: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    found = [entry for event in events for entry in event.get("decisions", ())]
    return [entry for entry in found if entry["decision"] in kinds]


def changes(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(entry["plan"], entry["reason"]) for entry in decisions(events, "ChangePlan")]


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "adapt, message",
    [
        (
            forced(2, "((A B) (C X))"),
            'plan "((A B) (C X))" names unknown input "X"\ndetail: The query\'s inputs are A, B, C, D.',
        ),
        (
            forced(2, "((A C) (B D))"),
            'the inputs of join "(A C)" are not connected\n'
            "detail: No equality leads from A to the others. Equalities: A = B; B = C; C = D.",
        ),
        (
            forced(2, "((A B) (B C) D)"),
            'plan "((A B) (B C) D)" must name each input exactly once\ndetail: An input appears twice.',
        ),
        (
            forced(2, "((A B) C)"),
            'plan "((A B) C)" must name each input exactly once\ndetail: Missing: D.',
        ),
        (forced(2, "((A B)"), 'plan "((A B)" lacks a closing parenthesis'),
        (
            forced(2, "quick"),
            'unknown plan "quick"\ndetail: A plan is "auto", "mjoin", "left-deep", or a tree such as "((A B) C)".',
        ),
        (
            forced(2, "mjoin", by="moving-stat"),
            'unknown way to change the plan "moving-stat"\ndetail: It is one of auto, ',
        ),
        (
            "[[adapt.force]]\nat_batch = 2\nspill_share = 0.5\nby = 'auto'",
            '"by" in [[adapt.force]] goes with "plan"\ndetail: It says how that plan is come to.',
        ),
        (
            "[[adapt.force]]\nat_batch = 2\nby = 'auto'",
            "the entry of [[adapt.force]] for batch 2 forces nothing",
        ),
        (
            forced(2, "mjoin") + forced(2, "left-deep"),
            "[[adapt.force]] asks for two plans before batch 2\ndetail: They are mjoin and left-deep.",
        ),
        (
            "[[adapt.force]]\nat_batch = 2\nplan = 3",
            '"plan" in [[adapt.force]] is 3\ndetail: It is text such as "((A B) C)" or "mjoin".',
        ),
        (
            forced(2, "(((A B) C) D)", 'spill = ["J4:0"]'),
            '[[adapt.force]] names "J4:0", which the plan does not have\n'
            "detail: Its operators are J1, J2, J3, with groups 0 to 5.",
        ),
    ],
    ids=[
        "unknown input",
        "not connected",
        "an input twice",
        "an input missing",
        "parenthesis",
        "unknown plan",
        "unknown way",
        "a way to nothing",
        "a way alone",
        "two plans",
        "no text",
        "a group that the new plan does not have",
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(adapt: str, message: str, tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "mjoin"\n' + adapt)
    refused = job.run_here()
    assert (refused.code, refused.events) == (2, [])
    assert refused.stderr.startswith(f"error: {message}")
    assert not list(tmp_path.glob("ck/state/versions/*"))


# --- told ------------------------------------------------------------------------------------------------------------


def test_a_change_is_told_in_a_line(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "mjoin"\n' + forced(2, "left-deep"))
    code, out, err = job.call("run", "job.toml")
    assert code == 0, err
    (line,) = [line for line in out.splitlines() if "plan changed" in line]
    assert line.startswith(
        "  plan changed to (((A B) C) D) by moving-state: forced; it was (A B C D), 4 states were kept and 2 made"
    )
    assert line.endswith(" seconds")
    assert out.splitlines().index(line) > 3, "it belongs to the batch that it came before"
    _, shown, _ = job.call("state", "show", "ck")
    assert f": {line.strip()}" in shown
    assert "\nplan (((A B) C) D)\n" in shown
    check_answer(job)


def test_a_change_with_no_batch_after_it_is_told_at_the_end(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "mjoin"')
    job.finish()
    (end,) = job.finish("adapt.plan=left-deep")
    assert changes([end]) == [("(((A B) C) D)", "the settings say so")]
    assert (end["event"], end["batches"]) == ("end", 0)
    job.finish("adapt.plan=mjoin")
    code, out, _ = job.call("run", "job.toml", "--set", "adapt.plan=((A B) (C D))")
    assert (code, "\n  plan changed to ((A B) (C D)) by " in out) == (0, True)
    check_answer(job)


def test_a_change_stays_above_the_table_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    change = {"decision": "ChangePlan", "plan": "((A B) C)", "by": "moving-state", "reason": "forced"}
    failed = {**change, "decision": "MigrationAbandoned", "reason": "forced: no space left"}
    other = {"decision": "CannotForce", "reason": "the plan (A B C) does not have J2:0"}
    with live_report() as report:
        report({"event": "start", "plan": "(A B C)"})
        report(
            {"event": "end", "decisions": [change, failed, other], "rows_in": 1, "rows_out": 1, "rows_late": 0}
            | {"batches": 1, "seconds": 1.0}
        )
    out = capsys.readouterr().out
    assert "plan changed to ((A B) C) by moving-state: forced\n" in out
    assert "plan not changed to ((A B) C) by moving-state: forced: no space left\n" in out
    assert "J2:0" not in out, "the table has no room for everything"
    assert decision_text(other) == "cannot be forced: the plan (A B C) does not have J2:0"


# --- a job file that changes -----------------------------------------------------------------------------------------


def test_a_forced_change_is_made_although_settings_changed_the_plan_before_the_same_batch(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "mjoin"', end=3)
    job.finish()
    job = job_with(tmp_path, 'plan = "left-deep"\n' + forced(3, "(A (B (C D)))"))
    assert changes(job.finish())[:2] == [
        ("(((A B) C) D)", "the settings say so"),
        ("(A (B (C D)))", "forced"),
    ]
    check_answer(job)


def test_steps_are_named_by_the_plan_that_the_settings_ask_for(tmp_path: Path) -> None:
    """The checkpoint has another one still, which has no J2."""
    job = job_with(tmp_path, 'plan = "mjoin"', end=3)
    job.finish()
    job = job_with(tmp_path, 'plan = "left-deep"\n[[adapt.force]]\nat_batch = 5\nspill = ["J2:0"]\nmerge = ["J1:1"]')
    events = job.finish()
    assert [entry["reason"] for entry in decisions(events, "SpillGroups")] == ["forced"]
    check_answer(job)


def test_groups_that_an_optimiser_did_not_provide_for_are_passed_over(tmp_path: Path) -> None:
    forces = forced(2, "auto") + '[[adapt.force]]\nat_batch = 3\nspill = ["J9:0"]'
    job = job_with(tmp_path, 'plan = "mjoin"\n' + forces)
    (passed_over,) = decisions(job.finish(), "CannotForce")
    assert passed_over["reason"].endswith(" does not have J9:0")
    check_answer(job)


def test_a_job_goes_on_although_its_steps_are_named_by_a_plan_that_it_does_not_have(tmp_path: Path) -> None:
    """Nobody changes the job file. What has passed is not looked at; what is to come and does not fit is told."""
    spills = "".join(
        f'[[adapt.force]]\nat_batch = {batch}\nspill = ["J{name}:0"]\n' for batch, name in ((1, 3), (5, 9))
    )
    steps = 'plan = "left-deep"\n' + forced(2, "auto") + spills
    job_with(tmp_path, steps, end=3).finish()
    job = job_with(tmp_path, steps)
    told = 'is passed over: [[adapt.force]] names "J9:0", which the plan does not have'
    assert told in job.call("explain", "job.toml")[1]
    assert told in job.call("explain", "job.toml", "--json")[1].replace("\\", "")
    done = job.run_here()
    assert done.code == 0, done.stderr
    assert told in done.stderr
    (passed_over,) = decisions(done.events, "CannotForce")
    assert passed_over["reason"].endswith(" does not have J9:0")
    check_answer(job)
