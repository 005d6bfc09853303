"""Groups below joins and above them, as an experiment: real runs of both cases, and how they are judged."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from experiments.grouped_changes import (
    ABOVE,
    BELOW,
    DOWN,
    ROADS,
    UP,
    WINDOW_SECONDS,
    GroupedFindings,
    _compared,
    key_to_foreign_key,
    many_to_many,
    measure_grouped,
)
from experiments.grouped_claims import check_grouped, grouped_table, steady_of
from experiments.paced import Trace

NOTHING = Trace((), None, None, ())


@cache
def measured() -> tuple[GroupedFindings, ...]:
    said: list[str] = []
    found = tuple(measure_grouped(case(400.0), said.append) for case in (many_to_many, key_to_foreign_key))
    assert said == [f"{each.case.name}: 6 changes, all groups as without" for each in found]
    return found


def test_rows_of_b_have_the_key_of_one_row_of_a() -> None:
    rows = key_to_foreign_key(1000.0).rows(4.0)
    a, b = rows["A"], rows["B"]
    assert len(np.unique(a.column("aid"))) == a.num_rows
    aids, times = b.column("aid").to_numpy(), b.column("ts").to_numpy()
    came = a.column("ts").to_numpy()[aids]
    assert (aids >= 0).all()
    first = a.column("ts").to_numpy()[0]
    assert (came <= times)[times >= first].all(), "what refers to a row comes after it"
    assert (times - came).max() < WINDOW_SECONDS * 1e6
    assert key_to_foreign_key(1000.0).rows(4.0)["B"].equals(b)


@pytest.mark.parametrize("number", [0, 1])
def test_no_change_makes_a_difference_to_groups(number: int) -> None:
    found = measured()[number]
    assert set(found.changes) == {(direction, road) for direction in (DOWN, UP) for road in ROADS}
    for (direction, _), each in found.changes.items():
        assert each.change is not None
        assert each.change.plan == {DOWN: BELOW, UP: "(A B{1})"}[direction]
        assert each.wrong == 0
        assert each.spanning >= 4, "all slides of a window have rows from before and after"
        assert each.boundaries > 10 and each.groups > each.boundaries
    assert steady_of(found, BELOW).state_rows < steady_of(found, ABOVE).state_rows


def test_claims_and_the_table_say_what_was_found() -> None:
    claims = {claim.paper: claim for claim in check_grouped(measured())}
    [combined] = [claim for claim in claims.values() if "3 + 7 = 10" in claim.paper]
    assert combined.holds and combined.measured.startswith("12 of 12 changes")
    [one_window] = [claim for claim in claims.values() if "parallel track" in claim.paper]
    assert one_window.holds
    [key] = [claim for claim in claims.values() if "foreign key" in claim.paper]
    assert not key.holds and key.why
    many, other = measured()
    broken = {way: replace(each, wrong=1) for way, each in many.changes.items()}
    [combined] = [c for c in check_grouped((replace(many, changes=broken), other)) if "3 + 7 = 10" in c.paper]
    assert not combined.holds
    assert len(grouped_table(measured()).rows) == 12


def test_groups_that_differ_or_are_missing_are_wrong() -> None:
    expected = {1: {(0, 1, 5)}, 2: {(0, 2, 6)}, 3: {(0, 3, 7)}}
    assert _compared(NOTHING, expected, expected).wrong == 0
    assert _compared(NOTHING, {**expected, 2: {(0, 2, 5)}}, expected).wrong == 1
    assert _compared(NOTHING, {1: expected[1], 3: expected[3]}, expected).wrong == 1
    assert _compared(NOTHING, {1: expected[1]}, expected).wrong == 0, "it came no further"
    assert _compared(NOTHING, {}, expected).wrong == 1
