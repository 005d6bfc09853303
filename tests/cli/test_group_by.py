"""Queries with groups through the command line, on jobs that DuckDB judges: whatever happens, each boundary once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow.parquet as pq
import pytest

from judged_groups import GroupedCase
from judged_jobs import SECOND, JudgedJob, decisions, difference, draw_streams, duckdb_answer, late_rows, write_streams
from watersmeet.adapt.policies.migrate import ROADS, seeded
from watersmeet.state.output_names import stamp_of

CASE = GroupedCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)},
    "A.x = B.x AND B.y = C.y AND C.z = D.z",
    window_us=3 * SECOND,
    lateness_us=SECOND,
    by="A.v % 9",
    slide_us=SECOND // 2,
)
BATCHES = 9
STREAMS = draw_streams(CASE, BATCHES, 8, 4, seed=4, late=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
PLANS = ["(A B C D)", "((A B) (C D))", "(((A B) C) D)"]
BUDGET = "memory = 20000"
QUICK = 'groups = 6\ndurability = "process"'
FAULTS = ["in-task:9", "after-commit:6"]
MORE_FAULTS = ["before-commit:5", "before-delivery:4", "in-merge:2", "in-segment:30", "in-result:3", "after-result:5"]


def forced(batch: int, *settings: str) -> str:
    return "\n".join(["[[adapt.force]]", f"at_batch = {batch}", *settings]) + "\n"


@pytest.fixture(autouse=True)
def small_steps() -> Iterator[None]:
    """So that seeding takes some of them."""
    with mock.patch.object(seeded, "_rows_allowed", lambda standing: 40):
        yield


def job_with(home: Path, adapt: str, run: str = "") -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in")
    return JudgedJob.write(home, CASE, f"{run}\n{QUICK}", adapt)


def check(job: JudgedJob) -> None:
    assert EXPECTED.total() > 100
    assert not difference(job.answer(), EXPECTED)
    assert job.late() == late_rows(CASE, STREAMS)
    code, out, err = job.call("state", "verify", "ck")
    assert code == 0, out + err


@pytest.mark.parametrize("by", [road.name for road in ROADS])
def test_joins_are_changed_below_the_groups(tmp_path: Path, by: str) -> None:
    steps = forced(3, f'plan = "{PLANS[1]}"', f'by = "{by}"') + forced(7, f'plan = "{PLANS[2]}"', 'by = "moving-state"')
    job = job_with(tmp_path, f'plan = "{PLANS[0]}"\n{steps}', BUDGET)
    events = job.finish()
    assert decisions(events, "ChangePlan")[0]["plan"] == PLANS[1]
    check(job)


def test_boundaries_come_out_as_the_streams_go_on(tmp_path: Path) -> None:
    events = job_with(tmp_path, 'plan = "left-deep"').finish()
    emitted = [event["rows_out"] for event in events if event["event"] == "batch"]
    assert sum(map(bool, emitted)) > BATCHES // 2, "and not all at the end"


def test_what_joins_owe_delays_boundaries(tmp_path: Path) -> None:
    spilled = forced(1, "spill_share = 1.0")
    job = job_with(tmp_path, f'plan = "left-deep"\nmerge = "off"\n{spilled}', "memory = 100000000")
    events = job.finish()
    emitted = [event["rows_out"] for event in events if event["event"] == "batch" and event["batch"] > 3]
    assert sum(emitted) == 0, "what is owed since the first batches may count at all of them"
    check(job)


def test_groups_move_between_slots(tmp_path: Path) -> None:
    steps = forced(2, 'move = ["G1:0->1", "G1:3->2", "J1:1->2"]') + forced(4, "slots = 4") + forced(7, "slots = 2")
    job = job_with(tmp_path, f'plan = "left-deep"\n{steps}', "slots = 3")
    events = job.finish()
    assert decisions(events, "MoveGroups")
    assert [entry["slots"] for entry in decisions(events, "Rescale")] == [4, 2]
    check(job)


@pytest.mark.parametrize("fault", [*FAULTS, *(pytest.param(f, marks=pytest.mark.campaign) for f in MORE_FAULTS)])
def test_killed_anywhere_it_goes_on(tmp_path: Path, fault: str) -> None:
    job = job_with(tmp_path, f'plan = "left-deep"\n{forced(4, "spill_share = 0.5")}', BUDGET)
    killed = job.start(fault=fault)
    assert job.marker(fault).exists(), killed.stderr
    assert (killed.code, killed.stderr) == (-signal.SIGKILL, "")
    assert job.answer() <= EXPECTED, "nothing twice, and nothing wrong"
    job.finish()
    check(job)


def test_a_rollback_takes_boundaries_back(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "left-deep"')
    assert job.start(fault="after-commit:8").code == -signal.SIGKILL
    before = job.answer()
    code, _, err = job.call("state", "rollback", "ck", "--to-version", str(job.state()["version"] - 4), "--yes")
    assert code == 0, err
    assert job.answer() < before
    job.finish("run.groups=11", "run.slots=3")
    check(job)


def test_running_totals(tmp_path: Path) -> None:
    case = GroupedCase(CASE.columns, CASE.where, lateness_us=SECOND, by="C.y")
    streams = draw_streams(case, 5, 6, 5, seed=4)
    write_streams(case, streams, tmp_path / "in")
    job = JudgedJob.write(tmp_path, case, "slots = 3\n" + BUDGET, 'plan = "left-deep"')
    refused = job.run_here()
    assert refused.code == 2
    assert 'groups without windows need output mode "update"' in refused.stderr
    assert 'mode = "update" in [sink]' in refused.stderr
    code, _, told = job.call("explain", "job.toml")
    assert (code, told) == (2, refused.stderr), "it says beforehand what a run would say"
    job.finish('sink.mode="update"')
    files = sorted((tmp_path / "out").glob("*.parquet"), key=lambda path: stamp_of(path.name).delivery)
    rows = [tuple(row.values()) for path in files for row in pq.read_table(path).to_pylist()]
    expected = duckdb_answer(case, streams)
    assert set({row[0]: row for row in rows}.values()) == set(expected)
    assert len(rows) > expected.total(), "groups that change are emitted again"


def test_another_query_is_refused_where_groups_hold_other_rows(tmp_path: Path) -> None:
    job = job_with(tmp_path, 'plan = "left-deep"')
    job.finish()
    text = (tmp_path / "job.toml").read_text()
    for old, new, message in [
        ("SUM(", "MIN(", "The groups are others, or what is computed of them is"),
        ("SLIDE 500000", "SLIDE 1000000", "The groups are others, or what is computed of them is"),
        ("WHERE A.x", "WHERE A.v > 3 AND A.x", "The groups have rows in them that the other query would not join."),
        (" GROUP BY A.v % 9", " GROUP BY A.v % 9, A.x", "The groups are others"),
        ("COUNT(*) AS n, SUM(D.v) AS total", "SUM(D.v) AS total, COUNT(*) AS n", "are the same in another order"),
    ]:
        (tmp_path / "job.toml").write_text(text.replace(old, new))
        refused = job.run_here()
        assert refused.code == 2
        assert message in refused.stderr, refused.stderr
    (tmp_path / "job.toml").write_text(text.replace("COUNT(*) AS n", "COUNT(*) + 1 AS more"))
    assert "Other columns are selected." in job.run_here().stderr


def test_one_stream_with_all_policies(tmp_path: Path) -> None:
    case = GroupedCase({"A": ("x",)}, "A.x >= 0", window_us=3 * SECOND, lateness_us=SECOND, by="A.x", slide_us=SECOND)
    streams = {"A": STREAMS["A"]}
    write_streams(case, streams, tmp_path / "in")
    adapt = 'replan = "refined"\nreplan_every = 2\nbalance = "time"\n' + forced(3, "slots = 3")
    job = JudgedJob.write(tmp_path, case, f"memory = 3000\nslot_memory = 2000\n{QUICK}", adapt)
    events = job.finish()
    assert decisions(events, "SpillAggregates")[0]["bytes"] > 0
    assert not decisions(events, "CannotSpill")
    assert any(event.get("cold_bytes") for event in events)
    assert not difference(job.answer(), duckdb_answer(case, streams))
    code, out, err = job.call("explain", "job.toml", "--against", "ck")
    assert code == 0, err
    assert "the plan stays A, with all of its state" in out


def test_a_sum_that_does_not_fit_stops_the_run(tmp_path: Path) -> None:
    case = GroupedCase({"A": ("x",)}, "A.x >= 0", window_us=SECOND, by="A.x", slide_us=SECOND)
    large = [[{"x": 1, "v": 2**62, "ts": i} for i in range(3)]]
    write_streams(case, {"A": large}, tmp_path / "in")
    done = JudgedJob.write(tmp_path, case).run_here()
    assert done.code == 2
    assert "error: SUM(A.v) of a group is too large" in done.stderr
    assert "It is 9223372036854775808, which does not fit a BIGINT." in done.stderr
