"""Groups that are spread over slots and drawn together, through the command line, on jobs that DuckDB judges."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, late_rows, write_streams

# A and B, and then C, are joined on k; D comes by another key. One value of k has most rows: there are two.
CASE = JoinCase(
    {"A": ("k",), "B": ("k",), "C": ("k", "m"), "D": ("m",)},
    "A.k = B.k AND B.k = C.k AND C.m = D.m",
    3 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 10
STREAMS = draw_streams(CASE, BATCHES, 8, {"k": 2, "m": 8}, seed=11, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
GROUPS = 4


def step(batch: int, **forced: object) -> str:
    return f"[[adapt.force]]\nat_batch = {batch}\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in forced.items())


def write_job(home: Path, *steps: str, run: str = "slots = 3", plan: str = "(((A B) C) D)", **more: Any) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in")
    return JudgedJob.write(home, CASE, f"groups = {GROUPS}\n{run}", f'plan = "{plan}"\n' + "".join(steps), **more)


def decisions(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] == kind]


def check(job: JudgedJob) -> None:
    assert EXPECTED.total() > 100
    assert not difference(job.answer(), EXPECTED)
    assert job.late() == late_rows(CASE, STREAMS)
    code, out, err = job.call("state", "verify", "ck")
    assert code == 0, out + err


def everywhere(alias: str, over: str = "0,1,2", join: str = "J2") -> list[str]:
    return [f"{join}:{group}->{over} dealing {alias}" for group in range(GROUPS)]


def test_spread_drawn_together_and_shown(tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        step(1, spread=everywhere("A")),
        step(3, spread=["J3:0->2,1 dealing D"]),
        step(5, draw_together=["J2:0", "J2:1"], spread=["J2:2->0,1 dealing C"]),
    )
    events = job.finish()
    spread = decisions(events, "SpreadGroup")
    assert [(entry["operator"], entry["group"], entry["alias"], entry["slots"]) for entry in spread[-2:]] == [
        ("J3", 0, "D", [2, 1]),
        ("J2", 2, "C", [0, 1]),
    ]
    assert [entry["group"] for entry in decisions(events, "DrawTogether")] == [0, 1]
    batches = [event for event in events if event["event"] == "batch"]
    rows = [sum(slot["rows_out"] > 0 for slot in event["slots"]) for event in batches]
    assert max(rows[1:]) > 1, "several slots have results"
    check(job)
    assert job.state()["placement"]["spreads"] == {
        "k0": {"2": {"alias": "C", "slots": [1, 0]}, "3": {"alias": "A", "slots": [2, 0, 1]}},
        "k1": {"0": {"alias": "D", "slots": [2, 1]}},
    }
    code, out, _ = job.call("state", "show", "ck")
    squeezed = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "k0 2 1 C 1, 0" in squeezed
    assert any(line.endswith(":0->2, 1 dealing D: forced") for line in squeezed)
    assert any(line.endswith(":1 together: forced") for line in squeezed)


def test_a_join_beside_the_way_is_spilled_and_merged(tmp_path: Path) -> None:
    """All slots have copies of A and B, and one alone would have what a merge of them emits."""
    groups = [f"J1:{group}" for group in range(GROUPS)]
    spills = [step(batch, spill=groups) for batch in (2, 3, 4, 6)]
    job = write_job(tmp_path, step(1, spread=everywhere("C")), *spills, step(5, merge=groups), step(7, merge=groups))
    events = job.finish()
    assert sum(event["rows_merged"] for event in events if event["event"] == "batch") > 100
    check(job)


@pytest.mark.parametrize(
    "plan, run",
    [
        ("(((A B) C) D)", "slots = 2\nmemory = 3000"),
        ("((A B C) D)", "slots = 3"),
        pytest.param("((A (B C)) D)", "slots = 2\nmemory = 3000", marks=pytest.mark.campaign),
        pytest.param("((A B) (C D))", "slots = 4", marks=pytest.mark.campaign),
    ],
)
def test_at_any_batch_beside_all_else_and_kills(tmp_path: Path, plan: str, run: str) -> None:
    random = Random(f"{plan}{run}")
    steps = [step(1, spread=[f"J1:{group}->0,1 dealing A" for group in range(GROUPS)])]
    for batch in range(2, BATCHES):
        alias, group = random.choice("AB"), random.randrange(GROUPS)
        forced = [
            {"draw_together": [f"J1:{group}"]},
            {"spread": [f"J1:{group}->1,0 dealing {alias}"], "spill": [f"J1:{group}"]},
            {"move": [f"J1:{group}->{random.randrange(2)}"], "merge": [f"J1:{random.randrange(GROUPS)}"]},
            {"spill_share": 0.4},
            {"slots": random.randint(2, 4)},
        ]
        if batch == 4:
            steps.append(step(batch, cut=["J1:2"]))
        if batch == 6:
            by = random.choice(["moving-state", "seeded", "parallel-track"])
            steps.append(step(batch, plan="((A (C B)) D)", by=by, spread=everywhere("B", "0,1", "J1")))
        else:
            steps.append(step(batch, **random.choice(forced)))
    job = write_job(tmp_path, *steps, run=run, plan=plan)
    killed = 0
    for place in sorted(random.sample(range(2, 36), 3)):
        killed += job.start(fault=f"{random.choice(['before', 'after'])}-commit:{place}").code == -9
    assert killed
    events = job.finish()
    assert all(event["event"] != "error" for event in events)
    check(job)


@pytest.mark.spark
@pytest.mark.campaign  # drawn changes on Spark have spreads too
@pytest.mark.timeout(240)
def test_on_spark(tmp_path: Path) -> None:
    """Over a kill and a restart, which goes on with what is spread."""
    steps = (
        step(1, spread=everywhere("A", "0,1")),
        step(4, draw_together=["J2:1"], spill=["J2:0"]),
        step(5, merge=["J2:0"], spread=["J3:1->1,0 dealing D"]),
    )
    job = write_job(tmp_path, *steps, run="slots = 2", runtime="spark")
    assert job.start(fault="after-commit:9").code == -9
    assert job.state()["placement"]["spreads"]
    job.finish()
    check(job)


@pytest.mark.parametrize(
    "forced, message",
    [
        ({"spread": ["J2:0->0,1"]}, "\"spread\" in [[adapt.force]] names 'J2:0->0,1'"),
        ({"spread": ["J2:9->0,1 dealing A"]}, '[[adapt.force]] names "J2:9", which the plan does not have'),
        ({"spread": ["J2:0->0,3 dealing A"]}, '[[adapt.force]] spreads "J2:0" to slot 3, which is not there'),
        ({"spread": ["J2:0->0,1 dealing D"]}, '[[adapt.force]] spreads "J2:0" dealing "D", which does not come there'),
        ({"draw_together": "J2:0"}, "\"draw_together\" in [[adapt.force]] is 'J2:0'"),
    ],
)
def test_mistakes(tmp_path: Path, forced: dict[str, object], message: str) -> None:
    code, _, err = write_job(tmp_path, step(1, **forced)).call("run", "job.toml")
    assert code == 2
    assert message in err
