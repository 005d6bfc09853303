"""The contract of queries with groups, checked on drawn cases: what is emitted is the oracle's, whatever happens.

`WATERSMEET_EXAMPLES=5000 pytest tests/test_grouped_contract.py` draws thousands of new cases.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from drawn_plans import all_plans
from grouped_cases import GroupedCase, counted, grouped_cases, latest, rounded, rows_of
from strategies import RANDOMS, contract_settings
from test_contract import restart_often, tuned
from test_memory_contract import run_with_schedule
from watersmeet.kernel.hashing import hash_groups
from watersmeet.runtime.clock import VirtualClock

pytestmark = pytest.mark.slow


def run(grouped: GroupedCase, **options: Any) -> pa.Table:
    """What the local runtime emits, in order, through the public API."""
    case = grouped.case
    note(case.text)
    streams = {name: stream.record_batches() for name, stream in case.streams.items()}
    query = wm.sql(case.text, lateness=case.lateness, **streams)
    settings = {"plan": case.plan, "slots": case.slots, "groups": case.groups, "clock": VirtualClock(0)} | options
    mode = "append" if grouped.slide_us is not None else "update"
    with tuned(case):
        return query.run(output_mode=mode, **settings)


def check(grouped: GroupedCase, table: pa.Table) -> None:
    if grouped.slide_us is not None:
        assert counted(table) == grouped.answer()
    elif grouped.having is None:  # else a group that does not satisfy it any more is not emitted again
        assert latest(rows_of(table), len(grouped.groups)) == grouped.answer()


@contract_settings(18)
@given(grouped_cases())
def test_groups_are_the_oracles(grouped: GroupedCase) -> None:
    check(grouped, run(grouped))


def collide(columns: Sequence[pa.Array], rows: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return hash_groups(columns, rows) % np.uint64(2)


@contract_settings(10)
@given(grouped_cases(largest=3))
def test_hashes_of_groups_that_collide_change_nothing(grouped: GroupedCase) -> None:
    with mock.patch("watersmeet.kernel.aggregate.hash_groups", collide):
        check(grouped, run(grouped))


@contract_settings(14)
@given(grouped_cases(windowed=True, apart=False), st.sampled_from([1, 500, 3000]))
def test_spills_below_delay_a_boundary_and_never_change_it(grouped: GroupedCase, budget: int) -> None:
    check(grouped, run(grouped, memory=budget))


@contract_settings(7)
@given(grouped_cases(largest=3, windowed=True), RANDOMS, st.sampled_from([0.1, 0.5]), st.sampled_from([1, 3]))
def test_anything_that_is_decided_below_changes_nothing(
    grouped: GroupedCase, random: Random, often: float, rows_a_batch: int
) -> None:
    """Spills, merges, cuts, moves, spreads and changes of the plan by any road, at any time."""
    case = replace(grouped.case.longer(rows_a_batch), text=grouped.case.text)
    grouped = replace(grouped, case=case)
    plans = tuple(all_plans(case)) if len(case.inputs) > 1 else ()
    found = run_with_schedule(case, random, often, plans)
    assert Counter({tuple(map(rounded, row)): times for row, times in found.items()}) == grouped.answer()


@contract_settings(10)
@given(grouped_cases(), st.data())
def test_restarts_neither_repeat_nor_lose_a_boundary(grouped: GroupedCase, data: st.DataObject) -> None:
    ended: list[int] = []
    with tempfile.TemporaryDirectory() as folder, tuned(grouped.case):
        tables, _ = restart_often(grouped.case, Path(folder), data, ended)
    note(f"ended after {ended}")
    table = pa.concat_tables(tables) if tables else wm.sql(grouped.case.text).schema.empty_table()
    if grouped.slide_us is not None:
        assert counted(table) == grouped.answer(ended)
    else:
        check(grouped, table)
