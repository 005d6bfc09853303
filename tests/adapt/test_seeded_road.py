"""How much a step of seeding takes in, and when: pure functions of what the road sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watersmeet.adapt.policies.migrate.road import FULL, Advance, Standing, TakeOver, Wait
from watersmeet.adapt.policies.migrate.seeded import AT_LEAST, IDLE_SECONDS, SHARE, Seeded
from watersmeet.state.manifest import Warming

NOW = 9
BEGUN = Warming("seeded", start=NOW)
ROAD = Seeded()
RATE = 1000.0


def standing(seen: Warming, old: int, new: int = 0, **more: object) -> Standing:
    return replace(Standing(seen, NOW, old, new, rows_a_second=RATE), **more)  # type: ignore[arg-type]


def width(step: object, before: int = 0) -> float:
    """The share of a round that a step takes in."""
    assert isinstance(step, Advance) and step.cursor is not None
    return (step.cursor - before) / FULL


def test_what_fits_into_one_step_is_taken_over() -> None:
    assert ROAD.next(standing(BEGUN, int(SHARE * RATE))) == TakeOver()
    assert isinstance(ROAD.next(standing(BEGUN, int(SHARE * RATE) + 1)), Advance)


def test_a_step_takes_its_share_of_a_batch_at_the_pace_of_the_last_one() -> None:
    slow, fast = (ROAD.next(standing(BEGUN, 100_000, rows_a_second=rate)) for rate in (1000.0, 50_000.0))
    assert width(slow) == pytest.approx(SHARE * 1000 / 100_000, abs=0.002)
    assert width(fast) == pytest.approx(SHARE * 50_000 / 100_000, abs=0.002)
    assert isinstance(slow, Advance)
    assert slow.upto == NOW


def test_one_step_before_a_batch() -> None:
    """Was: what a step had been quicker than expected by was made up for at once, by a step of a few rows."""
    assert isinstance(ROAD.next(standing(BEGUN, 100_000, taken=300)), Wait)
    assert isinstance(ROAD.next(standing(BEGUN, 100_000, taken=100)), Advance), "most of it is still to be taken"


def test_more_is_taken_in_than_comes() -> None:
    step = ROAD.next(standing(BEGUN, 100_000, batch_rows=20_000))
    assert width(step) == pytest.approx(AT_LEAST * 20_000 / 100_000, abs=0.002)
    left = ROAD.next(standing(BEGUN, 100_000, batch_rows=20_000, taken=5000))
    assert width(left) == pytest.approx((AT_LEAST * 20_000 - 5000) / 100_000, abs=0.002), "what idle steps left"


def test_the_next_round_is_over_what_came_during_the_last() -> None:
    """Was: by batches. What compaction had put together was taken in at once, however much it was."""
    over = replace(BEGUN, start=5, done=5, cursor=FULL)
    step = ROAD.next(standing(over, 0, 10_000))
    assert isinstance(step, Advance)
    assert step.upto == NOW
    assert width(step) == pytest.approx(SHARE * RATE / 10_000, abs=0.002)
    assert ROAD.next(standing(over, 0, 100)) == TakeOver()


def test_while_sources_are_silent_a_step_takes_as_long_as_they_have_been() -> None:
    shares = [width(ROAD.next(standing(BEGUN, 100_000, silent_seconds=s, taken=9999))) for s in (0.0, 0.7, 50.0)]
    expected = [seconds * RATE / 100_000 for seconds in (SHARE, 0.7, IDLE_SECONDS)]
    assert shares == pytest.approx(expected, abs=0.002)


def test_a_step_goes_on_however_slow_it_is() -> None:
    """On Spark a step may take longer than its share with no rows at all."""
    cursor, steps = 0, 0
    while cursor < FULL:
        seen = replace(BEGUN, cursor=cursor)
        step = ROAD.next(standing(seen, 10**9, 10**9, rows_a_second=1.0, batch_seconds=0.01))
        assert isinstance(step, Advance) and step.cursor is not None and step.cursor > cursor
        cursor, steps = step.cursor, steps + 1
    assert steps <= 512


def test_how_far_it_is() -> None:
    assert replace(BEGUN, cursor=FULL // 4).share == 0.25
    assert replace(BEGUN, start=NOW, done=5, cursor=FULL // 4).share == 1.0, "of what was there when it began"
    assert Warming("parallel-track", start=NOW, done=NOW, skips=True).share == 1.0
