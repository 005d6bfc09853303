"""Whole runs whose group-by goes below joins and above them, and the examples of the papers for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.placement import Placement
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.events import Event
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.forced_step import ForcedStep
from watersmeet.settings.replan import ReplanSettings

SCHEMA = parse_schema("k BIGINT, y BIGINT, v BIGINT, ts BIGINT")
STREAMS = {name: Stream(name, SCHEMA) for name in "ABC"}
WINDOW = "[RANGE 4 SECONDS SLIDE 2 SECONDS]"
TEXT = (
    f"SELECT A.y AS g, COUNT(*) AS n, SUM(A.v) AS a, SUM(B.v) AS b, AVG(C.v) AS c, MIN(B.v) AS low "
    f"FROM A {WINDOW}, B {WINDOW}, C {WINDOW} WHERE A.k = B.k AND B.y = C.y GROUP BY A.y"
)
SECOND = 1_000_000
ROADS = ["moving-state", "parallel-track", "seeded"]
BATCHES = 40


def batches_of(count: int, rows: int = 16, keys: int = 3) -> dict[str, list[pa.RecordBatch]]:
    """Half a second of event time for each batch."""
    random = Random(7)

    def row(number: int) -> dict[str, int | None]:
        value = random.choice([None, 1, 2, 5])
        time = number * SECOND // 2 + random.randrange(SECOND // 2)
        return {"k": random.randrange(keys), "y": random.randrange(keys), "v": value, "ts": time}

    return {
        name: [pa.RecordBatch.from_pylist([row(number) for _ in range(rows)], schema=SCHEMA) for number in range(count)]
        for name in STREAMS
    }


Outcome = tuple[Counter[tuple[Any, ...]], list[Event], list[str]]


def run(
    plan: str,
    data: Mapping[str, list[pa.RecordBatch]],
    forced: Sequence[ForcedStep] = (),
    replan: ReplanSettings | None = None,
) -> Outcome:
    """What a run emits, what it reports, and its plan after each batch."""
    query = bind(TEXT, STREAMS)
    physical = lay_out(query, choose_tree(query, plan))
    results, events, plans = MemoryResults(), list[Event](), list[str]()
    checkpoint = in_memory(query, physical.spec, Placement(2, 8))
    settings = AdaptSettings(forced=tuple(forced), replan=replan or ReplanSettings())
    running = LocalRun(physical, checkpoint, results, settings, report=events.append)
    found = list[pa.RecordBatch]()
    for _ in running.batches({name: RowsSource(STREAMS[name], batches) for name, batches in data.items()}):
        plans.append(str(running.manifest.answering.spec.tree))
        found += results.pop()
    running.close()
    found += results.pop()
    return Counter(tuple(row.values()) for batch in found for row in batch.to_pylist()), events, plans


def state_rows(events: Sequence[Event], batch: int) -> int:
    rows: int = next(event["state_rows"] for event in events if event["event"] == "batch" and event["batch"] == batch)
    return rows


DATA = batches_of(BATCHES)
BELOW = "((A{} B{}) C{})"
ABOVE = "((A B) C)"


@pytest.fixture(scope="module")
def expected() -> Counter[tuple[Any, ...]]:
    found, _, _ = run(ABOVE, DATA)
    assert found.total() > 20
    return found


@pytest.mark.parametrize("road", ROADS)
def test_down_below_the_joins_and_up_again(road: str, expected: Counter[tuple[Any, ...]]) -> None:
    forced = [ForcedStep(at_batch=3, plan=BELOW, by=road), ForcedStep(at_batch=20, plan="(A (B C))", by=road)]
    found, events, plans = run(ABOVE, DATA, forced)
    assert found == expected
    assert plans[2] == ABOVE
    assert BELOW in plans
    assert plans[-1] == "(A{1} (B{1} C{1}))", "rows that were combined carry their weights on"
    told = [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] == "ChangePlan"]
    assert [entry["by"] for entry in told] == [road, road]


@pytest.mark.parametrize("road", ROADS)
def test_up_and_down_on_the_same_joins_keeps_all_states(road: str, expected: Counter[tuple[Any, ...]]) -> None:
    forced = [ForcedStep(at_batch=8, plan=ABOVE, by=road), ForcedStep(at_batch=24, plan=BELOW, by=road)]
    found, events, plans = run(BELOW, DATA, forced)
    assert found == expected
    assert (plans[0], plans[-1]) == (BELOW, BELOW)
    assert "((A{1} B{1}) C{1})" in plans
    told = [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] == "ChangePlan"]
    assert [entry["states_made"] for entry in told] == [0, 0]


def test_what_is_kept_is_by_key_and_slide(expected: Counter[tuple[Any, ...]]) -> None:
    on_top, below = run(ABOVE, DATA), run(BELOW, DATA)
    assert on_top[0] == below[0] == expected
    last = BATCHES - 1
    assert state_rows(below[1], last) * 4 < state_rows(on_top[1], last)


def test_a_run_finds_out_that_rows_repeat_and_puts_them_together(expected: Counter[tuple[Any, ...]]) -> None:
    found, events, plans = run("(A B C)", DATA, replan=ReplanSettings("refined", every=3))
    assert found == expected
    assert plans[0] == "(A B C)"
    assert "{}" in plans[-1], [entry for event in events for entry in event.get("decisions", ())]


# --- the examples of the papers --------------------------------------------------------------------------------------


def table(**columns: list[int]) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize("plan", ["(C D)", "(C{} D)", "(C{} D{})", "(C{1} D{})"])
def test_the_windowed_sum_below_a_join(plan: str) -> None:
    """DISS 11.3: sums of 10 and 22, and when (1, 4) has left for (1, 3): 10 - 4 + 3 = 9."""
    rows = table(c1=[1, 2, 1, 1, 2, 1], c2=[4, 10, 2, 4, 12, 3], ts=[1, 2, 3, 4, 5, 11])
    ones = table(c1=[1, 2], ts=[1, 1])  # of each key one, there all the time
    text = "SELECT C.c1, SUM(C.c2) AS total FROM C [RANGE 10 MICROSECONDS SLIDE 1 MICROSECOND], D WHERE C.c1 = D.c1 "
    query = wm.sql(text + "GROUP BY C.c1", C=rows, D=ones)
    found = {(row["window_end"], row["c1"]): row["total"] for row in query.run(plan=plan).to_pylist()}
    assert (found[5, 1], found[5, 2]) == (10, 22)
    assert (found[10, 1], found[11, 1], found[11, 2]) == (10, 9, 22)


@pytest.mark.parametrize("plan", ["(A B)", "(A{} B{})"])
@pytest.mark.parametrize("order", [["A1", "A2", "B1", "B2", "A3"], ["A1", "B1", "A2", "B2", "A3"]])
def test_in_which_order_rows_are_worked_on_makes_no_difference(plan: str, order: list[str]) -> None:
    """DISS 11.4: the order of execution A1 B1 A2 B2 A3 gives A1 A2 A1 A2 A3 A3 with B1 B1 B2 B2 B1 B2."""
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("ts", pa.int64())])
    rows = {
        stream: [
            pa.RecordBatch.from_pylist(
                [{"k": 1, "n": int(name[1]), "ts": int(name[1])}] if name[0] == stream else [], schema=schema
            )
            for name in order
        ]
        for stream in "AB"
    }
    window = "[RANGE 3 MICROSECONDS SLIDE 1 MICROSECOND]"
    text = f"SELECT COUNT(*) AS n, SUM(A.n) AS a, SUM(B.n) AS b FROM A {window}, B {window} WHERE A.k = B.k"
    lateness = {"A": "1 second", "B": "1 second"}
    found = wm.sql(text, lateness=lateness, **rows).run(plan=plan).to_pylist()
    assert found[2] == {"n": 6, "a": 12, "b": 9, "window_end": 3}, "all six of them"
    assert [row["n"] for row in found] == [1, 4, 6, 2]


@pytest.mark.parametrize("road", ROADS)
def test_of_ten_rows_of_a_group_three_come_before_a_change_and_seven_after_it(road: str) -> None:
    """DISS 14.1.2: 3 + 7 = 10 of one group in one window, which neither plan has all of."""
    values = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10], []]
    data = {
        name: [
            pa.RecordBatch.from_pylist([{"k": 1, "y": 1, "v": v, "ts": 100 + n} for v in batch], schema=SCHEMA)
            for n, batch in enumerate(values if name == "A" else [[0], [], []])
        ]
        for name in STREAMS
    }
    for plan, other in ((ABOVE, BELOW), (BELOW, ABOVE)):
        found, _, _ = run(plan, data, [ForcedStep(at_batch=1, plan=other, by=road)])
        assert set(found) == {(1, 10, 55, 0, 0.0, 0, end * SECOND) for end in (2, 4)}
