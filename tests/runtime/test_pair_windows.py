"""Windows for pairs at work: when rows go, changes of the plan and of the query, and states that were made without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import watersmeet as wm
from changed_queries import BEFORE, CASE, STREAMS, answer, start, with_query
from judged_jobs import SECOND, JudgedJob, write_streams
from small_runs import CHAIN, ONE_KEY, SmallRun
from watersmeet.errors import JobError

NEAR = "ABS(A.ts - B.ts) <= 10000000"


# --- when rows go ----------------------------------------------------------------------------------------------------


def test_a_row_goes_once_no_row_of_the_other_can_be_near_enough() -> None:
    run = SmallRun(f"A.x = B.x AND {NEAR}", "mjoin", "AB")
    run.batch(A={"a": 0})
    run.batch(B={"b": 10})
    assert run.held("A") == 1, "another row of second 10 may come"
    assert run.batch(B={"c": 10}) == {("a", "c"): 1}
    run.batch(B={"d": 10.000001})
    assert (run.held("A"), run.held("B")) == (0, 3)


def test_a_row_that_no_future_row_can_need_is_not_kept_at_all() -> None:
    """B is an hour before A, or more: rows of A wait only for a B that is slow."""
    run = SmallRun("A.x = B.x AND B.ts <= A.ts - 3600000000", "mjoin", "AB")
    run.batch(B={"b": 0, "c": 1})
    assert run.batch(A={"a": 3600}) == {("a", "b"): 1}
    run.batch(A={"d": 4000})
    assert run.held("A") == 1, "B has come to an hour before a, and not before d"
    run.batch(B={"e": 401})
    assert run.held("A") == 0
    assert run.batch(A={"f": 4001}) == {("f", "b"): 1, ("f", "c"): 1, ("f", "e"): 1}
    run.batch(A={"g": 4000.5})
    assert run.held("A") == 1, "g is late"
    assert run.held("B") == 3, "nothing says how much later A can be"


def test_each_stream_is_waited_for_as_long_as_it_may_need_a_row() -> None:
    """C may be a minute after A, and B as late as A at most: a B that is slow by less than a minute holds nothing."""
    where = "A.x = B.x AND B.x = C.x AND B.ts <= A.ts AND A.ts <= B.ts AND C.ts BETWEEN A.ts AND A.ts + 60000000"
    for plan in ("(A B C)", "((A C) B)"):
        run = SmallRun(where, plan, "ABC")
        run.batch(A={"a": 0}, B={"b": 0}, C={"c": 0})
        run.batch(C={"d": 61}, A={"e": 200})
        assert run.held("A") == 2, "B may still be as late as it"
        run.batch(B={"f": 0.000001})
        assert run.held("A") == 1, "B has passed it, and C before"


def test_the_watermark_counts_the_lateness() -> None:
    run = SmallRun(f"A.x = B.x AND {NEAR}", "mjoin", "AB", lateness=5)
    run.batch(A={"a": 0}, B={"b": 15})
    assert run.held("A") == 1
    assert run.batch(B={"c": 10}) == {("a", "c"): 1}
    run.batch(B={"d": 15.000001})
    assert run.held("A") == 0


def test_windows_add_up_over_inputs_between() -> None:
    where = f"A.x = B.x AND B.x = C.x AND {NEAR} AND ABS(B.ts - C.ts) <= 5000000"
    run = SmallRun(where, "mjoin", "ABC")
    run.batch(A={"a": 0}, B={"b": 10}, C={"c": 10})
    assert run.batch(C={"d": 15}) == {("a", "b", "d"): 1}
    run.batch(B={"e": 15.000001}, C={"f": 15.000001})
    assert run.held("A") == 0


@pytest.mark.parametrize(
    "where", [f"A.x = B.x AND {NEAR}", "A.x = B.x AND A.ts = B.ts", "A.ts = B.ts AND B.ts >= A.ts"]
)
def test_the_state_is_bounded_without_brackets(where: str) -> None:
    events: list[dict[str, Any]] = []

    def rows(shift: int) -> Iterator[pa.RecordBatch]:
        for second in range(120):
            times = [second * SECOND + shift, second * SECOND + 500_000]
            yield pa.RecordBatch.from_pydict(
                {"x": [1, 2], "ts": times}, pa.schema([("x", pa.int64()), ("ts", pa.int64())])
            )

    query = wm.sql(f"SELECT A.x, A.ts AS a, B.ts AS b FROM A, B WHERE {where}", A=rows(1), B=rows(2))
    query.run(report=events.append)
    held = [event["state_rows"] for event in events if event["event"] == "batch"]
    assert max(held[20:]) <= 2 * 2 * 13
    assert len(held) == 120


# --- changes of the plan ---------------------------------------------------------------------------------------------


def test_a_state_that_is_made_finds_all_rows_that_it_needs() -> None:
    """As figure 15.2 of [Zhu06], with windows for pairs: b waits for C long after the last A that it could join."""
    where = f"A.x = B.x AND B.y = C.y AND {NEAR} AND C.ts BETWEEN B.ts AND B.ts + 60000000"
    run = SmallRun(where, "((A B) C)", "ABC")
    run.batch(A={"a": 5}, B={"b": 0})
    run.batch(A={"x": 40}, B={"y": 40}, C={"z": 1})
    assert run.held("A+B") == 2
    run.change("(A (B C))")
    assert run.batch(C={"c": 60}) == {("a", "b", "c"): 1, ("x", "y", "c"): 1}


@pytest.mark.parametrize("where", [ONE_KEY, CHAIN], ids=["one key", "several keys"])
def test_parallel_track_ends_when_rows_from_before_are_not_needed_any_more(where: str) -> None:
    near = " AND ".join(f"ABS(A.ts - {other}.ts) < 10000000" for other in "BCD")
    run = SmallRun(f"{where} AND {near}", "(((A B) C) D)")
    run.batch(A={"a": 0}, B={"b": 0}, C={"c": 0}, D={"d": 0})
    run.run.driver.migrate("(A (B (C D)))", "parallel-track", "asked for by hand")
    for second in range(1, 30):
        rows = {name: {f"{name}{second}": second} for name in "ABCD"}
        run.batch(**rows)
        if run.run.plan.tree == "(A (B (C D)))":
            break
    # D may be 10 seconds after A, and so may B be before: rows are kept for less than 20 seconds.
    assert second in (20, 21)


def test_parallel_track_is_refused_where_rows_never_go() -> None:
    run = SmallRun(f"{ONE_KEY} AND A.ts >= B.ts AND C.ts >= A.ts AND D.ts >= C.ts", "(A B C D)")
    with pytest.raises(JobError, match="parallel-track") as raised:
        run.run.driver.migrate("((A B) C D)", "parallel-track", "asked for by hand")
    assert "Rows of A, B, C never expire" in (raised.value.detail or "")


# --- changes of the query --------------------------------------------------------------------------------------------


def text(near: int = 4, more: str = "", window: str = "") -> str:
    windows = f"ABS(A.ts - B.ts) < {near * SECOND} AND C.ts BETWEEN B.ts - {near * SECOND} AND B.ts + {near * SECOND}"
    return (
        f"SELECT A.v AS a, B.v AS b, C.v AS c FROM A{window}, B{window}, C{window} "
        f"WHERE A.x = B.x AND B.y = C.y AND {windows}{more}"
    )


def due(near: int, made: range) -> Counter[Any]:
    rows = {name: [(n, row) for n, batch in enumerate(STREAMS[name]) for row in batch] for name in CASE.streams}
    found: Counter[Any] = Counter()
    for n, a in rows["A"]:
        for m, b in rows["B"]:
            if a["x"] == b["x"] and abs(a["ts"] - b["ts"]) < near * SECOND:
                for k, c in rows["C"]:
                    is_near = abs(b["ts"] - c["ts"]) <= near * SECOND
                    if b["y"] == c["y"] and is_near and max(n, m, k) in made:
                        found[a["v"], b["v"], c["v"]] += 1
    return found


def changed(home: Path, former: str, new: str, plan: str = "((A B) C)") -> JudgedJob:
    job = start(home, former, f'plan = "{plan}"')
    job.finish()
    write_streams(CASE, STREAMS, home / "in")
    return with_query(job, new)


@pytest.mark.parametrize("plan", ["((A B) C)", "(A B C)"])
@pytest.mark.parametrize("window", ["", " [RANGE 60 SECONDS]"])
def test_narrower_windows_go_on_with_the_state(tmp_path: Path, plan: str, window: str) -> None:
    job = changed(tmp_path, text(4, window=window), text(2, window=window), plan)
    job.finish()
    assert answer(job) == due(4, range(BEFORE)) + due(2, range(BEFORE, 99))


def test_windows_for_pairs_in_the_place_of_those_of_inputs(tmp_path: Path) -> None:
    """Closed over all pairs, they are no wider than what the brackets said."""
    job = changed(tmp_path, text(4, window=" [RANGE 60 SECONDS]"), text(4))
    job.finish()
    assert answer(job) == due(4, range(99))


def test_wider_windows_are_refused(tmp_path: Path) -> None:
    job = changed(tmp_path, text(3), text(4))
    code, _, err = job.call("run", "job.toml")
    assert code == 2
    assert err.startswith("error: the checkpoint belongs to another query\n")
    assert "Rows that are needed now have gone: rows of A are kept for 6" in err


def test_windows_that_come_to_a_state_without_event_times(tmp_path: Path) -> None:
    """Nothing says how old the rows are that it keeps: all of them stay, and the predicate is checked."""
    columns = "A.v AS a, B.v AS b, C.v AS c, A.ts AS p, B.ts AS q, C.ts AS r"
    job = changed(tmp_path, f"SELECT {columns} FROM A, B, C WHERE A.x = B.x AND B.y = C.y", text(4))
    job.finish()
    everything = due(10**6, range(BEFORE))
    assert answer(job) == everything + due(4, range(BEFORE, 99))


# --- states that were made without ----------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["", " [RANGE 60 SECONDS]"], ids=["no event times", "with event times"])
@pytest.mark.parametrize("setting", ["", "adapt.plan=(A (B C))"], ids=["the same plan", "another plan"])
def test_a_state_that_was_made_without_goes_on_without(tmp_path: Path, window: str, setting: str) -> None:
    with mock.patch("watersmeet.lang.binder.find_pair_windows", lambda *_: ()):
        job = start(tmp_path, text(4, window=window), 'plan = "((A B) C)"')
        assert job.call("run", "job.toml")[0] == 0
    before = job.state()
    write_streams(CASE, STREAMS, tmp_path / "in")
    assert job.call("run", "job.toml", *(["--set", setting] if setting else []))[0] == 0
    assert answer(job) == due(4, range(99))
    assert job.state()["plan"] == ("(A (B C))" if setting else before["plan"])


def test_the_windows_of_a_state_are_in_its_plan(tmp_path: Path) -> None:
    job = start(tmp_path, text(4))
    job.finish()
    code, out, _ = job.call("explain", "job.toml")
    assert code == 0
    assert "rows of A are kept for 8 seconds, because B.ts < A.ts + 4 seconds and C.ts <= B.ts + 4 seconds" in out
