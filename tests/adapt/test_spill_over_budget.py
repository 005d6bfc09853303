"""When a spill begins, and how much it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapt.asking import ALL, HELD, J1, PLAN, Asked
from small_plans import chain_plan, manifest_of, piece
from watersmeet.adapt.decisions import CannotSpill, SpillGroups
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.spill_over_budget import SpillOverBudget
from watersmeet.adapt.settings import MemorySettings


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
    memory = MemorySettings(budget, **{"spill": "largest", **settings})
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
    memory = MemorySettings(10)
    asked = Asked(manifest, Moment.AFTER_BATCH, memory, plan=plan)
    (decision,) = asked.propose(SpillOverBudget.of(memory))
    assert isinstance(decision, CannotSpill)
    assert "J1 cannot be spilled, being routed" in decision.reason
    told = replace(manifest, decisions=({"decision": "CannotSpill"},))
    assert replace(asked, manifest=told).propose(SpillOverBudget.of(memory)) == []
    news = replace(manifest, decisions=({"decision": "CannotSpill"}, {"decision": "SpillGroups"}))
    assert replace(asked, manifest=news).propose(SpillOverBudget.of(memory)) == [decision]
