"""Groups that are cut while a query runs, on every runtime: the answer is DuckDB's, and restarts keep what was cut."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

pytestmark = pytest.mark.timeout(240)

BATCHES = 8
COLUMNS = {"A": ("k",), "B": ("k", "m"), "C": ("m",)}
UNBOUNDED = JoinCase(COLUMNS, "A.k = B.k AND B.m = C.m")
WINDOWS = JoinCase(COLUMNS, "A.k = B.k AND B.m = C.m", 3 * SECOND)
PLAN = "adapt.plan=((A B) C)"
EVERYTHING = ", ".join(f'"J1:{group}", "J2:{group}"' for group in range(6))
# Spills and merges before and after cuts; J1:2 is cut in two, then the second half of it.
FIRST = f"""adapt.force=[
    {{at_batch=1, spill=["J1:2", "J1:3", "J2:5"]}},
    {{at_batch=2, cut=["J1:2", "J2:5", "J1:0"], spill=["J1:3", "J2:6"]}},
    {{at_batch=3, cut=["J1:4"], spill=[{EVERYTHING}], merge=["J1:4"]}},
]"""
SECOND_PART = """adapt.force=[
    {at_batch=4, spill=["J1:4", "J1:5", "J2:5"]},
    {at_batch=5, cut=["J1:8"], merge=["J1:3"]},
    {at_batch=6, spill=["J1:9"], merge=["J1:4", "J1:5", "J1:9"]},
]"""


def cuts_told(events: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    """The batch, the operator and the group of each cut that users were told of."""
    return [
        (event["batch"], decision["operator"], decision["group"])
        for event in events
        for decision in event.get("decisions", ())
        if decision["decision"] == "CutGroup"
    ]


@pytest.mark.parametrize(
    "runtime, case",
    [
        ("local", UNBOUNDED),
        ("local", WINDOWS),
        pytest.param("spark", WINDOWS, marks=[pytest.mark.spark, pytest.mark.campaign]),
    ],
)
def test_a_restart_with_other_slots_keeps_what_was_cut(runtime: str, case: JoinCase, tmp_path: Path) -> None:
    streams = draw_streams(case, BATCHES, 30, 12, seed=5)
    job = JudgedJob.write(tmp_path / "job", case, runtime=runtime)
    write_streams(case, streams, job.home / "in", 0, 4)
    events = job.finish(PLAN, "run.slots=2", FIRST)
    assert sorted(cuts_told(events)) == [(2, "J1", 0), (2, "J1", 2), (2, "J2", 5), (3, "J1", 4)]
    placed = job.state()["placement"]
    assert placed["groups"] == 6
    assert {name: len(cuts) for name, cuts in placed["cuts"].items()} == {"k0": 3, "k1": 1}
    assert placed["owners"] == {"k0": [0, 0, 0, 0, 0, 0, 1, 1, 1], "k1": [0, 0, 0, 1, 1, 1, 1]}

    write_streams(case, streams, job.home / "in", 4)
    events = job.finish(PLAN, "run.slots=3", SECOND_PART)
    assert cuts_told(events) == [(5, "J1", 8)]
    again = job.state()["placement"]
    assert set(again["cuts"]["k0"]) > set(placed["cuts"]["k0"])
    assert again["cuts"]["k1"] == placed["cuts"]["k1"]
    assert again["owners"]["k0"] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2], "spread over three, then the last one cut"
    right = duckdb_answer(case, streams)
    assert right.total() > 500
    assert difference(job.answer(), right) == ""


def test_a_run_that_dies_between_a_cut_and_its_batch_cuts_once(tmp_path: Path) -> None:
    streams = draw_streams(WINDOWS, BATCHES, 30, 12, seed=6)
    job = JudgedJob.write(tmp_path / "job", WINDOWS)
    write_streams(WINDOWS, streams, job.home / "in")
    forced = 'adapt.force=[{at_batch=3, cut=["J1:2"], spill=["J1:3"], merge=["J1:6"]}]'
    died = job.start(PLAN, forced, fault="after-spill:1")
    assert (died.code, died.events[-1]["batch"]) == (-signal.SIGKILL, 2)
    assert len(job.state()["placement"]["cuts"]["k0"]) == 1
    events = job.finish(PLAN, forced)
    assert cuts_told(events) == [], "it was told of by the run that made it, or by nobody"
    shown = job.state()
    assert len(shown["placement"]["cuts"]["k0"]) == 1
    assert [entry["decision"] for entry in shown["decisions"]].count("CutGroup") == 1
    assert difference(job.answer(), duckdb_answer(WINDOWS, streams)) == ""


def test_what_was_cut_is_shown_and_goes_with_other_groups(tmp_path: Path) -> None:
    streams = draw_streams(WINDOWS, BATCHES, 30, 12, seed=7)
    job = JudgedJob.write(tmp_path / "job", WINDOWS)
    write_streams(WINDOWS, streams, job.home / "in", 0, 3)
    job.finish(PLAN, 'adapt.force=[{at_batch=1, cut=["J1:1"]}]')
    code, out, _ = job.call("state", "show", "ck")
    squeezed = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "k0 0 4 0-3" in squeezed
    assert "k0 1 3 4-6" in squeezed
    assert "all others 0 3 0-2" in squeezed
    assert any(line.endswith(":1 in two: forced: group 1 of J1, in the middle of its hashes") for line in squeezed)
    job.finish(PLAN)
    assert len(job.state()["placement"]["cuts"]["k0"]) == 1, "what a user has set is as before"
    write_streams(WINDOWS, streams, job.home / "in", 3)
    job.finish(PLAN, "run.groups=7")
    assert job.state()["placement"]["groups"] == 7
    assert "cuts" not in job.state()["placement"]
    assert difference(job.answer(), duckdb_answer(WINDOWS, streams)) == ""
