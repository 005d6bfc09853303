"""Rings in all ways that they can be spread in: the answer is the oracle's, whatever is changed while they run."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_plans import placed_plans
from strategies import RANDOMS, Case, cases, contract_settings
from test_contract import run, run_with_restarts, tuned
from test_memory_contract import run_with_schedule
from watersmeet.adapt.policies.migrate import seeded
from watersmeet.errors import RingError
from watersmeet.plan.ring_ways import ATR, CTR, PSP, RingWay

pytestmark = pytest.mark.slow


def ways(case: Case) -> tuple[RingWay, ...]:
    """All ways, with segments that are shorter and longer than windows."""
    widths = [entry.window_us for entry in case.inputs if entry.window_us is not None]
    widest = max(widths, default=1)
    lengths = {max(1, widest * share // 10) for share in (2, 7, 10, 33)}
    aligned = [RingWay(ATR, segment=timedelta(microseconds=length)) for length in sorted(lengths)]
    coordinated = [RingWay(CTR), *(RingWay(CTR, copies=copies) for copies in (2, 3, 4))]
    return (RingWay(PSP), RingWay(ATR), *aligned, *coordinated)


@contract_settings(14)
@given(cases(largest=4, apart=True), RANDOMS)
def test_every_way_gives_the_same_answer(case: Case, random: Random) -> None:
    expected = case.answer()
    way = random.choice([way for way in ways(case) if (way.copies or 0) <= case.slots])
    options: dict[str, Any] = {"ring": way.name, "ring_segment": way.segment, "ring_copies": way.copies}
    try:
        rows, end = run(case, **options)
    except RingError:
        assert way.name == ATR
        assert any(entry.window_us is None for entry in case.inputs)
        return
    assert rows == expected.rows
    assert end["rows_late"] == expected.rows_late


@contract_settings(8)
@given(cases(largest=3, apart=True), st.data())
def test_restarts_in_other_ways_change_nothing(case: Case, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, tuned(case):
        rows, _ = run_with_restarts(case, Path(folder), data, ways=ways(case))
    assert rows == case.answer().rows


@contract_settings(8)
@given(cases(largest=3, apart=True), RANDOMS, st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from([1, 2, 5]))
def test_changes_of_the_way_change_nothing(case: Case, random: Random, often: float, rows_a_batch: int) -> None:
    case, steps = case.longer(rows_a_batch), [1, 1, 2, 5]
    with tuned(case), mock.patch.object(seeded, "_rows_allowed", lambda standing: random.choice(steps)):
        rows = run_with_schedule(case, random, often, tuple(placed_plans(case, random)), ways=ways(case))
    assert rows == case.answer().rows
