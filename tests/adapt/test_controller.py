"""The controller: which policies are in force, when each is asked, and what it may look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from adapt.asking import HELD, J1, PLAN, Asked, at, entry
from small_plans import manifest_of
from watersmeet.adapt.controller import Controller
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.decisions.spill import CannotSpill, SpillGroups
from watersmeet.adapt.in_force import policies_for
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.errors import InternalError
from watersmeet.model.origin import ByPolicy, Forced, Origin
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.forced_step import ForcedStep
from watersmeet.state.learned import Learned

SAY = ByPolicy("say")


@dataclass(frozen=True)
class Say:
    """Says the same thing whenever it is asked."""

    decision: Decision
    origin: Origin = SAY
    moments: frozenset[Moment] = frozenset(Moment)
    needs: frozenset[Signal] = frozenset()

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        yield self.decision


@dataclass(frozen=True)
class Peek:
    """Looks at a signal."""

    name: str
    needs: frozenset[Signal]
    origin: ClassVar[Origin] = ByPolicy("peek")
    moments: ClassVar[frozenset[Moment]] = frozenset(Moment)

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        getattr(outlook, self.name)
        yield from ()


def ask(controller: Controller, moment: Moment = Moment.BEFORE_BATCH, *segments: Any) -> list[str]:
    effects = controller.ask(moment, manifest_of(PLAN, *segments), Learned(), at(0))
    return [str(entry["decision"]) for entry in effects.shown]


def names(settings: AdaptSettings) -> list[str]:
    return [type(policy).__name__ for policy in policies_for(settings)]


@pytest.mark.parametrize(
    "settings, balancing, merging",
    [
        (AdaptSettings(), False, False),
        (AdaptSettings(1000), True, True),
        (AdaptSettings(slot_bytes=1000), True, True),
        (AdaptSettings(1000, balance=BalanceSettings("off")), False, True),
        (AdaptSettings(balance=BalanceSettings("time")), True, True),
        (AdaptSettings(1000, merge="off"), True, False),
        (AdaptSettings(1000, spill="off"), False, False),
        (AdaptSettings(forced=(ForcedStep(0, spill_share=0.5),)), False, True),
    ],
    ids=[
        "no budget",
        "a budget",
        "a budget for each slot",
        "moves are off",
        "moves without a budget",
        "merges are off",
        "spills are off",
        "a forced share, by what groups earn",
    ],
)
def test_the_policies_in_force(settings: AdaptSettings, balancing: bool, merging: bool) -> None:
    moves = ["BalanceSlots"] if balancing else []
    merges = ["MergeWorthwhile", "MergePassed", "MergeTiers"] if merging else []
    assert names(settings) == ["ForceSteps", "SpillOverBudget", *moves, *merges, "CleanUpAll", "UniteColdParts"]
    assert Controller(PLAN, settings).watched is settings.watched


def test_a_policy_is_asked_at_its_moments() -> None:
    policies = (
        Say(CannotSpill("a"), moments=frozenset({Moment.AFTER_BATCH})),
        Say(MergeGroup(J1, 0, "b"), moments=frozenset({Moment.IDLE, Moment.AFTER_BATCH})),
    )
    controller = Controller(PLAN, policies=policies)
    assert ask(controller) == []
    assert ask(controller, Moment.IDLE) == ["MergeGroup"]
    assert ask(controller, Moment.AFTER_BATCH) == ["CannotSpill", "MergeGroup"]


def test_decisions_say_who_made_them() -> None:
    policies = (Say(CannotSpill("a")), Say(CannotSpill("b"), Forced()))
    effects = Controller(PLAN, policies=policies).ask(Moment.IDLE, manifest_of(PLAN), Learned(), at(0))
    assert [(entry["reason"], entry["origin"]) for entry in effects.shown] == [
        ("b", {"by": "forced"}),
        ("a", {"by": "policy", "name": "say"}),
    ]


def test_no_policies_are_no_adaptation() -> None:
    controller = Controller(PLAN, AdaptSettings(1), policies=())
    for moment in Moment:
        assert ask(controller, moment, *HELD) == []


def test_what_policies_propose_together_is_settled() -> None:
    policies = (Say(SpillGroups(((J1, 0),), "spill")), Say(MergeGroup(J1, 0, "merge")))
    assert ask(Controller(PLAN, policies=policies), Moment.BEFORE_BATCH, *HELD) == ["MergeGroup"]


@pytest.mark.parametrize("name, signal", [("memory", Signal.MEMORY), ("manifest", Signal.PARTS)])
def test_a_policy_sees_the_signals_that_it_says_it_needs(name: str, signal: Signal) -> None:
    assert ask(Controller(PLAN, policies=(Peek(name, frozenset({signal})),))) == []
    with pytest.raises(InternalError, match=f"looked at {signal.name}"):
        ask(Controller(PLAN, policies=(Peek(name, frozenset()),)))


def test_a_signal_is_worked_out_once_for_all_policies() -> None:
    asked = Asked(manifest_of(PLAN, *HELD))
    policy = Peek("memory", frozenset({Signal.MEMORY}))
    first = asked.outlook(policy)
    assert Outlook(first.facts, policy.needs).memory is first.memory


def test_whether_anything_is_owed() -> None:
    controller = Controller(PLAN)
    assert not controller.owes(manifest_of(PLAN, *HELD))
    assert controller.owes(manifest_of(PLAN, *HELD, entry("old", "A", cold=1)))


def test_all_moments_of_a_run_within_a_budget() -> None:
    """What a manifest that is too large leads to, asked in the order of a run."""
    controller = Controller(PLAN, AdaptSettings(400, spill="largest"))
    assert ask(controller, Moment.BEFORE_BATCH, *HELD) == ["SpillGroups"]
    assert ask(controller, Moment.AFTER_BATCH, *HELD) == ["SpillGroups"]
    assert ask(controller, Moment.IDLE, *HELD) == []
    assert ask(controller, Moment.END, *HELD) == []
    owing = (*HELD, entry("old", "A", groups=((0, 1),), cold=1))
    assert ask(controller, Moment.END, *owing) == ask(controller, Moment.DRAIN, *owing) == ["MergeGroup"]
