"""Generations that have grown many are merged in tiers, so that their number grows with the logarithm of the spills."""

from __future__ import annotations

import math

import pytest

from adapt.asking import J1, J2, PLAN, Asked, entry
from small_plans import manifest_of
from watersmeet.adapt.decisions.merge import MergeGenerations
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.merge_tiers import AT_ONCE, FANOUT, GENERATIONS, MergeTiers, full_tier
from watersmeet.model.ids import Generation
from watersmeet.model.routing import count_groups
from watersmeet.model.segments import Segment
from watersmeet.state.learned import MERGE, Learned, Lesson, Trial

NINE = [entry(f"a{number}", "A", cold=number) for number in range(1, 10)]


def came(share: float) -> Learned:
    """So much of what was expected of the last merges of J1 has come."""
    trial = Trial(MERGE, "", 0, {}, {"results": 1e300}, J1)
    return Learned(lessons=(Lesson(trial, {"results": share * 1e300}, True),))


def decided(*segments: Segment, budget: int | None = 100_000, learned: Learned | None = None) -> list[MergeGenerations]:
    asked = Asked(manifest_of(PLAN, *segments), Moment.IDLE, learned=learned or Learned())
    return [found for found in asked.propose(MergeTiers(budget)) if isinstance(found, MergeGenerations)]


@pytest.mark.parametrize(
    "segments, generations, groups",
    [
        (NINE[:8], (), 0),
        (NINE, (1, 2, 3, 4), 8),
        ([entry("u", "A", cold=0), *NINE[:8]], (), 0),
        (NINE[3:], (), 0),
        ([*NINE[3:], *(entry(f"b{n}", "B", cold=n) for n in range(10, 14))], (5, 6, 7, 8), 8),
        (
            [entry("a", "A", groups=((0, 3),), cold=3), *NINE[3:], entry("b", "B", cold=1), entry("c", "B", cold=2)],
            (1, 2, 3, 4),
            8,
        ),
        (
            [entry("a", "A", groups=((2, 3),), cold=3), *NINE[3:], *(entry(f"b{n}", "B", cold=n) for n in (10, 11))],
            (3, 4),
            1,
        ),
    ],
    ids=[
        "few are left alone",
        "more are too many, and the oldest tier is full",
        "what merges of whole groups have united does not count",
        "nor is there anything to do for six",
        "the oldest full tier that is not one yet",
        "of all inputs of the operator",
        "what is in the newest of them already stays there",
    ],
)
def test_what_is_merged(segments: list[Segment], generations: tuple[int, ...], groups: int) -> None:
    found = decided(*segments)
    assert [(merge.operator, merge.generations) for merge in found] == ([(J1, generations)] if generations else [])
    assert sum(count_groups(merge.within) for merge in found) == groups


def test_each_operator_has_tiers_of_its_own() -> None:
    above = [entry(f"c{number}", "C", cold=number) for number in range(1, 10)]
    assert [merge.operator for merge in decided(*NINE, *above)] == [J1, J2]


def test_the_work_of_a_batch_is_bounded() -> None:
    """A group has 20 bytes in each of four generations, and one input owes nothing: so much of the budget, and more
    where there are more than eight."""
    share = AT_ONCE * len(NINE) / GENERATIONS
    sizes = {budget: count_groups(decided(*NINE, budget=budget)[0].within) for budget in (None, 1, 250, 500)}
    assert sizes == {None: 1, 1: 1, 250: int(250 * share / 80), 500: int(500 * share / 80)}
    many = [entry(f"a{number}", "A", cold=number) for number in range(1, 19)]
    assert count_groups(decided(*many, budget=250)[0].within) == int(AT_ONCE * 250 * 18 / GENERATIONS / 80)


def test_what_is_emitted_into_memory_above_counts() -> None:
    both = [*NINE, *(entry(f"b{number}", "B", cold=number) for number in range(1, 10))]
    sizes = [count_groups(decided(*both, budget=500, learned=came(share))[0].within) for share in (0, 10)]
    assert sizes[0] > sizes[1]


def test_after_many_spills_there_are_few() -> None:
    """As spills number them, and merges leave the newest of a tier."""
    numbers: list[Generation] = []
    rewritten = 0
    for spill in range(1, 5_001):
        numbers.append(Generation(spill))
        while tier := full_tier(numbers):
            numbers = [number for number in numbers if number not in tier[:-1]]
            rewritten += 1
        assert len(numbers) <= (FANOUT - 1) * (1 + math.log(spill, FANOUT))
    assert rewritten < 5_000 / (FANOUT - 1)
