"""What is reason enough to ask for a better plan, by series that were made for it: a trend is, a surge is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from watersmeet.adapt.policies.replan.looks import Look
from watersmeet.adapt.policies.replan.recent import FEWEST, KEPT, rises_steadily, then
from watersmeet.adapt.policies.replan.triggers import OWED, SLOT, STATE, TRIGGERS, Signs, signals
from watersmeet.settings.replan import ReplanSettings

BUDGET = 1000
SAME = Look(5, {"A": 1.0}, 0, asked={"A": 1.0})


def why(trigger: str, budget: int | None = BUDGET, slot: int | None = None, **recent: Sequence[float]) -> str | None:
    series = {name.replace("_of_", " "): tuple(map(float, values)) for name, values in recent.items()}
    settings = ReplanSettings(trigger)
    return TRIGGERS[trigger](Signs(settings, SAME, Look(15, {"A": 1.0}, 0), series, budget, slot))


RISING = {
    "all the way": range(0, 120, 10),
    "in waves": [10, 30, 20, 40, 30, 50, 40, 60, 50, 70, 60, 80],
    "as few as there can be": range(1, FEWEST + 1),
    "ever faster": [2**n for n in range(6)] + [60, 90, 120, 150],
    "with a pause": [0, 10, 20, 30, 40, 40, 40, 50, 60, 70, 80, 90],
}
NOT = {
    "a surge": [10] * 8 + [100] * 4,
    "a surge in the middle": [10] * 6 + [100] * 6,
    "a surge that goes by": [10] * 5 + [100, 80, 60, 40, 20, 10, 10],
    "level": [50] * 12,
    "falling": range(120, 0, -10),
    "up and down": [10, 90] * 6,
    "hardly": [1000 + n for n in range(12)],
    "too few to tell": range(FEWEST - 1),
    "nothing": (),
    "a saw": [0, 30, 20, 10, 0, 30, 20, 10, 0, 30, 20, 10],
}


@pytest.mark.parametrize("series", RISING.values(), ids=RISING)
def test_a_trend(series: Sequence[float]) -> None:
    assert rises_steadily(tuple(series))


@pytest.mark.parametrize("series", NOT.values(), ids=NOT)
def test_no_trend(series: Sequence[float]) -> None:
    assert not rises_steadily(tuple(series))


def test_only_the_last_batches_are_kept() -> None:
    recent: dict[str, tuple[float, ...]] = {}
    for n in range(3 * KEPT):
        recent = then(recent, {"A": n})
    assert recent == {"A": tuple(map(float, range(2 * KEPT, 3 * KEPT)))}


@pytest.mark.parametrize("trigger", ["memory-driven", "refined"])
def test_a_state_that_grows_near_its_budget(trigger: str) -> None:
    grown = range(680, 920, 20)
    assert why(trigger, state_bytes=grown) == "the state has come to 90% of the budget, and grows steadily"
    assert why(trigger, state_bytes=range(90, 210, 10)) is None, "there is room"
    assert why(trigger, None, state_bytes=grown) is None, "there is no budget"
    assert why(trigger, state_bytes=[500] * 6 + [950] * 6) is None, "a surge is spilled"
    assert why("data-driven", state_bytes=grown) is None


@pytest.mark.parametrize("trigger", ["memory-driven", "refined"])
def test_a_slot_that_grows_near_its_limit(trigger: str) -> None:
    grown = range(340, 460, 10)
    told = "the state of a slot has come to 90% of what it may have, and grows steadily"
    assert why(trigger, None, 500, slot_bytes=grown, state_bytes=range(0, 120, 10)) == told
    assert why(trigger, None, 600, slot_bytes=grown) is None, "there is room"
    assert why(trigger, BUDGET, None, slot_bytes=grown) is None, "slots have no limit"
    assert why(trigger, None, 500, slot_bytes=[100] * 6 + [450] * 6) is None, "a surge is spilled"


@pytest.mark.parametrize("trigger", ["memory-driven", "refined"])
@pytest.mark.parametrize("budget", [None, BUDGET])
def test_a_source_that_gets_ahead(trigger: str, budget: int | None) -> None:
    told = why(trigger, budget, backlog_of_A_of_rows=[0] * 12, backlog_of_B_of_rows=range(0, 1200, 100))
    assert told == 'stream "B" gets ahead: 1,100 rows wait, and 0 did before'
    assert why(trigger, budget, backlog_of_B_of_rows=[0] * 8 + [5000] * 4) is None, "a surge is worked off"
    assert why(trigger, budget, backlog_of_B_of_rows=range(1200, 0, -100)) is None, "and so is this"
    assert why("data-driven", budget, backlog_of_B_of_rows=range(0, 1200, 100)) is None


def test_a_backlog_inside_the_plan() -> None:
    assert why("refined", owed_groups=range(12)) == "11 groups owe results, and 0 did before"
    assert why("refined", owed_groups=[0] * 6 + [9] * 6) is None, "one spill is a surge"
    assert why("memory-driven", owed_groups=range(12)) is None


def test_what_is_noted_of_a_batch() -> None:
    assert signals(7, 2, {"a b": {"rows": 3}, "C": {"files": 1, "bytes": 9}, "D": {}}) == {
        STATE: 7,
        OWED: 2,
        "backlog a b rows": 3,
        "backlog C bytes": 9,
    }
    assert signals(7, 2, {}, 5) == {STATE: 7, OWED: 2, SLOT: 5}
    named = {"backlog a b rows": tuple(map(float, range(12)))}
    signs = Signs(ReplanSettings("refined"), SAME, SAME, named)
    assert TRIGGERS["refined"](signs) == 'stream "a b" gets ahead: 11 rows wait, and 0 did before'
