"""What goes where, decided while a query runs: through the command line, on jobs that DuckDB judges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

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
from watersmeet.adapt.policies.balance import relocation, time_of_slots

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y",)},
    "A.x = B.x AND B.y = C.y",
    4 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 20
STREAMS = draw_streams(CASE, BATCHES, 40, 60, seed=5, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
GROUPS = 16
# Nearly everything is with slot 0 from batch 1 on.
CROWDED = [f"{label}:{group}->0" for label in ("J1", "J2") for group in range(GROUPS - 1)]


@pytest.fixture(autouse=True)
def small_loads() -> Iterator[None]:
    """So that those of these jobs are worth a move."""
    with (
        mock.patch.object(relocation, "LEAST_BYTES", 1),
        mock.patch.object(relocation, "LEAST_SHARE", 0.0),
        mock.patch.object(time_of_slots, "LEAST_SECONDS", 0.0),
    ):
        yield


def write_job(
    home: Path, adapt: str, run: str = "", plan: str = "((A B) C)", moves: Sequence[str] = CROWDED
) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in")
    force = f"[[adapt.force]]\nat_batch = 1\nmove = {json.dumps(moves)}\n"
    return JudgedJob.write(home, CASE, f"groups = {GROUPS}\n{run}", f'plan = "{plan}"\n{adapt}\n{force}')


def check(job: JudgedJob) -> None:
    check_answer(job, CASE, STREAMS, EXPECTED)


@pytest.mark.parametrize("run", ["", "slot_memory = 60_000", "memory = 100_000"], ids=["no limit", "by slot", "in all"])
@pytest.mark.parametrize("policy", ["relocate", "lazy-disk", "active-disk", "time"])
@pytest.mark.share(2)
def test_a_crowded_slot_is_relieved(tmp_path: Path, policy: str, run: str) -> None:
    job = write_job(tmp_path, f'balance = "{policy}"\nbalance_every = 3', run)
    events = job.finish()
    moves = [entry for entry in decisions(events, "MoveGroups") if entry["reason"] != "forced"]
    if policy == "time":  # what tasks of so few rows take says little
        pass
    elif run or policy == "relocate":
        assert moves, "it is worth it"
        assert all(entry["reason"].startswith(f"{policy}: ") for entry in moves)
        assert moves[0]["before_batch"] % 3 == 0
        reviews = decisions(events, "ReviewMoves")
        assert len(moves) - len(reviews) <= 1, "the last one may come too late for it"
        assert all(" expected, and is " in entry["reason"] for entry in reviews)
    else:
        assert not moves, "without a limit there is nothing to make room for"
    if not run and policy == "relocate":
        last = [event for event in events if event["event"] == "batch"][-1]
        held = sorted(slot["active_bytes"] for slot in last["slots"])
        assert held[0] >= 0.6 * held[1], "about level"
    check(job)


def test_where_memory_is_limited_it_is_lazy_disk_unless_it_is_set(tmp_path: Path) -> None:
    events = write_job(tmp_path / "limited", "balance_every = 3", "slot_memory = 60_000").finish()
    reasons = [entry["reason"] for entry in decisions(events, "MoveGroups")]
    assert any(reason.startswith("lazy-disk: ") for reason in reasons)
    events = write_job(tmp_path / "off", 'balance = "off"', "slot_memory = 60_000").finish()
    assert [entry["reason"] for entry in decisions(events, "MoveGroups")] == ["forced"]


@pytest.mark.parametrize("adapt", ["", 'balance_span = "1 hour"\nbalance = "relocate"\nbalance_every = 2'])
def test_a_span_keeps_moves_apart(tmp_path: Path, adapt: str) -> None:
    events = write_job(tmp_path, adapt).finish()
    moves = [entry for entry in decisions(events, "MoveGroups") if entry["reason"] != "forced"]
    assert len(moves) == (1 if adapt else 0)


def test_a_routed_join_is_relieved_by_time(tmp_path: Path) -> None:
    """All of it is with slot 0, which slot 1 waits for; a batch has some rows of each group."""
    job = write_job(tmp_path, 'balance = "time"\nbalance_every = 3', plan="(A B C)", moves=["J1:*->0"])
    events = job.finish()
    moves = [entry for entry in decisions(events, "MoveGroups") if entry["reason"] != "forced"]
    assert moves
    assert {name for entry in moves for name, _, _ in entry["moves"]} <= {"k0", "k1"}
    last = [event for event in events if event["event"] == "batch"][-1]
    assert all(slot["rows_in"] for slot in last["slots"])
    check(job)


def test_off_moves_nothing(tmp_path: Path) -> None:
    job = write_job(tmp_path, "")
    events = job.finish()
    assert [entry["reason"] for entry in decisions(events, "MoveGroups")] == ["forced"]
    last = [event for event in events if event["event"] == "batch"][-1]
    assert [slot["slot"] for slot in last["slots"]] == [0, 1]
    assert last["slots"][0]["rows_in"] > 3 * last["slots"][1]["rows_in"]
    assert last["slots"][0]["active_bytes"] > 3 * last["slots"][1]["active_bytes"]
    assert sum(slot["rows_out"] for slot in last["slots"]) == last["rows_out"]
    assert abs(sum(slot["active_bytes"] for slot in last["slots"]) - last["active_bytes"]) <= 8
    check(job)


def test_a_slot_that_is_over_spills(tmp_path: Path) -> None:
    job = write_job(tmp_path, 'spill = "largest"', "slot_memory = 3000")
    events = job.finish()
    spills = decisions(events, "SpillGroups")
    assert spills
    assert any("of slot 0: " in entry["reason"] for entry in spills)
    assert all("of slot " in entry["reason"] for entry in spills)
    for event in events:
        for slot in event.get("slots", ()):
            assert slot["active_bytes"] <= 3000
    check(job)


def test_killed_and_started_again(tmp_path: Path) -> None:
    job = write_job(tmp_path, 'balance = "relocate"\nbalance_every = 2', "slot_memory = 4000")
    for fault in ("before-spill:2", "after-spill:3", "after-commit:20"):
        assert job.start(fault=fault).code == -9, fault
    job.finish()
    check(job)


@pytest.mark.parametrize(
    "adapt, run, message",
    [
        ('balance = "memory"', "", 'unknown balance "memory" in [adapt]'),
        ("balance_threshold = 1", "", '"balance_threshold" is 1'),
        ("balance_every = 0", "", '"balance_every" is 0'),
        ('balance_span = "soon"', "", 'balance_span "soon" is not a duration'),
        ('balance_least = "little"', "", 'balance_least "little" is not a size'),
        ("balance_rates = 0.5", "", '"balance_rates" is 0.5'),
        ("", "slot_weights = [1, 2, 3]", '"slot_weights" has 3 numbers, and there are 2 slots'),
        ("", "slot_weights = []", '"slot_weights" has 0 numbers, and there are 2 slots'),
        ("", "slot_weights = [1, 0]", '"slot_weights" are 1, 0'),
        ("", 'slot_weights = [1, "x"]', "\"slot_weights\" is [1, 'x']"),
        ("", 'slot_memory = "a lot"', 'slot_memory "a lot"'),
    ],
)
def test_mistakes(tmp_path: Path, adapt: str, run: str, message: str) -> None:
    code, _, err = write_job(tmp_path, adapt, run).call("run", "job.toml")
    assert code == 2
    assert message in err
