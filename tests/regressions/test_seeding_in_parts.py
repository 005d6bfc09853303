"""Seeding takes in rows part by part along a hash. A join without a shared key keeps an input on several keys, by which
its rows are in other parts: combinations were lost and made twice, 846 and 280 of 144,950 results.

And a state that is there on another key is hashed anew, not joined again: its parts are those of the state that it
comes from, whatever its own hash is.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from watersmeet.adapt.policies.migrate import seeded

COLUMNS = {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)}
CHAIN = JoinCase(COLUMNS, "A.x = B.x AND B.y = C.y AND C.z = D.z", 60 * SECOND, lateness_us=SECOND)
STAR = JoinCase({"A": ("x", "z"), "B": ("x", "y"), "C": ("y",), "D": ("z",)}, "A.x = B.x AND B.y = C.y AND A.z = D.z")
ROWS_IN_A_STEP = 90
CASES = [
    (CHAIN, "(A B C D)", "((A B C) D)"),
    (CHAIN, "(A B C D)", "(A (B C D))"),
    (CHAIN, "((A B C) D)", "(A (B C D))"),
    (STAR, "(((A B) C) D)", "(((A B) D) C)"),
    (STAR, "((A B) C D)", "(((A B) D) C)"),
    (STAR, "(((A B) C) D)", "((A B) C D)"),
]


@pytest.mark.parametrize("memory", ["", "memory = 8000"], ids=["free", "budget"])
@pytest.mark.parametrize("case, former, new", CASES)
def test_nothing_is_lost_or_made_twice(tmp_path: Path, case: JoinCase, former: str, new: str, memory: str) -> None:
    streams = draw_streams(case, 11, 7, 8, seed=4, late=1)
    write_streams(case, streams, tmp_path / "in")
    forced = f'plan = "{former}"\n[[adapt.force]]\nat_batch = 5\nplan = "{new}"\nby = "seeded"\n'
    job = JudgedJob.write(tmp_path, case, memory, forced)
    with mock.patch.object(seeded, "_rows_allowed", lambda standing: ROWS_IN_A_STEP):
        events = job.run_here().events
    made = [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] == "ChangePlan"]
    assert [entry["plan"] for entry in made] == [new]
    expected = duckdb_answer(case, streams)
    assert expected.total() > 10_000
    assert not difference(job.answer(), expected)
