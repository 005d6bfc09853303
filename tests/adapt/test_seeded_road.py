"""How much a step of seeding takes in, and when: pure functions of what the road sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watersmeet.adapt.policies.migrate.road import FULL, Advance, Standing, TakeOver, Wait
from watersmeet.adapt.policies.migrate.seeded import (
    AT_LEAST,
    IDLE_SECONDS,
    LAST,
    LEAST_SECONDS,
    SHARE,
    STRETCH,
    WORTH,
    Seeded,
)
from watersmeet.state.manifest import Warming

NOW = 9
BEGUN = Warming("seeded", start=NOW)
ROAD = Seeded()
RATE = 1000.0
SPARE = SHARE  # seconds, where batches of a second follow each other without a pause


def standing(seen: Warming, old: int, new: int = 0, **more: object) -> Standing:
    return replace(Standing(seen, NOW, old, new, rows_a_second=RATE), **more)  # type: ignore[arg-type]


def width(step: object, before: int = 0) -> float:
    """The share of a round that a step takes in."""
    assert isinstance(step, Advance) and step.cursor is not None
    return (step.cursor - before) / FULL


def test_what_fits_into_one_step_is_taken_over() -> None:
    assert ROAD.next(standing(BEGUN, int(LAST * SPARE * RATE))) == TakeOver()
    assert isinstance(ROAD.next(standing(BEGUN, int(LAST * SPARE * RATE) + 2)), Advance)


def test_the_switch_waits_for_its_time_even_if_nothing_is_left() -> None:
    over = replace(BEGUN, start=NOW, done=NOW, cursor=FULL)
    assert isinstance(ROAD.next(standing(over, 0, since_seconds=1.0, silent_seconds=0.0)), Wait)
    assert ROAD.next(standing(over, 0)) == TakeOver()


def test_a_step_takes_what_is_left_at_the_pace_of_the_last_one() -> None:
    slow, fast = (ROAD.next(standing(BEGUN, 100_000, rows_a_second=rate)) for rate in (1000.0, 50_000.0))
    assert width(slow) == pytest.approx(SPARE * 1000 / 100_000, abs=0.002)
    assert width(fast) == pytest.approx(SPARE * 50_000 / 100_000, abs=0.002)
    assert isinstance(slow, Advance)
    assert slow.upto == NOW


@pytest.mark.parametrize(
    ("since", "batch", "seconds", "before_a_batch"),
    [
        pytest.param(0.0, 0.5, STRETCH - 0.5, STRETCH - 0.5, id="right after a batch, all that the next one leaves"),
        pytest.param(0.3, 0.5, STRETCH - 0.8, STRETCH - 0.8, id="later, less"),
        pytest.param(0.6, 0.5, 0.0, 0.5 * SHARE, id="shortly before the next batch, nothing, or a share of it"),
        pytest.param(0.0, 1.0, STRETCH - 1.0, SHARE, id="without a pause, a share of a batch"),
        pytest.param(9.0, 0.01, LEAST_SECONDS, LEAST_SECONDS, id="beside short batches, what nobody notices"),
    ],
)
def test_results_of_the_next_batch_are_in_time(
    since: float, batch: float, seconds: float, before_a_batch: float
) -> None:
    for silent, expected in ((0.0, seconds), (None, before_a_batch)):
        now = standing(BEGUN, 1_000_000, since_seconds=since, batch_seconds=batch, silent_seconds=silent)
        step = ROAD.next(replace(now, rows_a_second=100_000.0))
        if expected:
            assert width(step) == pytest.approx(expected / 10, abs=0.002)
        else:
            assert step == Wait("its share of the time")


def test_what_the_last_batch_brought_is_taken_over_however_long_that_takes() -> None:
    over = replace(BEGUN, start=5, done=5, cursor=FULL)
    most = int(LAST * AT_LEAST * 20_000)
    assert most >= 20_000, "there is always as much before a batch"
    assert isinstance(ROAD.next(standing(over, 0, most + 1, batch_rows=20_000)), Advance)
    assert ROAD.next(standing(over, 0, most, batch_rows=20_000)) == TakeOver()


def test_one_step_before_a_batch() -> None:
    """Was: what a step had been quicker than expected by was made up for at once, by a step of a few rows."""
    assert isinstance(ROAD.next(standing(BEGUN, 100_000, taken=int(WORTH * SPARE * RATE) + 1)), Wait)
    assert isinstance(ROAD.next(standing(BEGUN, 100_000, taken=50)), Advance), "most of it is still to be taken"


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
    assert width(step) == pytest.approx(SPARE * RATE / 10_000, abs=0.002)
    assert ROAD.next(standing(over, 0, 50)) == TakeOver()


def test_where_rows_are_overdue_a_step_takes_as_long_as_sources_were_silent() -> None:
    late = standing(BEGUN, 100_000, since_seconds=9.0, taken=9999)
    shares = [width(ROAD.next(replace(late, silent_seconds=silent))) for silent in (0.0, 0.7, 50.0)]
    assert shares == pytest.approx([s * RATE / 100_000 for s in (LEAST_SECONDS, 0.7, IDLE_SECONDS)], abs=0.002)


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
