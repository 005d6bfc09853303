"""Windows of rows, step by step: when results come, what waits, and what goes when."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oracle
import watersmeet as wm
from conformance_cases import named
from small_runs import SECOND, SmallRun
from strategies import counted
from watersmeet.cli.main import main
from watersmeet.errors import QueryError
from watersmeet.model.segments import WAITING
from watersmeet.run.ending import Ending
from watersmeet.runtime.clock import utc_us
from watersmeet.runtime.watermarks import late_before_us, stream_watermarks_us, watermarks_us
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import FileTable

AB = "A.x = B.x"


def last_rows(rows: int = 1, lateness: int = 0) -> SmallRun:
    """A join of the last rows of A with all of B."""
    return SmallRun(AB, "(A B)", "AB", {"A": f" [ROWS {rows}]"}, lateness)


def waiting(run: SmallRun) -> dict[str, int]:
    held: dict[str, int] = {}
    for segment in run.run.manifest.segments.values():
        if segment.tier == WAITING:
            held[segment.state] = held.get(segment.state, 0) + segment.rows
    return held


def test_a_result_comes_when_no_row_can_come_before_it() -> None:
    run = last_rows()
    assert run.batch(A={"a1": 10}, B={"b1": 20}) == Counter()
    assert run.batch(A={"a2": 15}) == Counter()  # before b1, and after a1: which of the two is the last at 20
    assert run.batch(A={"a3": 21}) == Counter()  # by the watermark of before it, A had come to 15
    assert run.batch(B={"b2": 30}) == Counter({("a2", "b1"): 1})
    assert run.run.driver.drain_step(Ending.CLOSED)
    # With b1 and a3 the newest is a3, at 21.
    assert run.results() == Counter({("a3", "b1"): 1, ("a3", "b2"): 1})
    assert not run.run.driver.drain_step(Ending.CLOSED)


def test_a_row_within_the_lateness_changes_who_is_the_last() -> None:
    run = last_rows(rows=2, lateness=10)
    run.batch(A={"a1": 10, "a2": 20}, B={"b1": 25})
    run.batch(A={"a3": 15})  # a1 is not among the last two at 20 any more
    run.batch(A={"a4": 40})
    run.run.driver.run_idle()
    assert run.results() == Counter({("a2", "b1"): 1, ("a3", "b1"): 1})


def test_of_two_rows_at_one_time_the_one_that_came_later_is_the_last() -> None:
    run = last_rows()
    run.batch(A={"a1": 10, "a2": 10})
    run.batch(A={"a3": 10}, B={"b1": 10})
    run.run.driver.drain(Ending.CLOSED)
    assert run.results() == Counter({("a3", "b1"): 1})


def test_rows_wait_for_all_streams_that_are_counted_and_for_no_others() -> None:
    run = SmallRun("A.x = B.x AND B.x = C.x", "mjoin", "ABC", {"A": " [ROWS 1]", "B": " [ROWS 1]"})
    run.batch(A={"a1": 10}, B={"b1": 10}, C={"c1": 10})
    assert waiting(run) == {"A": 1, "B": 1, "C": 1}
    run.batch(A={"a2": 50})
    run.run.driver.run_idle()
    assert waiting(run) == {"A": 2, "B": 1, "C": 1}, "B may still have a row at 10"
    run.batch(B={"b2": 11})
    run.run.driver.run_idle()
    assert run.results() == Counter({("a1", "b1", "c1"): 1})
    assert waiting(run) == {"A": 2, "B": 2}, "what has entered is not kept, unless for its time"


def test_what_waits_is_still_to_come_for_the_join() -> None:
    run = last_rows()
    run.batch(A={"a1": 10}, B={"b1": 90})
    manifest, plan = run.run.manifest, run.run.driver.plan
    assert stream_watermarks_us(plan, manifest) == {"A": 10 * SECOND, "B": 90 * SECOND}
    assert watermarks_us(plan, manifest) == {"A": None, "B": None}
    run.batch(A={"a2": 20})
    assert watermarks_us(plan, run.run.manifest) == {"A": 10 * SECOND, "B": 10 * SECOND}


def test_a_stream_that_lags_is_counted_as_of_its_own_time() -> None:
    run = last_rows()
    run.batch(A={"a1": 10, "a2": 20, "a3": 30})
    run.batch(A={"a4": 60})
    # A is long past that.
    assert run.batch(B={"b1": 25}) == Counter({("a2", "b1"): 1, ("a3", "b1"): 1})
    run.run.driver.drain(Ending.CLOSED)
    assert run.results() == Counter({("a4", "b1"): 1})


def test_after_the_end_rows_that_were_counted_on_are_late() -> None:
    run = last_rows()
    run.batch(A={"a1": 10}, B={"b1": 50})
    run.run.driver.drain(Ending.CLOSED)
    assert run.results() == Counter({("a1", "b1"): 1})
    assert late_before_us(run.run.driver.plan, run.run.manifest) == {"A": 50 * SECOND + 1, "B": 50 * SECOND}
    run.batch(A={"a2": 20, "a3": 60}, B={"b2": 55})
    assert run.run.manifest.streams["A"].late == 1
    run.run.driver.drain(Ending.CLOSED)
    assert run.results() == Counter({("a1", "b2"): 1, ("a3", "b1"): 1, ("a3", "b2"): 1})


def test_rows_are_counted_before_they_are_filtered() -> None:
    run = SmallRun(f"{AB} AND A.v <> 'a2'", "(A B)", "AB", {"A": " [ROWS 1]"})
    run.batch(A={"a1": 10, "a2": 20}, B={"b1": 30})
    run.run.driver.drain(Ending.CLOSED)
    assert run.results() == Counter(), "a2 is the last, and does not pass"


def test_a_row_goes_when_its_successors_have_come_and_the_others_have_passed_them() -> None:
    run = last_rows(rows=2)
    for second in range(10, 20):
        run.batch(A={f"a{second}": second}, B={f"b{second}": second})
    assert run.held("A") <= 4
    for second in range(20, 60):
        run.batch(A={f"a{second}": second})
    assert run.held("A") >= 40, "B may still have rows at 20"
    assert waiting(run)["A"] >= 40, "of which it must be known how many rows of A were before them"
    run.batch(B={"b100": 100})
    run.batch(A={"a100": 100})
    run.batch(A={"a101": 101})
    run.batch(A={"a102": 102})
    assert run.held("A") <= 5
    assert waiting(run)["A"] <= 5


MANY = pytest.mark.campaign  # half a minute each


@pytest.mark.parametrize(
    ("plan", "batches"),
    [
        ("((A B) C)", 240),
        pytest.param("((A B) C)", 1_100, marks=MANY),
        pytest.param("(A B C)", 1_100, marks=MANY),
        pytest.param("(A (B C))", 1_100, marks=MANY),
    ],
)
def test_the_state_stays_bounded_over_many_batches(plan: str, batches: int) -> None:
    windows = {"A": " [ROWS 20]", "B": " [RANGE 30 SECONDS]", "C": " [ROWS 5]"}
    run = SmallRun("A.x = B.x AND B.x = C.x", plan, "ABC", windows, lateness=3)
    rows: list[int] = []
    files: list[int] = []
    for second in range(batches):
        run.batch(A={f"a{second}": second}, B={f"b{second}": second} if second % 7 == 0 else {}, C={"c": second - 2})
        rows.append(run.run.manifest.state_rows)
        files.append(len(run.run.manifest.segments))
    half = batches // 2
    first, second_half = (max(rows[60:half]), max(files[60:half])), (max(rows[half:]), max(files[half:]))
    print(f"{plan}, {batches} batches: at most {first} rows and segments, then {second_half}")
    assert second_half[0] <= first[0] * 1.15
    assert second_half[1] <= first[1] * 1.2
    assert run.run.manifest.gate is not None
    # B comes every seven seconds, may be three late, and counts as of the batch before.
    assert run.run.manifest.gate.counted["A"].rows >= batches - 11


def test_what_waits_outlives_other_groups_and_is_found_sound(tmp_path: Path) -> None:
    whole = named("windows of rows")
    part = replace(whole, batches={name: batches[:2] for name, batches in whole.batches.items()})
    part.write(tmp_path)
    path = str(part.job(tmp_path, "local"))
    assert main(["run", path]) == 0
    ck = str(tmp_path / "ck-local")
    held = [segment for segment in manifest_of(ck).segments.values() if segment.tier == WAITING]
    assert held, "kept for their times"
    assert main(["state", "verify", ck]) == 0
    for name in whole.batches:
        shutil.rmtree(tmp_path / name)
    whole.write(tmp_path)
    assert main(["run", path, "--set", "run.groups=7"]) == 0
    assert main(["state", "verify", ck]) == 0
    assert manifest_of(ck).placement.groups == 7
    batches = [dict(zip(whole.batches, rows, strict=True)) for rows in zip(*whole.batches.values(), strict=True)]
    lateness = {name: seconds * SECOND for name, seconds in whole.lateness_s.items()}
    expected = oracle.answer(
        batches,
        whole.inputs,
        lambda rows: whole.where(*rows.values()),
        lambda rows: whole.select(*rows.values()),
        lateness,
        ends=[1],
    )
    assert counted(pq.read_table(tmp_path / "out-local")) == expected.rows


def manifest_of(checkpoint: str) -> Manifest:
    table = FileTable.open(CheckpointFolders(checkpoint).state, utc_us)
    assert table is not None
    return table.manifest


def test_a_budget_does_not_let_the_state_grow() -> None:
    random = Random(5)

    def rows(second: int) -> pa.RecordBatch:
        times = [(second * 10 + random.randrange(-15, 10)) * SECOND for _ in range(6)]
        return pa.record_batch({"k": [random.randrange(4) for _ in range(6)], "v": list(range(6)), "ts": times})

    streams = {name: [rows(second) for second in range(50)] for name in "ABC"}
    text = "SELECT A.v AS a, B.v AS b, C.v AS c FROM A [ROWS 20], B [RANGE 30 SECONDS], C [ROWS 12] "
    query = wm.sql(f"{text} WHERE A.k = B.k AND B.k = C.k", lateness="10 seconds", **streams)
    events: list[dict[str, Any]] = []
    found = query.run(report=events.append, plan="((A B) C)", slots=2, groups=4, memory=4_000)
    assert found.num_rows == query.run(plan="mjoin").num_rows
    held = [event["state_rows"] for event in events if event["event"] == "batch"]
    assert "SpillGroups" in [told["decision"] for event in events for told in event.get("decisions", ())]
    assert max(held[30:]) <= 1.4 * max(held[12:30])


def test_groups_and_joins_without_equality_are_refused() -> None:
    with pytest.raises(QueryError, match="needs equalities"):
        SmallRun("A.x < B.x", "(A B)", "AB", {"A": " [ROWS 1]"})
