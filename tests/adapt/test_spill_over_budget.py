"""When a spill begins, and how much it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapt.asking import ALL, HELD, J1, PLAN, Asked
from small_plans import chain_plan, manifest_of, piece
from watersmeet.adapt.decisions.spill import CannotSpill, SpillGroups
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.spill_over_budget import SpillOverBudget
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.state.learned import Learned


@pytest.mark.parametrize("moment", [Moment.BEFORE_BATCH, Moment.AFTER_BATCH])
@pytest.mark.parametrize(
    "budget, settings, spilled",
    [
        (None, {}, 0),
        (800, {}, 0),
        (799, {}, 3),
        (700, {}, 3),
        (400, {}, 4),
        (1, {}, 8),
        (1000, {"spill_at": 0.8}, 0),
        (999, {"spill_at": 0.8}, 3),
        (799, {"spill_share": 0.5}, 4),
        (799, {"spill_share": 1.0}, 8),
        (799, {"spill": "adaptive-global-flush"}, 1),
        (1, {"spill": "off"}, 0),
    ],
    ids=[
        "no budget",
        "just inside it",
        "a byte too much: 30 %",
        "less than a share too much: 30 %",
        "more than a share too much: all of that",
        "nothing fits",
        "just at the share of the budget",
        "a little above the share of the budget",
        "half of it",
        "all of it",
        "5 %, which is not a whole group",
        "spills are off",
    ],
)
def test_too_much_is_spilled(moment: Moment, budget: int | None, settings: dict[str, Any], spilled: int) -> None:
    """After a batch, and before one: an earlier run may have died before it did, or have had a larger budget."""
    memory = AdaptSettings(budget, **{"spill": "largest", **settings})
    found = Asked(manifest_of(PLAN, *HELD), moment, memory).propose(SpillOverBudget.of(memory))
    assert len(found) == bool(spilled)
    for decision in found:
        assert isinstance(decision, SpillGroups)
        assert len(decision.groups) == spilled
        assert {operator for operator, _ in decision.groups} == {J1}
        assert decision.reason.startswith(f"{memory.spill}: ")


def test_a_routed_join_that_outgrows_the_budget_is_told_once() -> None:
    plan = chain_plan(tree="mjoin")
    assert not plan.operators
    manifest = manifest_of(plan, piece(plan, "a", "A", ALL, 0))
    memory = AdaptSettings(10)
    asked = Asked(manifest, Moment.AFTER_BATCH, memory, plan=plan)
    (decision,) = asked.propose(SpillOverBudget.of(memory))
    assert isinstance(decision, CannotSpill)
    assert "J1 cannot be spilled" in decision.reason
    for told, again in ((True, []), (False, [decision])):
        learned = Learned(cannot_spill=told)
        assert replace(asked, learned=learned).propose(SpillOverBudget.of(memory)) == again


@pytest.mark.parametrize(
    "budget, of_slots, in_all",
    [
        (None, {0: 2}, 0),
        (600, {0: 2}, 0),
        (599, {0: 2}, 2),
        (200, {0: 2}, 4),
    ],
    ids=["by slot alone", "that is enough", "a byte too much is left: 30 % of it", "all that is left too much"],
)
def test_slots_spill_and_then_what_is_too_much_in_all(
    budget: int | None, of_slots: dict[int, int], in_all: int
) -> None:
    """Slot 0 has 6 of the 8 groups of 100 bytes, slot 1 has 2; each may have 400."""
    memory = AdaptSettings(budget, spill="largest", slot_bytes=400)
    manifest = manifest_of(PLAN, *HELD)
    k0 = PLAN.operators[J1].partitioning
    manifest = replace(manifest, placement=manifest.placement.move(k0, {4: 0, 5: 0}))
    found = Asked(manifest, Moment.AFTER_BATCH, memory).propose(SpillOverBudget.of(memory))
    spills = [decision for decision in found if isinstance(decision, SpillGroups)]
    assert spills == found
    assert {0: len(spills[0].groups)} == of_slots
    assert "of slot 0" in spills[0].reason
    assert [len(decision.groups) for decision in spills[1:]] == ([in_all] if in_all else [])
    groups = [key for decision in spills for key in decision.groups]
    assert len(set(groups)) == len(groups), "each once"
