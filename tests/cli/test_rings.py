"""Rings that become longer and shorter, through the command line, on jobs that DuckDB judges."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from judged_jobs import (
    SECOND,
    JoinCase,
    JudgedJob,
    check_answer,
    decisions,
    draw_streams,
    duckdb_answer,
    write_streams,
)

# A and B share a key; what they make meets C in a ring, which D is part of as well.
CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)},
    "A.x = B.x AND ABS(B.y - C.y) < 2 AND C.z < D.z - 5",
    4 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 10
STREAMS = draw_streams(CASE, BATCHES, 8, 9, seed=5, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
GROUPS = 8
CAMPAIGN = pytest.mark.campaign
PLANS = (
    "((A B) C D)",
    pytest.param("mjoin", marks=CAMPAIGN),
    pytest.param("(((A B) C) D)", marks=CAMPAIGN),
)


def step(batch: int, **forced: object) -> str:
    return f"[[adapt.force]]\nat_batch = {batch}\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in forced.items())


def write_job(
    home: Path, *steps: str, run: str = "slots = 4", plan: str = "((A B) C D)", adapt: str = "", stats: str = ""
) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in")
    lines = f'plan = "{plan}"\n{adapt}\n' + "".join(steps)
    return JudgedJob.write(home, CASE, f"groups = {GROUPS}\n{run}", lines, stats)


def check(job: JudgedJob) -> None:
    check_answer(job, CASE, STREAMS, EXPECTED)


def test_a_ring_lies_over_as_many_slots_as_it_is_told(tmp_path: Path) -> None:
    """At the start, and forced: it is one commit of owners. More and fewer slots leave it as long as it can be."""
    job = write_job(
        tmp_path,
        step(3, ring=4),
        step(5, ring=1),
        step(6, slots=6),
        step(7, ring=3, move=["time:0->5"]),
        step(8, slots=2),
        step(BATCHES - 1, slots=4),
        plan="(((A B) C) D)",
        adapt="ring_slots = 2",
    )
    _, before, _ = job.call("explain", "job.toml")
    assert "J2 by time: slot 0 (4 groups), slot 1 (4 groups)\n" in before
    events = job.finish()
    resized = decisions(events, "ResizeRing")
    assert [(e["from_slots"], e["slots"], e["before_batch"]) for e in resized] == [(2, 4, 3), (4, 1, 5), (1, 3, 7)]
    assert resized[0]["moves"] == [["time", 2, 2], ["time", 3, 2], ["time", 6, 3], ["time", 7, 3]]
    # All slots have some of the 16 rows of A and B, which share a key; those of the ring have more to do.
    ring_rows = {
        batch: [bool(slot["rows_in"] > 16) for slot in event["slots"]]
        for event in events
        if event["event"] == "batch" and (batch := event["batch"]) in (2, 4, 5)
    }
    assert ring_rows == {2: [True, True, False, False], 4: [True] * 4, 5: [True, False, False, False]}
    measured, placement = job.state()["measured"], job.state()["placement"]
    assert measured["rows"]["C"] / measured["seconds"] == pytest.approx(8, rel=0.2), "each row counts once"
    assert (placement["slots"], placement["ring"], placement["asked_ring"]) == (4, 3, 2)
    assert set(placement["owners"]["time"]) == {0, 1, 2}
    check(job)
    _, shown, _ = job.call("state", "show", "ck")
    assert "a ring of 1 slot in the place of 4, 6 groups to slot 0: forced" in shown


def test_a_ring_with_copies_lies_over_as_many_slots_as_well(tmp_path: Path) -> None:
    """Copies that cannot lie in different slots are no more than one."""
    steps = [step(2, ring=3), step(4, ring=1), step(5, slots=2, ring=2, move=["time:0->1"]), step(7, slots=4)]
    job = write_job(tmp_path, *steps, adapt='ring = "ctr"\nring_slots = 2\nring_adapt = "smooth"\nbalance_every = 1')
    events = job.finish()
    assert [entry["slots"] for entry in decisions(events, "ResizeRing")] == [3, 1, 2]
    check(job)


@pytest.mark.parametrize("plan", PLANS)
def test_at_any_batch_beside_other_slots_moves_and_kills(tmp_path: Path, plan: str) -> None:
    random = Random(plan)
    steps = []
    for batch in range(1, BATCHES):
        slots = random.randint(1, 4)
        moves = [f"time:{random.randrange(GROUPS)}->{random.randrange(slots)}"]
        steps.append(step(batch, slots=slots, ring=random.randint(1, slots), move=moves))
    job = write_job(tmp_path, *steps, plan=plan)
    killed = 0
    for place in sorted(random.sample(range(2, 30), 3)):
        killed += job.start(fault=f"{random.choice(['before', 'after'])}-commit:{place}").code == -9
    assert killed
    job.finish()
    check(job)


@pytest.mark.parametrize(
    "policy, relocate",
    [("auto", "aggressive"), ("auto", "passive"), pytest.param("smooth", "aggressive", marks=CAMPAIGN)],
)
def test_policies_beside_kills_change_nothing(tmp_path: Path, policy: str, relocate: str) -> None:
    """With so little time for a batch that a ring is always too short: it becomes as long as it can."""
    seconds = "ring_seconds = 0.0001" if policy == "auto" else ""
    adapt = f'ring_slots = 1\nring_adapt = "{policy}"\nring_relocate = "{relocate}"\n{seconds}\nbalance_every = 1'
    job = write_job(tmp_path, adapt=adapt)
    assert job.start(fault="after-commit:8").code == -9
    job.start(fault="before-spill:1")
    job.finish()
    check(job)
    told = [entry for entry in job.state()["decisions"] if entry["decision"] == "ResizeRing"]
    assert [entry["slots"] for entry in told[:1]] == ([4] if policy == "auto" else [])
    assert all(entry["reason"].startswith("passive") == (relocate == "passive") for entry in told)


def test_a_restart_keeps_what_it_has_come_to_unless_another_length_is_asked_for(tmp_path: Path) -> None:
    job = write_job(tmp_path, step(2, ring=3), adapt="ring_slots = 2")
    assert job.start(fault="after-commit:6").code == -9

    def length() -> tuple[int, int]:
        placement = job.state()["placement"]
        return placement.get("ring", 0), len(set(placement["owners"].get("time", range(4))))

    assert length() == (3, 3)
    assert job.start(fault="after-commit:3").code == -9
    assert length() == (3, 3), "as before"
    assert job.start("adapt.ring_slots=1", fault="after-commit:2").code == -9
    assert length() == (1, 1)
    assert job.state()["decisions"][-1]["reason"] == "the settings say so"
    assert job.state()["decisions"][-1]["decision"] == "ResizeRing"
    job.finish("adapt.ring_slots=auto")
    last = job.state()["decisions"][-1]
    assert (last["decision"], last["from_slots"]) == ("ResizeRing", 1)
    assert last["reason"] == "the settings leave it to the cost model"
    assert length() == (last["slots"], last["slots"])
    check(job)


def test_other_slots_at_a_restart_leave_the_length(tmp_path: Path) -> None:
    job = write_job(tmp_path, adapt="ring_slots = 2")
    assert job.start(fault="after-commit:6").code == -9
    job.finish("run.slots=3", "run.groups=5")
    placement = job.state()["placement"]
    assert (placement["slots"], placement["groups"], placement["ring"]) == (3, 5, 2)
    check(job)


@pytest.mark.parametrize(
    "rates, slots",
    [("{ A = 10, B = 10, C = 10, D = 10 }", 1), ("{ A = 500, B = 500, C = 2000, D = 2000 }", 4)],
    ids=["little to do", "more than slots can do"],
)
@pytest.mark.parametrize("allocate", ["spread", "even", pytest.param("fewest", marks=CAMPAIGN)])
def test_auto_goes_by_the_cost_model(tmp_path: Path, rates: str, slots: int, allocate: str) -> None:
    """However other joins are placed. Without statistics it lies over all slots."""
    job = write_job(tmp_path, adapt=f'allocate = "{allocate}"', stats=f"rates = {rates}")
    where = {e["id"]: e["groups_by_slot"] for e in json.loads(job.call("explain", "job.toml", "--json")[1])["where"]}
    assert where["J2"] == ([8, 0, 0, 0] if slots == 1 else [2, 2, 2, 2])
    job.drop_section("stats")
    where = {e["id"]: e["groups_by_slot"] for e in json.loads(job.call("explain", "job.toml", "--json")[1])["where"]}
    assert where["J2"] == [2, 2, 2, 2]


@pytest.mark.parametrize(
    "more",
    [
        'balance = "time"\nbalance_every = 1\nring_slots = 2',
        pytest.param('balance = "relocate"\nbalance_every = 1\nbalance_least = 1', marks=CAMPAIGN),
        pytest.param('replan = "refined"\nreplan_every = 2\nreplan_scope = "slot"', marks=CAMPAIGN),
        pytest.param('scale = "seconds"\nscale_seconds = 0.001', marks=CAMPAIGN),
        'scale = "seconds"\nscale_seconds = 0.001\nring_adapt = "auto"\nring_seconds = 0.001\nring_slots = 1',
    ],
    ids=["time", "relocate", "plans by slot", "more slots", "more slots and a longer ring"],
)
def test_beside_other_policies(tmp_path: Path, more: str) -> None:
    job = write_job(tmp_path, adapt=more)
    events = job.finish()
    check(job)
    assert not decisions(events, "SpreadGroup")
    owners = job.state()["placement"]["owners"].get("time", ())
    assert set(owners) <= {0, 1} or "ring_slots = 2" not in more


@pytest.mark.parametrize(
    "adapt, forced, message",
    [
        ("ring_slots = 0", {}, '"ring_slots" is 0'),
        ("ring_slots = -2", {}, '"ring_slots" is -2'),
        ('ring_slots = "all"', {}, "\"ring_slots\" is 'all'"),
        ("ring_slots = true", {}, '"ring_slots" in [adapt] is true or false'),
        ("ring_slots = 5", {}, '"ring_slots" is 5, and there are 4 slots'),
        ('ring_adapt = "smoth"', {}, 'unknown ring_adapt "smoth"'),
        ('ring_relocate = "lazy"', {}, 'unknown ring_relocate "lazy"'),
        ('ring_adapt = "auto"', {}, 'ring_adapt = "auto" has no time that a batch may take'),
        ('ring_adapt = "auto"\nring_seconds = 0', {}, '"ring_seconds" is 0'),
        ("", {"ring": 0}, '"ring" in [[adapt.force]] is 0'),
        ("", {"ring": "auto"}, "\"ring\" in [[adapt.force]] is 'auto'"),
        ("", {"ring": 5}, "asks for a ring of 5 slots before batch 3"),
        ("", {"ring": 3, "slots": 2}, "asks for a ring of 3 slots before batch 3"),
        ("", {"move": ["time:8->1"]}, 'names "time:8", which the plan does not have'),
        ("", {"spread": ["time:1->0,1 dealing A"]}, 'names "time:1", which the plan does not have'),
        ("", {"cut": ["time:1"]}, 'names "time:1", which the plan does not have'),
    ],
)
def test_mistakes(tmp_path: Path, adapt: str, forced: dict[str, object], message: str) -> None:
    job = write_job(tmp_path, *([step(3, **forced)] if forced else []), adapt=adapt)
    code, _, err = job.call("run", "job.toml")
    assert code == 2
    assert message in err


def test_aligned_rows_have_no_ring_to_resize(tmp_path: Path) -> None:
    """They lie in segments, all slots alike, whatever the ring of another way would be like."""
    job = write_job(tmp_path, step(3, ring=2), adapt='ring = "atr"')
    code, _, err = job.call("run", "job.toml")
    assert code == 2
    assert "resizes a ring before batch 3, and the plan ((A B) C D) has none" in err
    job = write_job(tmp_path, adapt='ring = "atr"\nring_slots = 1\nring_adapt = "auto"\nring_seconds = 0.0001')
    events = job.finish()
    assert not decisions(events, "ResizeRing")
    check(job)


def test_a_query_without_a_ring_has_none_to_resize(tmp_path: Path) -> None:
    case = JoinCase({"A": ("x",), "B": ("x",)}, "A.x = B.x")
    job = JudgedJob.write(tmp_path, case, "slots = 2", step(3, ring=1))
    write_streams(case, draw_streams(case, 4, 2, 2), tmp_path / "in")
    code, _, err = job.call("run", "job.toml")
    assert code == 2
    assert "[[adapt.force]] resizes a ring, and the query has none" in err
