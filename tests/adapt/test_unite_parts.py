"""Parts of a cold generation become one as they grow many."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapt.asking import PLAN, Asked, entry
from small_plans import manifest_of, state_of
from watersmeet.adapt.decisions.merge import UniteParts
from watersmeet.adapt.policies.unite_parts import AT_ONCE, UniteColdParts
from watersmeet.model.ids import LIVE, StateName
from watersmeet.model.segments import Segment


def united(*segments: Segment, parts: int = 8) -> list[tuple[str, int, int]]:
    """The state, the generation, and how many of its parts."""
    found = Asked(manifest_of(PLAN, *segments)).propose(UniteColdParts(parts))
    assert all(isinstance(decision, UniteParts) for decision in found)
    return [(d.state, d.generation, len(d.parts)) for d in found if isinstance(d, UniteParts)]


def parts(count: int, inputs: str = "A", generation: int = 1, rows: int = 2) -> list[Segment]:
    return [entry(f"{inputs}{generation}.{rows}.{n}", inputs, rows=rows, cold=generation) for n in range(count)]


A, B = state_of(PLAN, "A"), state_of(PLAN, "B")


@pytest.mark.parametrize(
    "segments, expected",
    [
        (parts(8), []),
        (parts(9), [(A, 1, 9)]),
        (parts(9, generation=LIVE), [(A, LIVE, 9)]),
        (parts(5) + parts(5, generation=2), []),
        (parts(5) + parts(5, "B"), []),
        (parts(9) + parts(9, "B"), [(A, 1, 9), (B, 1, 9)]),
        (parts(9) + parts(3, rows=4000), [(A, 1, 9)]),
        ([entry(f"a{n}", "A", rows=2) for n in range(20)], []),
    ],
    ids=[
        "a few are left alone",
        "more than a few become one",
        "those of rows that have cooled too",
        "each generation by itself",
        "each state by itself",
        "several at once",
        "of like size alone",
        "what is active is compaction's",
    ],
)
def test_what_is_united(segments: list[Segment], expected: list[tuple[str, int, int]]) -> None:
    assert sorted(united(*segments)) == sorted(expected)


def test_the_work_is_spread_over_batches() -> None:
    many = [part for generation in range(1, 10) for part in parts(9, generation=generation)]
    assert len(united(*many)) == AT_ONCE


def test_the_cold_state_of_another_plan_is_left_alone() -> None:
    strange = [replace(part, state=StateName("Z@z")) for part in parts(20)]
    assert united(*strange) == []
