"""The contract on Spark, for drawn queries, plans, budgets and policies: the answer is the oracle's.

A few cases in CI, since each starts a query; `WATERSMEET_EXAMPLES=5000` draws new ones, 25 times as many.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from grouped_cases import GroupedCase, grouped_cases, latest, rows_of
from strategies import Case, cases, contract_settings, counted
from watersmeet.adapt.policies.spill import SPILL_POLICIES

pytestmark = pytest.mark.spark


def run(session: Any, case: Case, folder: Path, **options: Any) -> tuple[Counter[tuple[Any, ...]], list[Any]]:
    """What a query on Spark emits, and its events."""
    tables, events = emitted(session, case, folder, **options)
    return sum(map(counted, tables), Counter[tuple[Any, ...]]()), events


def emitted(
    session: Any, case: Case, folder: Path, mode: str = "append", **options: Any
) -> tuple[list[pa.Table], list[Any]]:
    """Its files of results in the order of their batches, and its events."""
    from pyspark.sql.pandas.types import from_arrow_schema

    note(case.text)
    frames = {}
    for name, stream in case.streams.items():
        (folder / name).mkdir()
        for number, batch in enumerate(stream.record_batches()):
            path = folder / name / f"{number:03d}.parquet"
            pq.write_table(pa.Table.from_batches([batch]), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        reader = session.readStream.schema(from_arrow_schema(stream.schema)).option("maxFilesPerTrigger", 1)
        frames[name] = reader.format("parquet").load(str(folder / name))
    events: list[Any] = []
    query = wm.sql(case.text, lateness=case.lateness, max_ahead=case.max_ahead, ahead_of=case.ahead_of, **frames)
    writer = query.writeStream.format("parquet").outputMode(mode).report(events.append)
    writer.options(path=str(folder / "out"), checkpointLocation=str(folder / "ck"), plan=case.plan)
    writer.options(slots=case.slots, groups=case.groups, **options)
    writer.trigger(availableNow=True).start().awaitTermination()
    return [pq.read_table(file) for file in sorted((folder / "out").glob("*.parquet"))], events


@contract_settings(4)
@given(case=cases(largest=4, ahead=["streams"]))
def test_the_answer_is_the_oracles(spark: Any, case: Case) -> None:
    expected = case.answer()
    with tempfile.TemporaryDirectory() as folder:
        rows, events = run(spark, case, Path(folder))
    assert rows == expected.rows
    assert (events[-1]["rows_late"], events[-1]["rows_ahead"]) == (expected.rows_late, expected.rows_ahead)


@contract_settings(3)
@given(grouped=grouped_cases(largest=3), budget=st.sampled_from([None, 1000]))
def test_groups_are_the_oracles(spark: Any, grouped: GroupedCase, budget: int | None) -> None:
    mode = "append" if grouped.slide_us is not None else "update"
    options = {} if budget is None or grouped.case.apart or grouped.slide_us is None else {"memory": budget}
    with tempfile.TemporaryDirectory() as folder:
        tables, events = emitted(spark, grouped.case, Path(folder), mode, **options)
    check_groups(grouped, tables)
    assert events[-1]["rows_late"] == grouped.case.answer().rows_late


def check_groups(grouped: GroupedCase, tables: list[pa.Table]) -> None:
    rows = [row for table in tables for row in rows_of(table)]
    if grouped.slide_us is not None:
        assert Counter(rows) == grouped.answer()
    elif grouped.having is None:  # else a group that does not satisfy it any more is not emitted again
        assert latest(rows, len(grouped.groups)) == grouped.answer()


@pytest.mark.campaign  # each starts a query; the named cases have windows for pairs in CI
@contract_settings(10)
@given(case=cases(largest=4, pairs=True), budget=st.sampled_from([None, 1000]))
def test_windows_for_pairs_give_the_oracles_answer(spark: Any, case: Case, budget: int | None) -> None:
    expected = case.answer()
    with tempfile.TemporaryDirectory() as folder:
        rows, events = run(spark, case, Path(folder), **({} if budget is None or case.apart else {"memory": budget}))
    assert rows == expected.rows
    assert events[-1]["rows_late"] == expected.rows_late


@pytest.mark.campaign  # each starts a query; the named cases have windows of rows in CI
@contract_settings(10)
@given(case=cases(largest=3, rows=True), budget=st.sampled_from([None, 1000]))
def test_windows_of_rows_give_the_oracles_answer(spark: Any, case: Case, budget: int | None) -> None:
    expected = case.answer()
    with tempfile.TemporaryDirectory() as folder:
        rows, events = run(spark, case, Path(folder), **({} if budget is None else {"memory": budget}))
    assert rows == expected.rows
    assert events[-1]["rows_late"] == expected.rows_late


@contract_settings(4)
@given(
    case=cases(largest=3, apart=False),
    policy=st.sampled_from([name for name, _ in SPILL_POLICIES]),
    budget=st.sampled_from([300, 1000, 3000]),
    merge=st.sampled_from(["state-manager", "off"]),
)
def test_any_budget_and_policy_gives_the_same_answer(
    spark: Any, case: Case, policy: str, budget: int, merge: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows, events = run(spark, case, Path(folder), memory=budget, spill=policy, merge=merge)
    assert rows == case.answer().rows
    progress, end = [event for event in events if event["event"] in ("batch", "merge")], events[-1]
    assert end["rows_out"] == rows.total()
    routed = any("cannot be spilled" in str(event["decisions"]) for event in progress)
    for event in progress:
        assert event["active_bytes"] <= budget or routed, "after a batch the state is inside its budget"
    assert not progress or progress[-1]["owed_groups"] == {}
