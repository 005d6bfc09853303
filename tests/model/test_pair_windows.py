"""Bounds close by shortest paths; what follows for how long rows stay is never too short, and for one input exact."""

from __future__ import annotations

import itertools
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.model.pair_windows import PairWindow, Reach, reach_of

TIMES = range(-4, 5)


def keeps(times: dict[str, int], bounds: tuple[PairWindow, ...]) -> bool:
    return all(times[bound.second] - times[bound.first] <= bound.most_us for bound in bounds)


@st.composite
def reaches(draw: st.DrawFn) -> Reach:
    aliases = "ABCD"[: draw(st.integers(2, 4))]
    pairs = st.sampled_from([(a, b) for a in aliases for b in aliases if a != b])
    given_pairs = draw(st.lists(st.tuples(pairs, st.integers(-3, 4)), max_size=6))
    ranges = tuple((alias, draw(st.sampled_from([None, None, 2, 5]))) for alias in aliases)
    return reach_of(ranges, tuple(PairWindow(a, b, most) for (a, b), most in given_pairs))


def combinations(reach: Reach) -> list[dict[str, int]]:
    """All times of results, the first input at 0; far enough to reach every bound."""
    span = range(-20, 21)
    rest = reach.aliases[1:]
    everything = ({reach.aliases[0]: 0, **dict(zip(rest, chosen, strict=True))} for chosen in _product(span, len(rest)))
    return [times for times in everything if keeps(times, reach.given)]


def _product(span: range, count: int) -> list[tuple[int, ...]]:
    return list(itertools.product(span if count < 3 else range(-8, 9), repeat=count))


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(reaches())
def test_the_closed_bounds_are_the_closest(reach: Reach) -> None:
    found = combinations(reach)
    assert bool(reach.contradiction) <= (not found)
    if reach.contradiction:
        circle = reach.contradiction
        assert sum(bound.most_us for bound in circle) < 0
        assert [bound.second for bound in circle] == [*(b.first for b in circle[1:]), circle[0].first]
        return
    assert found or len(reach.aliases) == 4  # of four inputs not all times are looked at
    for first, second in itertools.permutations(reach.aliases, 2):
        most = reach.most_us(first, second)
        assert all(times[second] - times[first] <= most for times in found if most is not None)
        if most is not None:
            path = reach.path(first, second)
            assert sum(bound.most_us for bound in path) == most
            assert (path[0].first, path[-1].second) == (first, second)
            if len(reach.aliases) < 4:
                assert any(times[second] - times[first] == most for times in found)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(reaches(), st.integers(0, 1 << 30))
def test_no_row_goes_that_a_future_row_needs(reach: Reach, seed: int) -> None:
    if reach.contradiction:
        return
    random = Random(seed)
    for size in range(1, len(reach.aliases)):
        for inside in itertools.combinations(reach.aliases, size):
            outside = [alias for alias in reach.aliases if alias not in inside]
            stay = reach.stay(inside)
            leads = dict(stay.leads)
            assert all(lead >= 0 for lead in leads.values())
            for _ in range(20):
                times = {alias: random.choice(TIMES) for alias in inside}
                marks = {alias: random.choice(TIMES) for alias in outside}
                ends = [times[alias] + width for alias, width in stay.widths]
                gone = bool(ends) and min(ends) <= min(marks[k] + leads[k] for k in outside)
                needed = any(
                    all((most := reach.most_us(i, k)) is None or marks[k] - times[i] <= most for i in inside)
                    for k in outside
                )
                assert not (gone and needed)
                if size == 1 or len(outside) == 1:
                    # What is not gone, somebody may need; but for joined rows of which one has no bound.
                    assert gone or needed or len(stay.widths) < size
                # A row of another input, or joined ones, that is as late as it ends does not join with it.
                if ends and (joined := random.sample(outside, random.randint(1, len(outside)))):
                    others = {alias: random.choice(TIMES) for alias in joined}
                    if max(others.values()) >= min(ends):
                        assert not keeps({**times, **others}, closed(reach, (*inside, *joined)))


def closed(reach: Reach, aliases: tuple[str, ...]) -> tuple[PairWindow, ...]:
    pairs = ((a, b, reach.most_us(a, b)) for a, b in itertools.permutations(aliases, 2))
    return tuple(PairWindow(a, b, most) for a, b, most in pairs if most is not None)


def test_own_windows_alone_are_what_they_were() -> None:
    reach = reach_of((("A", 10), ("B", 20), ("C", None)), ())
    assert reach.stay(("A",)).widths == (("A", 10),)
    assert reach.stay(("A", "B")).widths == (("A", 10), ("B", 20))
    assert reach.stay(("C",)).widths == ()
    assert {lead for inside in ("A", "AB", "BC") for _, lead in reach.stay(tuple(inside)).leads} == {0}


def test_a_row_waits_for_the_last_that_needs_it_and_for_each_by_its_own_watermark() -> None:
    """A is needed by B for 1, and by C for 61: when B has come to 1 short of it, that is enough."""
    pairs = tuple(PairWindow(*pair) for pair in (("A", "B", 0), ("B", "A", 0), ("B", "C", 60), ("C", "B", 60)))
    reach = reach_of((("A", None), ("B", None), ("C", None)), pairs)
    assert reach.stay(("A",)).widths == (("A", 61),)
    assert reach.stay(("A",)).leads == (("B", 60), ("C", 0))
    assert reach.kept_for_us("C") == 61
    assert reach.last_to_need("A") == "C"
